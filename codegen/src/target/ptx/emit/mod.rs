//! From a kernel in Tile IR to one PTX entry.
//!
//! | file | holds |
//! |---|---|
//! | `kernel.rs` | the entry around the roles: parameters, launch, dispatch of warps, loop over tiles |
//! | `grid.rs` | tiles of the grid, their coordinates, groups of grouped axes |
//! | `program.rs` | statements and the dispatch of ops |
//! | `index.rs` | index arithmetic |
//! | `view.rs` | addresses of parameters, layout by layout |
//! | `select/` | exact top-k and the sort of choices, by all threads of a role |
//! | `shared.rs` | the map of shared memory |
//! | `rings.rs` | where rings lie, which barriers they have |
//! | `slots.rs` | waiting for slots and giving them away |
//! | `setup.rs` | barriers and tensor memory, before and after the roles |
//! | `copy.rs`, `maps.rs` | bulk copies, gathered rows, scales; tensor maps |
//! | `matrix.rs`, `matrix_ws.rs` | products on the matrix unit: of 128 rows, of 64 |
//! | `records.rs`, `decode.rs` | raw cache records: gathered, decoded |
//! | `vector/` | tiles in registers and what vector roles do with them |

mod copy;
mod decode;
mod grid;
mod index;
mod kernel;
mod maps;
mod matrix;
mod matrix_ws;
mod program;
mod records;
mod rings;
mod select;
mod setup;
mod shared;
mod slots;
mod vector;
mod view;

pub(super) use kernel::emit;

use super::isa::{Asm, LoadHints, Operand, Reg, Symbol};
use crate::error::Unsupported;
use index::Ix;
use std::rc::Rc;
use tessera_ir::tile::{Kernel, Op, Role, Value};
use tessera_ir::{Dim, Sym};

/// Loads of what a kernel only reads. Not through the read-only path: that one asks for data which doesn't change while the
/// kernel runs, and a kernel that is launched early starts while the one before still writes it.
const READ: LoadHints = LoadHints { constant: false, l1: None, l2: None, policy: None };

/// Why an op cannot be emitted, without the op's name.
#[derive(Debug)]
struct Reason(String);

type Result<T> = std::result::Result<T, Reason>;

/// A reason in words.
fn unsupported(what: impl Into<String>) -> Reason {
    Reason(what.into())
}

/// What a value of the program is while code is emitted.
#[derive(Clone, Debug)]
enum Bound {
    /// An index.
    Index(Ix),
    /// A tile.
    Tile(vector::Tile),
    /// A slot of a ring that one role keeps to itself.
    Own(vector::OwnSlot),
}

/// The threads that run a role.
#[derive(Clone, Copy, Debug)]
struct Team {
    /// Index of the role.
    role: usize,
    /// Its warps.
    warps: u32,
    /// Number of this thread in the role.
    thread: Reg,
    /// Number of this thread in its warp.
    lane: Reg,
    /// Number of this thread's warp in the role, the same in all lanes.
    warp: Reg,
    /// The barrier at which the role's threads meet; never barrier 0, which is the block's.
    barrier: u32,
}

impl Team {
    /// Threads of the role.
    fn threads(&self) -> u32 {
        32 * self.warps
    }
}

/// A tensor parameter in the entry: its planes.
#[derive(Clone, Debug)]
struct Pointers {
    planes: Vec<Symbol>,
}

/// Emits one kernel.
struct Emitter<'k> {
    asm: Asm,
    kernel: &'k Kernel,
    pointers: Vec<Pointers>,
    symbols: Vec<(Sym, Symbol)>,
    /// What the entry's parameters are, for the launch.
    passed: Vec<(String, super::ParamKind)>,
    shared: shared::Map,
    /// Where the rings between roles lie.
    places: Rc<rings::Places>,
    /// Tensor memory of the block, if it has any.
    tmem: Option<Reg>,
    /// The pair of blocks that shares each tile, if one does.
    pair: Option<setup::Pair>,
    /// True in the lane that issues bulk copies and products for its warp.
    leader: Option<Reg>,
    /// The current role's slots.
    travel: slots::Travel,
    copies: copy::Copies,
    /// Rows of records whose copies come next, by slot.
    records: records::Ahead,
    products: matrix::Products,
    maps: maps::Maps,
    /// Start of dynamic shared memory.
    smem: Reg,
    team: Team,
    /// First coordinates of the current tile, and groups where an axis has them.
    tile: Vec<grid::Coordinate>,
    values: Vec<Option<Bound>>,
    /// How often each value is an operand.
    uses: Vec<Uses>,
    vector: vector::State,
    /// Tiles of a role that works on folded accumulators.
    folded: Option<vector::folded::Folded>,
    faults: Vec<Unsupported>,
}

/// How a value is used by the ops of a kernel.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    all: usize,
    /// As the operand of ops that only name another part or shape of it.
    parts: usize,
    /// As the table of rotations.
    tables: usize,
}

impl<'k> Emitter<'k> {
    /// The role being emitted.
    fn role(&self) -> &'k Role {
        &self.kernel.roles[self.team.role]
    }
    fn bind(&mut self, v: Value, bound: Bound) {
        if let Some(place) = self.values.get_mut(v.index()) {
            *place = Some(bound);
        }
    }
    fn uses_of(&self, v: Value) -> Uses {
        self.uses.get(v.index()).copied().unwrap_or_default()
    }
    /// The value of a symbol, below 2³¹.
    fn symbol(&mut self, sym: &Sym) -> Operand {
        match self.symbols.iter().find(|(s, _)| s == sym).map(|(_, p)| *p) {
            Some(p) => self.asm.ld_param(p).into(),
            None => Operand::Int(0),
        }
    }
    /// The value of a dimension.
    fn dim(&mut self, dim: &Dim) -> Ix {
        match dim {
            Dim::Fixed(n) => Ix::constant(*n as i64),
            Dim::Sym { sym, times } => {
                let value = self.symbol(sym);
                let one = Ix::word(value, 0, i64::from(i32::MAX));
                self.ix_mul(one, Ix::constant(*times as i64))
            }
        }
    }
    /// Global address of a plane of a parameter.
    fn plane(&mut self, view: Value, plane: usize) -> Result<Reg> {
        let pointers = self.pointers.get(view.index());
        match pointers.and_then(|p| p.planes.get(plane)).copied() {
            Some(symbol) => Ok(self.asm.ld_param(symbol)),
            None => Err(unsupported(format!("plane {plane} of {view}"))),
        }
    }
    /// The role's threads meet; what they wrote to shared memory is visible to all of them.
    fn meet(&mut self) {
        let team = self.team;
        if team.warps == 1 {
            self.asm.warp_sync();
        } else {
            self.asm.bar_sync(team.barrier, team.threads());
        }
        self.vector.hazards.met();
    }
}

/// An op whose code belongs to another kind of role.
fn foreign(op: &Op) -> Reason {
    unsupported(format!("`{}` in a role of this kind", op.mnemonic()))
}
