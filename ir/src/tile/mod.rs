//! Tile IR: one kernel as roles that run concurrently, rings of buffers that travel between them, and tiles.
//!
//! Rules of the level:
//! * A **role** is a straight program with loops; roles share no values. They communicate through **rings** only.
//! * A ring's **slots** travel along its path: the first role *acquires* a free slot, fills it and *passes* it; each
//!   later role *takes* it and passes it on; the last one *releases* it. Between acquire or take and pass or release the
//!   role owns the slot, any other access is an error. Every slot comes back. Several roles at one station hold a slot
//!   together; a role may *return* a slot to the station before, which takes it again.
//! * Kernel parameters are **views** of tensors in memory. Loading or copying from a quantised view decodes (exact);
//!   storing to one needs a tile of that format, made by `cast`, which is where rounding happens.
//! * The kernel runs once for each tile of its **grid**; tiles write disjoint memory and may run in any order.
//! * The order of each reduction is fixed by the op and the row's own operands, never by the number of rows.

mod attr_text;
mod attrs;
mod build;
mod emit;
mod expr;
mod fault;
pub mod interp;
mod kernel;
mod names;
mod operands;
mod ops;
mod parse;
mod print;
mod rings;
mod sequence;
mod typing;
mod verify;

pub use attrs::{Binary, IndexOp, Part, Reduce, Unary};
pub use build::{BuildFault, KernelBuilder, RoleBuilder, Threads};
pub use fault::TypeFault;
pub use kernel::{
    Access, Axis, Block, Class, Hop, Kernel, Lanes, Node, Param, Ring, Role, RoleKind, Scope as RingScope,
    SlotType, Stmt, Target, Type, Value,
};
pub use ops::Op;
pub use parse::parse;
pub use print::{print, print_axis, print_node, print_param, print_ring, print_stmt};
pub use sequence::{Sequence, SequenceFault, SlotRef, Wait, sequence};
pub use typing::{Scope, infer};
pub use verify::{Fault, MAX_NESTING, Place, Rule, VerifyErrors, verify};
