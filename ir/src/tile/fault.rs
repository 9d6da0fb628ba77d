//! Why an op does not fit its operands.

use super::kernel::{Class, Value};
use crate::types::Format;

/// A broken typing rule of one op. `operand` and `attr` are names of the op table.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TypeFault {
    /// An operand is no value of the kernel.
    #[error("operand `{operand}` is {value}, which nothing defines")]
    Undefined {
        /// The operand.
        operand: &'static str,
        /// The value.
        value: Value,
    },
    /// An operand is another kind of thing.
    #[error("operand `{operand}` is {found}, but should be {want}")]
    Kind {
        /// The operand.
        operand: &'static str,
        /// What the op takes.
        want: &'static str,
        /// What it was given.
        found: String,
    },
    /// A number of indices that does not fit the view.
    #[error("operand `{operand}` has {found} indices, but the view {view} needs {want}")]
    Rank {
        /// The operand.
        operand: &'static str,
        /// Type of the view.
        view: String,
        /// Indices it needs.
        want: String,
        /// Indices given.
        found: usize,
    },
    /// A parameter is used against its declared access.
    #[error(
        "operand `{operand}` is `{name}`, declared `{declared}`, but the op {verb} it; declare it `{want}`"
    )]
    Access {
        /// The operand.
        operand: &'static str,
        /// The parameter's name.
        name: String,
        /// Its access.
        declared: &'static str,
        /// `reads` or `writes`.
        verb: &'static str,
        /// The accesses that would allow it.
        want: &'static str,
    },
    /// A view in a layout that the op cannot read.
    #[error(
        "operand `{operand}` lies in panels, which only `copy` into a slot of its own format ({format}) reads"
    )]
    Layout {
        /// The operand.
        operand: &'static str,
        /// Format of the view.
        format: Format,
    },
    /// A format that the op does not take.
    #[error("operand `{operand}` is in {found}, but should be in {want}")]
    Format {
        /// The operand.
        operand: &'static str,
        /// Formats that the op takes there.
        want: String,
        /// The format given.
        found: Format,
    },
    /// A slot of a ring of another class.
    #[error("operand `{operand}` is a slot of class `{found}`, but should be of class {want}", found = found.name())]
    Class {
        /// The operand.
        operand: &'static str,
        /// Classes that the op takes there.
        want: &'static str,
        /// The class given.
        found: Class,
    },
    /// Sizes that do not fit together.
    #[error("{0}")]
    Shape(String),
    /// An attribute out of its range.
    #[error("attribute `{attr}` is {found}, but {rule}")]
    Attr {
        /// The attribute.
        attr: &'static str,
        /// Its value.
        found: String,
        /// What it must obey.
        rule: String,
    },
}
