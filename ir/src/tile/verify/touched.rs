//! Slots that an op writes and reads.

use crate::tile::attrs::Part;
use crate::tile::kernel::Value;
use crate::tile::ops::Op;

/// The slots of one op.
pub(super) struct Touched {
    /// The slot that it writes, and which part.
    pub(super) written: Option<(Value, Part)>,
    /// The slots that it reads but for the one written.
    pub(super) read: Vec<Value>,
}

/// The slots that `op` works on, apart from moving them.
pub(super) fn touched(op: &Op) -> Touched {
    let (written, read) = match op {
        Op::Copy { slot, .. }
        | Op::CopyRing { slot, .. }
        | Op::CopyGather { slot, .. }
        | Op::CopyWrap { slot, .. }
        | Op::SlotStore { slot, .. }
        | Op::SlotFill { slot, .. }
        | Op::Restrict { scores: slot, .. } => (Some((*slot, Part::All)), Vec::new()),
        Op::CopyTile { slot, part, .. } | Op::CopyRows { slot, part, .. } => {
            (Some((*slot, *part)), Vec::new())
        }
        Op::SlotLoad { slot, .. } => (None, vec![*slot]),
        Op::Decode { from, to, .. } => (Some((*to, Part::All)), vec![*from]),
        Op::Mma { acc, a, b, .. } | Op::MmaTile { acc, a, b, .. } => (Some((*acc, Part::All)), vec![*a, *b]),
        Op::MmaScores { acc, q, keys, .. } => (Some((*acc, Part::All)), vec![*q, *keys]),
        Op::MmaValues { acc, e, values, .. } => (Some((*acc, Part::All)), vec![*e, *values]),
        Op::MmaIndex { acc, q, w, keys, .. } => (Some((*acc, Part::All)), vec![*q, *w, *keys]),
        Op::BlockMax { scores, out, .. } => (Some((*out, Part::All)), vec![*scores]),
        Op::IndexConst { .. }
        | Op::IndexDim { .. }
        | Op::IndexTile { .. }
        | Op::IndexGroup { .. }
        | Op::IndexEnd { .. }
        | Op::IndexBinary { .. }
        | Op::IndexRead { .. }
        | Op::IndexWrite { .. }
        | Op::Acquire { .. }
        | Op::Take { .. }
        | Op::Pass { .. }
        | Op::Release { .. }
        | Op::Return { .. }
        | Op::Load { .. }
        | Op::Store { .. }
        | Op::StoreRows { .. }
        | Op::StoreScatter { .. }
        | Op::Splat { .. }
        | Op::Map { .. }
        | Op::Zip { .. }
        | Op::Reduce { .. }
        | Op::Dot { .. }
        | Op::Slice { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::MaskCols { .. }
        | Op::MaskIds { .. }
        | Op::Any { .. }
        | Op::Cast { .. }
        | Op::Rotate { .. }
        | Op::Angles { .. }
        | Op::TopK { .. }
        | Op::TopKView { .. }
        | Op::TopKListed { .. }
        | Op::SortGroups { .. }
        | Op::TopRanked { .. }
        | Op::PickCols { .. }
        | Op::Argmax { .. } => (None, Vec::new()),
    };
    Touched { written, read }
}
