//! Everything that can go wrong between a model folder and its text.

use std::io;
use std::path::PathBuf;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model cannot be opened, compiled or run, or a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model folder, a prompt or a token.
    #[error(transparent)]
    Model(#[from] tessera_model::Error),
    /// A graph module breaks rules of its level.
    #[error(transparent)]
    Graph(#[from] tessera_ir::graph::VerifyErrors),
    /// The compiler.
    #[error(transparent)]
    Compile(#[from] tessera_codegen::Error),
    /// The executor.
    #[error(transparent)]
    Runtime(#[from] tessera_runtime::Error),
    /// The oracle refuses its inputs.
    #[error("the oracle refuses its inputs: {0}")]
    Oracle(#[from] tessera_ir::graph::interp::Error),
    /// A request cannot be served as it is written.
    #[error("{0}")]
    Request(String),
    /// What is asked for is part of the interface, but not of this version.
    #[error("{0}")]
    Unsupported(String),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file cannot be written; what was there before is untouched.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Error {
    /// A short, stable word for what went wrong, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Model(_) => "model",
            Error::Graph(_) | Error::Compile(_) => "compile",
            Error::Runtime(tessera_runtime::Error::Request(_)) | Error::Request(_) => "request",
            Error::Runtime(tessera_runtime::Error::Model(_) | tessera_runtime::Error::NotFinite { .. }) => {
                "model"
            }
            Error::Runtime(_) | Error::Oracle(_) => "runtime",
            Error::Unsupported(_) => "unsupported",
            Error::Read { .. } | Error::Write { .. } => "io",
        }
    }
}
