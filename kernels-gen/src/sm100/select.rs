//! Families `index_blocks` and `topk` on SM100: exact selections from rows of scores in memory (V4.1 §2.8).
//!
//! One tile is one row, which a whole block of threads selects from. Scores restricted to candidate blocks are never
//! written: the selection reads the listed blocks only.

use super::knobs::Knobs;
use crate::error::Error;
use crate::interface::{Fragment, Views};
use tessera_ir::Dim;
use tessera_ir::graph::{Op, Value as GraphValue};
use tessera_ir::tile::{
    IndexOp, Kernel, KernelBuilder, Lanes, RoleBuilder, RoleKind, Target, Threads, Value,
};

/// What a fragment selects.
struct Selection {
    out: GraphValue,
    scores: GraphValue,
    k: usize,
    from: From,
}

/// Out of what.
enum From {
    /// All elements of the row.
    Row,
    /// Elements of listed blocks.
    Listed { list: GraphValue, block: usize },
    /// Blocks of what a position sees.
    Blocks { pos: GraphValue, ratio: usize, block: usize },
}

/// The selection of a fragment: `index.blocks`, or `topk` alone or after `index.restrict`.
fn selection(f: &Fragment<'_>) -> Result<Selection, Error> {
    let mut restricted = None;
    let mut found = None;
    for node in &f.module.nodes {
        let new = match &node.op {
            Op::IndexRestrict { scores, blocks, block } if restricted.is_none() => {
                restricted = Some((node.first, *scores, *blocks, *block));
                continue;
            }
            Op::TopK { scores, k } => {
                let (scores, from) = match restricted {
                    Some((v, all, list, block)) if v == *scores => (all, From::Listed { list, block }),
                    Some(_) | None => (*scores, From::Row),
                };
                Selection { out: node.first, scores, k: *k, from }
            }
            Op::IndexBlocks { scores, pos, ratio, block, keep } => {
                let from = From::Blocks { pos: *pos, ratio: *ratio, block: *block };
                Selection { out: node.first, scores: *scores, k: *keep, from }
            }
            other => return Err(f.foreign(other)),
        };
        if found.replace(new).is_some() {
            return Err(f.fault("it selects more than once".to_owned()));
        }
    }
    let kept = |o: &tessera_ir::graph::Output| restricted.is_some_and(|(v, ..)| v == o.value);
    if f.module.outputs.iter().any(kept) {
        return Err(f.fault("restricted scores leave the kernel; only lists can".to_owned()));
    }
    let found = found.ok_or_else(|| f.fault("it selects nothing".to_owned()))?;
    match (&found.from, restricted) {
        (From::Row | From::Blocks { .. }, Some(_)) => {
            Err(f.fault("it restricts scores that it does not select from".to_owned()))
        }
        (From::Listed { .. }, _) | (_, None) => Ok(found),
    }
}

/// Schedules a selection.
pub(crate) fn schedule(f: &Fragment<'_>, knobs: &Knobs) -> Result<Kernel, Error> {
    let Selection { out, scores, k, from } = selection(f)?;
    let (rows, capacity) = (f.ty(scores).shape[0].clone(), f.ty(scores).shape[1].clone());
    let mut kb = KernelBuilder::new(f.module.name.clone());
    kb.target(Target::Sm100);
    let views = Views::declare(&mut kb, f, |_, ty| ty.clone());
    let axis = kb.axis("row", rows, 1);
    let (scores_view, out_view) = (views.of(f, scores)?, views.of(f, out)?);
    // Few rows: as many threads a row as there can be. Many: two rows on a multiprocessor.
    let warps = if knobs.rows <= knobs.cores { 32 } else { 16 };
    let threads = Threads { warps, registers: None, lanes: Lanes { count: 32 * warps, chunk: 1 } };
    kb.role_of(RoleKind::Vector, "select", threads, |r| {
        let (row, zero) = (r.index_tile(axis), r.index_const(0));
        let at = [row, zero];
        let best = match from {
            From::Row => {
                let (n, none) = (r.index_dim(capacity), r.index_const(-1));
                r.topk_view(scores_view, &at, n, none, k, 1)
            }
            From::Listed { list, block } => {
                let (n, list) = (r.index_dim(capacity), views.of(f, list)?);
                r.topk_listed(scores_view, &at, n, list, &at, k, block)
            }
            From::Blocks { pos, ratio, block } => {
                let pos = r.index_read(views.of(f, pos)?, &[row]);
                let (one, ratio) = (r.index_const(1), r.index_const(ratio as i64));
                let next = r.index(IndexOp::Add, pos, one);
                let visible = r.index(IndexOp::Div, next, ratio);
                let n = within(r, visible, capacity);
                let newest = r.index(IndexOp::Sub, n, one);
                r.topk_view(scores_view, &at, n, newest, k, block)
            }
        };
        r.store(best, out_view, &at);
        Ok::<(), Error>(())
    })?;
    Ok(kb.finish()?)
}

/// `n`, which is a number of elements, between 0 and `most`.
pub(super) fn within(r: &mut RoleBuilder<'_>, n: Value, most: Dim) -> Value {
    let (most, none) = (r.index_dim(most), r.index_const(0));
    let n = r.index(IndexOp::Min, n, most);
    r.index(IndexOp::Max, n, none)
}
