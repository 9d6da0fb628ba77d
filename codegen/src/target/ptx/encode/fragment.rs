//! Which register of which lane of a warp holds a cell of tensor memory after a load (PTX ISA 9.7.16.2.3).

use super::super::isa::TmemShape;

/// A cell, from the load's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Lane.
    pub lane: u32,
    /// Column.
    pub column: u32,
}

/// Columns that one repeat covers.
pub fn columns(shape: TmemShape) -> u32 {
    match shape {
        TmemShape::S32x32b | TmemShape::S16x32bx2(_) => 1,
        TmemShape::S16x64b => 2,
        TmemShape::S16x128b => 4,
        TmemShape::S16x256b => 8,
    }
}

/// The cell that register `register` of thread `thread` (below 32) holds.
pub fn holder(shape: TmemShape, thread: u32, register: u32) -> Cell {
    let per = shape.registers() as u32;
    let (repeat, r, t) = (register / per, register % per, thread);
    let first = repeat * columns(shape);
    match shape {
        TmemShape::S32x32b => Cell { lane: t, column: first },
        TmemShape::S16x64b => Cell { lane: t / 4 + 8 * (t % 2), column: first + (t / 2) % 2 },
        TmemShape::S16x128b => Cell { lane: t / 4 + 8 * r, column: first + t % 4 },
        TmemShape::S16x256b => Cell { lane: t / 4 + 8 * (r / 2), column: first + 2 * (t % 4) + r % 2 },
        TmemShape::S16x32bx2(split) => Cell { lane: t % 16, column: first + if t < 16 { 0 } else { split } },
    }
}
