//! A kernel: parameters, grid, rings, roles; values are numbered in that order.

use super::ops::Op;
use crate::types::{Dim, Format, TensorType};
use std::fmt;

/// A value of a kernel: parameters first, then rings, then what statements define, role by role in text order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub u32);

impl Value {
    /// The value's number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A kernel parameter.
    View,
    /// A ring.
    Ring,
    /// A slot of a ring, owned by the role that holds it.
    Slot {
        /// The ring (its value).
        ring: Value,
    },
    /// A 64-bit integer.
    Index,
    /// A tile of numbers held by the role. Plain elements: f32 values (exact in `format`) or i32.
    Tile {
        /// Rows.
        rows: usize,
        /// Columns; symbolic for rows of data-dependent length.
        cols: Dim,
        /// Format of the elements.
        format: Format,
    },
}

/// How a kernel uses a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read only.
    Read,
    /// Written only, every element of it that a tile owns.
    Write,
    /// Read and written in place (state).
    Update,
}

/// A tensor in memory that the kernel is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name, unique among parameters and rings.
    pub name: String,
    /// Type in memory.
    pub ty: TensorType,
    /// How it is used.
    pub access: Access,
}

/// One axis of the grid: `extent` cut into tiles of `tile`, the last one possibly shorter.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Name, for reading.
    pub name: String,
    /// Length.
    pub extent: Dim,
    /// Elements a tile covers.
    pub tile: usize,
}

/// Memory classes of rings (what each machine uses for them is in the design's table).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Operands on their way from memory.
    Stage,
    /// Accumulators of matrix ops, f32.
    Accum,
    /// Working buffers of vector roles.
    Vec,
}

/// What one slot of a ring holds.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotType {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: Dim,
    /// Format of the contents. A quantised format holds codes and scales; how they lie is the machine's choice.
    pub format: Format,
}

/// Buffers that travel round the roles of `path` (indices into [`Kernel::roles`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Ring {
    /// Name, unique among parameters and rings.
    pub name: String,
    /// Memory class.
    pub class: Class,
    /// Contents of a slot.
    pub slot: SlotType,
    /// Number of slots.
    pub depth: usize,
    /// Roles in order; the first acquires, the last releases. One role alone acquires and releases.
    pub path: Vec<usize>,
}

/// What kind of unit runs a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoleKind {
    /// Moves data between memory and stage rings.
    Copy,
    /// Issues matrix ops.
    Matrix,
    /// Vector code.
    Vector,
}

/// One of the concurrent programs of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// The unit that runs it.
    pub kind: RoleKind,
    /// Name, unique among roles.
    pub name: String,
    /// Its program, run once a tile.
    pub body: Block,
}

/// Statements in order.
pub type Block = Vec<Stmt>;

/// An op and the value it defines, if it defines one.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// Its result and the result's type.
    pub result: Option<(Value, Type)>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// An op.
    Op(Node),
    /// `for var = lo, lo+step, … < hi`; the body may be run no time at all.
    For {
        /// The counter, an index.
        var: Value,
        /// First value.
        lo: Value,
        /// End, excluded.
        hi: Value,
        /// Step, at least 1.
        step: usize,
        /// Body.
        body: Block,
    },
    /// Runs `body` if `cond` is not 0.
    If {
        /// The condition, an index.
        cond: Value,
        /// Body.
        body: Block,
    },
}

/// A kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Name after `@` in the text form.
    pub name: String,
    /// Parameters; values `0 .. params.len()`.
    pub params: Vec<Param>,
    /// Grid, outermost axis first. Empty: one tile.
    pub grid: Vec<Axis>,
    /// Rings; values after the parameters.
    pub rings: Vec<Ring>,
    /// Roles.
    pub roles: Vec<Role>,
}

impl Kernel {
    /// The value of parameter `i`.
    pub fn param_value(&self, i: usize) -> Value {
        Value(i as u32)
    }
    /// The value of ring `i`.
    pub fn ring_value(&self, i: usize) -> Value {
        Value((self.params.len() + i) as u32)
    }
    /// The parameter a value stands for.
    pub fn param_of(&self, v: Value) -> Option<&Param> {
        self.params.get(v.index())
    }
    /// The ring a value stands for.
    pub fn ring_of(&self, v: Value) -> Option<&Ring> {
        self.rings.get(v.index().checked_sub(self.params.len())?)
    }
}
