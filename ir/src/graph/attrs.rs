//! Typed attributes of graph ops.

/// Whether values inside an op are rounded to bf16 at the op's documented inner points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Round {
    /// Inner values stay in f32.
    #[default]
    None,
    /// Inner values are rounded to bf16, as the released code does.
    Bf16,
}

/// Frequencies of a rotary embedding over adjacent pairs (V4.1 §2.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Rotated channels (the last `dim` of a row), even.
    pub dim: usize,
    /// Base of the geometric frequencies.
    pub theta: f32,
    /// YaRN interpolation, if any.
    pub yarn: Option<Yarn>,
}

/// YaRN interpolation of rotary frequencies (V4.1 §2.5; no attention factor).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// Context extension factor.
    pub factor: f32,
    /// Rotations above which a frequency is kept.
    pub beta_fast: f32,
    /// Rotations below which a frequency is divided by `factor`.
    pub beta_slow: f32,
    /// Context length before extension.
    pub original: usize,
}

impl Rope {
    /// The `dim/2` angular frequencies, in f32 as the released code computes them.
    ///
    /// `θ_m = 1 / base^(2m/dim)`; with YaRN `θ_m/factor·r_m + θ_m·(1−r_m)` with the ramp
    /// `r_m = clamp((m−lo)/(hi−lo), 0, 1)`, whose ends come from `beta_fast` and `beta_slow`.
    pub fn frequencies(&self) -> Vec<f32> {
        let half = self.dim / 2;
        let base: Vec<f32> = (0..half)
            .map(|m| {
                let exponent = (2 * m) as f32 / self.dim as f32;
                1.0 / (f64::from(self.theta).powf(f64::from(exponent)) as f32)
            })
            .collect();
        let Some(y) = self.yarn else { return base };
        let dim = self.dim as f64;
        let correction = |rotations: f32| {
            dim * (y.original as f64 / (f64::from(rotations) * 2.0 * std::f64::consts::PI)).ln()
                / (2.0 * f64::from(self.theta).ln())
        };
        let lo = correction(y.beta_fast).floor().max(0.0);
        let hi = correction(y.beta_slow).ceil().min(dim - 1.0);
        let span = (hi - lo).max(1e-3) as f32;
        base.iter()
            .enumerate()
            .map(|(m, &f)| {
                let keep = 1.0 - ((m as f32 - lo as f32) / span).clamp(0.0, 1.0);
                f / y.factor * (1.0 - keep) + f * keep
            })
            .collect()
    }
}

/// Constants of one Engram layer's n-gram hash (V4.1 §2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engram {
    /// One odd multiplier per lookback, nearest first; their number is the longest n-gram.
    pub multipliers: Vec<i64>,
    /// Prime table sizes by n-gram length (2-grams first), then by head.
    pub primes: Vec<Vec<i64>>,
    /// Raw id whose compressed id stands for a token before the start of the sequence.
    pub pad_token: usize,
}

impl Engram {
    /// Table rows a token looks up.
    pub fn columns(&self) -> usize {
        self.primes.iter().map(Vec::len).sum()
    }
    /// First table row of each column: exclusive prefix sums of the primes.
    pub fn offsets(&self) -> Vec<i64> {
        let mut sum = 0i64;
        self.primes
            .iter()
            .flatten()
            .map(|p| {
                let at = sum;
                sum = sum.wrapping_add(*p);
                at
            })
            .collect()
    }
}
