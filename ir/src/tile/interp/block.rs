//! Rectangles of elements in tiles and slots, each element known or poison.

use super::error::Fault;
use crate::types::{Elem, Format};

/// Most elements of a tile or slot.
const MAX_ELEMENTS: usize = 1 << 28;
/// What unwritten reals hold: a NaN, so that a missed check shows in the results.
const POISON_REAL: f32 = f32::NAN;
/// What unwritten integers hold.
const POISON_INT: i32 = 0x5a5a_5a5a;

/// Elements of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Elems {
    Real(Vec<f32>),
    Int(Vec<i32>),
}

/// A matrix of elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Matrix {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) elems: Elems,
    /// False where the element was never written, or computed from such.
    pub(super) known: Vec<bool>,
}

impl Matrix {
    /// A matrix that nothing wrote.
    pub(super) fn poison(rows: usize, cols: usize, format: Format) -> Result<Self, Fault> {
        let n = rows.checked_mul(cols).filter(|n| *n <= MAX_ELEMENTS).ok_or(Fault::Large { rows, cols })?;
        let elems = match format.elem {
            Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 => Elems::Real(vec![POISON_REAL; n]),
            Elem::I32 | Elem::I64 => Elems::Int(vec![POISON_INT; n]),
        };
        Ok(Matrix { rows, cols, elems, known: vec![false; n] })
    }
    /// Known reals; `values` has `rows × cols` elements.
    pub(super) fn reals(rows: usize, cols: usize, values: Vec<f32>) -> Self {
        let known = vec![true; values.len()];
        Matrix { rows, cols, elems: Elems::Real(values), known }
    }
    /// One row of known integers.
    pub(super) fn ints(values: Vec<i32>) -> Self {
        let known = vec![true; values.len()];
        Matrix { rows: 1, cols: values.len(), elems: Elems::Int(values), known }
    }
    /// The reals of row `i`; nothing if the elements are integers.
    pub(super) fn real_row(&self, i: usize) -> &[f32] {
        match &self.elems {
            Elems::Real(v) => v.get(i * self.cols..(i + 1) * self.cols).unwrap_or_default(),
            Elems::Int(_) => &[],
        }
    }
    /// The integers of row `i`; nothing if the elements are reals.
    pub(super) fn int_row(&self, i: usize) -> &[i32] {
        match &self.elems {
            Elems::Int(v) => v.get(i * self.cols..(i + 1) * self.cols).unwrap_or_default(),
            Elems::Real(_) => &[],
        }
    }
    /// The real at (i, j).
    pub(super) fn real(&self, i: usize, j: usize) -> f32 {
        match &self.elems {
            Elems::Real(v) => v[i * self.cols + j],
            Elems::Int(_) => POISON_REAL,
        }
    }
    /// Which elements of row `i` are known.
    pub(super) fn known_row(&self, i: usize) -> &[bool] {
        &self.known[i * self.cols..(i + 1) * self.cols]
    }
    /// True if all elements of row `i` are known.
    pub(super) fn row_known(&self, i: usize) -> bool {
        self.known_row(i).iter().all(|k| *k)
    }
    /// Sets the real at (i, j).
    pub(super) fn set(&mut self, i: usize, j: usize, value: f32, known: bool) {
        let at = i * self.cols + j;
        if let Elems::Real(v) = &mut self.elems {
            v[at] = if known { value } else { POISON_REAL };
        }
        self.known[at] = known;
    }
    /// Makes row `i` poison.
    pub(super) fn forget_row(&mut self, i: usize) {
        let range = i * self.cols..(i + 1) * self.cols;
        match &mut self.elems {
            Elems::Real(v) => v[range.clone()].fill(POISON_REAL),
            Elems::Int(v) => v[range.clone()].fill(POISON_INT),
        }
        self.known[range].fill(false);
    }
    /// The part of `rows × cols` at (row, col), which lies inside.
    pub(super) fn part(&self, row: usize, col: usize, rows: usize, cols: usize) -> Matrix {
        fn cut<T: Copy>(v: &[T], width: usize, [row, col, rows, cols]: [usize; 4]) -> Vec<T> {
            (row..row + rows).flat_map(|i| &v[i * width + col..i * width + col + cols]).copied().collect()
        }
        let at = [row, col, rows, cols];
        let elems = match &self.elems {
            Elems::Real(v) => Elems::Real(cut(v, self.cols, at)),
            Elems::Int(v) => Elems::Int(cut(v, self.cols, at)),
        };
        Matrix { rows, cols, elems, known: cut(&self.known, self.cols, at) }
    }
    /// Writes `part` at (row, col); it lies inside and has elements of the same kind.
    pub(super) fn put(&mut self, row: usize, col: usize, part: &Matrix) {
        fn paste<T: Copy>(to: &mut [T], width: usize, row: usize, col: usize, from: &[T], cols: usize) {
            for (i, line) in from.chunks(cols.max(1)).enumerate() {
                to[(row + i) * width + col..][..cols].copy_from_slice(line);
            }
        }
        match (&mut self.elems, &part.elems) {
            (Elems::Real(to), Elems::Real(from)) => paste(to, self.cols, row, col, from, part.cols),
            (Elems::Int(to), Elems::Int(from)) => paste(to, self.cols, row, col, from, part.cols),
            (Elems::Real(_) | Elems::Int(_), _) => {}
        }
        paste(&mut self.known, self.cols, row, col, &part.known, part.cols);
    }
    /// Refuses poison among the first `n` elements of row `i`.
    pub(super) fn expect_known(&self, i: usize, n: usize, what: &str) -> Result<(), Fault> {
        match self.known_row(i)[..n].iter().position(|k| !k) {
            None => Ok(()),
            Some(j) => Err(Fault::Poison { what: format!("element ({i}, {j}) of {what}") }),
        }
    }
}
