//! Why an artifact cannot be loaded or a step cannot run.

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Runtime errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The artifact was made for another machine.
    #[error("the artifact is for target `{have}`, this machine is `{want}`; compile it here")]
    Target {
        /// The artifact's target.
        have: String,
        /// This machine's.
        want: String,
    },
    /// The processor lacks a feature that the code uses.
    #[error("the artifact uses the CPU feature `{0}`, which this processor lacks; compile it here")]
    Feature(String),
    /// A kernel imports a function this runtime does not have.
    #[error(
        "kernel `{kernel}` imports `{import}`, which this runtime does not have; compiler and runtime differ in version"
    )]
    Import {
        /// The kernel.
        kernel: String,
        /// The missing function.
        import: String,
    },
    /// The artifact has no such program or buffer, or one of another type.
    #[error(
        "the artifact has no {what} `{name}` of the expected type; compiler and runtime differ in version"
    )]
    Missing {
        /// Program, input, output, state…
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A weight cannot be brought into the layout a kernel wants.
    #[error("weight `{name}`: {message}")]
    Weight {
        /// The weight.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// Memory is refused by the system, or a size overflows.
    #[error("cannot allocate {bytes} bytes for {what}; use a smaller context, chunk or batch")]
    Memory {
        /// What it is for.
        what: String,
        /// How much.
        bytes: usize,
    },
    /// A step is larger than the limits the engine was made with.
    #[error("{what} is {value}, the engine was made for at most {limit}")]
    Limit {
        /// What exceeds its limit.
        what: &'static str,
        /// The value.
        value: usize,
        /// The limit.
        limit: usize,
    },
    /// The model's logits are no numbers to choose from.
    #[error("the logits at position {position} are not finite; a weight of the model is damaged")]
    NotFinite {
        /// Position of the token to choose.
        position: usize,
    },
    /// A request cannot be run as asked.
    #[error("{0}")]
    Request(String),
    /// The model folder.
    #[error(transparent)]
    Model(#[from] tessera_model::Error),
}
