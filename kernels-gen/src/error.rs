//! Why a fragment has no schedule.

use tessera_ir::tile::BuildFault;

/// Scheduling errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The fragment is not one this family computes.
    #[error("family `{family}` cannot compute fragment `{fragment}`: {reason}")]
    Fragment {
        /// The family asked for.
        family: &'static str,
        /// The fragment's name.
        fragment: String,
        /// What does not fit.
        reason: String,
    },
    /// A knob has a value outside its space.
    #[error("knob `{knob}` is {value}; {rule}")]
    Knob {
        /// The knob.
        knob: &'static str,
        /// Its value.
        value: usize,
        /// The legal values.
        rule: &'static str,
    },
    /// The schedule built a statement that does not type: a bug of the schedule.
    #[error("a schedule is wrong (a bug in the compiler): {0}")]
    Build(#[from] BuildFault),
}
