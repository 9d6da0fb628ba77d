//! Families `attention` and `block_attention`: attention of one row over its window and selected entries, or over its
//! window and its draft block (V4.1 §2.6, §2.11), with the inverse rotation that follows.
//!
//! Two passes over the keys in blocks of 64: scores of all keys, then, under their maximum, the weighted sum. Keys are
//! gathered and decoded in both passes; that is little beside the products of all heads, and no buffer has to hold
//! them. The window's blocks begin at its first visible entry, the second list's blocks anew. Window rings must have a
//! multiple of 64 rows, because scores are kept in whole blocks.

use crate::error::Error;
use crate::interface::{Fragment, Views};
use crate::linear::remaining;
use tessera_ir::graph::{Op, Round, Value};
use tessera_ir::tile::{
    Binary, Class, IndexOp, Kernel, KernelBuilder, Reduce, RoleBuilder, RoleKind, SlotType, Unary,
};
use tessera_ir::{Dim, Format, tile};

/// Keys of a block.
const KEYS: usize = 64;

/// The keys beside the window.
#[derive(Clone, Copy)]
enum Second {
    None,
    /// Entries of a cache by a list.
    Selected {
        cache: tile::Value,
        list: tile::Value,
        count: usize,
    },
    /// All rows of the row's draft block.
    Block {
        rows: tile::Value,
        count: usize,
    },
}

impl Second {
    fn count(self) -> usize {
        match self {
            Second::None => 0,
            Second::Selected { count, .. } | Second::Block { count, .. } => count,
        }
    }
}

/// The parts of either attention op.
pub(crate) struct Parts {
    pub(crate) out: Value,
    pub(crate) q: Value,
    pub(crate) window: Value,
    pub(crate) sink: Value,
    pub(crate) seq: Value,
    pub(crate) pos: Value,
    pub(crate) lo: Value,
    pub(crate) scale: f32,
    pub(crate) round: Round,
    /// Cache and selected, or draft rows and block size.
    pub(crate) cache: Option<(Value, Value)>,
    pub(crate) block: Option<(Value, usize)>,
}

/// The parts of an attention op whose result is `out`; `None` for other ops.
pub(crate) fn parts(op: &Op, out: Value) -> Option<Parts> {
    match op {
        Op::Attention { q, window, cache, selected, sink, seq, pos, lo, scale, round } => Some(Parts {
            out,
            q: *q,
            window: *window,
            sink: *sink,
            seq: *seq,
            pos: *pos,
            lo: *lo,
            scale: *scale,
            round: *round,
            cache: cache.zip(*selected),
            block: None,
        }),
        Op::BlockAttention { q, window, rows, sink, seq, pos, lo, block, scale, round } => Some(Parts {
            out,
            q: *q,
            window: *window,
            sink: *sink,
            seq: *seq,
            pos: *pos,
            lo: *lo,
            scale: *scale,
            round: *round,
            cache: None,
            block: Some((*rows, *block)),
        }),
        _ => None,
    }
}

/// What the roles share: views, and how to find a row's keys.
struct Shape {
    axis: usize,
    seq: tile::Value,
    pos: tile::Value,
    lo: tile::Value,
    block: Option<usize>,
    second: Second,
}

/// One row's indices; every role computes them for itself.
struct Row {
    row: tile::Value,
    seq: tile::Value,
    /// First window position.
    lo: tile::Value,
    /// Number of window keys.
    keys: tile::Value,
    zero: tile::Value,
    /// First row of the row's draft block.
    first: tile::Value,
}

impl Shape {
    fn row(&self, r: &mut RoleBuilder<'_>) -> Row {
        let row = r.index_tile(self.axis);
        let (zero, one) = (r.index_const(0), r.index_const(1));
        let seq = r.index_read(self.seq, &[row]);
        let lo = r.index_read(self.lo, &[row]);
        // One past the last window position: the row's own, or the position before its block's first row.
        let (first, end) = match self.block {
            None => {
                let pos = r.index_read(self.pos, &[row]);
                (row, r.index(IndexOp::Add, pos, one))
            }
            Some(block) => {
                let size = r.index_const(block as i64);
                let number = r.index(IndexOp::Div, row, size);
                let first = r.index(IndexOp::Mul, number, size);
                (first, r.index_read(self.pos, &[first]))
            }
        };
        let keys = r.index(IndexOp::Sub, end, lo);
        Row { row, seq, lo, keys, zero, first }
    }

    /// Runs `body` for each block of window keys: (first key's number, keys in the block).
    fn window(
        &self,
        r: &mut RoleBuilder<'_>,
        row: &Row,
        mut body: impl FnMut(&mut RoleBuilder<'_>, tile::Value, tile::Value),
    ) {
        r.for_(row.zero, row.keys, KEYS, |r, at| {
            let n = remaining(r, row.keys, at, KEYS);
            body(r, at, n);
        });
    }

    /// Runs `body` for each block of the second list. Lists are padded with −1 at their end, so a block whose first
    /// entry is negative has none: the inner loop then runs no time.
    fn second(
        &self,
        r: &mut RoleBuilder<'_>,
        row: &Row,
        mut body: impl FnMut(&mut RoleBuilder<'_>, tile::Value, tile::Value),
    ) {
        let count = r.index_const(self.second.count() as i64);
        match self.second {
            Second::None => {}
            Second::Selected { list, .. } => r.for_(row.zero, count, KEYS, |r, at| {
                let head = r.index_read(list, &[row.row, at]);
                let live = r.index(IndexOp::Le, row.zero, head);
                let size = r.index_const(KEYS as i64);
                let span = r.index(IndexOp::Mul, live, size);
                let end = r.index(IndexOp::Add, at, span);
                r.for_(at, end, KEYS, |r, at| {
                    let n = remaining(r, count, at, KEYS);
                    body(r, at, n);
                });
            }),
            Second::Block { .. } => r.for_(row.zero, count, KEYS, |r, at| {
                let n = remaining(r, count, at, KEYS);
                body(r, at, n);
            }),
        }
    }
}

/// Schedules an attention op and the inverse rotation after it.
pub(crate) fn schedule(f: &Fragment<'_>) -> Result<Kernel, Error> {
    let p = f.only("attention", |n| parts(&n.op, n.first))?;
    let mut unrope = None;
    for node in &f.module.nodes {
        match &node.op {
            Op::Attention { .. } | Op::BlockAttention { .. } => {}
            Op::Rope { x, table, inverse } if *x == p.out => unrope = Some((node.first, *table, *inverse)),
            other => return Err(f.foreign(other)),
        }
    }
    let (heads, dim) = (f.fixed(p.q, 1)?, f.fixed(p.q, 2)?);
    let rows_dim = f.ty(p.q).shape[0].clone();
    let ring_rows = f.ty(p.window).shape[1].clone();

    let mut kb = KernelBuilder::new(f.module.name.clone());
    let views = Views::declare(&mut kb, f, |_, ty| ty.clone());
    let axis = kb.axis("row", rows_dim, 1);
    let second = match (p.cache, p.block) {
        (Some((cache, selected)), _) => Second::Selected {
            cache: views.of(f, cache)?,
            list: views.of(f, selected)?,
            count: f.fixed(selected, 1)?,
        },
        (None, Some((rows, count))) => Second::Block { rows: views.of(f, rows)?, count },
        (None, None) => Second::None,
    };
    let s = Shape {
        axis,
        seq: views.of(f, p.seq)?,
        pos: views.of(f, p.pos)?,
        lo: views.of(f, p.lo)?,
        block: p.block.map(|(_, n)| n),
        second,
    };
    let slot = |rows, cols: Dim| SlotType { rows, cols, format: Format::F32 };
    let q_ring = kb.ring("q", Class::Stage, slot(heads, dim.into()), 1, &[0, 1]);
    let k_ring = kb.ring("keys", Class::Stage, slot(KEYS, dim.into()), 1, &[0, 1]);
    let wide = second.count().next_multiple_of(KEYS);
    let mut pair = |name: &str, path: &[usize]| {
        let window = kb.ring(format!("{name}_window"), Class::Vec, slot(heads, ring_rows.clone()), 1, path);
        let second = (wide > 0)
            .then(|| kb.ring(format!("{name}_second"), Class::Vec, slot(heads, wide.into()), 1, path));
        (window, second)
    };
    let (score_rings, weight_rings) = (pair("scores", &[1, 2]), pair("weights", &[2, 1]));
    let o_ring = kb.ring("out", Class::Accum, slot(heads, dim.into()), 1, &[1, 2]);
    let top_ring = kb.ring("top", Class::Vec, slot(heads, 1.into()), 1, &[2]);
    let sum_ring = kb.ring("sum", Class::Vec, slot(heads, 1.into()), 1, &[2]);
    let (q_view, window_view, sink_view) = (views.of(f, p.q)?, views.of(f, p.window)?, views.of(f, p.sink)?);
    let out = unrope.map_or(p.out, |(out, _, _)| out);
    let out_view = views.of(f, out)?;

    kb.role(RoleKind::Copy, "copy", |r| {
        let row = s.row(r);
        let all = r.index_const(heads as i64);
        let slot = r.acquire(q_ring);
        r.copy(q_view, &[row.row, row.zero, row.zero], slot, all);
        r.pass(slot);
        for _pass in 0..2 {
            s.window(r, &row, |r, at, n| {
                let start = r.index(IndexOp::Add, row.lo, at);
                let slot = r.acquire(k_ring);
                r.copy_ring(window_view, &[row.seq], start, slot, n);
                r.pass(slot);
            });
            s.second(r, &row, |r, at, n| {
                let slot = r.acquire(k_ring);
                match s.second {
                    Second::None => {}
                    Second::Selected { cache, list, .. } => {
                        r.copy_gather(cache, &[row.seq], list, &[row.row, at], slot, n);
                    }
                    Second::Block { rows, .. } => {
                        let from = r.index(IndexOp::Add, row.first, at);
                        r.copy(rows, &[from, row.zero], slot, n);
                    }
                }
                r.pass(slot);
            });
        }
    });
    kb.role(RoleKind::Matrix, "matrix", |r| {
        let row = s.row(r);
        let q = r.take(q_ring);
        let scores = acquired(r, score_rings);
        // Columns past the last key of a block count as keys of weight 0.
        fill(r, scores, f32::NEG_INFINITY);
        s.window(r, &row, |r, at, n| {
            let keys = r.take(k_ring);
            r.mma_scores(scores.0, q, keys, at, n, p.scale);
            r.release(keys);
        });
        s.second(r, &row, |r, at, n| {
            let keys = r.take(k_ring);
            if let Some(scores) = scores.1 {
                r.mma_scores(scores, q, keys, at, n, p.scale);
            }
            r.release(keys);
        });
        r.release(q);
        each(scores, |slot| r.pass(slot));
        let o = r.acquire(o_ring);
        r.slot_fill(o, 0.0);
        let weights = taken(r, weight_rings);
        s.window(r, &row, |r, at, n| {
            let keys = r.take(k_ring);
            r.mma_values(o, weights.0, keys, at, n);
            r.release(keys);
        });
        s.second(r, &row, |r, at, n| {
            let keys = r.take(k_ring);
            if let Some(weights) = weights.1 {
                r.mma_values(o, weights, keys, at, n);
            }
            r.release(keys);
        });
        each(weights, |slot| r.release(slot));
        r.pass(o);
    });
    kb.role(RoleKind::Vector, "vector", |r| {
        let row = s.row(r);
        let zero = row.zero;
        let scores = taken(r, score_rings);
        let weights = acquired(r, weight_rings);
        let (top, sum) = (r.acquire(top_ring), r.acquire(sum_ring));
        r.slot_fill(top, f32::NEG_INFINITY);
        r.slot_fill(sum, 0.0);
        if let (Second::Selected { list, count, .. }, Some(slot)) = (s.second, scores.1) {
            mask_padding(r, &row, list, count, slot, heads);
        }
        let raise = |r: &mut RoleBuilder<'_>, from, at| {
            let x = r.slot_load(from, zero, at, heads, KEYS);
            let here = r.reduce(x, Reduce::Max, 1);
            let before = r.slot_load(top, zero, zero, heads, 1);
            let now = r.zip(before, here, Binary::Max);
            r.slot_store(now, top, zero, zero);
        };
        s.window(r, &row, |r, at, _| raise(r, scores.0, at));
        s.second(r, &row, |r, at, _| each((None, scores.1), |slot| raise(r, slot, at)));
        let m = r.slot_load(top, zero, zero, heads, 1);
        let weigh = |r: &mut RoleBuilder<'_>, from, to, at| {
            let x = r.slot_load(from, zero, at, heads, KEYS);
            let below = r.zip(x, m, Binary::Sub);
            let e = r.map(below, Unary::Exp);
            let here = r.reduce(e, Reduce::Sum, 1);
            let before = r.slot_load(sum, zero, zero, heads, 1);
            let now = r.zip(before, here, Binary::Add);
            r.slot_store(now, sum, zero, zero);
            let e = match p.round {
                Round::None => e,
                Round::Bf16 => r.cast(e, Format::BF16),
            };
            r.slot_store(e, to, zero, at);
        };
        s.window(r, &row, |r, at, _| weigh(r, scores.0, weights.0, at));
        s.second(r, &row, |r, at, _| {
            if let (Some(from), Some(to)) = (scores.1, weights.1) {
                weigh(r, from, to, at);
            }
        });
        each(weights, |slot| r.pass(slot));
        each(scores, |slot| r.release(slot));
        let sink = r.load(sink_view, &[zero], 1, heads);
        let sink = r.reshape(sink, heads, 1);
        let sink = r.zip(sink, m, Binary::Sub);
        let sink = r.map(sink, Unary::Exp);
        let total = r.slot_load(sum, zero, zero, heads, 1);
        let total = r.zip(total, sink, Binary::Add);
        let o = r.take(o_ring);
        let x = r.slot_load(o, zero, zero, heads, dim);
        let mut y = r.zip(x, total, Binary::Div);
        y = in_format(r, y, f.ty(p.out).format);
        if let Some((out, table, inverse)) = unrope {
            let width = f.fixed(table, 1)?;
            let table = r.load(views.of(f, table)?, &[row.row, zero], 1, width);
            y = r.rotate(y, table, inverse);
            y = in_format(r, y, f.ty(out).format);
        }
        r.store(y, out_view, &[row.row, zero, zero]);
        for slot in [o, top, sum] {
            r.release(slot);
        }
        Ok::<(), Error>(())
    })?;
    Ok(kb.finish()?)
}

fn in_format(r: &mut RoleBuilder<'_>, x: tile::Value, format: Format) -> tile::Value {
    if format == Format::F32 { x } else { r.cast(x, format) }
}

/// A slot for the window's keys and, where there is a second list, one for that.
type Slots = (tile::Value, Option<tile::Value>);

fn acquired(r: &mut RoleBuilder<'_>, (window, second): Slots) -> Slots {
    (r.acquire(window), second.map(|ring| r.acquire(ring)))
}

fn taken(r: &mut RoleBuilder<'_>, (window, second): Slots) -> Slots {
    (r.take(window), second.map(|ring| r.take(ring)))
}

fn fill(r: &mut RoleBuilder<'_>, slots: Slots, value: f32) {
    each(slots, |slot| r.slot_fill(slot, value));
}

fn each(slots: (impl Into<Option<tile::Value>>, Option<tile::Value>), f: impl FnMut(tile::Value)) {
    slots.0.into().into_iter().chain(slots.1).for_each(f);
}

/// Padding entries were gathered as rows of zeros, which score 0: sets their columns to −∞.
fn mask_padding(
    r: &mut RoleBuilder<'_>,
    row: &Row,
    list: tile::Value,
    count: usize,
    scores: tile::Value,
    heads: usize,
) {
    let end = r.index_const(count as i64);
    r.for_(row.zero, end, 1, |r, at| {
        let id = r.index_read(list, &[row.row, at]);
        let padding = r.index(IndexOp::Lt, id, row.zero);
        r.if_(padding, |r| {
            let x = r.slot_load(scores, row.zero, at, heads, 1);
            let low = r.splat(f32::NEG_INFINITY);
            let low = r.zip(x, low, Binary::Min);
            r.slot_store(low, scores, row.zero, at);
        });
    });
}
