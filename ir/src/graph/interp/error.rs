//! What can go wrong when a verified module runs on given values.

use crate::graph::Value;
use crate::types::{Format, TensorType};
use std::fmt;

/// A run that could not give its results. State is as before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A type has a symbol that is not bound, or its size overflows.
    Unbound {
        /// Value of that type.
        value: Value,
        /// The type.
        ty: TensorType,
    },
    /// A declared input or state was not given.
    Missing {
        /// `input`, `state` or `weight`.
        kind: &'static str,
        /// Declared name.
        name: String,
    },
    /// An input was given that the module does not declare.
    UnknownInput {
        /// The given name.
        name: String,
    },
    /// A given tensor does not have the declared type.
    Type {
        /// Declared name.
        name: String,
        /// Declared shape under the bindings, and format.
        want: String,
        /// Shape, number and kind of elements of the given tensor.
        got: String,
    },
    /// The caller could not supply a weight.
    Weight {
        /// Declared name.
        name: String,
        /// What the caller says.
        reason: String,
    },
    /// A node met values it is not defined for.
    Node {
        /// First result of the node.
        value: Value,
        /// Mnemonic of the node.
        op: &'static str,
        /// What is wrong.
        fault: Fault,
    },
    /// An output names a version of a state that was replaced.
    ReplacedOutput {
        /// The output.
        name: String,
    },
}

/// Why an op has no result for the values it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An index is outside the tensor it points into.
    Range {
        /// Operand that holds the index.
        operand: &'static str,
        /// Flat position of the index in that operand.
        at: usize,
        /// The index.
        value: i64,
        /// Smallest legal value.
        low: i64,
        /// First value above the legal ones.
        limit: i64,
    },
    /// A ring no longer holds (or never held together) the positions a row reads.
    Ring {
        /// The ring operand.
        operand: &'static str,
        /// Row of the step.
        row: usize,
        /// From the oldest position the row reads to the newest of its sequence in this step.
        need: usize,
        /// Rows of the ring.
        have: usize,
    },
    /// Rows of a draft block are not consecutive positions of one sequence.
    Block {
        /// Row of the step.
        row: usize,
        /// Rows of a block.
        block: usize,
        /// Sequence of the row.
        seq: i32,
        /// Position of the row.
        pos: i32,
    },
    /// A row does not consist of whole scale groups, or the format has no quantiser along rows.
    Quantiser {
        /// Elements of a row.
        len: usize,
        /// The format.
        format: Format,
    },
    /// Sorted choices that were given to an op are not those of its experts.
    Grouping(Value),
    /// An attribute has a value for which the op is not defined.
    Attribute {
        /// The attribute.
        name: &'static str,
        /// Its value.
        value: i64,
    },
    /// An operand is gone, since its state was replaced, or has elements of another kind.
    Operand(Value),
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unbound { value, ty } => {
                write!(f, "the type {ty} of {value} has no size: bind its symbols to numbers of this machine")
            }
            Error::Missing { kind, name } => write!(f, "{kind} `{name}` is missing"),
            Error::UnknownInput { name } => write!(f, "the module declares no input `{name}`"),
            Error::Type { name, want, got } => write!(f, "`{name}` is {got}; the module wants {want}"),
            Error::Weight { name, reason } => write!(f, "weight `{name}`: {reason}"),
            Error::Node { value, op, fault } => write!(f, "{value} = {op}: {fault}"),
            Error::ReplacedOutput { name } => {
                write!(f, "output `{name}` is a state version that was replaced")
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Range { operand, at, value, low, limit } => {
                write!(f, "{operand}[{at}] is {value}, but must be in {low}..{limit}")
            }
            Fault::Ring { operand, row, need, have } => {
                write!(
                    f,
                    "row {row} reads from the last {need} positions of ring `{operand}`, which holds {have}"
                )
            }
            Fault::Block { row, block, seq, pos } => write!(
                f,
                "row {row} (sequence {seq}, position {pos}) does not continue the block of {block} rows it is in"
            ),
            Fault::Quantiser { len, format } => write!(f, "a row of {len} elements has no {format} form"),
            Fault::Grouping(v) => write!(f, "{v} is not what moe.group makes of the experts"),
            Fault::Attribute { name, value } => write!(f, "attribute {name} is {value}"),
            Fault::Operand(v) => write!(f, "{v} is a replaced state version or has elements of another kind"),
        }
    }
}

/// `value` as an index below `limit`.
pub(super) fn index(operand: &'static str, at: usize, value: i64, limit: usize) -> Result<usize, Fault> {
    let limit_i64 = i64::try_from(limit).unwrap_or(i64::MAX);
    match usize::try_from(value) {
        Ok(i) if i < limit => Ok(i),
        Ok(_) | Err(_) => Err(Fault::Range { operand, at, value, low: 0, limit: limit_i64 }),
    }
}

/// `value` as an index below `limit`, or `None` for the padding −1.
pub(super) fn padded_index(
    operand: &'static str,
    at: usize,
    value: i32,
    limit: usize,
) -> Result<Option<usize>, Fault> {
    if value == -1 {
        return Ok(None);
    }
    let limit_i64 = i64::try_from(limit).unwrap_or(i64::MAX);
    match usize::try_from(value) {
        Ok(i) if i < limit => Ok(Some(i)),
        Ok(_) | Err(_) => Err(Fault::Range { operand, at, value: value.into(), low: -1, limit: limit_i64 }),
    }
}

/// `value` as a divisor or count.
pub(super) fn positive(name: &'static str, value: usize) -> Result<usize, Fault> {
    if value == 0 { Err(Fault::Attribute { name, value: 0 }) } else { Ok(value) }
}
