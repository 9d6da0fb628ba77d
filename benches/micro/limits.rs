//! The limits of one thread of this machine: bytes read from memory and floating-point operations, a second.

use crate::common::{clock, digits, median, table};
use crate::memory::{Pages, Pool};
use std::hint::black_box;
use tessera::runtime::micro::Isa;

/// Bytes of one measurement of the read bandwidth; the next one reads others, until the pool has been read.
const READ: usize = 16 << 20;
/// Steps of one measurement of the arithmetic.
const STEPS: usize = 100_000;
/// Measurements of which the best way is the one with the best median.
const ROUNDS: usize = 25;

/// A way to read: how many streams at once, and how many cache lines ahead to prefetch (0: leave it to the processor).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    streams: usize,
    ahead: usize,
}

const READINGS: [Reading; 9] = {
    let mut all = [Reading { streams: 1, ahead: 0 }; 9];
    let mut i = 0;
    while i < 9 {
        all[i] = Reading { streams: [1, 2, 4][i / 3], ahead: [0, 8, 32][i % 3] };
        i += 1;
    }
    all
};

/// The best ways to read and to compute, to be measured again beside every kernel.
#[derive(Debug)]
pub(crate) struct Limits {
    pool: Pool,
    reading: Reading,
    arithmetic: Arithmetic,
}

impl Limits {
    /// Finds the best ways and prints what they give.
    pub(crate) fn find() -> Limits {
        let mut rows = Vec::new();
        let mut best: Option<(f64, Limits)> = None;
        let arithmetic = Arithmetic::available().into_iter().map(|a| (rate(|| a.measure()), a));
        let arithmetic: Vec<(f64, Arithmetic)> = arithmetic.collect();
        let fastest = arithmetic.iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("one always is");
        for (pages, name) in [(Pages::Small, "4 KB"), (Pages::Huge, "2 MB")] {
            let mut pool = Pool::new(pages);
            pool.fill(&vec![1; READ]);
            let ways = READINGS.map(|reading| (rate(|| read(&mut pool, reading)), reading));
            let way = ways.iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are some");
            let how = format!("{} streams, {} lines ahead", way.1.streams, way.1.ahead);
            rows.push(vec![format!("read, {name} pages"), how, format!("{} GB/s", digits(way.0 / 1e9))]);
            if best.as_ref().is_none_or(|(rate, _)| *rate < way.0) {
                best = Some((way.0, Limits { pool, reading: way.1, arithmetic: fastest.1 }));
            }
        }
        for (rate, way) in &arithmetic {
            let rate = format!("{} GFLOP/s", digits(rate / 1e9));
            rows.push(vec!["f32 multiply-add".to_owned(), way.name().to_owned(), rate]);
        }
        table("limits of one thread", &["limit", "best way", "rate"], 2, &rows);
        best.expect("two kinds of pages").1
    }

    /// Bytes and operations a second, now.
    pub(crate) fn measure(&mut self) -> (f64, f64) {
        (read(&mut self.pool, self.reading), self.arithmetic.measure())
    }
}

/// The median of some measurements.
fn rate(mut measure: impl FnMut() -> f64) -> f64 {
    let mut rates: Vec<f64> = (0..ROUNDS).map(|_| measure()).collect();
    median(&mut rates).unwrap_or(0.0)
}

/// Reads a unit of the pool; bytes a second.
fn read(pool: &mut Pool, reading: Reading) -> f64 {
    let lines = pool.next_lines();
    let start = clock::ran();
    black_box(sum(black_box(lines), reading));
    (lines.len() * 64) as f64 / (clock::ran() - start).as_secs_f64()
}

fn sum(lines: &[[u64; 8]], reading: Reading) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if Isa::Avx2.available() {
        // SAFETY: the processor has the instructions.
        return unsafe { sum_avx2(lines, reading) };
    }
    sum_by_streams(lines, reading)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(lines: &[[u64; 8]], reading: Reading) -> u64 {
    sum_by_streams(lines, reading)
}

#[inline(always)]
fn sum_by_streams(lines: &[[u64; 8]], reading: Reading) -> u64 {
    match reading.streams {
        1 => sum_streams::<1>(lines, reading.ahead),
        2 => sum_streams::<2>(lines, reading.ahead),
        _ => sum_streams::<4>(lines, reading.ahead),
    }
}

#[inline(always)]
fn sum_streams<const STREAMS: usize>(lines: &[[u64; 8]], ahead: usize) -> u64 {
    let each = lines.len() / STREAMS;
    let streams: [&[[u64; 8]]; STREAMS] = std::array::from_fn(|s| &lines[s * each..(s + 1) * each]);
    let mut sums = [[0u64; 8]; STREAMS];
    #[cfg(not(target_arch = "x86_64"))]
    let _ = ahead;
    for line in 0..each {
        for (sum, stream) in sums.iter_mut().zip(streams) {
            #[cfg(target_arch = "x86_64")]
            if ahead != 0 {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                let there = stream.as_ptr().wrapping_add(line + ahead);
                // SAFETY: a prefetch touches nothing; every x86-64 has it.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(there.cast()) };
            }
            for (sum, word) in sum.iter_mut().zip(&stream[line]) {
                *sum = sum.wrapping_add(*word);
            }
        }
    }
    sums.iter().flatten().fold(0, |a, b| a.wrapping_add(*b))
}

/// A way to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    /// Products and sums as the compiler's default target has them.
    Plain,
    /// 256-bit `fma`.
    Avx2,
    /// 512-bit `fma`.
    Avx512,
}

impl Arithmetic {
    fn available() -> Vec<Arithmetic> {
        let ways = [Arithmetic::Plain, Arithmetic::Avx2, Arithmetic::Avx512];
        ways.into_iter().filter(|way| way.isa().available()).collect()
    }

    const fn isa(self) -> Isa {
        match self {
            Arithmetic::Plain => Isa::Portable,
            Arithmetic::Avx2 => Isa::Avx2,
            Arithmetic::Avx512 => Isa::Avx512,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Arithmetic::Plain => "a product and a sum, default target",
            Arithmetic::Avx2 => "256 bits",
            Arithmetic::Avx512 => "512 bits",
        }
    }

    /// Operations a second.
    fn measure(self) -> f64 {
        let start = clock::ran();
        let operations = match self {
            Arithmetic::Plain => plain(),
            // SAFETY: the processor has the instructions: `available` asked.
            #[cfg(target_arch = "x86_64")]
            Arithmetic::Avx2 => unsafe { avx2() },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Arithmetic::Avx512 => unsafe { avx512() },
            #[cfg(not(target_arch = "x86_64"))]
            Arithmetic::Avx2 | Arithmetic::Avx512 => 0,
        };
        operations as f64 / (clock::ran() - start).as_secs_f64()
    }
}

/// Independent chains: enough to hide the latency, few enough for the registers.
const CHAINS: usize = 12;

fn plain() -> usize {
    let (b, c) = (black_box([0.5f32; 4]), black_box([1.0f32; 4]));
    let mut sums = [[0.0f32; 4]; CHAINS];
    for _ in 0..STEPS {
        for sum in &mut sums {
            for i in 0..4 {
                sum[i] = sum[i] * b[i] + c[i];
            }
        }
    }
    black_box(sums);
    STEPS * CHAINS * 4 * 2
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2() -> usize {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps};
    let (b, c) = (_mm256_set1_ps(black_box(0.5)), _mm256_set1_ps(black_box(1.0)));
    let mut sums = [c; CHAINS];
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, b, c);
        }
    }
    black_box(sums);
    STEPS * CHAINS * 8 * 2
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512() -> usize {
    use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_set1_ps};
    let (b, c) = (_mm512_set1_ps(black_box(0.5)), _mm512_set1_ps(black_box(1.0)));
    let mut sums = [c; CHAINS];
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, b, c);
        }
    }
    black_box(sums);
    STEPS * CHAINS * 16 * 2
}
