//! One instruction of any family, with its guard.

use super::barrier::Barrier;
use super::control::Control;
use super::convert::Convert;
use super::line::{Line, Page};
use super::memory::Memory;
use super::operand::{Label, Reg};
use super::scalar::Scalar;
use super::tcgen::Tcgen;
use super::tma::Bulk;
use super::warp::Warp;

/// An instruction without its guard.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Scalar(Scalar),
    Convert(Convert),
    Memory(Memory),
    Control(Control),
    Warp(Warp),
    Barrier(Barrier),
    Bulk(Bulk),
    Tcgen(Tcgen),
}

/// What the body of an entry consists of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// The guard says with which truth value the instruction runs.
    Inst {
        guard: Option<(Reg, bool)>,
        op: Op,
    },
    Label(Label),
    Comment(String),
}

impl Op {
    /// Prints and checks the instruction.
    pub(crate) fn print(&self, page: &mut Page<'_>, guard: Option<(Reg, bool)>) {
        let mut line = Line::new(page, guard);
        match self {
            Op::Scalar(op) => op.describe(&mut line),
            Op::Convert(op) => op.describe(&mut line),
            Op::Memory(op) => op.describe(&mut line),
            Op::Control(op) => op.describe(&mut line),
            Op::Warp(op) => op.describe(&mut line),
            Op::Barrier(op) => op.describe(&mut line),
            Op::Bulk(op) => op.describe(&mut line),
            Op::Tcgen(op) => op.describe(&mut line),
        }
        line.end();
    }
}

macro_rules! from {
    ($($family:ident)*) => {$(
        impl From<$family> for Op {
            fn from(op: $family) -> Self {
                Op::$family(op)
            }
        }
    )*};
}
from!(Scalar Convert Memory Control Warp Barrier Bulk Tcgen);
