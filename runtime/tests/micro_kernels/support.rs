//! Random values, buffers with canaries, and what "the same" means.

use tessera_runtime::micro::{Isa, Kernels};

/// The kernels of every instruction set that this machine runs.
pub(crate) fn all_kernels() -> Vec<(Isa, &'static Kernels)> {
    Isa::ALL.into_iter().filter_map(|isa| Some((isa, Kernels::of(isa)?))).collect()
}

/// splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    /// Uniform in (−1, 1) with all mantissa bits in play.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.word() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// A number of any magnitude between 2^low and 2^high, of either sign.
    pub(crate) fn wide(&mut self, low: i32, high: i32) -> f32 {
        let exponent = low + self.below((high - low) as usize) as i32;
        self.unit() * 2f32.powi(exponent)
    }

    pub(crate) fn vec(&mut self, n: usize, mut f: impl FnMut(&mut Self) -> f32) -> Vec<f32> {
        (0..n).map(|_| f(self)).collect()
    }
}

/// Values before and behind an output; a kernel that writes them is caught.
const MARGIN: usize = 19;

/// An output of `n` elements between two margins.
pub(crate) struct Guarded<T> {
    cells: Vec<T>,
    canary: T,
    n: usize,
}

impl<T: Copy + PartialEq + std::fmt::Debug> Guarded<T> {
    pub(crate) fn new(n: usize, canary: T) -> Self {
        Self { cells: vec![canary; n + 2 * MARGIN], canary, n }
    }

    pub(crate) fn pointer(&mut self) -> *mut T {
        self.cells[MARGIN..].as_mut_ptr()
    }

    pub(crate) fn body(&mut self) -> &mut [T] {
        &mut self.cells[MARGIN..MARGIN + self.n]
    }

    /// The output, once the margins have been seen untouched.
    pub(crate) fn checked(&self) -> &[T] {
        let (front, rest) = self.cells.split_at(MARGIN);
        let (body, back) = rest.split_at(self.n);
        assert!(front.iter().chain(back).all(|&cell| cell == self.canary), "a margin was written");
        body
    }
}

/// Equal bits, or NaN both.
pub(crate) fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[track_caller]
pub(crate) fn assert_same(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (&a, &b)) in found.iter().zip(expected).enumerate() {
        assert!(
            same(a, b),
            "{what}: element {i} is {a:e} ({:08x}), not {b:e} ({:08x})",
            a.to_bits(),
            b.to_bits()
        );
    }
}

/// 2^−24, half the distance of 1 from the next f32.
pub(crate) const HALF_ULP: f64 = 1.0 / (1 << 24) as f64;

/// The distance of f32 neighbours at the magnitude of `x`.
pub(crate) fn ulp(x: f64) -> f64 {
    let exponent = (x.abs().to_bits() >> 52) as i32 - 1023;
    2f64.powi(exponent.max(-126) - 23)
}

/// Numbers that go wrong first.
pub(crate) const SPECIALS: [f32; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f32::MIN_POSITIVE,
    1e-45,
    -1e-40,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    88.0,
    -104.0,
];
