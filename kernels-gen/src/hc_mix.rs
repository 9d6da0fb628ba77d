//! Family `hc_mix`: coefficients that mix the residual streams, with Sinkhorn normalisation (V4.1 §2.3).

use crate::config::Config;
use crate::error::Error;
use crate::interface::{Fragment, Views, as_matrix};
use crate::linear::{remaining, row_block};
use tessera_ir::graph::Op;
use tessera_ir::tile::{
    Binary, Class, IndexOp, Kernel, KernelBuilder, Reduce, RoleBuilder, RoleKind, SlotType, Unary,
};
use tessera_ir::{Dim, Format, Layout, TensorType, tile};

/// Schedules the mix of one sublayer.
pub(crate) fn schedule(f: &Fragment<'_>, config: &Config) -> Result<Kernel, Error> {
    let (node, x, function, base, scale, iters, eps, norm_eps) = f.only("hc.mix", |n| match &n.op {
        Op::HcMix { x, function, base, scale, iters, eps, norm_eps } => {
            Some((n, *x, *function, *base, *scale, *iters, *eps, *norm_eps))
        }
        _ => None,
    })?;
    if let Some(other) = f.module.nodes.iter().find(|n| !matches!(n.op, Op::HcMix { .. })) {
        return Err(f.foreign(&other.op));
    }
    let (n, outputs, k) = (f.fixed(x, 1)?, f.fixed(function, 0)?, f.fixed(function, 1)?);
    let rows_dim = f.ty(x).shape[0].clone();
    let m_tile = row_block(config.mix_rows, k);

    let mut kb = KernelBuilder::new(f.module.name.clone());
    let views = Views::declare(&mut kb, f, |v, ty| {
        if v == function {
            TensorType { layout: Layout::Panels16, ..ty.clone() }
        } else if v == x {
            as_matrix(ty)
        } else {
            ty.clone()
        }
    });
    let m_axis = kb.axis("m", rows_dim.clone(), m_tile);
    let slot = |rows, cols| SlotType { rows, cols: Dim::Fixed(cols), format: Format::F32 };
    let a = kb.ring("a", Class::Stage, slot(m_tile, k), 1, &[0, 1]);
    // Products come in whole panels of 16 columns.
    let columns = outputs.next_multiple_of(16);
    let b_slot = SlotType { rows: columns, cols: Dim::Fixed(k), format: f.ty(function).format };
    let b = kb.ring("b", Class::Stage, b_slot, 1, &[0, 1]);
    let c = kb.ring("c", Class::Accum, slot(m_tile, columns), 1, &[1, 2]);
    let square = kb.ring("comb", Class::Vec, slot(n, n), 1, &[2]);
    let (x_view, function_view) = (views.of(f, x)?, views.of(f, function)?);
    let (base_view, scale_view) = (views.of(f, base)?, views.of(f, scale)?);
    let outs = [views.get(node.result(0)), views.get(node.result(1)), views.get(node.result(2))];
    let place = |r: &mut RoleBuilder<'_>| {
        let m0 = r.index_tile(m_axis);
        let all = r.index_dim(rows_dim.clone());
        (m0, remaining(r, all, m0, m_tile))
    };

    kb.role(RoleKind::Copy, "copy", |r| {
        let (m0, rows) = place(r);
        let (zero, all) = (r.index_const(0), r.index_const(outputs as i64));
        let slot = r.acquire(b);
        r.copy(function_view, &[zero, zero], slot, all);
        r.pass(slot);
        let slot = r.acquire(a);
        r.copy(x_view, &[m0, zero], slot, rows);
        r.pass(slot);
    });
    kb.role(RoleKind::Matrix, "matrix", |r| {
        let (_, rows) = place(r);
        let (b, a) = (r.take(b), r.take(a));
        let acc = r.acquire(c);
        r.mma(acc, a, b, rows, true);
        r.pass(acc);
        r.release(a);
        r.release(b);
    });
    kb.role(RoleKind::Vector, "vector", |r| {
        let (m0, rows) = place(r);
        let zero = r.index_const(0);
        let acc = r.take(c);
        let comb = r.acquire(square);
        r.for_(zero, rows, 1, |r, i| {
            let row = r.index(IndexOp::Add, m0, i);
            let v = r.load(x_view, &[row, zero], 1, k);
            let sum = r.dot(v, v);
            let count = r.splat(k as f32);
            let mean = r.zip(sum, count, Binary::Div);
            let floor = r.splat(norm_eps);
            let mean = r.zip(mean, floor, Binary::Add);
            let inverse = r.map(mean, Unary::Rsqrt);
            let z = r.slot_load(acc, i, zero, 1, outputs);
            let z = r.zip(z, inverse, Binary::Mul);
            let base = r.load(base_view, &[zero], 1, outputs);
            let scale = r.load(scale_view, &[zero], 1, 3);
            let part = |r: &mut RoleBuilder<'_>, which: usize, col: usize, cols: usize| {
                let z = r.slice(z, 0, 1, col, cols);
                let s = r.slice(scale, 0, 1, which, 1);
                let b = r.slice(base, 0, 1, col, cols);
                let scaled = r.zip(z, s, Binary::Mul);
                r.zip(scaled, b, Binary::Add)
            };
            let eps = r.splat(eps);
            let [pre_out, post_out, comb_out] = outs;
            let pre = part(r, 0, 0, n);
            let pre = r.map(pre, Unary::Sigmoid);
            let pre = r.zip(pre, eps, Binary::Add);
            if let Some(view) = pre_out {
                r.store(pre, view, &[row, zero]);
            }
            let post = part(r, 1, n, n);
            let post = r.map(post, Unary::Sigmoid);
            let two = r.splat(2.0);
            let post = r.zip(two, post, Binary::Mul);
            if let Some(view) = post_out {
                r.store(post, view, &[row, zero]);
            }
            let m = part(r, 2, 2 * n, n * n);
            let m = r.reshape(m, n, n);
            let top = r.reduce(m, Reduce::Max, 1);
            let m = r.zip(m, top, Binary::Sub);
            let e = r.map(m, Unary::Exp);
            let total = summed(r, e, 1, n);
            let soft = r.zip(e, total, Binary::Div);
            let soft = r.zip(soft, eps, Binary::Add);
            let first = normalised(r, soft, 0, n, eps);
            r.slot_store(first, comb, zero, zero);
            let more = r.index_const(iters.saturating_sub(1) as i64);
            r.for_(zero, more, 1, |r, _| {
                let x = r.slot_load(comb, zero, zero, n, n);
                let x = normalised(r, x, 1, n, eps);
                let x = normalised(r, x, 0, n, eps);
                r.slot_store(x, comb, zero, zero);
            });
            if let Some(view) = comb_out {
                let x = r.slot_load(comb, zero, zero, n, n);
                r.store(x, view, &[row, zero, zero]);
            }
        });
        r.release(comb);
        r.release(acc);
    });
    Ok(kb.finish()?)
}

/// `x / (sum of x along the axis + eps)` of an n×n tile.
fn normalised(
    r: &mut RoleBuilder<'_>,
    x: tile::Value,
    axis: usize,
    n: usize,
    eps: tile::Value,
) -> tile::Value {
    let sum = summed(r, x, axis, n);
    let sum = r.zip(sum, eps, Binary::Add);
    r.zip(x, sum, Binary::Div)
}

/// Sum of an n×n tile along an axis, ascending on both: the lanes of `reduce` would pair columns up.
fn summed(r: &mut RoleBuilder<'_>, x: tile::Value, axis: usize, n: usize) -> tile::Value {
    if axis == 0 {
        return r.reduce(x, Reduce::Sum, 0);
    }
    let first = r.slice(x, 0, n, 0, 1);
    (1..n).fold(first, |sum, k| {
        let column = r.slice(x, 0, n, k, 1);
        r.zip(sum, column, Binary::Add)
    })
}
