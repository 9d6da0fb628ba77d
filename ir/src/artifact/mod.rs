//! What crosses from the compiler to the runtime: compiled kernels and the programs that call them.
//!
//! Plain data, nothing else: no pointer, path or time. In memory it is handed over as it is; on disk it becomes a bundle.
//!
//! **Calling convention of a CPU kernel**: `extern "C" fn(args, begin, end, scratch, table)` where
//! * `args: *const u64` holds, for each parameter in order, the address of each of its memory planes (data, then scales
//!   where [`crate::TensorType::plane_bytes`] gives two), and after them the value of each symbol of [`Kernel::symbols`];
//! * `begin, end: u64` is the range of grid tiles to run, tiles counted row-major over the grid axes (last axis fastest);
//! * `scratch: *mut u8` is at least [`Kernel::scratch`] bytes, 64-byte aligned, owned by the calling thread;
//! * `table: *const usize` holds the addresses of the micro-kernels named by [`Kernel::imports`], in that order.

mod memory;

pub use memory::{MemoryPlan, PlanFault};

use crate::tile::{Access, Axis};
use crate::types::{Bindings, Sym, TensorType};

/// A number of bytes that may depend on symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Constant part.
    pub fixed: usize,
    /// Bytes per unit of a symbol.
    pub per: Vec<(Sym, usize)>,
}

impl Size {
    /// The size under `bindings`; `None` for an unbound symbol or on overflow.
    pub fn eval(&self, bindings: &Bindings) -> Option<usize> {
        self.per.iter().try_fold(self.fixed, |n, (s, b)| n.checked_add(bindings.get(s)?.checked_mul(*b)?))
    }
}

/// A parameter of a compiled kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name in the Tile IR.
    pub name: String,
    /// Type in memory.
    pub ty: TensorType,
    /// How it is used.
    pub access: Access,
}

/// A compiled kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Unique name.
    pub name: String,
    /// Operator family.
    pub family: String,
    /// Position-independent machine code; the entry is its first byte.
    pub code: Vec<u8>,
    /// Micro-kernels it calls, by name.
    pub imports: Vec<String>,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Symbols whose values follow the parameters in `args`.
    pub symbols: Vec<Sym>,
    /// Grid, outermost axis first.
    pub grid: Vec<Axis>,
    /// Bytes of scratch memory a thread needs.
    pub scratch: Size,
}

impl Kernel {
    /// Number of grid tiles under `bindings`; `None` for an unbound symbol, an empty tile or on overflow.
    pub fn tiles(&self, bindings: &Bindings) -> Option<usize> {
        self.grid.iter().try_fold(1usize, |n, a| {
            // A tile that covers nothing has no number of tiles.
            let tiles = if a.tile == 0 { None } else { Some(a.extent.eval(bindings)?.div_ceil(a.tile)) };
            n.checked_mul(tiles?)
        })
    }
}

/// What a buffer of a program is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// Filled by the caller before the program runs.
    Input,
    /// Read by the caller after the program ran.
    Output,
    /// Constant; the name is the checkpoint's, `*` standing for the index of the first dimension.
    Weight,
    /// Kept from run to run, shared by programs under one name.
    State,
    /// Alive from step `first` to step `last`, both included.
    Temp {
        /// Step that writes it.
        first: usize,
        /// Last step that reads it.
        last: usize,
    },
}

/// A tensor that a program works on.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Name; unique for all kinds but temporaries.
    pub name: String,
    /// Type in memory.
    pub ty: TensorType,
    /// What it is.
    pub kind: BufferKind,
}

/// One kernel launch: the buffers are the kernel's parameters in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index into [`Artifact::kernels`].
    pub kernel: usize,
    /// Indices into [`Program::buffers`].
    pub args: Vec<usize>,
}

/// A sequence of launches.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// `step` or `draft`.
    pub name: String,
    /// Buffers.
    pub buffers: Vec<Buffer>,
    /// Launches in order.
    pub steps: Vec<Step>,
}

impl Program {
    /// The buffer called `name` (not a temporary).
    pub fn buffer(&self, name: &str) -> Option<usize> {
        self.buffers.iter().position(|b| b.name == name && !matches!(b.kind, BufferKind::Temp { .. }))
    }
}

/// Everything the runtime needs to execute a model on one target.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// Target name, `cpu-x86_64` and the like; the runtime refuses another machine's code.
    pub target: String,
    /// CPU features that the kernels' own code needs, by the names the standard library's detection uses.
    pub features: Vec<String>,
    /// Compiled kernels.
    pub kernels: Vec<Kernel>,
    /// Programs.
    pub programs: Vec<Program>,
}
