//! What can go wrong between a graph module and an artifact.

use tessera_ir::graph::VerifyErrors;

/// Compilation errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A module given to the compiler, or a fragment cut from it, breaks a rule of Graph IR.
    #[error("graph module is not valid:\n{0}")]
    Verify(VerifyErrors),
    /// A pass made an invalid module: a bug of the pass.
    #[error("pass `{pass}` made an invalid module (a bug in the compiler):\n{faults}")]
    Pass {
        /// The pass.
        pass: &'static str,
        /// What is wrong.
        faults: VerifyErrors,
    },
    /// No schedule for a fragment.
    #[error(transparent)]
    Schedule(#[from] tessera_kernels::Error),
    /// A schedule made an invalid kernel: a bug of the schedule.
    #[error("a schedule made an invalid kernel (a bug in the compiler):\n{0}")]
    Tile(tessera_ir::tile::VerifyErrors),
}
