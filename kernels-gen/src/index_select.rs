//! Family `index_select`: index scores, candidate blocks and exact top-k of one query (V4.1 §2.8).
//!
//! One grid tile is one query. Scores of all visible entries stay in a working buffer; keys pass in blocks.

use crate::error::Error;
use crate::interface::{Fragment, Views};
use crate::linear::remaining;
use tessera_ir::graph::{Op, Value};
use tessera_ir::tile::{Class, IndexOp, Kernel, KernelBuilder, RoleBuilder, RoleKind, SlotType};
use tessera_ir::{Dim, Format};

/// Keys in flight at a time.
const KEYS: usize = 64;

/// Schedules an indexer.
pub(crate) fn schedule(f: &Fragment<'_>) -> Result<Kernel, Error> {
    let (scores, q, weights, keys, seq, pos, ratio, round) = f.only("index.scores", |n| match &n.op {
        Op::IndexScores { q, weights, keys, seq, pos, ratio, round } => {
            Some((n.first, *q, *weights, *keys, *seq, *pos, *ratio, *round))
        }
        _ => None,
    })?;
    check_order(f, scores)?;
    let (heads, dim) = (f.fixed(q, 1)?, f.fixed(q, 2)?);
    let (rows_dim, capacity) = (f.ty(q).shape[0].clone(), f.ty(keys).shape[1].clone());

    let mut kb = KernelBuilder::new(f.module.name.clone());
    let views = Views::declare(&mut kb, f, |_, ty| ty.clone());
    let axis = kb.axis("row", rows_dim, 1);
    let slot = |rows, cols: Dim| SlotType { rows, cols, format: Format::F32 };
    let q_ring = kb.ring("q", Class::Stage, slot(heads, dim.into()), 1, &[0, 1]);
    let w_ring = kb.ring("w", Class::Stage, slot(1, heads.into()), 1, &[0, 1]);
    let k_ring = kb.ring("keys", Class::Stage, slot(KEYS, dim.into()), 1, &[0, 1]);
    let s_ring = kb.ring("scores", Class::Vec, slot(1, capacity.clone()), 1, &[1, 2]);
    let needs_blocks = f.module.nodes.iter().any(|n| matches!(n.op, Op::IndexBlocks { .. }));
    let max_ring = needs_blocks.then(|| kb.ring("maxima", Class::Vec, slot(1, capacity.clone()), 1, &[2]));
    let (q_view, w_view, k_view) = (views.of(f, q)?, views.of(f, weights)?, views.of(f, keys)?);
    let (seq_view, pos_view) = (views.of(f, seq)?, views.of(f, pos)?);
    let visible = |r: &mut RoleBuilder<'_>| {
        let row = r.index_tile(axis);
        let pos = r.index_read(pos_view, &[row]);
        let (one, ratio) = (r.index_const(1), r.index_const(ratio as i64));
        let next = r.index(IndexOp::Add, pos, one);
        (row, r.index(IndexOp::Div, next, ratio))
    };

    kb.role(RoleKind::Copy, "copy", |r| {
        let (row, n) = visible(r);
        let (zero, one, all) = (r.index_const(0), r.index_const(1), r.index_const(heads as i64));
        let seq = r.index_read(seq_view, &[row]);
        let slot = r.acquire(q_ring);
        r.copy(q_view, &[row, zero, zero], slot, all);
        r.pass(slot);
        let slot = r.acquire(w_ring);
        r.copy(w_view, &[row, zero], slot, one);
        r.pass(slot);
        r.for_(zero, n, KEYS, |r, at| {
            let rows = remaining(r, n, at, KEYS);
            let slot = r.acquire(k_ring);
            r.copy(k_view, &[seq, at, zero], slot, rows);
            r.pass(slot);
        });
    });
    kb.role(RoleKind::Matrix, "matrix", |r| {
        let (_, n) = visible(r);
        let zero = r.index_const(0);
        let (q, w) = (r.take(q_ring), r.take(w_ring));
        let out = r.acquire(s_ring);
        r.for_(zero, n, KEYS, |r, at| {
            let rows = remaining(r, n, at, KEYS);
            let keys = r.take(k_ring);
            r.mma_index(out, q, w, keys, at, rows, round);
            r.release(keys);
        });
        r.release(q);
        r.release(w);
        r.pass(out);
    });
    kb.role(RoleKind::Vector, "vector", |r| {
        let (row, n) = visible(r);
        let zero = r.index_const(0);
        let slot = r.take(s_ring);
        for node in &f.module.nodes {
            match &node.op {
                Op::IndexBlocks { block, keep, .. } => {
                    let Some(ring) = max_ring else { continue };
                    let (one, size) = (r.index_const(1), r.index_const(*block as i64));
                    let newest = r.index(IndexOp::Sub, n, one);
                    let maxima = r.acquire(ring);
                    r.block_max(slot, n, newest, maxima, *block);
                    let last = r.index(IndexOp::Add, newest, size);
                    let count = r.index(IndexOp::Div, last, size);
                    let x = r.slot_load(maxima, zero, zero, 1, capacity.clone());
                    let best = r.topk(x, count, *keep);
                    if let Some(view) = views.get(node.first) {
                        r.store(best, view, &[row, zero]);
                    }
                    r.release(maxima);
                }
                Op::IndexRestrict { blocks, block, .. } => {
                    let view = views.of(f, *blocks)?;
                    let keep = f.fixed(*blocks, 1)?;
                    let list = r.load(view, &[row, zero], 1, keep);
                    r.restrict(slot, n, list, *block);
                }
                Op::TopK { k, .. } => {
                    let x = r.slot_load(slot, zero, zero, 1, capacity.clone());
                    let best = r.topk(x, n, *k);
                    if let Some(view) = views.get(node.first) {
                        r.store(best, view, &[row, zero]);
                    }
                }
                Op::IndexScores { .. } => {}
                other => return Err(f.foreign(other)),
            }
        }
        r.release(slot);
        Ok::<(), Error>(())
    })?;
    Ok(kb.finish()?)
}

/// Restricting works in place: nothing may read the unrestricted scores afterwards, and nothing may keep them.
fn check_order(f: &Fragment<'_>, scores: Value) -> Result<(), Error> {
    let mut now = scores;
    for node in &f.module.nodes {
        let from = match &node.op {
            Op::IndexBlocks { scores, .. } | Op::TopK { scores, .. } => *scores,
            Op::IndexRestrict { scores, .. } => {
                if *scores != now {
                    return Err(f.fault("it restricts scores that were restricted before".to_owned()));
                }
                now = node.first;
                continue;
            }
            _ => continue,
        };
        if from != now {
            return Err(f.fault("it reads scores after they were restricted in place".to_owned()));
        }
    }
    let kept = |o: &tessera_ir::graph::Output| f.ty(o.value).format.is_float();
    if f.module.outputs.iter().any(kept) {
        return Err(f.fault("scores leave the kernel; only lists can".to_owned()));
    }
    Ok(())
}
