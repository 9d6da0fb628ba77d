//! Graph IR: the model as SSA over whole tensors, with caches as explicit state.
//!
//! Rules of the level:
//! * The first dimension of an activation counts rows of the step (`T`), and no op mixes rows except through
//!   a state operand or an explicit row index. So row *i* never depends on how many other rows there are.
//! * Rounding is part of the types: a result of format `bf16` is the exact value rounded once to bf16, a
//!   quantised result is what the format's quantiser gives. The four numeric modes of the golden data are
//!   four modules that differ in types and in the `round` attributes.
//! * State (rings, caches, token history) is versioned: a store takes the newest version of a state and
//!   returns the next one. Reading a version after it was replaced is an error.

mod attr_text;
mod attrs;
mod build;
mod fault;
pub mod interp;
mod module;
mod ops;
mod parse;
mod print;
pub mod testgen;
pub mod tolerance;
mod typing;
mod verify;

pub use attrs::{Engram, Rope, Round, Yarn};
pub use fault::{Rule, Subject, TypeFault};
pub use module::{Builder, Decl, DeclKind, Module, Node, Output, Value};
pub use ops::{Effect, Op};
pub use parse::parse;
pub use print::{print, print_decl, print_node, print_output};
pub(crate) use typing::type_fault;
pub use typing::{infer, infer_split, result_types};
pub use verify::{Fault, Place, VerifyErrors, verify};
