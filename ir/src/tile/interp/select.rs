//! Selections: no poison may take part in them.

use super::block::{Elems, Matrix};
use super::error::Fault;
use super::memory::within;
use std::cmp::Ordering;

/// Largest first; NaN last; equal: the lower position.
fn ranked(row: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    // Stable, so that equal values keep their order.
    order.sort_by(|a, b| match (row[*a].is_nan(), row[*b].is_nan()) {
        (false, false) => row[*b].partial_cmp(&row[*a]).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    });
    order
}

/// The first `n` elements of a one-row matrix, all known.
fn head<'a>(x: &'a Matrix, n: i64, what: &str) -> Result<&'a [f32], Fault> {
    let n = within("the number of columns", n, x.cols + 1)?;
    x.expect_known(0, n, what)?;
    Ok(&x.real_row(0)[..n])
}

/// `topk`.
pub(super) fn top_k(x: &Matrix, n: i64, k: usize) -> Result<Matrix, Fault> {
    let row = head(x, n, "the scores")?;
    let mut best = ranked(row);
    best.retain(|i| row[*i] > f32::NEG_INFINITY);
    best.truncate(k);
    best.sort_unstable();
    let padded = best.into_iter().map(|i| i as i32).chain(std::iter::repeat(-1)).take(k);
    Ok(Matrix::ints(padded.collect()))
}

/// `topk.ranked`.
pub(super) fn top_ranked(x: &Matrix, k: usize) -> Result<Matrix, Fault> {
    let row = head(x, x.cols as i64, "the values to rank")?;
    within("k", k as i64, row.len() + 1)?;
    Ok(Matrix::ints(ranked(row).into_iter().take(k).map(|i| i as i32).collect()))
}

/// `pick`.
pub(super) fn pick(x: &Matrix, ids: &Matrix) -> Result<Matrix, Fault> {
    ids.expect_known(0, ids.cols, "the columns to pick")?;
    let mut out = Matrix::reals(1, ids.cols, vec![0.0; ids.cols]);
    for (j, id) in ids.int_row(0).iter().enumerate() {
        let at = within("a column to pick", (*id).into(), x.cols)?;
        out.set(0, j, x.real(0, at), x.known_row(0)[at]);
    }
    Ok(out)
}

/// `block.max`; a NaN counts as −∞.
pub(super) fn block_max(
    out: &mut Matrix,
    scores: &Matrix,
    n: i64,
    newest: i64,
    block: usize,
) -> Result<(), Fault> {
    let row = head(scores, n, "the scores")?;
    within("the number of blocks", row.len().div_ceil(block) as i64, out.cols + 1)?;
    for (i, part) in row.chunks(block).enumerate() {
        let max = part.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let has_newest = usize::try_from(newest).is_ok_and(|newest| newest / block == i);
        out.set(0, i, if has_newest { f32::INFINITY } else { max }, true);
    }
    Ok(())
}

/// `restrict`.
pub(super) fn restrict(scores: &mut Matrix, n: i64, blocks: &Matrix, block: usize) -> Result<(), Fault> {
    let n = within("the number of columns", n, scores.cols + 1)?;
    blocks.expect_known(0, blocks.cols, "the list of blocks")?;
    let mut kept = vec![false; n];
    for id in blocks.int_row(0).iter().filter(|id| **id != -1) {
        let b = within("a block", (*id).into(), scores.cols.div_ceil(block))?;
        let end = n.min((b + 1) * block);
        kept[(b * block).min(end)..end].fill(true);
    }
    for (j, kept) in kept.iter().enumerate() {
        if !kept {
            scores.set(0, j, f32::NEG_INFINITY, true);
        }
    }
    Ok(())
}

/// `argmax`.
pub(super) fn argmax(x: &Matrix) -> Result<Matrix, Fault> {
    let row = head(x, x.cols as i64, "the values")?;
    let best = ranked(row).first().copied().unwrap_or(0);
    debug_assert!(matches!(x.elems, Elems::Real(_)));
    Ok(Matrix::ints(vec![best as i32]))
}
