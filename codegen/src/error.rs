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
    /// A module names one value twice, but a program has one buffer for it.
    #[error("module @{module}: outputs `{first}` and `{second}` are one value; give it one name")]
    Outputs {
        /// The module.
        module: String,
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// No schedule for a fragment.
    #[error(transparent)]
    Schedule(#[from] tessera_kernels::Error),
    /// No schedule for several fragments.
    #[error("{} fragments have no schedule:{}", .0.len(), .0.iter().map(|fault| format!("\n  {fault}")).collect::<String>())]
    Schedules(Vec<tessera_kernels::Error>),
    /// A schedule made an invalid kernel: a bug of the schedule.
    #[error("a schedule made an invalid kernel (a bug in the compiler):\n{0}")]
    Tile(tessera_ir::tile::VerifyErrors),
    /// Cranelift has no code for this machine.
    #[error("no code for this machine: {0}")]
    Host(String),
    /// The roles of a kernel cannot run one after another.
    #[error("kernel @{kernel} cannot run in one thread: {fault}")]
    Sequence {
        /// The kernel.
        kernel: String,
        /// Why not.
        fault: Box<tessera_ir::tile::SequenceFault>,
    },
    /// A kernel is written for another machine than code is asked for.
    #[error("kernel @{kernel} is written for {written}, not for {asked}; compile it for that machine")]
    Machine {
        /// The kernel.
        kernel: String,
        /// The machine it is written for.
        written: &'static str,
        /// The machine that was asked for.
        asked: &'static str,
    },
    /// A target has no code for ops of a kernel.
    #[error("kernel @{kernel}: the target has no code for{}", list(.faults))]
    Unsupported {
        /// The kernel.
        kernel: String,
        /// Every such op, in program order.
        faults: Vec<Unsupported>,
    },
    /// The code generator failed: a bug of the target.
    #[error("kernel @{kernel}: no code was made (a bug in the compiler): {reason}")]
    Emit {
        /// The kernel.
        kernel: String,
        /// What it says.
        reason: String,
    },
}

/// An op of a kernel that a target has no code for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Mnemonic of the op.
    pub op: &'static str,
    /// What about it, formats included.
    pub what: String,
}

fn list(faults: &[Unsupported]) -> String {
    faults.iter().map(|f| format!("\n  {}: {}", f.op, f.what)).collect()
}
