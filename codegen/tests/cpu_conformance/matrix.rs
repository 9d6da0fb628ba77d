//! Matrix ops on slots: products with panels of weights, attention and index products.

use crate::{EXACT, conform, conform_each};
use tessera_ir::graph::Round;
use tessera_ir::tile::{Access, Class, IndexOp, KernelBuilder, RoleKind, SlotType};
use tessera_ir::types::Layout;
use tessera_ir::{Dim, Format, TensorType};

/// `y = x · wᵀ` in tiles of `m_tile` rows and `n_tile` columns, weights cut along K into `cuts` pieces; `w` is `[E, N, K]`
/// and every tile of the grid takes one matrix.
struct Linear {
    x: Format,
    w: Format,
    k: usize,
    n: usize,
    n_tile: usize,
    m_tile: usize,
    cuts: usize,
    /// Columns stored at a time; divides N and the tile.
    chunk: usize,
}

impl Linear {
    fn kernel(&self) -> KernelBuilder {
        let Linear { x, w, k: depth, n, n_tile, m_tile, cuts, chunk } = *self;
        let experts = 2;
        let part = depth / cuts;
        let mut k = KernelBuilder::new(format!("linear_{x}_{w}"));
        let xs = k.param("x", TensorType::new([Dim::sym("T"), depth.into()], x), Access::Read);
        let ty = TensorType { layout: Layout::Panels16, ..TensorType::new([experts, n, depth], w) };
        let ws = k.param("w", ty, Access::Read);
        let ty = TensorType::new([Dim::from(experts), Dim::sym("T"), n.into()], Format::F32);
        let ys = k.param("y", ty, Access::Write);
        k.axis("e", experts, 1);
        k.axis("n", n, n_tile);
        k.axis("m", Dim::sym("T"), m_tile);
        let slot = |rows, cols: usize, format| SlotType { rows, cols: cols.into(), format };
        let a = k.ring("a", Class::Stage, slot(m_tile, part, x), 2, &[0, 1]);
        let b_ring = k.ring("b", Class::Stage, slot(n_tile, part, w), 2, &[0, 1]);
        let c = k.ring("c", Class::Accum, slot(m_tile, n_tile, Format::F32), 1, &[1, 2]);
        k.role(RoleKind::Copy, "copy", |b| {
            let (e, col, row) = (b.index_tile(0), b.index_tile(1), b.index_tile(2));
            let rows = b.index_dim(Dim::sym("T"));
            let left = b.index(IndexOp::Sub, rows, row);
            let most = b.index_const(m_tile as i64);
            let live = b.index(IndexOp::Min, left, most);
            let all = b.index_const(n as i64);
            let left = b.index(IndexOp::Sub, all, col);
            let most = b.index_const(n_tile as i64);
            let columns = b.index(IndexOp::Min, left, most);
            for i in 0..cuts {
                let at = b.index_const((i * part) as i64);
                let to = b.acquire(a);
                b.copy(xs, &[row, at], to, live);
                b.pass(to);
                let to = b.acquire(b_ring);
                b.copy(ws, &[e, col, at], to, columns);
                b.pass(to);
            }
        });
        k.role(RoleKind::Matrix, "matrix", |b| {
            let row = b.index_tile(2);
            let rows = b.index_dim(Dim::sym("T"));
            let left = b.index(IndexOp::Sub, rows, row);
            let most = b.index_const(m_tile as i64);
            let live = b.index(IndexOp::Min, left, most);
            let acc = b.acquire(c);
            for i in 0..cuts {
                let (x, w) = (b.take(a), b.take(b_ring));
                b.mma(acc, x, w, live, i == 0);
                b.release(x);
                b.release(w);
            }
            b.pass(acc);
        });
        k.role(RoleKind::Vector, "vector", |b| {
            let (e, col, row) = (b.index_tile(0), b.index_tile(1), b.index_tile(2));
            let zero = b.index_const(0);
            let rows = b.index_dim(Dim::sym("T"));
            let left = b.index(IndexOp::Sub, rows, row);
            let most = b.index_const(m_tile as i64);
            let live = b.index(IndexOp::Min, left, most);
            let all = b.index_const(n as i64);
            let left = b.index(IndexOp::Sub, all, col);
            let most = b.index_const(n_tile as i64);
            let columns = b.index(IndexOp::Min, left, most);
            let acc = b.take(c);
            b.for_(zero, live, 1, |b, i| {
                b.for_(zero, columns, chunk, |b, j| {
                    let v = b.slot_load(acc, i, j, 1, chunk);
                    let (at_row, at_col) = (b.index(IndexOp::Add, row, i), b.index(IndexOp::Add, col, j));
                    b.store(v, ys, &[e, at_row, at_col]);
                });
            });
            b.release(acc);
        });
        k
    }
}

#[test]
fn products_with_every_weight_format() {
    for x in [Format::MX8, Format::BF16, Format::F32] {
        for w in [Format::W8, Format::MX4, Format::BF16, Format::F32] {
            for (k, n, cuts, chunk) in [(64, 48, 1, 16), (128, 40, 2, 8), (192, 33, 1, 1), (64, 96, 2, 32)] {
                // Cuts lie at block borders.
                let cuts = if k / cuts % 64 == 0 { cuts } else { 1 };
                let linear = Linear { x, w, k, n, n_tile: 32, m_tile: 4, cuts, chunk };
                conform_each(linear.kernel(), &[0, 1, 4, 9].map(|t| (vec![("T", t)], Vec::new())), EXACT);
            }
        }
    }
}

#[test]
fn products_narrower_than_a_panel() {
    for (x, w) in [(Format::MX8, Format::W8), (Format::F32, Format::F32), (Format::BF16, Format::MX4)] {
        for (n, n_tile, chunk) in [(1, 1, 1), (5, 5, 5), (17, 17, 17), (50, 48, 2)] {
            let linear = Linear { x, w, k: 64, n, n_tile, m_tile: 3, cuts: 1, chunk };
            conform_each(linear.kernel(), &[1, 8].map(|t| (vec![("T", t)], Vec::new())), EXACT);
        }
    }
}

#[test]
fn products_of_unscaled_rows_with_odd_depth() {
    for w in [Format::BF16, Format::F32] {
        for k in [1, 5, 63, 65, 100] {
            let linear = Linear { x: Format::F32, w, k, n: 17, n_tile: 32, m_tile: 8, cuts: 1, chunk: 1 };
            conform(linear.kernel(), &[("T", 7)], &[], EXACT);
        }
    }
}

/// One row of queries against a window, scores scaled, weighted values, in blocks.
fn attention(heads: usize, d: usize, keys: usize, block: usize, format: Format) -> KernelBuilder {
    let mut k = KernelBuilder::new(format!("attend_{format}"));
    let q =
        k.param("q", TensorType::new([Dim::sym("T"), heads.into(), d.into()], Format::BF16), Access::Read);
    let kv = k.param("kv", TensorType::new([keys, d], format), Access::Read);
    let ty = TensorType::new([Dim::sym("T"), heads.into(), keys.into()], Format::F32);
    let s = k.param("s", ty, Access::Write);
    let ty = TensorType::new([Dim::sym("T"), heads.into(), d.into()], Format::F32);
    let o = k.param("o", ty, Access::Write);
    k.axis("t", Dim::sym("T"), 1);
    let slot = |rows, cols: usize, format| SlotType { rows, cols: cols.into(), format };
    let qs = k.ring("qs", Class::Stage, slot(heads, d, Format::BF16), 1, &[0, 1]);
    let ks = k.ring("ks", Class::Stage, slot(block, d, Format::F32), 2, &[0, 1]);
    let scores = k.ring("scores", Class::Vec, slot(heads, keys, Format::F32), 1, &[1]);
    let acc = k.ring("acc", Class::Accum, slot(heads, d, Format::F32), 1, &[1]);
    k.role(RoleKind::Copy, "copy", |b| {
        let (row, zero, all) = (b.index_tile(0), b.index_const(0), b.index_const(keys as i64));
        let (n, most) = (b.index_const(heads as i64), b.index_const(block as i64));
        let to = b.acquire(qs);
        b.copy(q, &[row, zero, zero], to, n);
        b.pass(to);
        b.for_(zero, all, block, |b, i| {
            let left = b.index(IndexOp::Sub, all, i);
            let n = b.index(IndexOp::Min, left, most);
            let to = b.acquire(ks);
            b.copy(kv, &[i, zero], to, n);
            b.pass(to);
        });
    });
    k.role(RoleKind::Vector, "vector", |b| {
        let (row, zero, all) = (b.index_tile(0), b.index_const(0), b.index_const(keys as i64));
        let most = b.index_const(block as i64);
        let queries = b.take(qs);
        let (score, sum) = (b.acquire(scores), b.acquire(acc));
        b.slot_fill(sum, 0.0);
        b.for_(zero, all, block, |b, i| {
            let left = b.index(IndexOp::Sub, all, i);
            let n = b.index(IndexOp::Min, left, most);
            let block = b.take(ks);
            b.mma_scores(score, queries, block, i, n, 0.125);
            b.mma_values(sum, score, block, i, n);
            b.release(block);
        });
        let v = b.slot_load(score, zero, zero, heads, keys);
        b.store(v, s, &[row, zero, zero]);
        let v = b.slot_load(sum, zero, zero, heads, d);
        b.store(v, o, &[row, zero, zero]);
        b.release(queries);
        b.release(score);
        b.release(sum);
    });
    k
}

#[test]
fn scores_and_weighted_values() {
    for format in [Format::F32, Format::BF16, Format::KV8, Format::KV4] {
        for (heads, d, keys, block) in [(1, 32, 1, 64), (3, 32, 17, 8), (8, 64, 70, 64), (2, 96, 5, 2)] {
            conform(attention(heads, d, keys, block, format), &[("T", 2)], &[], EXACT);
        }
    }
}

#[test]
fn index_scores_of_weighted_heads() {
    for round in [Round::None, Round::Bf16] {
        for (heads, d, keys) in [(1, 32, 3), (4, 64, 33), (5, 32, 64)] {
            let mut k = KernelBuilder::new("index");
            let q = k.param("q", TensorType::new([2, heads, d], Format::INDEX4), Access::Read);
            let w = k.param("w", TensorType::new([2, heads], Format::F32), Access::Read);
            let keys_view = k.param("keys", TensorType::new([2, keys, d], Format::INDEX4), Access::Read);
            let y = k.param("y", TensorType::new([2, keys + 1], Format::F32), Access::Write);
            k.axis("t", 2, 1);
            let slot = |rows, cols: usize| SlotType { rows, cols: cols.into(), format: Format::F32 };
            let rings = [
                k.ring("heads", Class::Stage, slot(heads, d), 1, &[0]),
                k.ring("weights", Class::Vec, slot(1, heads), 1, &[0]),
                k.ring("entries", Class::Stage, slot(keys, d), 1, &[0]),
                k.ring("scores", Class::Vec, slot(1, keys + 1), 1, &[0]),
            ];
            k.role(RoleKind::Vector, "vector", |b| {
                let (t, zero, one) = (b.index_tile(0), b.index_const(0), b.index_const(1));
                let (h, n) = (b.index_const(heads as i64), b.index_const(keys as i64));
                let [qs, ws, ks, s] = rings.map(|r| b.acquire(r));
                b.copy(q, &[t, zero, zero], qs, h);
                b.copy(w, &[t, zero], ws, one);
                b.copy(keys_view, &[t, zero, zero], ks, n);
                b.slot_fill(s, f32::NEG_INFINITY);
                b.mma_index(s, qs, ws, ks, one, n, round);
                let v = b.slot_load(s, zero, zero, 1, keys + 1);
                b.store(v, y, &[t, zero]);
                [qs, ws, ks, s].into_iter().for_each(|slot| b.release(slot));
            });
            conform(k, &[], &[], EXACT);
        }
    }
}
