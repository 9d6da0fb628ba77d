//! Engram: the n-gram hash and the gate (V4.1 §2.4).

use super::error::{Fault, index};
use super::rows::{Places, check_ring};
use super::sum::{dot, mean_square, rsqrt, sigmoid};
use crate::graph::Engram;

/// `engram.hash`: `columns` table rows for each row of the step. All arithmetic is 64-bit and wraps.
pub(super) fn hash(
    history: &[i32],
    ring: usize,
    map: &[i32],
    at: &Places<'_>,
    engram: &Engram,
) -> Result<Vec<i64>, Fault> {
    let lookback = engram.multipliers.len();
    let offsets = engram.offsets();
    let newest = at.newest();
    let pad = map[index("map", engram.pad_token, engram.pad_token as i64, map.len())?];
    let mut out = Vec::with_capacity(at.rows() * engram.columns());
    for t in 0..at.rows() {
        let (seq, pos) = (at.seq(t), at.pos(t));
        check_ring("history", t, pos.saturating_sub(lookback.saturating_sub(1)), newest[seq], ring)?;
        let compressed = |s: usize| -> Result<i64, Fault> {
            let Some(p) = pos.checked_sub(s) else { return Ok(pad.into()) };
            let slot = seq * ring + p % ring;
            Ok(map[index("history", slot, history[slot].into(), map.len())?].into())
        };
        let (mut rolling, mut column) = (0i64, 0);
        for (s, &multiplier) in engram.multipliers.iter().enumerate() {
            rolling ^= compressed(s)?.wrapping_mul(multiplier);
            let Some(primes) = s.checked_sub(1).and_then(|n| engram.primes.get(n)) else { continue };
            for &prime in primes {
                if prime <= 0 {
                    return Err(Fault::Attribute { name: "engram.primes", value: prime });
                }
                out.push(rolling.rem_euclid(prime).wrapping_add(offsets[column]));
                column += 1;
            }
        }
    }
    Ok(out)
}

/// `engram.gate`: `x` `[rows, n, d]`, `kv` `[rows, n + 1, d]` with the value last, weights `[n, d]`.
/// A term of the dot product is `(x·(q_weight·k_weight))` times the key.
pub(super) fn gate(
    x: &[f32],
    kv: &[f32],
    q_weight: &[f32],
    k_weight: &[f32],
    [rows, n, d]: [usize; 3],
    eps: f32,
) -> Vec<f32> {
    let unit = (1.0 / (d as f64).sqrt()) as f32;
    let mut out = Vec::with_capacity(x.len());
    for t in 0..rows {
        let value = &kv[(t * (n + 1) + n) * d..][..d];
        for j in 0..n {
            let stream = &x[(t * n + j) * d..][..d];
            let key = &kv[(t * (n + 1) + j) * d..][..d];
            let (q, k) = (&q_weight[j * d..][..d], &k_weight[j * d..][..d]);
            let weighted: Vec<f32> =
                stream.iter().zip(q.iter().zip(k)).map(|(x, (q, k))| x * (q * k)).collect();
            let norm = rsqrt(mean_square(stream) + eps) * rsqrt(mean_square(key) + eps);
            let score = dot(&weighted, key) * norm * unit;
            // Not `f32::max`, which would turn a NaN into the floor.
            let magnitude = if score.abs() < 1e-6 { 1e-6 } else { score.abs() };
            let g = sigmoid(magnitude.sqrt().copysign(score));
            out.extend(stream.iter().zip(value).map(|(x, v)| x + g * v));
        }
    }
    out
}
