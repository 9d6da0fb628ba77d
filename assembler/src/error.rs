//! What can go wrong between a text and what a foreign program says about it.

use crate::ptxas::Message;
use std::io;
use std::path::PathBuf;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not installed.
    #[error("{tool} is absent: {reason}")]
    Absent {
        /// The program.
        tool: &'static str,
        /// Where it was looked for, and what to do.
        reason: String,
    },
    /// The assembler refuses the text.
    #[error("the assembler refuses the text:{}", listed(.messages))]
    Refused {
        /// What it says, errors and warnings, in its order.
        messages: Vec<Message>,
    },
    /// The program cannot be run, or its files cannot be written or read.
    #[error("cannot run {}: {source}", path.display())]
    Run {
        /// The program.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The program says something that this version does not understand.
    #[error("{tool} says something unexpected: {text}")]
    Unexpected {
        /// The program.
        tool: &'static str,
        /// What it says.
        text: String,
    },
}

fn listed(messages: &[Message]) -> String {
    messages.iter().map(|message| format!("\n  {message}")).collect()
}
