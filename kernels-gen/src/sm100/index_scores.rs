//! Family `index_scores` on SM100: scores of compressed entries for each query (V4.1 §2.8), to memory.
//!
//! A tile is one query and 128 entries: keys on the matrix unit's M side, so that each lane of the accumulator is a key, the
//! query's heads on its N side. A thread of `epilogue` has all dots of its key and adds them by ascending head. Queries are
//! the fast axis: those that run together read the same keys. Tiles that the query does not see are −∞ without a product.

use super::knobs::Knobs;
use super::select::within;
use crate::error::Error;
use crate::interface::{Fragment, Views};
use tessera_ir::graph::{Op, Round};
use tessera_ir::tile::{
    Binary, Class, Hop, IndexOp, Kernel, KernelBuilder, Lanes, Part, Reduce, Ring, RingScope, RoleBuilder,
    RoleKind, SlotType, Target, Threads, Unary, Value,
};
use tessera_ir::{Dim, Format, Layout, TensorType};

/// Entries of a tile: the lanes of an accumulator.
const KEYS: usize = 128;
/// Slots of keys in flight.
const DEPTH: usize = 8;

/// Roles in the order of the text.
const COPY: usize = 0;
const SCALES: usize = 1;
const MATRIX: usize = 2;
const EPILOGUE: usize = 3;

/// Schedules the scores of an indexer.
pub(crate) fn schedule(f: &Fragment<'_>, knobs: &Knobs) -> Result<Kernel, Error> {
    let (out, q, weights, keys, seq, pos, ratio, round) = f.only("index.scores", |n| match &n.op {
        Op::IndexScores { q, weights, keys, seq, pos, ratio, round } => {
            Some((n.first, *q, *weights, *keys, *seq, *pos, *ratio, *round))
        }
        _ => None,
    })?;
    if let Some(other) = f.module.nodes.iter().find(|n| !matches!(n.op, Op::IndexScores { .. })) {
        return Err(f.foreign(&other.op));
    }
    for v in [q, keys] {
        if f.ty(v).format != Format::INDEX4 {
            return Err(f.fault(format!("the matrix unit takes index4 here, not {}", f.ty(v).format)));
        }
    }
    let (heads, dim) = (f.fixed(q, 1)?, f.fixed(q, 2)?);
    let (rows, capacity) = (f.ty(q).shape[0].clone(), f.ty(keys).shape[1].clone());
    let columns = heads.next_multiple_of(16);

    let mut kb = KernelBuilder::new(f.module.name.clone());
    kb.target(Target::Sm100);
    kb.persistent(knobs.cores);
    let views = Views::declare(&mut kb, f, |v, ty| match ty.format {
        Format::INDEX4 => TensorType { layout: Layout::Split, ..ty.clone() },
        // A query's weights as a column: one for each row of its dots, which are heads × entries.
        _ if v == weights => {
            let column = ty.shape.iter().cloned().chain([Dim::Fixed(1)]).collect();
            TensorType { shape: column, ..ty.clone() }
        }
        _ => ty.clone(),
    });
    let key_axis = kb.axis("key", capacity.clone(), KEYS);
    let row_axis = kb.axis("row", rows, 1);
    let slot = |rows, cols, format| SlotType { rows, cols: Dim::Fixed(cols), format };
    let mut stage = |name: &str, slot| {
        let (name, scope) = (name.to_owned(), RingScope::Core);
        let path = vec![Hop { roles: vec![COPY, SCALES] }, Hop::from(MATRIX)];
        kb.ring_of(Ring { name, class: Class::Stage, slot, depth: DEPTH, scope, path })
    };
    // Whole steps of the matrix unit; what is outside the views is zeros.
    let depth = dim.next_multiple_of(64);
    let k_ring = stage("entries", slot(KEYS, depth, Format::INDEX4));
    // Rows beyond the heads are outside the query, hence zeros.
    let q_ring = stage("heads", slot(columns, depth, Format::INDEX4));
    let acc_slot = slot(KEYS, columns, Format::F32);
    let acc_ring = kb.ring("dots", Class::Accum, acc_slot, 2, &[MATRIX, EPILOGUE]);
    let hidden_ring = kb.ring("hidden", Class::Vec, slot(1, KEYS, Format::F32), 1, &[EPILOGUE]);
    let (q_view, k_view, w_view) = (views.of(f, q)?, views.of(f, keys)?, views.of(f, weights)?);
    let (seq_view, pos_view, out_view) = (views.of(f, seq)?, views.of(f, pos)?, views.of(f, out)?);
    // The query, the tile's first entry, how many of its entries the query sees, and 1 if it sees any.
    let place = |r: &mut RoleBuilder<'_>| {
        let (row, first) = (r.index_tile(row_axis), r.index_tile(key_axis));
        let pos = r.index_read(pos_view, &[row]);
        let (one, ratio) = (r.index_const(1), r.index_const(ratio as i64));
        let next = r.index(IndexOp::Add, pos, one);
        let visible = r.index(IndexOp::Div, next, ratio);
        let visible = within(r, visible, capacity.clone());
        let seen = r.index(IndexOp::Sub, visible, first);
        let zero = r.index_const(0);
        let any = r.index(IndexOp::Lt, zero, seen);
        (row, first, seen, any)
    };
    let fill = |r: &mut RoleBuilder<'_>, part: Part| {
        let (row, first, _, any) = place(r);
        r.if_(any, |r| {
            let zero = r.index_const(0);
            let slot = r.acquire(q_ring);
            r.copy_tile(q_view, &[row, zero, zero], slot, part);
            r.pass(slot);
            let seq = r.index_read(seq_view, &[row]);
            let slot = r.acquire(k_ring);
            r.copy_tile(k_view, &[seq, first, zero], slot, part);
            r.pass(slot);
        });
    };

    kb.role(RoleKind::Copy, "copy", |r| fill(r, Part::Codes));
    kb.role(RoleKind::Copy, "scales", |r| fill(r, Part::Scales));
    kb.role(RoleKind::Matrix, "matrix", |r| {
        let (_, _, _, any) = place(r);
        r.if_(any, |r| {
            let (n, first) = (r.index_const(heads as i64), r.index_const(1));
            let acc = r.acquire(acc_ring);
            let (q, k) = (r.take(q_ring), r.take(k_ring));
            r.mma_tile(acc, k, q, n, first, false);
            r.release(q);
            r.release(k);
            r.pass(acc);
        });
    });
    let threads = Threads { warps: KEYS / 32, registers: None, lanes: Lanes { count: KEYS, chunk: 1 } };
    kb.role_of(RoleKind::Vector, "epilogue", threads, |r| {
        let (row, first, seen, any) = place(r);
        let (zero, one) = (r.index_const(0), r.index_const(1));
        r.if_(any, |r| {
            let w = r.load(w_view, &[row, zero, zero], heads, 1);
            let acc = r.take(acc_ring);
            let dots = r.slot_load(acc, zero, zero, KEYS, heads);
            r.release(acc);
            let dots = r.transpose(dots);
            let dots = rounded(r, dots, round);
            let positive = r.map(dots, Unary::Relu);
            let parts = r.zip(positive, w, Binary::Mul);
            let parts = rounded(r, parts, round);
            // Along rows a sum is ascending.
            let sums = r.reduce(parts, Reduce::Sum, 0);
            let scores = rounded(r, sums, round);
            let scores = r.mask_cols(scores, seen, f32::NEG_INFINITY);
            r.store_rows(scores, out_view, &[row, first], one);
        });
        let none = r.index(IndexOp::Eq, any, zero);
        r.if_(none, |r| {
            let slot = r.acquire(hidden_ring);
            r.slot_fill(slot, f32::NEG_INFINITY);
            let scores = r.slot_load(slot, zero, zero, 1, KEYS);
            r.store_rows(scores, out_view, &[row, first], one);
            r.release(slot);
        });
    });
    Ok(kb.finish()?)
}

/// `x` rounded as the op says.
fn rounded(r: &mut RoleBuilder<'_>, x: Value, round: Round) -> Value {
    match round {
        Round::None => x,
        Round::Bf16 => {
            let narrow = r.cast(x, Format::BF16);
            r.cast(narrow, Format::F32)
        }
    }
}
