//! PTX instructions as typed values, and the builder that kernels are written with.
//!
//! [`Asm`] collects the body of one entry. Each method appends an instruction and gives its destination register;
//! methods that end in `_to` write into a register given. What is not legal PTX for the target is reported by
//! [`Asm::finish`], all faults at once; text is made only for programs without a fault.

mod asm;
mod barrier;
mod control;
mod convert;
mod entry;
mod fault;
mod inst;
mod line;
mod memory;
mod operand;
mod scalar;
mod target;
mod tcgen;
mod tma;
mod ty;
mod warp;

pub use asm::{Asm, LoadHints};
pub use barrier::{FenceProxy, Scope};
pub use control::GridDep;
pub use convert::{Pack, Round};
pub use entry::{Entry, Param, ParamKind, Program};
pub use fault::{Fault, Faults};
pub use memory::{AtomOp, Evict, Prefetch, Space, Visibility};
pub use operand::{Addr, Label, Operand, Reg, Special, Symbol};
pub use scalar::{Cmp, Logic};
pub use target::{Feature, PtxVersion, Target};
pub use tcgen::{Collector, CpShape, CtaGroup, Mma, MmaA, MmaKind, TmemShape};
pub use tma::BulkLoad;
pub use ty::{Class, Ty};
pub use warp::{Reduce, Shuffle, Vote};
