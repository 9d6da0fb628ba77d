//! Everything that can be wrong with an IR text or module.

use crate::graph;
use crate::text::ParseError;

/// A fault found by this crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A text does not follow its grammar.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// An op was built from operands that do not fit it.
    #[error(transparent)]
    Type(#[from] graph::TypeFault),
    /// A graph module breaks rules of its level.
    #[error(transparent)]
    Graph(#[from] graph::VerifyErrors),
}
