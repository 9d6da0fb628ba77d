//! Parts of tiles and slots, and changes of format.

use super::block::{Elems, Matrix};
use super::error::Fault;
use super::memory::fitting;
use crate::graph::interp::round_trip;
use crate::types::Format;

/// `slot.load`.
pub(super) fn slot_load(
    slot: &Matrix,
    row: i64,
    col: i64,
    rows: usize,
    cols: usize,
) -> Result<Matrix, Fault> {
    let row = fitting("row", row, rows, slot.rows)?;
    let col = fitting("column", col, cols, slot.cols)?;
    Ok(slot.part(row, col, rows, cols))
}

/// `slot.store`.
pub(super) fn slot_store(slot: &mut Matrix, row: i64, col: i64, x: &Matrix) -> Result<(), Fault> {
    let row = fitting("row", row, x.rows, slot.rows)?;
    let col = fitting("column", col, x.cols, slot.cols)?;
    slot.put(row, col, x);
    Ok(())
}

/// `slice`.
pub(super) fn slice(x: &Matrix, row: usize, rows: usize, col: usize, cols: usize) -> Result<Matrix, Fault> {
    slot_load(x, row as i64, col as i64, rows, cols)
}

/// `transpose`.
pub(super) fn transpose(x: &Matrix, format: Format) -> Result<Matrix, Fault> {
    let mut out = Matrix::poison(x.cols, x.rows, format)?;
    for i in 0..x.rows {
        for j in 0..x.cols {
            let (from, to) = (i * x.cols + j, j * x.rows + i);
            match (&mut out.elems, &x.elems) {
                (Elems::Real(to_elems), Elems::Real(v)) => to_elems[to] = v[from],
                (Elems::Int(to_elems), Elems::Int(v)) => to_elems[to] = v[from],
                (Elems::Real(_) | Elems::Int(_), _) => {}
            }
            out.known[to] = x.known[from];
        }
    }
    Ok(out)
}

/// Columns that `hide` names set to `value`.
pub(super) fn mask(x: &Matrix, value: f32, hide: impl Fn(usize) -> bool) -> Matrix {
    let mut out = x.clone();
    for j in (0..x.cols).filter(|j| hide(*j)) {
        (0..x.rows).for_each(|i| out.set(i, j, value, true));
    }
    out
}

/// `cast`; a group with a poison element is poison.
pub(super) fn cast(x: &Matrix, format: Format) -> Result<Matrix, Fault> {
    let mut out = Matrix::poison(x.rows, x.cols, format)?;
    let group = format.group.map_or(1, |g| g.cols);
    for i in 0..x.rows {
        let rounded = round_trip(x.real_row(i), format).map_err(|f| Fault::Format(f.to_string()))?;
        if let Elems::Real(v) = &mut out.elems {
            v[i * x.cols..(i + 1) * x.cols].copy_from_slice(&rounded);
        }
        for (j, known) in x.known_row(i).chunks(group).enumerate() {
            let at = i * x.cols + j * group;
            out.known[at..at + known.len()].fill(known.iter().all(|k| *k));
        }
    }
    Ok(out)
}
