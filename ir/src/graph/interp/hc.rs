//! Hyper-connections: opening, mixing, collapsing and expanding the residual streams (V4.1 §2.3).

use super::error::Fault;
use super::linear::{Order, linear};
use super::sum::{exp, mean_square, rsqrt, sigmoid};
use crate::types::Format;

/// Operands of `hc.mix`.
pub(super) struct Mix<'a> {
    pub(super) x: &'a [f32],
    pub(super) rows: usize,
    pub(super) streams: usize,
    pub(super) function: &'a [f32],
    pub(super) base: &'a [f32],
    pub(super) scale: &'a [f32],
    pub(super) iters: usize,
    pub(super) eps: f32,
    pub(super) norm_eps: f32,
}

/// `hc.mix`: `[pre, post, comb]`. The product with `function` has the order of a plain `linear`, the mean square
/// that of `rmsnorm`; sums of n elements are taken by ascending index.
pub(super) fn mix(m: &Mix<'_>) -> Result<[Vec<f32>; 3], Fault> {
    let n = m.streams;
    let z = linear(Order::new(Format::F32, Format::F32), m.x, m.rows, m.function, n * (n + 2), 1)?;
    let mut out = [vec![], vec![], vec![]];
    let width = m.x.len().checked_div(m.rows).unwrap_or(0);
    for t in 0..m.rows {
        let r = rsqrt(mean_square(&m.x[t * width..(t + 1) * width]) + m.norm_eps);
        let z = |i: usize, kind: usize| z[t * n * (n + 2) + i] * r * m.scale[kind] + m.base[i];
        out[0].extend((0..n).map(|j| sigmoid(z(j, 0)) + m.eps));
        out[1].extend((0..n).map(|j| 2.0 * sigmoid(z(n + j, 1))));
        let mut comb: Vec<f32> = (0..n * n).map(|i| z(2 * n + i, 2)).collect();
        sinkhorn(&mut comb, n, m.iters, m.eps);
        out[2].extend(comb);
    }
    Ok(out)
}

/// Softmax along the second index, then `iters` normalisations of columns (sums over the first index) with one of
/// rows between every two, `eps` added after the softmax and to every sum.
fn sinkhorn(c: &mut [f32], n: usize, iters: usize, eps: f32) {
    for row in c.chunks_mut(n) {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|v| *v = exp(*v - max));
        let sum: f32 = row.iter().fold(0.0, |s, v| s + v);
        row.iter_mut().for_each(|v| *v = *v / sum + eps);
    }
    for i in 0..iters {
        if i > 0 {
            for row in c.chunks_mut(n) {
                let sum = row.iter().fold(0.0, |s, v| s + v) + eps;
                row.iter_mut().for_each(|v| *v /= sum);
            }
        }
        for k in 0..n {
            let sum = (0..n).fold(0.0, |s, j| s + c[j * n + k]) + eps;
            (0..n).for_each(|j| c[j * n + k] /= sum);
        }
    }
}

/// `hc.open`: `[streams of each row of d elements, pre]`.
pub(super) fn open(x: &[f32], rows: usize, streams: usize) -> [Vec<f32>; 2] {
    let d = x.len().checked_div(rows).unwrap_or(0);
    let copies = (0..rows).flat_map(|t| x[t * d..(t + 1) * d].repeat(streams)).collect();
    let pre = (0..rows * streams).map(|i| if i.is_multiple_of(streams) { 1.0 } else { 0.0 }).collect();
    [copies, pre]
}

/// `hc.collapse` of `x` `[rows, n, d]` by `pre` `[rows, n]`.
pub(super) fn collapse(x: &[f32], pre: &[f32], rows: usize, n: usize, d: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows * d);
    for t in 0..rows {
        out.extend((0..d).map(|c| (0..n).fold(0.0, |s, j| s + pre[t * n + j] * x[(t * n + j) * d + c])));
    }
    out
}

/// `hc.expand`: the sum over j first, by ascending j, then `post·y` and that sum are added.
pub(super) fn expand(y: &[f32], x: &[f32], post: &[f32], comb: &[f32], [rows, n, d]: [usize; 3]) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows * n * d);
    for t in 0..rows {
        for k in 0..n {
            out.extend((0..d).map(|c| {
                let mixed = (0..n).fold(0.0, |s, j| s + comb[(t * n + j) * n + k] * x[(t * n + j) * d + c]);
                post[t * n + k] * y[t * d + c] + mixed
            }));
        }
    }
    out
}

/// `hc.mean` of `x` `[rows, n, d]`.
pub(super) fn mean(x: &[f32], rows: usize, n: usize, d: usize) -> Vec<f32> {
    let part = 1.0 / n as f32;
    let mut out = Vec::with_capacity(rows * d);
    for t in 0..rows {
        out.extend((0..d).map(|c| (0..n).fold(0.0, |s, j| s + x[(t * n + j) * d + c]) * part));
    }
    out
}
