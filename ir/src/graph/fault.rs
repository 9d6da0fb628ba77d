//! What can be wrong with a graph module: the rules of the level and a fault against one of them.

use std::fmt;

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// A rule of the Graph IR. The verifier enforces them all; [`super::TypeFault`] cites those that concern one op.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $($(#[$doc])* $name,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];

            /// The rule's name in reports.
            pub fn name(self) -> &'static str {
                match self { $(Rule::$name => $text),* }
            }
        }
    };
}

rules! {
    /// Values are numbered in order, declarations from 0 and then the results of each node, and fit 32 bits.
    Numbering = "numbering";
    /// A value is defined before it is used, and an output names a value of the module.
    Defined = "defined";
    /// Names of declarations are unique and not empty; so are names of outputs.
    Names = "names";
    /// A type is well formed: 1 to 8 dimensions of at least 1, symbols that are names, a format with a name, last dimension
    /// a multiple of its group, a layout that fits, no more than 2⁵⁰ bits per symbol's unit.
    Type = "type";
    /// Shapes of weights have no symbols.
    Weight = "weight";
    /// A symbol that counts rows (it leads an input's shape) appears in no later dimension and in no state, so that no op
    /// can mix rows.
    Rows = "rows";
    /// Optional operands that belong together are given together; lists of operands are not empty.
    Operands = "operands";
    /// The format of an operand is one that the op takes.
    Format = "format";
    /// Shapes of operands fit the op and each other.
    Shape = "shape";
    /// Attributes are in range.
    Attribute = "attribute";
    /// The results' number, shapes, formats and layouts are those that follow from the operands.
    Result = "result";
    /// An operand that all rows share is a weight, or computed from weights alone.
    Shared = "shared";
    /// An operand that is addressed by slot is a version of a state, and states are used nowhere else.
    State = "state";
    /// A state's version is read, replaced or put out only while it is the newest, and replaced once.
    Version = "version";
    /// The grouping operands of `moe.linear` are the results of one `moe.group` of the same experts; its results go
    /// nowhere else.
    Grouping = "grouping";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The part of a node that a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The whole node.
    Node,
    /// An operand, by its name in the op table.
    Operand(&'static str),
    /// An attribute, by its name in the op table.
    Attribute(&'static str),
    /// A result, counted from 0.
    Result(usize),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Node => f.write_str("the operation"),
            Subject::Operand(name) => write!(f, "operand `{name}`"),
            Subject::Attribute(name) => write!(f, "attribute `{name}`"),
            Subject::Result(index) => write!(f, "result {index}"),
        }
    }
}

/// A fault of one op against the rules that its operands' types decide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{mnemonic}: {subject} {message} [{rule}]")]
pub struct TypeFault {
    /// The rule that is broken.
    pub rule: Rule,
    /// The op's name in the text form.
    pub mnemonic: &'static str,
    /// The part of the op that is at fault.
    pub subject: Subject,
    /// What is wrong and what would be right; goes on from the subject's name.
    pub message: String,
}
