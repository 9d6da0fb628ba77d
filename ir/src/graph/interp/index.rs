//! The indexer: scores of compressed entries, candidate blocks and the selection (V4.1 §2.8).

use super::error::{Fault, padded_index, positive};
use super::rows::Places;
use super::sum::dot;
use crate::graph::Round;
use crate::num::bf16;

/// Visible entries of a cache of `len` for a row at `pos`; an error where the cache could not hold them.
fn visible(t: usize, pos: usize, ratio: usize, len: usize) -> Result<usize, Fault> {
    let visible = (pos + 1) / ratio;
    if visible > len {
        let limit = ((len + 1) * ratio - 1) as i64;
        return Err(Fault::Range { operand: "pos", at: t, value: pos as i64, low: 0, limit });
    }
    Ok(visible)
}

/// Operands of `index.scores`: `q` `[rows, heads, d]`, `weights` `[rows, heads]`, `keys` `[slots, len, d]`.
pub(super) struct Scores<'a> {
    pub(super) q: &'a [f32],
    pub(super) weights: &'a [f32],
    pub(super) keys: &'a [f32],
    pub(super) heads: usize,
    pub(super) d: usize,
    pub(super) len: usize,
}

/// `index.scores`. The ReLU keeps a NaN.
pub(super) fn scores(s: &Scores<'_>, at: &Places<'_>, ratio: usize, round: Round) -> Result<Vec<f32>, Fault> {
    positive("ratio", ratio)?;
    let r = |v: f32| match round {
        Round::None => v,
        Round::Bf16 => bf16::round(v),
    };
    let mut out = vec![f32::NEG_INFINITY; at.rows() * s.len];
    for t in 0..at.rows() {
        for n in 0..visible(t, at.pos(t), ratio, s.len)? {
            let key = &s.keys[(at.seq(t) * s.len + n) * s.d..][..s.d];
            let mut sum = 0.0;
            for h in 0..s.heads {
                let q = &s.q[(t * s.heads + h) * s.d..][..s.d];
                let score = r(dot(q, key));
                let positive = if score < 0.0 { 0.0 } else { score };
                sum += r(positive * s.weights[t * s.heads + h]);
            }
            out[t * s.len + n] = r(sum);
        }
    }
    Ok(out)
}

/// The indices of the `keep` largest of `scores`, ascending. Equal scores (+0 and −0 are equal): the lower index.
/// Scores of −∞ and NaN are never among them.
fn best(scores: &[f32], keep: usize) -> Vec<usize> {
    // False for a NaN, too.
    let selectable = |i: &usize| scores[*i] > f32::NEG_INFINITY;
    let mut order: Vec<usize> = (0..scores.len()).filter(selectable).collect();
    // Stable, and no NaN is left that could be incomparable.
    order.sort_by(|a, b| scores[*b].partial_cmp(&scores[*a]).unwrap_or(std::cmp::Ordering::Equal));
    order.truncate(keep);
    order.sort_unstable();
    order
}

/// `list` as a row of `len` indices, padded with −1.
fn padded(list: Vec<usize>, len: usize) -> impl Iterator<Item = i32> {
    list.into_iter().map(|i| i as i32).chain(std::iter::repeat(-1)).take(len)
}

/// `topk` of rows of `n` scores.
pub(super) fn top_k(scores: &[f32], rows: usize, n: usize, k: usize) -> Vec<i32> {
    (0..rows).flat_map(|t| padded(best(&scores[t * n..(t + 1) * n], k), k)).collect()
}

/// `index.blocks` of rows of `n` scores. A NaN counts as −∞.
pub(super) fn blocks(
    scores: &[f32],
    n: usize,
    pos: &[i32],
    ratio: usize,
    block: usize,
    keep: usize,
) -> Result<Vec<i32>, Fault> {
    positive("ratio", ratio)?;
    positive("block", block)?;
    let mut out = Vec::with_capacity(pos.len() * keep);
    for (t, &p) in pos.iter().enumerate() {
        let p = super::error::index("pos", t, p.into(), i32::MAX as usize)?;
        let seen = visible(t, p, ratio, n)?;
        let mut maxima: Vec<f32> = scores[t * n..t * n + seen]
            .chunks(block)
            .map(|b| b.iter().copied().fold(f32::NEG_INFINITY, f32::max))
            .collect();
        if let Some(newest) = maxima.last_mut() {
            *newest = f32::INFINITY;
        }
        let list = best(&maxima, keep);
        // A block may have a maximum of +∞ of its own: then the newest, being the last, could lose the tie.
        let list = match (list.last(), maxima.len().checked_sub(1)) {
            (Some(&last), Some(newest)) if last != newest => {
                let mut list = list;
                list.pop();
                list.push(newest);
                list
            }
            (_, _) => list,
        };
        out.extend(padded(list, keep));
    }
    Ok(out)
}

/// `index.restrict` of rows of `n` scores to the `keep` listed blocks of each.
pub(super) fn restrict(
    scores: &[f32],
    n: usize,
    blocks: &[i32],
    keep: usize,
    block: usize,
) -> Result<Vec<f32>, Fault> {
    positive("block", block)?;
    let mut out = vec![f32::NEG_INFINITY; scores.len()];
    for (at, &b) in blocks.iter().enumerate() {
        if let Some(b) = padded_index("blocks", at, b, n.div_ceil(block))? {
            let row = at / keep * n;
            let range = row + b * block..row + n.min((b + 1) * block);
            out[range.clone()].copy_from_slice(&scores[range]);
        }
    }
    Ok(out)
}
