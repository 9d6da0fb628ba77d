//! Instructions of a whole warp.

use super::line::Line;
use super::operand::{Operand, Reg};
use super::target::Feature;
use super::ty::Ty;

/// Whose value a lane gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// The lane of this number.
    Idx,
    /// The lane whose number differs in these bits.
    Bfly,
    /// So many lanes up.
    Down,
    /// So many lanes down.
    Up,
}

/// What a vote says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// All lanes.
    All,
    /// At least one.
    Any,
    /// All lanes agree.
    Uni,
}

/// A reduction over the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Sum; integers.
    Add,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Bits in all.
    And,
    /// Bits in any.
    Or,
    /// Bits in an odd number.
    Xor,
}

/// Warp instructions. Masks name the lanes that take part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Warp {
    Shfl {
        mode: Shuffle,
        dst: Reg,
        valid: Option<Reg>,
        src: Operand,
        lane: Operand,
        clamp: u16,
        mask: Operand,
    },
    Ballot {
        dst: Reg,
        p: Reg,

        mask: Operand,
    },
    Vote {
        vote: Vote,
        dst: Reg,
        p: Reg,

        mask: Operand,
    },
    Redux {
        op: Reduce,
        ty: Ty,
        abs: bool,
        nan: bool,
        dst: Reg,
        src: Operand,
        mask: Operand,
    },
    /// Lanes with an equal value.
    MatchAny {
        ty: Ty,
        dst: Reg,
        src: Operand,
        mask: Operand,
    },
    /// True in one lane.
    Elect {
        lane: Option<Reg>,
        leader: Reg,
        mask: Operand,
    },
    Sync {
        mask: Operand,
    },
    ActiveMask {
        dst: Reg,
    },
}

impl Warp {
    pub(crate) fn describe(&self, l: &mut Line<'_, '_>) {
        match self {
            Warp::Shfl { mode, dst, valid, src, lane, clamp, mask } => {
                l.name("shfl.sync").name(match mode {
                    Shuffle::Idx => ".idx",
                    Shuffle::Bfly => ".bfly",
                    Shuffle::Down => ".down",
                    Shuffle::Up => ".up",
                });
                l.name(".b32").dst_and_pred(Some(*dst), Ty::B32, *valid).src(*src, Ty::B32);
                l.src(*lane, Ty::U32).hex((*clamp).into()).src(*mask, Ty::B32);
            }
            Warp::Ballot { dst, p, mask } => {
                l.name("vote.sync.ballot.b32").dst(*dst, Ty::B32).pred(*p, true).src(*mask, Ty::B32);
            }
            Warp::Vote { vote, dst, p, mask } => {
                l.name("vote.sync").name(match vote {
                    Vote::All => ".all",
                    Vote::Any => ".any",
                    Vote::Uni => ".uni",
                });
                l.name(".pred").dst(*dst, Ty::Pred).pred(*p, true).src(*mask, Ty::B32);
            }
            Warp::Redux { op, ty, abs, nan, dst, src, mask } => {
                l.name("redux.sync").name(match op {
                    Reduce::Add => ".add",
                    Reduce::Min => ".min",
                    Reduce::Max => ".max",
                    Reduce::And => ".and",
                    Reduce::Or => ".or",
                    Reduce::Xor => ".xor",
                });
                l.name(if *abs { ".abs" } else { "" }).name(if *nan { ".NaN" } else { "" }).ty(*ty);
                let legal = match op {
                    Reduce::Add => matches!(ty, Ty::U32 | Ty::S32),
                    Reduce::Min | Reduce::Max => matches!(ty, Ty::U32 | Ty::S32 | Ty::F32),
                    Reduce::And | Reduce::Or | Reduce::Xor => *ty == Ty::B32,
                };
                l.rule(legal && (*ty == Ty::F32 || !(*abs || *nan)), "no such reduction");
                if *ty == Ty::F32 {
                    l.needs(8, 6, Feature::Sm100Family);
                }
                l.dst(*dst, *ty).src(*src, *ty).src(*mask, Ty::B32);
            }
            Warp::MatchAny { ty, dst, src, mask } => {
                l.name("match.any.sync").ty(*ty).rule(matches!(ty, Ty::B32 | Ty::B64), "32 or 64 bits");
                l.dst(*dst, Ty::B32).src(*src, *ty).src(*mask, Ty::B32);
            }
            Warp::Elect { lane, leader, mask } => {
                l.name("elect.sync").needs(8, 0, Feature::Sm90);
                l.dst_and_pred(*lane, Ty::B32, Some(*leader)).src(*mask, Ty::B32);
            }
            Warp::Sync { mask } => {
                l.name("bar.warp.sync").src(*mask, Ty::B32);
            }
            Warp::ActiveMask { dst } => {
                l.name("activemask.b32").dst(*dst, Ty::B32);
            }
        }
    }
}
