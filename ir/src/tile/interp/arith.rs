//! Arithmetic on tiles. A result is poison where one of its operands is.

use super::block::Matrix;
use super::error::Fault;
use crate::graph::Rope;
use crate::graph::interp::sum::{exp, rsqrt, sigmoid, softplus};
use crate::tile::{Binary, Lanes, Reduce, Unary};
use crate::types::Format;

/// `map`.
pub(super) fn map(x: &Matrix, f: Unary) -> Matrix {
    let one = |v: f32| match f {
        Unary::Neg => -v,
        Unary::Abs => v.abs(),
        Unary::Sqrt => v.sqrt(),
        Unary::Rsqrt => rsqrt(v),
        Unary::Exp => exp(v),
        Unary::Sigmoid => sigmoid(v),
        Unary::Silu => v / (1.0 + exp(-v)),
        Unary::SqrtSoftplus => softplus(v).sqrt(),
        Unary::Relu => {
            if v < 0.0 {
                0.0
            } else {
                v
            }
        }
    };
    let mut out = x.clone();
    for i in 0..x.rows {
        for j in 0..x.cols {
            out.set(i, j, one(x.real(i, j)), x.known_row(i)[j]);
        }
    }
    out
}

/// `zip`.
pub(super) fn zip(a: &Matrix, b: &Matrix, f: Binary) -> Result<Matrix, Fault> {
    let two = |a: f32, b: f32| match f {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Min | Binary::Max if a.is_nan() || b.is_nan() => f32::NAN,
        Binary::Min => {
            if b < a {
                b
            } else {
                a
            }
        }
        Binary::Max => {
            if b > a {
                b
            } else {
                a
            }
        }
        Binary::CopySign => a.copysign(b),
    };
    let (rows, cols) = (a.rows.max(b.rows), a.cols.max(b.cols));
    let mut out = Matrix::poison(rows, cols, Format::F32)?;
    let place = |m: &Matrix, i: usize, j: usize| {
        let (i, j) = (if m.rows == 1 { 0 } else { i }, if m.cols == 1 { 0 } else { j });
        (m.real(i, j), m.known_row(i)[j])
    };
    for i in 0..rows {
        for j in 0..cols {
            let ((x, known_x), (y, known_y)) = (place(a, i, j), place(b, i, j));
            out.set(i, j, two(x, y), known_x && known_y);
        }
    }
    Ok(out)
}

/// Adds lanes as the role's order says: groups of 32 as binary trees, the groups ascending.
fn tree(lanes: &mut [f32]) -> f32 {
    let mut sum: Option<f32> = None;
    for group in lanes.chunks_mut(32) {
        let mut half = group.len() / 2;
        while half > 0 {
            for j in 0..half {
                group[j] += group[j + half];
            }
            half /= 2;
        }
        sum = Some(sum.map_or(group[0], |s| s + group[0]));
    }
    sum.unwrap_or(0.0)
}

/// Sum of a row of numbers in lanes.
fn sum(row: &[f32], lanes: Lanes) -> f32 {
    let mut sums = vec![0.0; lanes.count.max(1)];
    for (i, v) in row.iter().enumerate() {
        sums[i / lanes.chunk.max(1) % lanes.count.max(1)] += *v;
    }
    tree(&mut sums)
}

/// Sum of the products of two rows in lanes, by fused multiply-adds.
fn products(a: &[f32], b: &[f32], lanes: Lanes) -> f32 {
    let mut sums = vec![0.0; lanes.count.max(1)];
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        let lane = &mut sums[i / lanes.chunk.max(1) % lanes.count.max(1)];
        *lane = a.mul_add(*b, *lane);
    }
    tree(&mut sums)
}

fn larger(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// `reduce`.
pub(super) fn reduce(x: &Matrix, f: Reduce, axis: usize, lanes: Lanes) -> Matrix {
    if axis == 0 {
        let mut out = Matrix::reals(1, x.cols, vec![0.0; x.cols]);
        for j in 0..x.cols {
            let column = (0..x.rows).map(|i| x.real(i, j));
            let value = match f {
                Reduce::Sum => column.fold(0.0, |s, v| s + v),
                Reduce::Max => column.fold(f32::NEG_INFINITY, larger),
                Reduce::AbsMax => column.map(f32::abs).fold(0.0, larger),
            };
            out.set(0, j, value, (0..x.rows).all(|i| x.known_row(i)[j]));
        }
        return out;
    }
    let mut out = Matrix::reals(x.rows, 1, vec![0.0; x.rows]);
    for i in 0..x.rows {
        let row = x.real_row(i).iter().copied();
        let value = match f {
            Reduce::Sum => sum(x.real_row(i), lanes),
            Reduce::Max => row.fold(f32::NEG_INFINITY, larger),
            Reduce::AbsMax => row.map(f32::abs).fold(0.0, larger),
        };
        out.set(i, 0, value, x.row_known(i));
    }
    out
}

/// `dot`.
pub(super) fn dots(a: &Matrix, b: &Matrix, lanes: Lanes) -> Matrix {
    let mut out = Matrix::reals(a.rows, 1, vec![0.0; a.rows]);
    for i in 0..a.rows {
        out.set(i, 0, products(a.real_row(i), b.real_row(i), lanes), a.row_known(i) && b.row_known(i));
    }
    out
}

/// `rotate`.
pub(super) fn rotate(x: &Matrix, table: &Matrix, inverse: bool) -> Matrix {
    let mut out = x.clone();
    let half = table.cols / 2;
    let first = x.cols.saturating_sub(table.cols);
    for i in 0..x.rows {
        for m in 0..half {
            let (c, s) = (table.real(0, m), table.real(0, half + m));
            let s = if inverse { -s } else { s };
            let at = first + 2 * m;
            let (e, o) = (x.real(i, at), x.real(i, at + 1));
            let known = [
                x.known_row(i)[at],
                x.known_row(i)[at + 1],
                table.known_row(0)[m],
                table.known_row(0)[half + m],
            ];
            let known = known.iter().all(|k| *k);
            out.set(i, at, e * c - o * s, known);
            out.set(i, at + 1, e * s + o * c, known);
        }
    }
    out
}

/// `angles`.
pub(super) fn angles(pos: i64, rope: &Rope) -> Matrix {
    let frequencies = rope.frequencies();
    let angle = |f: &f32| f64::from(pos as f32 * f);
    let cosines = frequencies.iter().map(|f| angle(f).cos() as f32);
    let sines = frequencies.iter().map(|f| angle(f).sin() as f32);
    let all: Vec<f32> = cosines.chain(sines).collect();
    Matrix::reals(1, all.len(), all)
}
