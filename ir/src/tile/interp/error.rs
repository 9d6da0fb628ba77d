//! What can go wrong when a verified kernel runs on given values.

use crate::tile::{Value, Wait};

/// A run that could not give its results. The parameters are as before the run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The number of given tensors is not the number of parameters.
    #[error("the kernel has {want} parameters, but {found} tensors were given")]
    Params {
        /// Parameters of the kernel.
        want: usize,
        /// Tensors given.
        found: usize,
    },
    /// A symbol is not bound, or a size is beyond what the interpreter holds.
    #[error("{what} has no size: a symbol is not bound, or it is too large")]
    Size {
        /// A parameter, ring, axis or tile.
        what: String,
    },
    /// A given tensor does not have the declared type.
    #[error("parameter {name} should be {want}, but is {found}")]
    Tensor {
        /// The parameter.
        name: String,
        /// Shape and kind of elements it should have.
        want: String,
        /// What it has.
        found: String,
    },
    /// A statement met values it is not defined for.
    #[error("tile {tile:?}, role {role}: `{statement}`: {fault}")]
    Statement {
        /// First coordinates of the grid tile.
        tile: Vec<usize>,
        /// Name of the role.
        role: String,
        /// The statement.
        statement: String,
        /// What is wrong.
        fault: Box<Fault>,
    },
    /// No role can go on.
    #[error("tile {tile:?}: deadlock; {}", waiting(.waits))]
    Deadlock {
        /// First coordinates of the grid tile.
        tile: Vec<usize>,
        /// The roles that are not done.
        waits: Vec<Wait>,
    },
    /// An element of an output was not written by any tile.
    #[error("element {element} of parameter {name} was never written")]
    Unwritten {
        /// The parameter.
        name: String,
        /// The first such element, counted row-major.
        element: usize,
    },
}

fn waiting(waits: &[Wait]) -> String {
    let lines: Vec<String> =
        waits.iter().map(|w| format!("role {} at `{}` waits for {}", w.role, w.statement, w.on)).collect();
    lines.join(", ")
}

/// Why a statement has no result for the values it was given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// Codes and scales of a row of a slot were copied from different rows.
    #[error("codes and scales of row {row} of the slot come from different places")]
    Halves {
        /// The row.
        row: usize,
    },
    /// A number that should lie in a range does not.
    #[error("{what} is {value}, but must be in {low}..={high}")]
    Range {
        /// What the number is.
        what: String,
        /// The number.
        value: i64,
        /// Smallest legal value.
        low: i64,
        /// Largest legal value.
        high: i64,
    },
    /// A number that should be a multiple of another is not.
    #[error("{what} is {value}, but must be a multiple of {of}")]
    Multiple {
        /// What the number is.
        what: String,
        /// The number.
        value: usize,
        /// What it must be a multiple of.
        of: usize,
    },
    /// Elements that nothing wrote are used where they must not be.
    #[error("{what} was never written")]
    Poison {
        /// What was read.
        what: String,
    },
    /// Two tiles use one element of a parameter, and one of them writes it.
    #[error("element {element} of parameter {name} is also {how} by another tile, in no order")]
    Race {
        /// The parameter.
        name: String,
        /// The element, counted row-major.
        element: usize,
        /// `written` or `read`.
        how: &'static str,
    },
    /// A size that is too large.
    #[error("{rows}×{cols} elements are too many")]
    Large {
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
    },
    /// A symbol is not bound.
    #[error("the dimension {0} is not bound")]
    Unbound(String),
    /// A division by a number below 1.
    #[error("division by {0}; divisors are at least 1")]
    Division(i64),
    /// A row has no form in the format.
    #[error("{0}")]
    Format(String),
    /// A value is not what the statement takes; the verifier should have refused the kernel.
    #[error("{0} has no value of the right kind")]
    Operand(Value),
}
