//! Pooling of a token group into one compressed row (V4.1 §2.7).

use super::error::{Fault, positive};
use super::rows::{Places, check_ring};
use super::sum::exp;

/// `compress.pool`: `values` and `gates` are rings of `ring` rows of `d` elements. Softmax and the weighted sum go by
/// ascending position.
pub(super) fn pool(
    values: &[f32],
    gates: &[f32],
    ring: usize,
    d: usize,
    at: &Places<'_>,
    ratio: usize,
) -> Result<Vec<f32>, Fault> {
    positive("ratio", ratio)?;
    let newest = at.newest();
    let mut out = vec![0.0; at.rows() * d];
    for t in 0..at.rows() {
        let (seq, pos) = (at.seq(t), at.pos(t));
        if !(pos + 1).is_multiple_of(ratio) {
            continue;
        }
        let first = pos + 1 - ratio;
        check_ring("values", t, first, newest[seq], ring)?;
        let slots: Vec<usize> = (first..=pos).map(|p| (seq * ring + p % ring) * d).collect();
        for c in 0..d {
            let max = slots.iter().map(|s| gates[s + c]).fold(f32::NEG_INFINITY, f32::max);
            let weights: Vec<f32> = slots.iter().map(|s| exp(gates[s + c] - max)).collect();
            let sum = weights.iter().fold(0.0, |a, b| a + b);
            let terms = slots.iter().zip(&weights).map(|(s, w)| w / sum * values[s + c]);
            out[t * d + c] = terms.fold(0.0, |a, b| a + b);
        }
    }
    Ok(out)
}
