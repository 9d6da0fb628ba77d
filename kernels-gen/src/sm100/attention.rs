//! Families `attention` and `block_attention`: one query row with up to 64 heads per tile, keys in blocks of 64, one pass
//! (V4.1 §2.6, §2.11), with the inverse rotation that follows.
//!
//! | role | unit | work |
//! |---|---|---|
//! | `queries` | copy | the row's queries |
//! | `gather` | copy | raw cache records, 16 rows at a time |
//! | `decode` | vector | raw records to bf16 keys, which are the values too |
//! | `scores` | matrix | `S = Q·Kᵀ` of a block |
//! | `values` | matrix | `O += P·V` of a block |
//! | `softmax` | vector | `P = exp(S − m)`, the running maximum m and sum, the rescaling of O, the output |
//!
//! Blocks are those of the window from its first visible entry on, then those of the second list; all roles walk them in
//! this order, so it depends on the row alone. The window has one block at least, so that a row without keys
//! gets sums of nothing.
//!
//! O travels between `values` and `softmax` and back once a block, empty before the first: whoever holds it may touch it.
//! It is rescaled only where a row's maximum grew by more than [`GROWTH`] over the one in use, or by a row that did: exponentials
//! then stay below `e^GROWTH`, which costs no accuracy, and the decision is the whole role's, hence the row's alone.

use crate::attention::{Parts, parts};
use crate::error::Error;
use crate::interface::{Fragment, Views};
use crate::sm100::Knobs;
use tessera_ir::graph::{Op, Round};
use tessera_ir::tile::{
    Binary, Class, IndexOp, Kernel, KernelBuilder, Lanes, Part, Reduce, RoleBuilder, RoleKind, SlotType,
    Target, Threads, Unary,
};
use tessera_ir::{Dim, Format, Layout, TensorType, tile};

/// Keys of a block.
const KEYS: usize = 64;
/// Heads of a tile: rows of the matrix unit's folded accumulator.
const HEADS: usize = 64;
/// Rows of a raw slot.
const RAW: usize = 16;
/// Most columns of one folded product, and of one piece of O.
const PIECE: usize = 256;
/// Growth of a maximum that is borne without rescaling.
const GROWTH: f32 = 4.0;
/// Maximum of no key: finite, so that its difference to −∞ is a number.
const FLOOR: f32 = -1e30;
/// Least sum: what a row without keys is divided by at most.
const LEAST: f32 = 1e-37;

/// Roles in the order of the text.
const QUERIES: usize = 0;
const GATHER: usize = 1;
const DECODE: usize = 2;
const SCORES: usize = 3;
const VALUES: usize = 4;
const SOFTMAX: usize = 5;

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

/// What the roles share: views, and how to find a row's keys.
struct Shape {
    axis: usize,
    seq: tile::Value,
    pos: tile::Value,
    lo: tile::Value,
    /// Length of the window's ring.
    ring: Dim,
    block: Option<usize>,
    second: Second,
}

/// One row's indices; every role computes them for itself.
struct Row {
    row: tile::Value,
    zero: tile::Value,
    /// Number of window keys.
    keys: tile::Value,
    /// First window position.
    lo: tile::Value,
    /// First row of the row's draft block.
    first: tile::Value,
}

/// A block of keys.
#[derive(Clone, Copy)]
struct Block {
    /// Number of the block's first key in its list.
    at: tile::Value,
    /// Keys in the list.
    keys: tile::Value,
    /// True in the second list.
    second: bool,
}

impl Block {
    /// Keys of the part of `most` keys that begins at key `at`: 0 to `most`.
    fn count(self, r: &mut RoleBuilder<'_>, at: tile::Value, most: usize) -> tile::Value {
        let (zero, most) = (r.index_const(0), r.index_const(most as i64));
        let rest = r.index(IndexOp::Sub, self.keys, at);
        let rest = r.index(IndexOp::Max, rest, zero);
        r.index(IndexOp::Min, rest, most)
    }
}

impl Shape {
    fn row(&self, r: &mut RoleBuilder<'_>) -> Row {
        let row = r.index_tile(self.axis);
        let (zero, one) = (r.index_const(0), r.index_const(1));
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
        let keys = r.index(IndexOp::Max, keys, zero);
        // As many as the ring holds at most; said, so that the count is a small number to the emitter.
        let held = r.index_dim(self.ring.clone());
        let keys = r.index(IndexOp::Min, keys, held);
        Row { row, zero, keys, lo, first }
    }

    /// Runs `body` for each block of keys.
    fn blocks(&self, r: &mut RoleBuilder<'_>, row: &Row, mut body: impl FnMut(&mut RoleBuilder<'_>, Block)) {
        let one = r.index_const(1);
        let end = r.index(IndexOp::Max, row.keys, one);
        r.for_(row.zero, end, KEYS, |r, at| body(r, Block { at, keys: row.keys, second: false }));
        let count = self.second.count();
        if count > 0 {
            let keys = r.index_const(count as i64);
            r.for_(row.zero, keys, KEYS, |r, at| body(r, Block { at, keys, second: true }));
        }
    }
}

/// Runs `body` for each part of a block that fills a raw slot, with the part's first key in the list and first row in the block.
fn raw_parts(
    r: &mut RoleBuilder<'_>,
    block: Block,
    mut body: impl FnMut(&mut RoleBuilder<'_>, tile::Value, tile::Value),
) {
    let (zero, all) = (r.index_const(0), r.index_const(KEYS as i64));
    r.for_(zero, all, RAW, |r, row| {
        let at = r.index(IndexOp::Add, block.at, row);
        body(r, at, row);
    });
}

/// Records of a cache begin at multiples of 16 bytes.
fn in_memory(ty: &TensorType) -> TensorType {
    let layout =
        if ty.format == Format::KV8 || ty.format == Format::KV4 { Layout::Pitch16 } else { ty.layout };
    TensorType { layout, ..ty.clone() }
}

/// What the schedule needs of the op: the formats of the reference mode and widths of the folded accumulator.
fn check(f: &Fragment<'_>, p: &Parts) -> Result<(usize, usize), Error> {
    let (heads, dim) = (f.fixed(p.q, 1)?, f.fixed(p.q, 2)?);
    let want = |holds: bool, what: &str| if holds { Ok(()) } else { Err(f.fault(what.to_owned())) };
    want(heads <= HEADS, "it has more than 64 heads")?;
    want([128, 256, 512].contains(&dim), "its heads are not 128, 256 or 512 wide")?;
    want(f.ty(p.q).format == Format::BF16, "its queries are not bf16")?;
    want(p.round == Round::Bf16, "its weights are not rounded to bf16")?;
    want(f.ty(p.window).format == Format::KV8, "its window is not kv8")?;
    if let Some((cache, _)) = p.cache {
        want(f.ty(cache).format == Format::KV4, "its cache is not kv4")?;
    }
    if let Some((rows, _)) = p.block {
        want(f.ty(rows).format == Format::KV8, "its draft rows are not kv8")?;
    }
    Ok((heads, dim))
}

/// Schedules an attention op and the inverse rotation after it.
pub(crate) fn schedule(f: &Fragment<'_>, knobs: &Knobs) -> Result<Kernel, Error> {
    let p = f.only("attention", |n| parts(&n.op, n.first))?;
    let mut unrope = None;
    for node in &f.module.nodes {
        match &node.op {
            Op::Attention { .. } | Op::BlockAttention { .. } => {}
            Op::Rope { x, table, inverse } if *x == p.out => unrope = Some((node.first, *table, *inverse)),
            other => return Err(f.foreign(other)),
        }
    }
    let (heads, dim) = check(f, &p)?;

    let mut kb = KernelBuilder::new(f.module.name.clone());
    kb.target(Target::Sm100);
    kb.persistent(knobs.cores);
    let views = Views::declare(&mut kb, f, |_, ty| in_memory(ty));
    let axis = kb.axis("row", f.ty(p.q).shape[0].clone(), 1);
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
        ring: f.ty(p.window).shape[1].clone(),
        block: p.block.map(|(_, n)| n),
        second,
    };
    let slot = |rows, cols: usize, format| SlotType { rows, cols: Dim::Fixed(cols), format };
    let q_ring = kb.ring("q", Class::Stage, slot(HEADS, dim, Format::BF16), 1, &[QUERIES, SCORES]);
    let raw8 = kb.ring("raw8", Class::Stage, slot(RAW, dim, Format::KV8), 1, &[GATHER, DECODE]);
    let raw4 = matches!(second, Second::Selected { .. })
        .then(|| kb.ring("raw4", Class::Stage, slot(RAW, dim, Format::KV4), 3, &[GATHER, DECODE]));
    let kv_ring = kb.ring("keys", Class::Stage, slot(KEYS, dim, Format::BF16), 2, &[DECODE, SCORES, VALUES]);
    let s_ring = kb.ring("scores", Class::Accum, slot(HEADS, KEYS, Format::F32), 2, &[SCORES, SOFTMAX]);
    let p_ring = kb.ring("weights", Class::Stage, slot(HEADS, KEYS, Format::BF16), 1, &[SOFTMAX, VALUES]);
    let o_ring = kb.ring("out", Class::Accum, slot(HEADS, dim, Format::F32), 1, &[VALUES, SOFTMAX]);
    let top_ring = kb.ring("top", Class::Vec, slot(HEADS, 1, Format::F32), 1, &[SOFTMAX]);
    let sum_ring = kb.ring("sum", Class::Vec, slot(HEADS, KEYS, Format::F32), 1, &[SOFTMAX]);
    let (q_view, window_view, sink_view) = (views.of(f, p.q)?, views.of(f, p.window)?, views.of(f, p.sink)?);
    let out = unrope.map_or(p.out, |(out, _, _)| out);
    let out_view = views.of(f, out)?;

    let four_warps = Threads { warps: 4, lanes: Lanes { count: 2, chunk: 32 }, ..Threads::default() };

    kb.role(RoleKind::Copy, "queries", |r| {
        let (row, zero) = (r.index_tile(axis), r.index_const(0));
        let q = r.acquire(q_ring);
        r.copy_tile(q_view, &[row, zero, zero], q, Part::All);
        r.pass(q);
    });
    kb.role(RoleKind::Copy, "gather", |r| {
        let row = s.row(r);
        let seq = r.index_read(s.seq, &[row.row]);
        s.blocks(r, &row, |r, block| {
            raw_parts(r, block, |r, at, _| {
                let n = block.count(r, at, RAW);
                match (block.second, s.second, raw4) {
                    (true, Second::Selected { cache, list, .. }, Some(raw4)) => {
                        let slot = r.acquire(raw4);
                        r.copy_rows(cache, &[seq], list, &[row.row, at], row.zero, slot, n, 1, Part::All);
                        r.pass(slot);
                    }
                    (true, Second::Block { rows, .. }, _) => {
                        let start = r.index(IndexOp::Add, row.first, at);
                        let slot = r.acquire(raw8);
                        r.copy_wrap(rows, &[], start, slot, n);
                        r.pass(slot);
                    }
                    (_, _, _) => {
                        let start = r.index(IndexOp::Add, row.lo, at);
                        let slot = r.acquire(raw8);
                        r.copy_wrap(window_view, &[seq], start, slot, n);
                        r.pass(slot);
                    }
                }
            });
        });
    });
    kb.role_of(RoleKind::Vector, "decode", Threads { warps: 4, ..Threads::default() }, |r| {
        let row = s.row(r);
        s.blocks(r, &row, |r, block| {
            let keys = r.acquire(kv_ring);
            raw_parts(r, block, |r, _, first| {
                let raw = r.take(raw4.filter(|_| block.second).unwrap_or(raw8));
                r.decode(raw, keys, first);
                r.release(raw);
            });
            r.pass(keys);
        });
    });
    kb.role(RoleKind::Matrix, "scores", |r| {
        let row = s.row(r);
        let (one, all) = (r.index_const(1), r.index_const(KEYS as i64));
        let q = r.take(q_ring);
        s.blocks(r, &row, |r, _| {
            let keys = r.take(kv_ring);
            let scores = r.acquire(s_ring);
            r.mma_tile(scores, q, keys, all, one, false);
            r.pass(scores);
            r.pass(keys);
        });
        r.release(q);
    });
    kb.role(RoleKind::Matrix, "values", |r| {
        let row = s.row(r);
        let width = r.index_const(dim as i64);
        let o = r.acquire(o_ring);
        r.pass(o);
        s.blocks(r, &row, |r, block| {
            let first = if block.second { row.zero } else { r.index(IndexOp::Eq, block.at, row.zero) };
            let keys = r.take(kv_ring);
            let weights = r.take(p_ring);
            let o = r.take(o_ring);
            r.mma_tile(o, weights, keys, width, first, true);
            r.release(weights);
            r.release(keys);
            r.pass(o);
        });
    });
    kb.role_of(RoleKind::Vector, "softmax", four_warps, |r| {
        let row = s.row(r);
        let zero = row.zero;
        let piece = dim.min(PIECE);
        let columns: Vec<tile::Value> = (0..dim).step_by(piece).map(|c| r.index_const(c as i64)).collect();
        let (top, sum) = (r.acquire(top_ring), r.acquire(sum_ring));
        r.slot_fill(top, FLOOR);
        r.slot_fill(sum, 0.0);
        let (factor, growth) = (r.splat(p.scale), r.splat(GROWTH));
        s.blocks(r, &row, |r, block| {
            let scores = r.take(s_ring);
            let x = r.slot_load(scores, zero, zero, HEADS, KEYS);
            r.release(scores);
            let x = r.zip(x, factor, Binary::Mul);
            // Columns past the last key, and keys of rows of zeros that stand for padding.
            let x = match (block.second, s.second) {
                (true, Second::Selected { list, .. }) => {
                    r.mask_ids(x, list, &[row.row, block.at], f32::NEG_INFINITY)
                }
                (_, _) => {
                    let n = block.count(r, block.at, KEYS);
                    r.mask_cols(x, n, f32::NEG_INFINITY)
                }
            };
            let here = r.reduce(x, Reduce::Max, 1);
            let before = r.slot_load(top, zero, zero, HEADS, 1);
            let grown = r.zip(here, before, Binary::Sub);
            let over = r.zip(grown, growth, Binary::Sub);
            let rescale = r.any(over);
            r.if_(rescale, |r| {
                let now = r.zip(here, before, Binary::Max);
                r.slot_store(now, top, zero, zero);
                let shrunk = shrink(r, before, now);
                let old = r.slot_load(sum, zero, zero, HEADS, KEYS);
                let old = r.zip(old, shrunk, Binary::Mul);
                r.slot_store(old, sum, zero, zero);
            });
            let now = r.slot_load(top, zero, zero, HEADS, 1);
            let below = r.zip(x, now, Binary::Sub);
            let e = r.map(below, Unary::Exp);
            let old = r.slot_load(sum, zero, zero, HEADS, KEYS);
            let total = r.zip(old, e, Binary::Add);
            r.slot_store(total, sum, zero, zero);
            let e = r.cast(e, Format::BF16);
            let weights = r.acquire(p_ring);
            r.slot_store(e, weights, zero, zero);
            let o = r.take(o_ring);
            // Before the first block O holds nothing.
            let held = if block.second {
                rescale
            } else {
                let later = r.index(IndexOp::Lt, zero, block.at);
                r.index(IndexOp::And, rescale, later)
            };
            r.if_(held, |r| {
                let shrunk = shrink(r, before, now);
                for c in &columns {
                    let part = r.slot_load(o, zero, *c, HEADS, piece);
                    let part = r.zip(part, shrunk, Binary::Mul);
                    r.slot_store(part, o, zero, *c);
                }
            });
            r.return_(o);
            r.pass(weights);
        });
        let total = r.slot_load(sum, zero, zero, heads, KEYS);
        let total = r.reduce(total, Reduce::Sum, 1);
        let top_row = r.slot_load(top, zero, zero, heads, 1);
        let sink = r.load(sink_view, &[zero], 1, heads);
        let sink = r.reshape(sink, heads, 1);
        let sink = shrink(r, sink, top_row);
        let total = r.zip(total, sink, Binary::Add);
        let (least, one) = (r.splat(LEAST), r.splat(1.0));
        let total = r.zip(total, least, Binary::Max);
        let inverse_total = r.zip(one, total, Binary::Div);
        let o = r.take(o_ring);
        for (i, c) in columns.iter().enumerate() {
            let x = r.slot_load(o, zero, *c, heads, piece);
            let last = i + 1 == columns.len();
            if last {
                r.release(o);
            }
            let y = r.zip(x, inverse_total, Binary::Mul);
            let mut y = r.cast(y, f.ty(p.out).format);
            if let Some((out, table, inverse)) = unrope.filter(|_| last) {
                let width = f.fixed(table, 1)?;
                let table = r.load(views.of(f, table)?, &[row.row, zero], 1, width);
                y = r.rotate(y, table, inverse);
                y = r.cast(y, f.ty(out).format);
            }
            r.store(y, out_view, &[row.row, zero, *c]);
        }
        for slot in [top, sum] {
            r.release(slot);
        }
        Ok::<(), Error>(())
    })?;
    Ok(kb.finish()?)
}

/// `exp(a − b)`.
fn shrink(r: &mut RoleBuilder<'_>, a: tile::Value, b: tile::Value) -> tile::Value {
    let below = r.zip(a, b, Binary::Sub);
    r.map(below, Unary::Exp)
}
