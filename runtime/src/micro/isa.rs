//! The instruction sets that the micro-kernels are written for, and which of them this processor has.

use std::fmt;

/// An implementation of the micro-kernels. All give the same bits; they differ in speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust, on any processor. Without a hardware `fma` it is exact but very slow.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL and DQ, besides AVX2, FMA and F16C.
    Avx512,
}

impl Isa {
    /// All implementations, slowest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The fastest implementation that this processor runs.
    pub fn detect() -> Self {
        Self::ALL.into_iter().rev().find(|isa| isa.available()).unwrap_or(Self::Portable)
    }

    /// Whether this processor (and operating system) runs the implementation.
    pub fn available(self) -> bool {
        self.features().iter().all(|&(_, present)| present)
    }

    /// Stable lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The processor features that the implementation needs, each with whether it is present.
    pub fn features(self) -> Vec<(&'static str, bool)> {
        match self {
            Self::Portable => Vec::new(),
            Self::Avx2 => detected::avx2(),
            Self::Avx512 => detected::avx512(),
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which implementation runs and why not a faster one, in a few lines for people.
pub fn describe() -> String {
    let chosen = Isa::detect();
    let mut text = format!("micro-kernels: {chosen}\n");
    for isa in Isa::ALL {
        let features = isa.features();
        let list = |wanted: bool| {
            let names: Vec<&str> =
                features.iter().filter(|&&(_, present)| present == wanted).map(|&(name, _)| name).collect();
            names.join(" ")
        };
        let (seen, missing) = (list(true), list(false));
        text += &match (seen.is_empty(), missing.is_empty()) {
            (true, true) => format!("  {isa}: needs nothing\n"),
            (_, true) => format!("  {isa}: has {seen}\n"),
            (true, false) => format!("  {isa}: unavailable, missing {missing}\n"),
            (false, false) => format!("  {isa}: unavailable, has {seen}, missing {missing}\n"),
        };
    }
    if chosen == Isa::Portable && cfg!(target_arch = "x86_64") {
        text += "  the portable path computes every fma in software here: expect it to be very slow\n";
    }
    text
}

#[cfg(target_arch = "x86_64")]
mod detected {
    macro_rules! features {
        ($($name:tt),*) => { vec![$(($name, std::arch::is_x86_feature_detected!($name))),*] };
    }

    pub(super) fn avx2() -> Vec<(&'static str, bool)> {
        features!["avx", "avx2", "fma", "f16c"]
    }

    pub(super) fn avx512() -> Vec<(&'static str, bool)> {
        features!["avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq"]
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod detected {
    pub(super) fn avx2() -> Vec<(&'static str, bool)> {
        vec![("x86-64", false)]
    }

    pub(super) fn avx512() -> Vec<(&'static str, bool)> {
        vec![("x86-64", false)]
    }
}
