//! What a tile is while code is emitted: an expression whose leaves are registers and memory.

use super::ix::Ix;
use crate::target::cpu::scratch::Region;
use cranelift_codegen::ir::Value;
use std::rc::Rc;
use tessera_ir::tile::{Binary, Reduce, Unary};
use tessera_ir::{Dim, Elem, Format};

/// Tiles of at most this many elements live in registers.
pub(super) const SMALL: usize = 16;

/// Memory that a kernel changes: what must be read before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A parameter.
    Param(usize),
    /// A slot: ring, number.
    Slot(usize, usize),
    /// A temporary of the emitter, written once.
    Temp,
}

/// Rows of plain elements in memory.
#[derive(Clone, Debug)]
pub(super) struct Mem {
    /// Address of the first element.
    pub(super) ptr: Value,
    /// Bytes from row to row.
    pub(super) stride: Ix,
    /// Type of the elements.
    pub(super) elem: Elem,
    /// Which memory.
    pub(super) place: Place,
    /// Indices of the first element in that memory, if told by indices: equal ones are the same element.
    pub(super) at: Option<Rc<[Ix]>>,
    /// Keeps a temporary from being reused.
    #[expect(dead_code, reason = "holding it is its use")]
    pub(super) hold: Option<Rc<Region>>,
}

/// How the elements of a tile come about.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// One constant.
    Const(f32),
    /// Registers, row-major, at most [`SMALL`].
    Regs(Rc<[Value]>),
    /// Memory.
    Mem(Mem),
    /// A function of each element that needs no call.
    Map(Unary, Rc<Tile>),
    /// A function of corresponding elements.
    Zip(Binary, Rc<Tile>, Rc<Tile>),
    /// Rounded to bf16.
    Round(Rc<Tile>),
    /// The part that starts at a row and a column.
    Part(Rc<Tile>, usize, usize),
    /// A reduction along at most [`SMALL`] rows.
    Fold(Reduce, Rc<Tile>),
    /// Rows of f32 that go through the quantiser of the tile's format when they are stored.
    Quantised(Mem),
}

/// A tile.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    /// Rows.
    pub(super) rows: usize,
    /// Columns.
    pub(super) cols: Dim,
    /// Format.
    pub(super) format: Format,
    /// Elements.
    pub(super) node: Node,
}

impl Tile {
    /// The number of elements if they fit registers.
    pub(super) fn small(&self) -> Option<usize> {
        let n = self.rows.checked_mul(self.cols.fixed()?)?;
        (n <= SMALL).then_some(n)
    }

    /// True where evaluating it again costs no more than reading memory.
    pub(super) fn is_leaf(&self) -> bool {
        match &self.node {
            Node::Const(_) | Node::Regs(_) | Node::Mem(_) | Node::Quantised(_) => true,
            Node::Map(..) | Node::Zip(..) | Node::Round(_) | Node::Part(..) | Node::Fold(..) => false,
        }
    }

    /// True if `f` holds for one of the memory blocks it reads.
    pub(super) fn any_mem(&self, f: &mut dyn FnMut(&Mem) -> bool) -> bool {
        match &self.node {
            Node::Const(_) | Node::Regs(_) => false,
            Node::Mem(m) | Node::Quantised(m) => f(m),
            Node::Map(_, x) | Node::Round(x) | Node::Part(x, _, _) | Node::Fold(_, x) => x.any_mem(f),
            Node::Zip(_, a, b) => a.any_mem(f) || b.any_mem(f),
        }
    }

    /// True if it reads `place`.
    pub(super) fn reads(&self, place: Place) -> bool {
        self.any_mem(&mut |m| m.place == place)
    }

    /// True if writing element (r, c) of the block at `at` of `place` right after evaluating element (r, c) of the tile
    /// cannot change elements evaluated later.
    pub(super) fn in_place(&self, place: Place, at: &[Ix]) -> bool {
        match &self.node {
            Node::Const(_) | Node::Regs(_) => true,
            Node::Mem(m) => m.place != place || m.at.as_deref() == Some(at),
            Node::Map(_, x) | Node::Round(x) => x.in_place(place, at),
            Node::Zip(_, a, b) => [a, b].into_iter().all(|x| {
                if x.rows == self.rows && x.cols == self.cols {
                    x.in_place(place, at)
                } else {
                    !x.reads(place)
                }
            }),
            Node::Part(x, ..) | Node::Fold(_, x) => !x.reads(place),
            Node::Quantised(m) => m.place != place,
        }
    }

    /// True if a row of it must be named by a constant: registers have no index.
    pub(super) fn fixed_rows(&self) -> bool {
        match &self.node {
            Node::Regs(_) => self.rows > 1,
            Node::Const(_) | Node::Mem(_) | Node::Quantised(_) => false,
            Node::Map(_, x) | Node::Round(x) => x.fixed_rows(),
            Node::Part(x, ..) => x.fixed_rows(),
            Node::Zip(_, a, b) => a.fixed_rows() || b.fixed_rows(),
            // Its rows are constants already, and it has one.
            Node::Fold(..) => false,
        }
    }

    /// True if a column of it must be named by a constant.
    pub(super) fn fixed_cols(&self) -> bool {
        match &self.node {
            Node::Regs(_) => self.cols != Dim::Fixed(1),
            Node::Const(_) | Node::Mem(_) | Node::Quantised(_) => false,
            Node::Map(_, x) | Node::Round(x) | Node::Part(x, ..) | Node::Fold(_, x) => x.fixed_cols(),
            Node::Zip(_, a, b) => a.fixed_cols() || b.fixed_cols(),
        }
    }
}
