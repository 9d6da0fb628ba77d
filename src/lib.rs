//! Facade over the Tessera crates: open a model folder, compile it, run it, compare what it computes.
//!
//! ```text
//! load::ModelFolder ──compile::artifact──► Session ──engine──► tessera_runtime::Engine
//! ```
//!
//! The crates behind it are re-exported under short names for callers who need more than the facade.

pub mod compare;
pub mod compile;
mod error;
pub mod eval;
pub mod generate;
pub mod golden;
pub mod load;
pub mod parallel;
pub mod prompt;
pub mod session;
pub mod stop;
pub mod tensors;
pub mod texts;
pub mod verify;

pub use error::{Error, Result};
pub use session::Session;

pub use tessera_assembler as assembler;
pub use tessera_codegen as codegen;
pub use tessera_ir as ir;
pub use tessera_kernels as kernels;
pub use tessera_model as model;
pub use tessera_runtime as runtime;
