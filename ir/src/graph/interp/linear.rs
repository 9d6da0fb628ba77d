//! Matrix products in the canonical order of `linear`.

use super::error::{Fault, positive};
use super::format::significand_bits;
use super::sum::{LANES, fused};
use crate::types::Format;

/// Order of a product's sum over K, from the formats of its operands.
///
/// Values are held decoded. That is as good as codes and scales apart: a scale of a weight or activation is a
/// power of two, so `Σ codes · scale_a · scale_w` equals the sum of the products of decoded values bit for bit,
/// as long as nothing under- or overflows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// Columns of K that are summed on their own before they are added to the total.
    block: usize,
    /// Within a block k + 1 comes before k for even k: the order of the bf16 pair instruction.
    pairs: bool,
    /// Products are exact in f32, so that a fused and a separate multiply-add agree.
    exact: bool,
}

impl Order {
    pub(super) fn new(x: Format, weight: Format) -> Self {
        let scaled = weight.group.is_some();
        let exact = significand_bits(x.elem) + significand_bits(weight.elem) <= 24;
        Order { block: if scaled { 32 } else { 64 }, pairs: scaled, exact }
    }

    /// `put(row, n, x_row · weight[n])` for every row and every of the `weight.len() / k` rows of the weight.
    pub(super) fn multiply(
        self,
        rows: &[&[f32]],
        weight: &[f32],
        k: usize,
        mut put: impl FnMut(usize, usize, f32),
    ) {
        if rows.is_empty() || k == 0 {
            return;
        }
        let n = weight.len() / k;
        let mut panel = vec![[0.0; LANES]; k];
        for first in (0..n).step_by(LANES) {
            let lanes = LANES.min(n - first);
            for lane in 0..lanes {
                let row = &weight[(first + lane) * k..(first + lane + 1) * k];
                panel.iter_mut().zip(row).for_each(|(p, w)| p[lane] = *w);
            }
            for (r, x) in rows.iter().enumerate() {
                let sums =
                    if self.exact { self.row::<true>(x, &panel) } else { self.row::<false>(x, &panel) };
                sums[..lanes].iter().enumerate().for_each(|(lane, v)| put(r, first + lane, *v));
            }
        }
    }

    /// One row against 16 columns.
    fn row<const EXACT: bool>(self, x: &[f32], panel: &[[f32; LANES]]) -> [f32; LANES] {
        let mut total = [0.0; LANES];
        for (x, w) in x.chunks(self.block).zip(panel.chunks(self.block)) {
            let mut part = [0.0; LANES];
            if self.pairs {
                for (x, w) in x.chunks(2).zip(w.chunks(2)) {
                    for (x, w) in x.iter().zip(w).rev() {
                        step::<EXACT>(&mut part, *x, w);
                    }
                }
            } else {
                for (x, w) in x.iter().zip(w) {
                    step::<EXACT>(&mut part, *x, w);
                }
            }
            total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
        }
        total
    }
}

/// `part += x · w`, rounded once.
#[inline(always)]
fn step<const EXACT: bool>(part: &mut [f32; LANES], x: f32, w: &[f32; LANES]) {
    if EXACT {
        part.iter_mut().zip(w).for_each(|(p, w)| *p += x * w);
    } else {
        fused(part, &[x; LANES], w);
    }
}

/// `linear`: `x` is `[rows, groups·k]`, `weight` `[n, k]`; the result `[rows, n]`.
pub(super) fn linear(
    order: Order,
    x: &[f32],
    rows: usize,
    weight: &[f32],
    n: usize,
    groups: usize,
) -> Result<Vec<f32>, Fault> {
    positive("groups", groups)?;
    let mut out = vec![0.0; rows * n];
    if rows == 0 || n == 0 {
        return Ok(out);
    }
    let (width, k, piece) = (x.len() / rows, weight.len() / n, n / groups);
    for g in 0..groups {
        let slices: Vec<&[f32]> = (0..rows).map(|r| &x[r * width + g * k..r * width + (g + 1) * k]).collect();
        let part = &weight[g * piece * k..(g + 1) * piece * k];
        order.multiply(&slices, part, k, |r, i, v| out[r * n + g * piece + i] = v);
    }
    Ok(out)
}

/// `moe.linear`: each choice against its expert of `weight` `[e, n, k]`. The choices are sorted by expert in `group`
/// (offsets, choices, rows); they share the row of `x` or have one each. The result is `[rows, choices, n]`.
pub(super) fn moe_linear(
    order: Order,
    x: &[f32],
    shared: bool,
    group: &[Vec<i32>; 3],
    weight: &[f32],
    [e, n, k]: [usize; 3],
) -> Vec<f32> {
    let [offsets, pairs, rows] = group;
    let sources = if shared { rows } else { pairs };
    let mut out = vec![0.0; pairs.len() * n];
    for expert in 0..e {
        let span = offsets[expert] as usize..offsets[expert + 1] as usize;
        let slots = &pairs[span.clone()];
        let rows: Vec<&[f32]> = sources[span].iter().map(|i| &x[*i as usize * k..][..k]).collect();
        let part = &weight[expert * n * k..(expert + 1) * n * k];
        order.multiply(&rows, part, k, |r, i, v| out[slots[r] as usize * n + i] = v);
    }
    out
}
