//! What makes a program illegal.

use super::operand::Reg;
use super::target::{Feature, PtxVersion, Target};
use std::fmt;

/// One fault of a program. `at` is the instruction as it would be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A register of the wrong class.
    Class {
        /// The instruction.
        at: String,
        /// The register.
        reg: String,
        /// The type it should hold.
        wants: &'static str,
    },
    /// An operand that the position doesn't take.
    Operand {
        /// The instruction.
        at: String,
        /// Why not.
        why: &'static str,
    },
    /// A combination that doesn't exist.
    Form {
        /// The instruction.
        at: String,
        /// Why not.
        why: &'static str,
    },
    /// An instruction that the target or version doesn't have.
    NotOnTarget {
        /// The instruction.
        at: String,
        /// What it needs.
        needs: (PtxVersion, Feature),
        /// What the program is for.
        target: (PtxVersion, Target),
    },
    /// A register that is read but written nowhere.
    Unwritten(Reg),
    /// A label that a branch goes to but that stands nowhere.
    Unplaced(String),
    /// A label that stands twice.
    PlacedTwice(String),
    /// An entry, parameter or attribute that can't be.
    Entry(String),
    /// A guard inside a guard.
    NestedGuard,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Class { at, reg, wants } => write!(f, "`{at}`: {reg} does not hold .{wants}"),
            Fault::Operand { at, why } | Fault::Form { at, why } => write!(f, "`{at}`: {why}"),
            Fault::NotOnTarget { at, needs: (v, feature), target: (have, target) } => {
                write!(f, "`{at}` needs PTX {v} and {feature:?}, not on {target} with PTX {have}")
            }
            Fault::Unwritten(reg) => write!(f, "{reg} is read but never written"),
            Fault::Unplaced(label) => write!(f, "label {label} stands nowhere"),
            Fault::PlacedTwice(label) => write!(f, "label {label} stands twice"),
            Fault::Entry(what) => f.write_str(what),
            Fault::NestedGuard => f.write_str("a guard inside a guard"),
        }
    }
}

/// All faults of a program, in program order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Name of the entry.
    pub entry: String,
    /// At least one.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} is not legal PTX:", self.entry)?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for Faults {}
