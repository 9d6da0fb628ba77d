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
///
/// A grouped axis walks the groups that a list of offsets cuts its extent into, in order, each cut into tiles of its
/// own; empty groups have no tile. Its extent is the longest that the groups can be together.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Name, for reading.
    pub name: String,
    /// Length.
    pub extent: Dim,
    /// Elements a tile covers.
    pub tile: usize,
    /// Parameter `[groups + 1] i32` with the groups' borders, ascending from 0.
    pub groups: Option<Value>,
}

/// The machine whose units, memories and capacities a kernel is written for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Target {
    /// A core of a host processor, with cache-sized panels.
    #[default]
    Cpu,
    /// A streaming multiprocessor of NVIDIA SM100, or a pair of them.
    Sm100,
}

/// The order in which a role's `reduce sum` along columns and `dot` add: element i belongs to lane `(i / chunk) mod count`;
/// a lane adds its elements ascending; lanes are added in groups of 32 as a binary tree (j += j+16, j+8, … of as many
/// as there are), the groups ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lanes {
    /// Number of lanes: 1 to 32 as a power of two, or a multiple of 32.
    pub count: usize,
    /// Elements that follow each other in one lane.
    pub chunk: usize,
}

impl Lanes {
    /// Sixteen lanes of single elements, the order of the graph level's sums.
    pub const CANONICAL: Lanes = Lanes { count: 16, chunk: 1 };
}

impl Default for Lanes {
    fn default() -> Self {
        Self::CANONICAL
    }
}

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.count, self.chunk)
    }
}

/// How many cores share the slots of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Each core has slots of its own.
    #[default]
    Core,
    /// The two cores of a pair hold one half of each slot's rows.
    Pair,
}

/// One station of a ring's path: roles that hold the slot at the same time. It moves on when all have given it away.
/// At the first station they fill parts of it, at later ones several roles only read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The roles (indices into [`Kernel::roles`]), at least one.
    pub roles: Vec<usize>,
}

impl From<usize> for Hop {
    fn from(role: usize) -> Self {
        Hop { roles: vec![role] }
    }
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

/// Buffers that travel round the roles of `path`.
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
    /// Cores that share its slots.
    pub scope: Scope,
    /// Stations in order; roles of the first acquire, those of the last release. One station alone acquires and releases.
    pub path: Vec<Hop>,
}

impl Ring {
    /// The station of `role` on the path.
    pub fn station(&self, role: usize) -> Option<usize> {
        self.path.iter().position(|hop| hop.roles.contains(&role))
    }
    /// The station of `role` on the path, and the role's number among those of the station.
    pub(super) fn seat(&self, role: usize) -> Option<Seat> {
        let find = |hop: &Hop| hop.roles.iter().position(|r| *r == role);
        self.path.iter().enumerate().find_map(|(station, hop)| Some(Seat { station, number: find(hop)? }))
    }
    /// True if `role` is at the last station.
    pub fn is_last(&self, role: usize) -> bool {
        self.path.last().is_some_and(|hop| hop.roles.contains(&role))
    }
}

/// A role's place on the path of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) station: usize,
    pub(super) number: usize,
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
    /// Warps of 32 threads that run it; 1 where the machine has no warps.
    pub warps: usize,
    /// Registers that each of its threads gets, if the kernel moves registers between roles.
    pub registers: Option<usize>,
    /// Order of its sums along columns.
    pub lanes: Lanes,
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
    /// The machine it is written for.
    pub target: Target,
    /// Cores that work on one tile together: 1, or 2 for a pair.
    pub cluster: usize,
    /// Cores (or pairs) that take the tiles in turn, tile `i`, `i + n`, …; `None`: one for each tile.
    pub persistent: Option<usize>,
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
