//! Why a command ends without success, and with which exit code.

use std::io;

/// How a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A check failed; the result was printed, the text sums it up.
    Check(String),
    /// Bad input or usage.
    Input(String),
    /// A named device or tool is absent.
    Absent(String),
    /// The user interrupted the work.
    Interrupted,
    /// Whoever read the output went away: nothing is left to say.
    Pipe,
}

impl Failure {
    /// The exit code, as docs/json.md lists them.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Check(_) => 1,
            Failure::Input(_) => 2,
            Failure::Absent(_) => 3,
            Failure::Interrupted => 130,
            Failure::Pipe => 0,
        }
    }
    /// What to tell the user.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Failure::Check(text) | Failure::Input(text) | Failure::Absent(text) => Some(text),
            Failure::Interrupted | Failure::Pipe => None,
        }
    }
}

impl From<tessera::Error> for Failure {
    fn from(error: tessera::Error) -> Self {
        Failure::Input(error.to_string())
    }
}

impl From<tessera::assembler::Error> for Failure {
    fn from(error: tessera::assembler::Error) -> Self {
        use tessera::assembler::Error;
        match error {
            Error::Absent { .. } => Failure::Absent(error.to_string()),
            Error::Refused { .. } | Error::Run { .. } | Error::Unexpected { .. } => {
                Failure::Input(error.to_string())
            }
        }
    }
}

/// Errors of standard output; files have errors of their own.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Pipe,
            _ => Failure::Input(format!("cannot write to standard output: {error}")),
        }
    }
}
