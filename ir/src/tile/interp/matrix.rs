//! Matrix ops on slots, in the canonical orders of the op table.
//!
//! Slots hold decoded values. That is as good as codes and scales apart: scales of weights and activations are powers
//! of two, so a block's sum of code products, scaled, equals the sum of the products of decoded values bit for bit, as
//! long as nothing under- or overflows.

use super::block::Matrix;
use super::error::Fault;
use super::memory::{fitting, within};
use crate::graph::Round;
use crate::graph::interp::sum::dot;
use crate::num::bf16;

/// Columns of K that are summed on their own: of scaled and of plain weights.
const SCALED: usize = 32;
const PLAIN: usize = 64;

/// One block of a product; in pairs the odd element comes first.
fn block(a: &[f32], b: &[f32], pairs: bool) -> f32 {
    let mut sum = 0.0;
    if pairs {
        for (a, b) in a.chunks(2).zip(b.chunks(2)) {
            for (a, b) in a.iter().zip(b).rev() {
                sum = a.mul_add(*b, sum);
            }
        }
    } else {
        for (a, b) in a.iter().zip(b) {
            sum = a.mul_add(*b, sum);
        }
    }
    sum
}

/// `mma`.
pub(super) fn mma(
    acc: &mut Matrix,
    a: &Matrix,
    b: &Matrix,
    rows: i64,
    init: bool,
    scaled: bool,
) -> Result<(), Fault> {
    let rows = within("the number of rows", rows, acc.rows.min(a.rows) + 1)?;
    let width = if scaled { SCALED } else { PLAIN };
    for i in 0..rows {
        for n in 0..b.rows {
            let mut sum = if init { 0.0 } else { acc.real(i, n) };
            for (a, b) in a.real_row(i).chunks(width).zip(b.real_row(n).chunks(width)) {
                sum += block(a, b, scaled);
            }
            let before = init || acc.known_row(i)[n];
            acc.set(i, n, sum, before && a.row_known(i) && b.row_known(n));
        }
    }
    Ok(())
}

/// `mma.tile`: columns from `n` on become poison.
pub(super) fn mma_tile(
    acc: &mut Matrix,
    a: &Matrix,
    b: &Matrix,
    n: i64,
    first: bool,
    (trans, scaled): (bool, bool),
) -> Result<(), Fault> {
    let n = within("the number of columns", n, acc.cols + 1)?;
    let width = if scaled { SCALED } else { PLAIN };
    for j in 0..acc.cols {
        if j >= n {
            (0..acc.rows).for_each(|i| acc.set(i, j, 0.0, false));
            continue;
        }
        let (column, known): (Vec<f32>, bool) = if trans {
            ((0..b.rows).map(|k| b.real(k, j)).collect(), (0..b.rows).all(|k| b.known_row(k)[j]))
        } else {
            (b.real_row(j).to_vec(), b.row_known(j))
        };
        for i in 0..acc.rows {
            let mut sum = if first { 0.0 } else { acc.real(i, j) };
            for (a, b) in a.real_row(i).chunks(width).zip(column.chunks(width)) {
                sum += block(a, b, scaled);
            }
            let before = first || acc.known_row(i)[j];
            acc.set(i, j, sum, before && a.row_known(i) && known);
        }
    }
    Ok(())
}

/// `decode`: the values of a quantised slot in a plain one.
pub(super) fn decode(to: &mut Matrix, from: &Matrix, row: i64) -> Result<(), Fault> {
    let row = fitting("row", row, from.rows, to.rows)?;
    to.put(row, 0, from);
    Ok(())
}

/// Column and number of keys of an op that works on `n` keys from column `col` on.
fn keys(col: i64, n: i64, cols: usize, have: usize) -> Result<(usize, usize), Fault> {
    let n = within("the number of keys", n, have + 1)?;
    Ok((fitting("column", col, n, cols)?, n))
}

/// `mma.scores`.
pub(super) fn scores(
    acc: &mut Matrix,
    q: &Matrix,
    k: &Matrix,
    col: i64,
    n: i64,
    scale: f32,
) -> Result<(), Fault> {
    let (col, n) = keys(col, n, acc.cols, k.rows)?;
    for h in 0..q.rows {
        for j in 0..n {
            let score = dot(q.real_row(h), k.real_row(j)) * scale;
            acc.set(h, col + j, score, q.row_known(h) && k.row_known(j));
        }
    }
    Ok(())
}

/// `mma.values`.
pub(super) fn values(acc: &mut Matrix, e: &Matrix, values: &Matrix, col: i64, n: i64) -> Result<(), Fault> {
    let (col, n) = keys(col, n, e.cols, values.rows)?;
    for h in 0..acc.rows {
        let weights = &e.real_row(h)[col..col + n];
        let weighed = e.known_row(h)[col..col + n].iter().all(|k| *k);
        for d in 0..acc.cols {
            let part = (0..n).fold(0.0, |sum, j| weights[j].mul_add(values.real(j, d), sum));
            let known = weighed && acc.known_row(h)[d] && (0..n).all(|j| values.known_row(j)[d]);
            acc.set(h, d, acc.real(h, d) + part, known);
        }
    }
    Ok(())
}

/// `mma.index`; the ReLU keeps a NaN.
pub(super) fn index_scores(
    acc: &mut Matrix,
    q: &Matrix,
    w: &Matrix,
    k: &Matrix,
    [col, n]: [i64; 2],
    round: Round,
) -> Result<(), Fault> {
    let (col, n) = keys(col, n, acc.cols, k.rows)?;
    let r = |v: f32| match round {
        Round::None => v,
        Round::Bf16 => bf16::round(v),
    };
    let known = w.row_known(0) && (0..q.rows).all(|h| q.row_known(h));
    for j in 0..n {
        let mut sum = 0.0;
        for h in 0..q.rows {
            let score = r(dot(q.real_row(h), k.real_row(j)));
            let score = if score < 0.0 { 0.0 } else { score };
            sum += r(score * w.real(0, h));
        }
        acc.set(0, col + j, r(sum), known && k.row_known(j));
    }
    Ok(())
}
