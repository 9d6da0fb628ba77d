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
    Ok(padded(best(row, k).into_iter(), k))
}

/// The k largest of `keys` that are above −∞, ascending, −1 padded.
fn best(keys: &[f32], k: usize) -> Vec<usize> {
    let mut best = ranked(keys);
    best.retain(|i| keys[*i] > f32::NEG_INFINITY);
    best.truncate(k);
    best.sort_unstable();
    best
}

fn padded(best: impl Iterator<Item = usize>, k: usize) -> Matrix {
    Matrix::ints(best.map(|i| i as i32).chain(std::iter::repeat(-1)).take(k).collect())
}

/// `topk.view`; a NaN counts as −∞ in the maximum of a block.
pub(super) fn top_k_view(row: &[f32], newest: i64, k: usize, block: usize) -> Matrix {
    let mut keys: Vec<f32> =
        row.chunks(block).map(|part| part.iter().copied().fold(f32::NEG_INFINITY, f32::max)).collect();
    let forced = usize::try_from(newest).ok().map(|at| at / block).filter(|b| block > 1 && *b < keys.len());
    let Some(forced) = forced.filter(|_| k > 0) else { return padded(best(&keys, k).into_iter(), k) };
    keys[forced] = f32::NEG_INFINITY;
    let mut list = best(&keys, k - 1);
    list.insert(list.partition_point(|b| *b < forced), forced);
    padded(list.into_iter(), k)
}

/// `topk.listed`.
pub(super) fn top_k_listed(row: &[f32], list: &[i64], k: usize, block: usize) -> Result<Matrix, Fault> {
    let mut places = Vec::new();
    for id in list.iter().filter(|id| **id != -1) {
        let b = within("a block", *id, row.len().div_ceil(block).max(1))?;
        places.extend((b * block).min(row.len())..row.len().min((b + 1) * block));
    }
    let keys: Vec<f32> = places.iter().map(|i| row[*i]).collect();
    Ok(padded(best(&keys, k).into_iter().map(|i| places[i]), k))
}

/// `any`.
pub(super) fn any(x: &Matrix) -> Result<i64, Fault> {
    let mut found = false;
    for i in 0..x.rows {
        x.expect_known(i, x.cols, "the tile that decides")?;
        found |= x.real_row(i).iter().any(|v| *v > 0.0);
    }
    Ok(found.into())
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
