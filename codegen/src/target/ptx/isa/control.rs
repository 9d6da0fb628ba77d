//! Branches, ends, and what concerns the launch.

use super::line::Line;
use super::operand::{Label, Operand};
use super::target::Feature;
use super::ty::Ty;

/// How a kernel relates to the one launched before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridDep {
    /// Waits until the kernel before is done and its writes are visible.
    Wait,
    /// Lets the next kernel start.
    LaunchDependents,
}

/// Control instructions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Control {
    /// `uniform`: all lanes go the same way.
    Bra {
        uniform: bool,
        to: Label,
    },
    Ret,
    Exit,
    Trap,
    /// About so many nanoseconds.
    Nanosleep(Operand),
    GridDep(GridDep),
    /// Registers per thread of the warpgroup, raised or lowered.
    SetMaxNReg {
        raise: bool,
        registers: u32,
    },
}

impl Control {
    pub(crate) fn describe(&self, l: &mut Line<'_, '_>) {
        match self {
            Control::Bra { uniform, to } => {
                l.name(if *uniform { "bra.uni" } else { "bra" }).label(*to);
            }
            Control::Ret => {
                l.name("ret");
            }
            Control::Exit => {
                l.name("exit");
            }
            Control::Trap => {
                l.name("trap");
            }
            Control::Nanosleep(t) => {
                l.name("nanosleep.u32").src(*t, Ty::U32);
            }
            Control::GridDep(GridDep::Wait) => {
                l.name("griddepcontrol.wait").needs(7, 8, Feature::Sm90);
            }
            Control::GridDep(GridDep::LaunchDependents) => {
                l.name("griddepcontrol.launch_dependents").needs(7, 8, Feature::Sm90);
            }
            Control::SetMaxNReg { raise, registers } => {
                l.name(if *raise { "setmaxnreg.inc" } else { "setmaxnreg.dec" }).name(".sync.aligned.u32");
                let legal = (24..=256).contains(registers) && registers.is_multiple_of(8);
                l.rule(legal, "24 to 256 registers in steps of 8").needs(8, 0, Feature::Sm90Own);
                l.number((*registers).into());
            }
        }
    }
}
