//! Valid kernels for SM100 from a seed: products in groups, accumulators that go back and forth, selections, sorts.

use super::{Choices, name, t};
use tessera_ir::tile::{
    Access, Binary, BuildFault, Class, Hop, IndexOp, Kernel, KernelBuilder, Lanes, Part, Reduce, Ring,
    RingScope, RoleBuilder, RoleKind, SlotType, Target, Threads, Value,
};
use tessera_ir::{Dim, Format, Layout, TensorType};

/// Rows of tokens in a tile.
const TOKENS: usize = 16;

fn slot(rows: usize, cols: usize, format: Format) -> SlotType {
    SlotType { rows, cols: cols.into(), format }
}

/// One warpgroup in some order of sums.
pub(super) fn warpgroup(c: &mut Choices) -> Threads {
    let count = c.of(&[1, 2, 16, 32, 64, 96, 128]);
    let registers = c.of(&[None, Some(64), Some(128)]);
    Threads { warps: 4, registers, lanes: Lanes { count, chunk: 1 + c.below(4) } }
}

/// Weights of each group times the group's rows, which a list gathers; a pair of cores may share the weights.
pub(super) fn grouped(c: &mut Choices) -> Result<Kernel, BuildFault> {
    let pair = c.below(3) == 0;
    let m = if pair { 256 } else { c.of(&[64, 128]) };
    let groups = 1 + c.below(3);
    let (w_format, x_format) =
        c.of(&[(Format::W8, Format::MX8), (Format::MX4, Format::MX8), (Format::BF16, Format::BF16)]);
    let step = c.of(&[32, 64]);
    let k_len = 32 * (1 + c.below(4));
    let scaled = x_format.group.is_some();
    let out = c.of(&[Format::F32, Format::BF16, Format::MX8]);
    let scope = if pair { RingScope::Pair } else { RingScope::Core };

    let mut k = KernelBuilder::new(name(c));
    k.target(Target::Sm100);
    k.cluster(if pair { 2 } else { 1 });
    if c.below(2) == 0 {
        k.persistent(1 + c.below(4));
    }
    let layout = if scaled { Layout::Blocks128 } else { Layout::Rows };
    let w = TensorType { layout, ..TensorType::new([groups, m, k_len], w_format) };
    let w = k.param("w", w, Access::Read);
    let x = k.param("x", TensorType::new([t(), k_len.into()], x_format), Access::Read);
    let offsets = k.param("offsets", TensorType::new([groups + 1], Format::I32), Access::Read);
    let perm = k.param("perm", TensorType::new([t()], Format::I32), Access::Read);
    let y = k.param("y", TensorType::new([t(), m.into()], out), Access::Write);
    let axis = k.grouped_axis("rows", t(), TOKENS, offsets);
    // Roles: weights, codes, perhaps scales, matrix, epilogue.
    let (first, matrix) = if scaled { (vec![1, 2], 3) } else { (vec![1], 2) };
    let a = k.ring_of(Ring {
        name: "weights".into(),
        class: Class::Stage,
        slot: slot(m, step, w_format),
        depth: 1 + c.below(3),
        scope,
        path: vec![0.into(), matrix.into()],
    });
    let b = k.ring_of(Ring {
        name: "tokens".into(),
        class: Class::Stage,
        slot: slot(TOKENS, step, x_format),
        depth: 1 + c.below(3),
        scope: RingScope::Core,
        path: vec![Hop { roles: first }, matrix.into()],
    });
    let acc = k.ring_of(Ring {
        name: "acc".into(),
        class: Class::Accum,
        slot: slot(m, TOKENS, Format::F32),
        depth: 1 + c.below(2),
        scope,
        path: vec![matrix.into(), (matrix + 1).into()],
    });
    let blocks = |r: &mut RoleBuilder<'_>, body: &mut dyn FnMut(&mut RoleBuilder<'_>, Value, Value)| {
        let (zero, end) = (r.index_const(0), r.index_const(k_len as i64));
        r.for_(zero, end, step, |r, at| body(r, zero, at));
    };
    let live = |r: &mut RoleBuilder<'_>| {
        let (from, end, most) = (r.index_tile(axis), r.index_end(axis), r.index_const(TOKENS as i64));
        let left = r.index(IndexOp::Sub, end, from);
        (from, r.index(IndexOp::Min, left, most))
    };
    let gathered = c.below(2) == 0;
    k.role(RoleKind::Copy, "weights", |r| {
        let group = r.index_group(axis);
        blocks(r, &mut |r, zero, at| {
            let slot = r.acquire(a);
            r.copy_tile(w, &[group, zero, at], slot, Part::All);
            r.pass(slot);
        });
    });
    let parts: &[Part] = if scaled { &[Part::Codes, Part::Scales] } else { &[Part::All] };
    for part in parts {
        k.role(RoleKind::Copy, part.name(), |r| {
            let (from, rows) = live(r);
            blocks(r, &mut |r, _, at| {
                let slot = r.acquire(b);
                if gathered {
                    r.copy_rows(x, &[], perm, &[from], at, slot, rows, 1, *part);
                } else {
                    r.copy_tile(x, &[from, at], slot, *part);
                }
                r.pass(slot);
            });
        });
    }
    k.role(RoleKind::Matrix, "matrix", |r| {
        let (_, rows) = live(r);
        let sum = r.acquire(acc);
        blocks(r, &mut |r, zero, at| {
            let first = r.index(IndexOp::Eq, at, zero);
            let (weights, tokens) = (r.take(a), r.take(b));
            r.mma_tile(sum, weights, tokens, rows, first, false);
            r.release(weights);
            r.release(tokens);
        });
        r.pass(sum);
    });
    let threads = warpgroup(c);
    k.role_of(RoleKind::Vector, "epilogue", threads, |r| {
        let (from, rows) = live(r);
        let zero = r.index_const(0);
        let sum = r.take(acc);
        let columns = r.slot_load(sum, zero, zero, m, TOKENS);
        r.release(sum);
        let x = r.transpose(columns);
        let x = if out == Format::F32 { x } else { r.cast(x, out) };
        if gathered {
            r.store_scatter(x, y, perm, &[from], zero, rows);
        } else {
            r.store_rows(x, y, &[from, zero], rows);
        }
    });
    k.finish()
}

/// Weighted sums of cached rows, where the sums go back and forth between products and a rescaling role.
pub(super) fn attend(c: &mut Choices) -> Result<Kernel, BuildFault> {
    let (heads, dim, keys, raw) = (1 + c.below(4), 32, 16, 8);
    let format = c.of(&[Format::KV8, Format::KV4]);
    let (per, listed, wrapped) = (1 + c.below(2), c.below(2) == 0, c.below(2) == 0);
    let depths = [1 + c.below(3), 1 + c.below(3), 1 + c.below(2)];
    let mut k = KernelBuilder::new(name(c));
    k.target(Target::Sm100);
    if c.below(2) == 0 {
        k.persistent(1 + c.below(4));
    }
    let q = k.param("q", TensorType::new([t(), heads.into(), dim.into()], Format::BF16), Access::Read);
    let cache = TensorType { layout: Layout::Pitch16, ..TensorType::new([2, 8, dim], format) };
    let cache = k.param("cache", cache, Access::Read);
    let ids = k.param("ids", TensorType::new([t(), 4.into()], Format::I32), Access::Read);
    let y = k.param("y", TensorType::new([t(), heads.into(), dim.into()], Format::BF16), Access::Write);
    let axis = k.axis("row", t(), 1);
    // Roles: gather, decode, scores, values, softmax.
    let q_ring = k.ring("q_slot", Class::Stage, slot(64, dim, Format::BF16), 1, &[0, 2]);
    let raw_ring = k.ring("raw", Class::Stage, slot(raw, dim, format), depths[0], &[0, 1]);
    let key_ring = k.ring("keys", Class::Stage, slot(keys, dim, Format::BF16), depths[1], &[1, 2, 3]);
    let s_ring = k.ring("scores", Class::Accum, slot(64, keys, Format::F32), depths[2], &[2, 4]);
    let p_ring = k.ring("weights", Class::Stage, slot(64, keys, Format::BF16), 1, &[4, 3]);
    let o_ring = k.ring("out", Class::Accum, slot(64, dim, Format::F32), 1, &[3, 4]);
    let blocks = |r: &mut RoleBuilder<'_>, body: &mut dyn FnMut(&mut RoleBuilder<'_>, Value, Value)| {
        let (zero, end) = (r.index_const(0), r.index_const(2 * keys as i64));
        r.for_(zero, end, keys, |r, at| body(r, zero, at));
    };
    let parts = |r: &mut RoleBuilder<'_>, body: &mut dyn FnMut(&mut RoleBuilder<'_>, Value)| {
        let (zero, end) = (r.index_const(0), r.index_const(keys as i64));
        r.for_(zero, end, raw, |r, at| body(r, at));
    };
    let count = c.below(4 * per + 1) as i64;
    k.role(RoleKind::Copy, "gather", |r| {
        let (row, zero) = (r.index_tile(axis), r.index_const(0));
        let one = r.index_const(1);
        let slot = r.acquire(q_ring);
        r.copy_tile(q, &[row, zero, zero], slot, Part::All);
        r.pass(slot);
        blocks(r, &mut |r, _, block| {
            parts(r, &mut |r, at| {
                let slot = r.acquire(raw_ring);
                let n = r.index_const(count);
                if wrapped {
                    let start = r.index(IndexOp::Add, block, at);
                    r.copy_wrap(cache, &[one], start, slot, n);
                } else {
                    r.copy_rows(cache, &[zero], ids, &[row, zero], zero, slot, n, per, Part::All);
                }
                r.pass(slot);
            });
        });
    });
    let threads = warpgroup(c);
    k.role_of(RoleKind::Vector, "decode", threads, |r| {
        blocks(r, &mut |r, _, _| {
            let to = r.acquire(key_ring);
            parts(r, &mut |r, at| {
                let from = r.take(raw_ring);
                r.decode(from, to, at);
                r.release(from);
            });
            r.pass(to);
        });
    });
    k.role(RoleKind::Matrix, "scores", |r| {
        let q = r.take(q_ring);
        blocks(r, &mut |r, _, _| {
            let (one, all) = (r.index_const(1), r.index_const(keys as i64));
            let (keys, scores) = (r.take(key_ring), r.acquire(s_ring));
            r.mma_tile(scores, q, keys, all, one, false);
            r.pass(scores);
            r.pass(keys);
        });
        r.release(q);
    });
    k.role(RoleKind::Matrix, "values", |r| {
        let o = r.acquire(o_ring);
        r.pass(o);
        blocks(r, &mut |r, zero, at| {
            let (first, all) = (r.index(IndexOp::Eq, at, zero), r.index_const(dim as i64));
            let (keys, weights, o) = (r.take(key_ring), r.take(p_ring), r.take(o_ring));
            r.mma_tile(o, weights, keys, all, first, true);
            r.release(weights);
            r.release(keys);
            r.pass(o);
        });
    });
    let threads = warpgroup(c);
    k.role_of(RoleKind::Vector, "softmax", threads, |r| {
        let row = r.index_tile(axis);
        blocks(r, &mut |r, zero, at| {
            let scores = r.take(s_ring);
            let x = r.slot_load(scores, zero, zero, 64, keys);
            r.release(scores);
            let x = if listed {
                r.mask_ids(x, ids, &[row, zero], -1.0)
            } else {
                let n = r.index_const(count);
                r.mask_cols(x, n, -1.0)
            };
            let top = r.reduce(x, Reduce::Max, 1);
            let grown = r.any(top);
            let weights = r.acquire(p_ring);
            let e = r.cast(x, Format::BF16);
            r.slot_store(e, weights, zero, zero);
            let o = r.take(o_ring);
            let later = r.index(IndexOp::Lt, zero, at);
            let held = r.index(IndexOp::And, grown, later);
            r.if_(held, |r| {
                let before = r.slot_load(o, zero, zero, 64, dim);
                let half = r.splat(0.5);
                let now = r.zip(before, half, Binary::Mul);
                r.slot_store(now, o, zero, zero);
            });
            r.return_(o);
            r.pass(weights);
        });
        let zero = r.index_const(0);
        let o = r.take(o_ring);
        let sums = r.slot_load(o, zero, zero, heads, dim);
        r.release(o);
        let sums = r.cast(sums, Format::BF16);
        r.store(sums, y, &[row, zero, zero]);
    });
    k.finish()
}

/// Selections from scores in memory, and the sort of choices by group.
pub(super) fn select(c: &mut Choices) -> Result<Kernel, BuildFault> {
    let wide = Dim::sym("C").checked_times(2).expect("a small factor");
    let (best, block) = (1 + c.below(4), 1 + c.below(3));
    let mut k = KernelBuilder::new(name(c));
    k.target(Target::Sm100);
    if c.below(2) == 0 {
        // One tile sorts all choices.
        let experts = k.param("ids", TensorType::new([t(), 2.into()], Format::I32), Access::Read);
        let offsets = k.param("borders", TensorType::new([5], Format::I32), Access::Write);
        let twice = t().checked_times(2).expect("a small factor");
        let both = [c.below(2) == 0, c.below(2) == 0];
        let mut list = |name: &str, there: bool| {
            there.then(|| k.param(name, TensorType::new([twice.clone()], Format::I32), Access::Write))
        };
        let (pairs, rows) = (list("pairs", both[0]), list("rows", both[1]));
        let threads = Threads { registers: None, ..warpgroup(c) };
        k.role_of(RoleKind::Vector, "sort", threads, |r| r.sort_groups(experts, offsets, pairs, rows, 4));
        return k.finish();
    }
    let scores = k.param("scores", TensorType::new([t(), wide.clone()], Format::F32), Access::Read);
    let list = k.param("blocks", TensorType::new([t(), 2.into()], Format::I32), Access::Read);
    let first = k.param("first", TensorType::new([t(), best.into()], Format::I32), Access::Write);
    let second = k.param("second", TensorType::new([t(), best.into()], Format::I32), Access::Write);
    let axis = k.axis("row", t(), 1);
    let threads = Threads { registers: None, ..warpgroup(c) };
    k.role_of(RoleKind::Vector, "select", threads, |r| {
        let (row, zero, n) = (r.index_tile(axis), r.index_const(0), r.index_dim(wide.clone()));
        let newest = r.index_const(c.below(3) as i64 - 1);
        let best_blocks = r.topk_view(scores, &[row, zero], n, newest, best, block);
        r.store(best_blocks, first, &[row, zero]);
        let listed = r.topk_listed(scores, &[row, zero], n, list, &[row, zero], best, block);
        r.store(listed, second, &[row, zero]);
    });
    k.finish()
}
