//! Family `hc_mix` on SM100: rows on the M side, the weight's three bf16 parts on the N side, one thread for each row.
//!
//! The weight has few rows, so that here the activations take the 128 lanes. The vector role reads the same K blocks as the
//! matrix role for the rows' mean squares, then finds all coefficients of its row in the lane of the accumulator.

use super::knobs::Knobs;
use super::stages::depth_of;
use crate::error::Error;
use crate::interface::{Fragment, Views, as_matrix};
use crate::linear::remaining;
use tessera_ir::graph::Op;
use tessera_ir::tile::{
    self, Binary, Class, Hop, IndexOp, Kernel, KernelBuilder, Lanes, Part, Reduce, Ring, RingScope,
    RoleBuilder, RoleKind, SlotType, Target, Threads, Unary,
};
use tessera_ir::{Dim, Format, Layout, TensorType};

/// Rows of a tile: the lanes of an accumulator.
const ROWS: usize = 128;
/// Columns of a K block, 128 bytes of a row.
const BLOCK: usize = 64;

/// Schedules the mix of one sublayer.
pub(crate) fn schedule(f: &Fragment<'_>, knobs: &Knobs) -> Result<Kernel, Error> {
    let (node, x, function, base, scale, iters, eps, norm_eps) = f.only("hc.mix", |n| match &n.op {
        Op::HcMix { x, function, base, scale, iters, eps, norm_eps } => {
            Some((n, *x, *function, *base, *scale, *iters, *eps, *norm_eps))
        }
        _ => None,
    })?;
    if let Some(other) = f.module.nodes.iter().find(|n| !matches!(n.op, Op::HcMix { .. })) {
        return Err(f.foreign(&other.op));
    }
    if f.ty(x).format != Format::BF16 {
        return Err(f.fault(format!("its streams are {}, this machine mixes bf16", f.ty(x).format)));
    }
    let (n, outputs, k) = (f.fixed(x, 1)?, f.fixed(function, 0)?, f.fixed(function, 1)?);
    let rows_dim = f.ty(x).shape[0].clone();
    let columns = outputs.next_multiple_of(16);

    let mut kb = KernelBuilder::new(f.module.name.clone());
    kb.target(Target::Sm100);
    kb.persistent(knobs.cores);
    let views = Views::declare(&mut kb, f, |v, ty| {
        if v == function {
            TensorType { layout: Layout::Split3, ..ty.clone() }
        } else if ty.shape.len() == 3 {
            as_matrix(ty)
        } else {
            ty.clone()
        }
    });
    let m_axis = kb.axis("m", rows_dim.clone(), ROWS);
    let slot = |rows, cols, format| SlotType { rows, cols: Dim::Fixed(cols), format };
    let mut rows_ring = Ring {
        name: "rows".to_owned(),
        class: Class::Stage,
        slot: slot(ROWS, BLOCK, Format::BF16),
        depth: 1,
        scope: RingScope::Core,
        path: vec![Hop::from(1), Hop { roles: vec![2, 3] }],
    };
    let mut weight_ring = Ring {
        name: "weight".to_owned(),
        slot: slot(columns, BLOCK, Format::F32),
        path: vec![Hop::from(0), Hop::from(2)],
        ..rows_ring.clone()
    };
    let depth = depth_of(&[&rows_ring, &weight_ring]);
    (rows_ring.depth, weight_ring.depth) = (depth, depth);
    let (a, b) = (kb.ring_of(rows_ring), kb.ring_of(weight_ring));
    let c = kb.ring("acc", Class::Accum, slot(ROWS, columns, Format::F32), 2, &[2, 3]);
    let square = kb.ring("square", Class::Vec, slot(ROWS, 1, Format::F32), 1, &[3]);
    let comb = kb.ring("comb", Class::Vec, slot(ROWS, n * n, Format::F32), 1, &[3]);
    let (x_view, function_view) = (views.of(f, x)?, views.of(f, function)?);
    let (base_view, scale_view) = (views.of(f, base)?, views.of(f, scale)?);
    let outs = [views.get(node.result(0)), views.get(node.result(1)), views.get(node.result(2))];
    let each_block =
        |r: &mut RoleBuilder<'_>, body: &mut dyn FnMut(&mut RoleBuilder<'_>, tile::Value, tile::Value)| {
            let (zero, end) = (r.index_const(0), r.index_const(k as i64));
            r.for_(zero, end, BLOCK, |r, k| body(r, zero, k));
        };

    kb.role(RoleKind::Copy, "weights", |r| {
        each_block(r, &mut |r, zero, k| {
            let slot = r.acquire(b);
            r.copy_tile(function_view, &[zero, k], slot, Part::All);
            r.pass(slot);
        });
    });
    kb.role(RoleKind::Copy, "rows", |r| {
        let m0 = r.index_tile(m_axis);
        each_block(r, &mut |r, _, k| {
            let slot = r.acquire(a);
            r.copy_tile(x_view, &[m0, k], slot, Part::All);
            r.pass(slot);
        });
    });
    kb.role(RoleKind::Matrix, "matrix", |r| {
        let acc = r.acquire(c);
        let width = r.index_const(columns as i64);
        each_block(r, &mut |r, zero, k| {
            let (b, a) = (r.take(b), r.take(a));
            let first = r.index(IndexOp::Eq, k, zero);
            r.mma_tile(acc, a, b, width, first, false);
            r.release(b);
            r.release(a);
        });
        r.pass(acc);
    });
    let threads = Threads { warps: 4, registers: None, lanes: Lanes { count: 4, chunk: 1 } };
    kb.role_of(RoleKind::Vector, "mix", threads, |r| {
        let m0 = r.index_tile(m_axis);
        let all = r.index_dim(rows_dim.clone());
        let rows = remaining(r, all, m0, ROWS);
        let zero = r.index_const(0);
        let square = r.acquire(square);
        r.slot_fill(square, 0.0);
        each_block(r, &mut |r, zero, _| {
            let slot = r.take(a);
            let v = r.slot_load(slot, zero, zero, ROWS, BLOCK);
            let sum = r.dot(v, v);
            let before = r.slot_load(square, zero, zero, ROWS, 1);
            let sum = r.zip(before, sum, Binary::Add);
            r.slot_store(sum, square, zero, zero);
            r.release(slot);
        });
        let sum = r.slot_load(square, zero, zero, ROWS, 1);
        r.release(square);
        let count = r.splat(k as f32);
        let mean = r.zip(sum, count, Binary::Div);
        let floor = r.splat(norm_eps);
        let mean = r.zip(mean, floor, Binary::Add);
        let inverse = r.map(mean, Unary::Rsqrt);
        let acc = r.take(c);
        let z = r.slot_load(acc, zero, zero, ROWS, outputs);
        r.release(acc);
        let z = r.zip(z, inverse, Binary::Mul);
        let base = r.load(base_view, &[zero], 1, outputs);
        let scale = r.load(scale_view, &[zero], 1, 3);
        let part = |r: &mut RoleBuilder<'_>, which: usize, col: usize| {
            let z = r.slice(z, 0, ROWS, col, n);
            let s = r.slice(scale, 0, 1, which, 1);
            let b = r.slice(base, 0, 1, col, n);
            let scaled = r.zip(z, s, Binary::Mul);
            r.zip(scaled, b, Binary::Add)
        };
        let eps = r.splat(eps);
        let [pre_out, post_out, comb_out] = outs;
        let pre = part(r, 0, 0);
        let pre = r.map(pre, Unary::Sigmoid);
        let pre = r.zip(pre, eps, Binary::Add);
        if let Some(view) = pre_out {
            r.store_rows(pre, view, &[m0, zero], rows);
        }
        let post = part(r, 1, n);
        let post = r.map(post, Unary::Sigmoid);
        let two = r.splat(2.0);
        let post = r.zip(two, post, Binary::Mul);
        if let Some(view) = post_out {
            r.store_rows(post, view, &[m0, zero], rows);
        }
        let comb = r.acquire(comb);
        let soft: Vec<_> = (0..n)
            .map(|i| {
                let m = part(r, 2, 2 * n + i * n);
                let top = r.reduce(m, Reduce::Max, 1);
                let m = r.zip(m, top, Binary::Sub);
                let e = r.map(m, Unary::Exp);
                let total = across(r, e, n);
                let soft = r.zip(e, total, Binary::Div);
                r.zip(soft, eps, Binary::Add)
            })
            .collect();
        let first = down_normalised(r, &soft, eps);
        put(r, comb, &first, n);
        let more = r.index_const(iters.saturating_sub(1) as i64);
        r.for_(zero, more, 1, |r, _| {
            let x = get(r, comb, n);
            let x: Vec<_> = x
                .into_iter()
                .map(|x| {
                    let sum = across(r, x, n);
                    let sum = r.zip(sum, eps, Binary::Add);
                    r.zip(x, sum, Binary::Div)
                })
                .collect();
            let x = down_normalised(r, &x, eps);
            put(r, comb, &x, n);
        });
        if let Some(view) = comb_out {
            for (i, x) in get(r, comb, n).into_iter().enumerate() {
                let col = r.index_const((i * n) as i64);
                r.store_rows(x, view, &[m0, col], rows);
            }
        }
        r.release(comb);
    });
    Ok(kb.finish()?)
}

/// The rows of each thread's n×n square, kept in a slot.
fn get(r: &mut RoleBuilder<'_>, square: tile::Value, n: usize) -> Vec<tile::Value> {
    let zero = r.index_const(0);
    (0..n)
        .map(|i| {
            let col = r.index_const((i * n) as i64);
            r.slot_load(square, zero, col, ROWS, n)
        })
        .collect()
}

fn put(r: &mut RoleBuilder<'_>, square: tile::Value, rows: &[tile::Value], n: usize) {
    let zero = r.index_const(0);
    for (i, x) in rows.iter().enumerate() {
        let col = r.index_const((i * n) as i64);
        r.slot_store(*x, square, zero, col);
    }
}

/// Sum of the columns of a tile, ascending.
fn across(r: &mut RoleBuilder<'_>, x: tile::Value, n: usize) -> tile::Value {
    let first = r.slice(x, 0, ROWS, 0, 1);
    (1..n).fold(first, |sum, k| {
        let column = r.slice(x, 0, ROWS, k, 1);
        r.zip(sum, column, Binary::Add)
    })
}

/// Each row of the squares divided by the rows' sum, ascending, plus `eps`.
fn down_normalised(r: &mut RoleBuilder<'_>, rows: &[tile::Value], eps: tile::Value) -> Vec<tile::Value> {
    let Some((first, others)) = rows.split_first() else { return Vec::new() };
    let sum = others.iter().fold(*first, |sum, x| r.zip(sum, *x, Binary::Add));
    let sum = r.zip(sum, eps, Binary::Add);
    rows.iter().map(|x| r.zip(*x, sum, Binary::Div)).collect()
}
