//! Rules of parameters across roles: who writes them, and that someone does.

use super::{Event, MAX_NESTING, Place, Report, Rule, walk};
use crate::tile::kernel::{Access, Stmt, Value};
use crate::tile::ops::Op;
use std::collections::BTreeSet;

/// Views that an op reads, and views that it writes.
pub(crate) fn views(op: &Op) -> (Vec<Value>, Vec<Value>) {
    match op {
        Op::IndexRead { view, .. }
        | Op::Copy { view, .. }
        | Op::CopyRing { view, .. }
        | Op::CopyTile { view, .. }
        | Op::CopyWrap { view, .. }
        | Op::TopKView { view, .. }
        | Op::Load { view, .. } => (vec![*view], Vec::new()),
        Op::CopyGather { view, ids, .. } | Op::CopyRows { view, ids, .. } => (vec![*view, *ids], Vec::new()),
        Op::TopKListed { view, list, .. } => (vec![*view, *list], Vec::new()),
        Op::MaskIds { ids, .. } => (vec![*ids], Vec::new()),
        Op::IndexWrite { view, .. } | Op::Store { view, .. } | Op::StoreRows { view, .. } => {
            (Vec::new(), vec![*view])
        }
        Op::StoreScatter { view, ids, .. } => (vec![*ids], vec![*view]),
        Op::SortGroups { experts, offsets, pairs, rows, .. } => {
            let lists = [Some(*offsets), *pairs, *rows];
            (vec![*experts], lists.into_iter().flatten().collect())
        }
        Op::IndexConst { .. }
        | Op::IndexDim { .. }
        | Op::IndexTile { .. }
        | Op::IndexGroup { .. }
        | Op::IndexEnd { .. }
        | Op::Return { .. }
        | Op::Decode { .. }
        | Op::MmaTile { .. }
        | Op::Transpose { .. }
        | Op::MaskCols { .. }
        | Op::Any { .. }
        | Op::IndexBinary { .. }
        | Op::Acquire { .. }
        | Op::Take { .. }
        | Op::Pass { .. }
        | Op::Release { .. }
        | Op::Mma { .. }
        | Op::MmaScores { .. }
        | Op::MmaValues { .. }
        | Op::MmaIndex { .. }
        | Op::SlotLoad { .. }
        | Op::SlotStore { .. }
        | Op::SlotFill { .. }
        | Op::Splat { .. }
        | Op::Map { .. }
        | Op::Zip { .. }
        | Op::Reduce { .. }
        | Op::Dot { .. }
        | Op::Slice { .. }
        | Op::Reshape { .. }
        | Op::Cast { .. }
        | Op::Rotate { .. }
        | Op::Angles { .. }
        | Op::TopK { .. }
        | Op::TopRanked { .. }
        | Op::PickCols { .. }
        | Op::BlockMax { .. }
        | Op::Restrict { .. }
        | Op::Argmax { .. } => (Vec::new(), Vec::new()),
    }
}

/// Checks each parameter.
pub(super) fn check(report: &mut Report<'_>) {
    let kernel = report.kernel;
    let mut users: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); kernel.params.len()];
    let mut writers = users.clone();
    for role in 0..kernel.roles.len() {
        walk(kernel, role, MAX_NESTING, |_, event| {
            let Event::Stmt(at) = event else { return };
            let Stmt::Op(node) = at.stmt else { return };
            let (read, written) = views(&node.op);
            for v in read.iter().chain(&written) {
                users.get_mut(v.index()).map(|u| u.insert(role));
            }
            for v in written {
                writers.get_mut(v.index()).map(|w| w.insert(role));
            }
        });
    }
    for (i, p) in kernel.params.iter().enumerate() {
        match p.access {
            Access::Read => {}
            Access::Write | Access::Update if writers[i].is_empty() => {
                let message = format!("no role writes it; write it or declare it `{}`", Access::Read.name());
                report.add(Rule::Unwritten, Place::Param(i), message);
            }
            Access::Write | Access::Update => {}
        }
        if !writers[i].is_empty() && users[i].len() > 1 {
            let names: Vec<&str> = users[i].iter().map(|r| kernel.roles[*r].name.as_str()).collect();
            let message = format!(
                "roles {} use it and one of them writes it, in no order; leave it to one role",
                names.join(" and ")
            );
            report.add(Rule::Shared, Place::Param(i), message);
        }
    }
}
