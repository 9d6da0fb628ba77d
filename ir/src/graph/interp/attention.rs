//! Attention over window and selected entries with a sink, and its draft-block form (V4.1 §2.6, §2.11).

use super::error::{Fault, index, padded_index, positive};
use super::rows::{Places, check_ring};
use super::sum::{add_scaled, dot, exp, in_lanes};
use crate::graph::Round;
use crate::num::bf16;

/// Keys that are summed on their own before they are added to the total.
const BLOCK: usize = 64;

/// What both forms share: `q` `[rows, heads, d]`, `window` `[slots, ring, d]`, a sink for each head.
pub(super) struct Queries<'a> {
    pub(super) q: &'a [f32],
    pub(super) heads: usize,
    pub(super) d: usize,
    pub(super) window: &'a [f32],
    pub(super) ring: usize,
    pub(super) sink: &'a [f32],
    pub(super) lo: &'a [i32],
    pub(super) scale: f32,
    pub(super) round: Round,
}

/// Selected entries of a compressed cache: `cache` `[slots, len, d]`, `k` indices a row.
pub(super) struct Selected<'a> {
    pub(super) cache: &'a [f32],
    pub(super) len: usize,
    pub(super) list: &'a [i32],
    pub(super) k: usize,
}

impl Queries<'_> {
    /// Window entries `lo[t]..end` of row t's sequence.
    fn window(&self, t: usize, seq: usize, end: usize, newest: usize) -> Result<Vec<&[f32]>, Fault> {
        let lo = index("lo", t, self.lo[t].into(), i32::MAX as usize)?;
        if lo < end {
            check_ring("window", t, lo, newest, self.ring)?;
        }
        Ok((lo..end).map(|p| &self.window[(seq * self.ring + p % self.ring) * self.d..][..self.d]).collect())
    }

    /// Appends the result of row t over `window`, then `others`.
    fn attend(&self, t: usize, window: &[&[f32]], others: &[&[f32]], out: &mut Vec<f32>) {
        for h in 0..self.heads {
            let q = &self.q[(t * self.heads + h) * self.d..][..self.d];
            out.extend(self.head(q, [window, others], self.sink[h]));
        }
    }

    fn head(&self, q: &[f32], lists: [&[&[f32]]; 2], sink: f32) -> Vec<f32> {
        let mut sum = vec![0.0; self.d];
        if lists.iter().all(|keys| keys.is_empty()) {
            return sum;
        }
        let score = |k: &&[f32]| dot(q, k) * self.scale;
        let max = lists.into_iter().flatten().map(score).fold(f32::NEG_INFINITY, f32::max);
        let mut total = 0.0;
        for keys in lists.into_iter().flat_map(|keys| keys.chunks(BLOCK)) {
            let weights: Vec<f32> = keys.iter().map(|k| exp(score(k) - max)).collect();
            total += in_lanes(&weights);
            let mut part = vec![0.0; self.d];
            for (e, key) in weights.into_iter().zip(keys) {
                let e = match self.round {
                    Round::None => e,
                    Round::Bf16 => bf16::round(e),
                };
                add_scaled(&mut part, e, key);
            }
            sum.iter_mut().zip(part).for_each(|(s, p)| *s += p);
        }
        let denominator = total + exp(sink - max);
        sum.iter_mut().for_each(|s| *s /= denominator);
        sum
    }
}

/// `attention`.
pub(super) fn attention(
    queries: &Queries<'_>,
    selected: Option<&Selected<'_>>,
    at: &Places<'_>,
) -> Result<Vec<f32>, Fault> {
    let newest = at.newest();
    let mut out = Vec::with_capacity(queries.q.len());
    for t in 0..at.rows() {
        let seq = at.seq(t);
        let window = queries.window(t, seq, at.pos(t) + 1, newest[seq])?;
        let mut keys = Vec::new();
        if let Some(s) = selected {
            for i in t * s.k..(t + 1) * s.k {
                if let Some(entry) = padded_index("selected", i, s.list[i], s.len)? {
                    keys.push(&s.cache[(seq * s.len + entry) * queries.d..][..queries.d]);
                }
            }
        }
        queries.attend(t, &window, &keys, &mut out);
    }
    Ok(out)
}

/// `attention.block` with the block's own `rows` `[rows, d]`. A row's keys are the window, then its whole block.
pub(super) fn block_attention(
    queries: &Queries<'_>,
    rows: &[f32],
    at: &Places<'_>,
    block: usize,
) -> Result<Vec<f32>, Fault> {
    positive("block", block)?;
    let mut out = Vec::with_capacity(queries.q.len());
    for t in 0..at.rows() {
        let first = t / block * block;
        let (seq, start) = (at.seq(first), at.pos(first));
        if at.seq(t) != seq || at.pos(t) != start + (t - first) || first + block > at.rows() {
            return Err(Fault::Block { row: t, block, seq: at.seq(t) as i32, pos: at.pos(t) as i32 });
        }
        // The newest position in the window is the one before the block.
        let window = queries.window(t, seq, start, start.saturating_sub(1))?;
        let keys: Vec<&[f32]> = (first..first + block).map(|r| &rows[r * queries.d..][..queries.d]).collect();
        queries.attend(t, &window, &keys, &mut out);
    }
    Ok(out)
}
