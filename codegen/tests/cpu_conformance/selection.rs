//! Selection: top-k, picks, block maxima, restriction, argmax.

use crate::data::Arg;
use crate::{EXACT, bind, check, conform, verified};
use tessera_ir::tile::{Access, Class, KernelBuilder, RoleBuilder, RoleKind, SlotType, Value};
use tessera_ir::{Dim, Format, TensorType};

/// A kernel with one row of `n` scores a tile that gives `k` integers.
fn choose(name: &str, n: usize, k: usize, f: impl Fn(&mut RoleBuilder<'_>, Value) -> Value) -> KernelBuilder {
    let mut b = KernelBuilder::new(name);
    let x = b.param("x", TensorType::new([Dim::sym("T"), n.into()], Format::F32), Access::Read);
    let y = b.param("y", TensorType::new([Dim::sym("T"), k.into()], Format::I32), Access::Write);
    b.axis("t", Dim::sym("T"), 1);
    b.role(RoleKind::Vector, "vector", |b| {
        let (row, zero) = (b.index_tile(0), b.index_const(0));
        let v = b.load(x, &[row, zero], 1, n);
        let ids = f(b, v);
        b.store(ids, y, &[row, zero]);
    });
    b
}

/// Rows with ties, infinities and NaNs.
fn hard_rows(n: usize) -> Vec<f32> {
    let levels = [1.0, 2.0, 2.0, f32::NEG_INFINITY, f32::NAN, 3.0, -1.0, f32::INFINITY, 3.0];
    (0..4 * n).map(|i| levels[(i * 7 + i / n * 3) % levels.len()]).collect()
}

#[test]
fn top_lists_are_exact() {
    for n in [1, 5, 16, 17, 100] {
        for k in [1, 3, 16, 20] {
            for head in [0, n / 2, n] {
                let kernel = || {
                    choose("topk", n, k, |b, x| {
                        let head = b.index_const(head as i64);
                        b.topk(x, head, k)
                    })
                };
                conform(kernel(), &[("T", 3)], &[], EXACT);
                let kernel = verified(kernel());
                let bindings = bind(&[("T", 4)]);
                let args = [
                    Arg::reals(&kernel.params[0].ty, &bindings, hard_rows(n)),
                    Arg::output(&kernel.params[1].ty, &bindings),
                ];
                check(&kernel, &bindings, &args, EXACT);
            }
            if k <= n {
                let kernel = verified(choose("ranked", n, k, |b, x| b.topk_ranked(x, k)));
                let bindings = bind(&[("T", 4)]);
                let args = [
                    Arg::reals(&kernel.params[0].ty, &bindings, hard_rows(n)),
                    Arg::output(&kernel.params[1].ty, &bindings),
                ];
                check(&kernel, &bindings, &args, EXACT);
            }
        }
        let kernel = verified(choose("argmax", n, 1, |b, x| b.argmax(x)));
        let bindings = bind(&[("T", 4)]);
        let args = [
            Arg::reals(&kernel.params[0].ty, &bindings, hard_rows(n)),
            Arg::output(&kernel.params[1].ty, &bindings),
        ];
        check(&kernel, &bindings, &args, EXACT);
    }
}

#[test]
fn picked_columns() {
    for (n, k) in [(40, 6), (40, 20), (8, 8)] {
        let mut b = KernelBuilder::new("pick");
        let x = b.param("x", TensorType::new([2, n], Format::F32), Access::Read);
        let y = b.param("y", TensorType::new([2, k], Format::F32), Access::Write);
        b.axis("t", 2, 1);
        b.role(RoleKind::Vector, "vector", |b| {
            let (row, zero) = (b.index_tile(0), b.index_const(0));
            let v = b.load(x, &[row, zero], 1, n);
            let turned = b.map(v, tessera_ir::tile::Unary::Neg);
            let ids = b.topk_ranked(turned, k);
            let picked = b.pick(v, ids);
            b.store(picked, y, &[row, zero]);
        });
        conform(b, &[], &[], EXACT);
    }
}

#[test]
fn block_maxima_and_restriction() {
    for (n, live, newest, block, keep) in
        [(64, 64, 63, 8, 3), (64, 30, 29, 8, 2), (40, 40, -1, 16, 2), (40, 0, -1, 16, 1), (70, 65, 64, 64, 2)]
    {
        let mut b = KernelBuilder::new("blocks");
        let blocks = n / block + 1;
        let x = b.param("x", TensorType::new([2, n], Format::F32), Access::Read);
        let ids = b.param("ids", TensorType::new([2, keep], Format::I32), Access::Write);
        let y = b.param("y", TensorType::new([2, n], Format::F32), Access::Write);
        b.axis("t", 2, 1);
        let slot = |cols: usize| SlotType { rows: 1, cols: cols.into(), format: Format::F32 };
        let scores = b.ring("scores", Class::Vec, slot(n), 1, &[0]);
        let maxima = b.ring("maxima", Class::Vec, slot(blocks), 1, &[0]);
        b.role(RoleKind::Vector, "vector", |b| {
            let (row, zero, one) = (b.index_tile(0), b.index_const(0), b.index_const(1));
            let (live, newest) = (b.index_const(live), b.index_const(newest));
            let (s, m) = (b.acquire(scores), b.acquire(maxima));
            b.copy(x, &[row, zero], s, one);
            b.slot_fill(m, f32::NEG_INFINITY);
            b.block_max(s, live, newest, m, block);
            let best = b.slot_load(m, zero, zero, 1, blocks);
            let all = b.index_const(blocks as i64);
            let list = b.topk(best, all, keep);
            b.store(list, ids, &[row, zero]);
            b.restrict(s, live, list, block);
            let v = b.slot_load(s, zero, zero, 1, n);
            b.store(v, y, &[row, zero]);
            b.release(s);
            b.release(m);
        });
        conform(b, &[], &[], EXACT);
    }
}
