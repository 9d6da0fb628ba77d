//! Choosing the next token from logits: greedy, or by temperature, top-k, top-p and min-p.
//!
//! Random numbers are a counter-based function of (seed, sample, position, purpose): they do not depend on slots, batch
//! or threads.

use crate::error::{Error, Result};

/// How tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 chooses the largest.
    pub temperature: f32,
    /// Keeps the smallest set of most likely tokens whose probabilities sum to at least this; 1 keeps all.
    pub top_p: f32,
    /// Keeps this many of the most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Drops tokens less likely than this times the most likely one; 0 drops none.
    pub min_p: f32,
    /// Seed of the request.
    pub seed: u64,
    /// Number of the sample among those of the request.
    pub sample: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0, sample: 0 }
    }
}

impl Sampling {
    /// Refuses values outside their ranges, by name.
    pub fn check(&self) -> Result<()> {
        let range = |name: &str, v: f32, lo: f32, hi: f32, what: &str| {
            if v.is_finite() && (lo..=hi).contains(&v) {
                Ok(())
            } else {
                Err(Error::Request(format!("{name} is {v}, it must be {what}")))
            }
        };
        range("temperature", self.temperature, 0.0, 1e4, "between 0 and 10000")?;
        range("top_p", self.top_p, f32::MIN_POSITIVE, 1.0, "above 0 and at most 1")?;
        range("min_p", self.min_p, 0.0, 1.0, "between 0 and 1")
    }
}

/// What a random number is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Choosing a token from the model's distribution.
    Token = 0,
    /// Choosing from the rest distribution after a rejected draft.
    Residual = 1,
    /// Accepting or rejecting a draft.
    Accept = 2,
    /// Choosing a draft.
    Draft = 3,
}

/// A number in [0, 1) with 53 random bits for this place.
pub fn uniform(seed: u64, sample: u64, position: u64, purpose: Purpose) -> f64 {
    let mut key = mix(seed);
    for part in [sample, position, purpose as u64] {
        key = mix(key ^ part.wrapping_add(0x9E37_79B9_7F4A_7C15));
    }
    (key >> 11) as f64 / (1u64 << 53) as f64
}

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014), a bijection that spreads every input bit.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Chooses tokens; keeps its working memory.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    order: Vec<u32>,
    weights: Vec<f64>,
}

impl Sampler {
    /// A sampler for vocabularies up to `vocabulary`, which then allocates nothing.
    pub fn new(vocabulary: usize) -> Self {
        Sampler { order: Vec::with_capacity(vocabulary), weights: Vec::with_capacity(vocabulary) }
    }

    /// The token for `position`. Equal logits: the lower id. NaN is never chosen unless all are.
    pub fn choose(&mut self, logits: &[f32], sampling: &Sampling, position: usize) -> u32 {
        if sampling.temperature == 0.0 {
            return argmax(logits);
        }
        self.distribution(logits, sampling);
        let u = uniform(sampling.seed, sampling.sample, position as u64, Purpose::Token);
        self.pick(u)
    }

    /// Kept tokens, most likely first, and their unnormalised probabilities.
    fn distribution(&mut self, logits: &[f32], s: &Sampling) {
        self.order.clear();
        self.order.extend((0..logits.len() as u32).filter(|i| !logits[*i as usize].is_nan()));
        let key = |i: &u32| logits[*i as usize];
        self.order.sort_unstable_by(|a, b| key(b).total_cmp(&key(a)).then(a.cmp(b)));
        if s.top_k > 0 {
            self.order.truncate(s.top_k);
        }
        let top = self.order.first().map_or(0.0, |i| f64::from(logits[*i as usize]));
        self.weights.clear();
        // An infinite top logit makes the difference NaN; those tokens share all of the probability.
        self.weights.extend(self.order.iter().map(|i| {
            let d = f64::from(logits[*i as usize]) - top;
            if d.is_nan() { 1.0 } else { (d / f64::from(s.temperature)).exp() }
        }));
        let total: f64 = self.weights.iter().sum();
        let mut kept = 0usize;
        let mut sum = 0.0;
        for w in &self.weights {
            if kept > 0 && (sum >= f64::from(s.top_p) * total || *w < f64::from(s.min_p) * self.weights[0]) {
                break;
            }
            sum += w;
            kept += 1;
        }
        self.order.truncate(kept);
        self.weights.truncate(kept);
    }

    fn pick(&self, u: f64) -> u32 {
        let total: f64 = self.weights.iter().sum();
        let mut rest = u * total;
        for (i, w) in self.order.iter().zip(&self.weights) {
            rest -= w;
            if rest < 0.0 {
                return *i;
            }
        }
        self.order.last().copied().unwrap_or(0)
    }
}

/// Index of the largest value; equal: the lower; NaN never unless all are.
pub fn argmax(values: &[f32]) -> u32 {
    let mut best = 0usize;
    for (i, v) in values.iter().enumerate() {
        if *v > values[best] || (values[best].is_nan() && !v.is_nan()) {
            best = i;
        }
    }
    best as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(logits: &[f32], s: Sampling, n: u64) -> Vec<usize> {
        let mut sampler = Sampler::new(logits.len());
        let mut counts = vec![0; logits.len()];
        for p in 0..n {
            counts[sampler.choose(logits, &s, p as usize) as usize] += 1;
        }
        counts
    }

    #[test]
    fn greedy_takes_the_lower_of_equal_logits_and_no_nan() {
        assert_eq!(argmax(&[f32::NAN, 1.0, 3.0, 3.0]), 2);
        assert_eq!(argmax(&[f32::NAN, f32::NEG_INFINITY]), 1);
        assert_eq!(argmax(&[f32::NAN, f32::NAN]), 0);
    }

    #[test]
    fn frequencies_follow_the_softmax() {
        let logits = [0.0f32, 1.0, 2.0, -1.0];
        let n = 40_000u64;
        let counts = draw(&logits, Sampling { temperature: 0.7, seed: 3, ..Sampling::default() }, n);
        let e: Vec<f64> = logits.iter().map(|l| (f64::from(*l) / 0.7).exp()).collect();
        let total: f64 = e.iter().sum();
        // Pearson's statistic, 3 degrees of freedom: above 16.3 once in a thousand seeds; this seed is fixed.
        let chi: f64 = counts
            .iter()
            .zip(&e)
            .map(|(c, e)| {
                let want = e / total * n as f64;
                (*c as f64 - want).powi(2) / want
            })
            .sum();
        assert!(chi < 16.3, "{chi}: {counts:?}");
    }

    #[test]
    fn filters_keep_the_likely_tokens_only() {
        let logits = [0.0f32, 1.0, 2.0, -1.0];
        let base = Sampling { temperature: 1.0, ..Sampling::default() };
        assert_eq!(draw(&logits, Sampling { top_k: 1, ..base }, 200)[2], 200);
        let two = draw(&logits, Sampling { top_p: 0.8, ..base }, 2000);
        assert!(two[0] == 0 && two[3] == 0 && two[1] > 0, "{two:?}");
        let two = draw(&logits, Sampling { min_p: 0.3, ..base }, 2000);
        assert!(two[0] == 0 && two[3] == 0 && two[1] > 0, "{two:?}");
    }

    #[test]
    fn random_numbers_depend_on_every_part_of_their_place() {
        let base = uniform(1, 0, 5, Purpose::Token);
        for other in [uniform(2, 0, 5, Purpose::Token), uniform(1, 1, 5, Purpose::Token)] {
            assert_ne!(base, other);
        }
        for other in [uniform(1, 0, 6, Purpose::Token), uniform(1, 0, 5, Purpose::Accept)] {
            assert_ne!(base, other);
        }
        assert_eq!(base, uniform(1, 0, 5, Purpose::Token));
    }

    #[test]
    fn infinite_logits_do_not_make_nan() {
        let s = Sampling { temperature: 1.0, ..Sampling::default() };
        assert_eq!(draw(&[0.0, f32::INFINITY, 1.0], s, 50)[1], 50);
    }

    #[test]
    fn out_of_range_settings_are_refused_by_name() {
        let bad = Sampling { top_p: 0.0, ..Sampling::default() };
        assert!(bad.check().unwrap_err().to_string().contains("top_p"));
        let bad = Sampling { temperature: f32::NAN, ..Sampling::default() };
        assert!(bad.check().unwrap_err().to_string().contains("temperature"));
    }
}
