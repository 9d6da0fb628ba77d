//! Families `moe_group`, `moe_up`, `moe_linear`: products of the chosen experts, rows grouped by expert (V4.1 §2.9, §3.5).
//!
//! Grid: expert × columns. A tile keeps its panel of the expert's weight and runs over the expert's rows, which it
//! gathers; results go back to the place of their choice, so no later step needs the grouping.

use crate::config::Config;
use crate::error::Error;
use crate::family::Family;
use crate::interface::{Fragment, Views};
use crate::linear::{Epilogue, by_width, column_tile, remaining, row_block, row_slot_format};
use tessera_ir::graph::Op;
use tessera_ir::tile::{Class, IndexOp, Kernel, KernelBuilder, RoleBuilder, RoleKind, SlotType};
use tessera_ir::{Dim, Format, Layout, TensorType, tile};

/// Sorts the choices by expert: a counting sort, stable, on one core.
pub(crate) fn group(f: &Fragment<'_>) -> Result<Kernel, Error> {
    let (node, experts, count) = f.only("moe.group", |n| match &n.op {
        Op::MoeGroup { experts, count } => Some((n, *experts, *count)),
        _ => None,
    })?;
    let k = f.fixed(experts, 1)?;
    let rows = f.ty(experts).shape[0].clone();
    let mut kb = KernelBuilder::new(f.module.name.clone());
    let views = Views::declare(&mut kb, f, |_, ty| ty.clone());
    let chosen = views.of(f, experts)?;
    // Lists that nobody reads are no outputs; the sort needs its offsets and writes pairs and rows where asked.
    let offsets = views.of(f, node.result(0))?;
    let (pairs, of_rows) = (views.get(node.result(1)), views.get(node.result(2)));
    kb.role(RoleKind::Vector, "sort", |r| {
        let (zero, one) = (r.index_const(0), r.index_const(1));
        let (end, ends) = (r.index_const(count as i64), r.index_const(count as i64 + 1));
        let rows = r.index_dim(rows);
        let width = r.index_const(k as i64);
        let choices = r.index(IndexOp::Mul, rows, width);
        let bump = |r: &mut RoleBuilder<'_>, at| {
            let n = r.index_read(offsets, &[at]);
            let n = r.index(IndexOp::Add, n, one);
            r.index_write(n, offsets, &[at]);
        };
        let expert_of = |r: &mut RoleBuilder<'_>, choice| {
            let row = r.index(IndexOp::Div, choice, width);
            let j = r.index(IndexOp::Rem, choice, width);
            (r.index_read(chosen, &[row, j]), row)
        };
        r.for_(zero, ends, 1, |r, e| r.index_write(zero, offsets, &[e]));
        // Sizes, one place up; then starts.
        r.for_(zero, choices, 1, |r, choice| {
            let (e, _) = expert_of(r, choice);
            let above = r.index(IndexOp::Add, e, one);
            bump(r, above);
        });
        r.for_(zero, end, 1, |r, e| {
            let next = r.index(IndexOp::Add, e, one);
            let (start, size) = (r.index_read(offsets, &[e]), r.index_read(offsets, &[next]));
            let sum = r.index(IndexOp::Add, start, size);
            r.index_write(sum, offsets, &[next]);
        });
        // Each placed choice moves its expert's start on; afterwards every start stands at the next one's.
        r.for_(zero, choices, 1, |r, choice| {
            let (e, row) = expert_of(r, choice);
            let at = r.index_read(offsets, &[e]);
            if let Some(pairs) = pairs {
                r.index_write(choice, pairs, &[at]);
            }
            if let Some(rows) = of_rows {
                r.index_write(row, rows, &[at]);
            }
            bump(r, e);
        });
        r.for_(zero, end, 1, |r, i| {
            let e = r.index(IndexOp::Sub, end, i);
            let below = r.index(IndexOp::Sub, e, one);
            let start = r.index_read(offsets, &[below]);
            r.index_write(start, offsets, &[e]);
        });
        r.index_write(zero, offsets, &[zero]);
    });
    Ok(kb.finish()?)
}

/// `[T, k, …]` as one row for each choice.
pub(crate) fn by_choice(ty: &TensorType, k: usize) -> TensorType {
    let rows = ty.shape.first().and_then(|t| t.checked_times(k));
    // A list of one number a choice, `[T, k]`, is a column.
    let cols = if ty.shape.len() == 2 { Some(1) } else { ty.fixed_tail(2) };
    match (rows, cols) {
        (Some(rows), Some(cols)) => {
            TensorType { shape: vec![rows, Dim::Fixed(cols)], format: ty.format, layout: ty.layout }
        }
        _ => ty.clone(),
    }
}

/// Schedules one product of experts, or gate and up with their activation.
pub(crate) fn product(f: &Fragment<'_>, config: &Config) -> Result<Kernel, Error> {
    let mut lists = None;
    let (mut weights, mut products) = (Vec::new(), Vec::new());
    for node in &f.module.nodes {
        match &node.op {
            Op::MoeLinear { x, experts, weight, offsets: Some(o), pairs: Some(p), rows: Some(r) } => {
                lists = Some((*x, *experts, *o, *p, *r));
                weights.push(*weight);
                products.push(node.first);
            }
            Op::MoeLinear { .. } => return Err(f.fault("its choices are not grouped by expert".to_owned())),
            Op::SwiGlu { .. } | Op::Quantize { .. } if f.family == Family::MoeUp => {}
            other => return Err(f.foreign(other)),
        }
    }
    let (x, experts, offsets, pairs, of_rows) =
        lists.ok_or_else(|| f.fault("it has no product".to_owned()))?;
    let (epilogue, out, scale) = Epilogue::of(f, &products)?;
    let choices = f.fixed(experts, 1)?;
    let shared_input = f.ty(x).shape.len() == 2;
    let (count, n, k) = (f.fixed(weights[0], 0)?, f.fixed(weights[0], 1)?, f.fixed(weights[0], 2)?);
    let (m_tile, n_tile) = (row_block(config.expert_rows, k), column_tile(config.expert_cols, n));

    let mut kb = KernelBuilder::new(f.module.name.clone());
    let views = Views::declare(&mut kb, f, |v, ty| {
        if weights.contains(&v) {
            TensorType { layout: Layout::Panels16, ..ty.clone() }
        } else if v == out || Some(v) == scale || (v == x && !shared_input) {
            by_choice(ty, choices)
        } else {
            ty.clone()
        }
    });
    let expert_axis = kb.axis("expert", count, 1);
    let n_axis = kb.axis("n", n, n_tile);
    let a_slot = SlotType { rows: m_tile, cols: Dim::Fixed(k), format: row_slot_format(f.ty(x).format) };
    let a = kb.ring("a", Class::Stage, a_slot, 1, &[0, 1]);
    let (mut b_rings, mut c_rings) = (Vec::new(), Vec::new());
    for (i, w) in weights.iter().enumerate() {
        let b_slot = SlotType { rows: n_tile, cols: Dim::Fixed(k), format: f.ty(*w).format };
        b_rings.push(kb.ring(format!("b{i}"), Class::Stage, b_slot, 1, &[0, 1]));
        let c_slot = SlotType { rows: m_tile, cols: Dim::Fixed(n_tile), format: Format::F32 };
        c_rings.push(kb.ring(format!("c{i}"), Class::Accum, c_slot, 1, &[1, 2]));
    }
    let (x_view, out_view) = (views.of(f, x)?, views.of(f, out)?);
    let offsets_view = views.of(f, offsets)?;
    let pairs_view = views.get(pairs);
    let gather_view = views.of(f, if shared_input { of_rows } else { pairs })?;
    let scale_view = scale.map(|s| views.of(f, s)).transpose()?;
    let weight_views = weights.iter().map(|w| views.of(f, *w)).collect::<Result<Vec<_>, _>>()?;
    let pairs_view = pairs_view.ok_or_else(|| f.fault("the choice numbers are not in memory".to_owned()))?;
    let bounds = |r: &mut RoleBuilder<'_>| {
        let (e, one) = (r.index_tile(expert_axis), r.index_const(1));
        let next = r.index(IndexOp::Add, e, one);
        (e, r.index_read(offsets_view, &[e]), r.index_read(offsets_view, &[next]))
    };

    kb.role(RoleKind::Copy, "copy", |r| {
        let (e, lo, hi) = bounds(r);
        let (n0, zero, all) = (r.index_tile(n_axis), r.index_const(0), r.index_const(n as i64));
        let cols = remaining(r, all, n0, n_tile);
        for (ring, view) in b_rings.iter().zip(&weight_views) {
            let slot = r.acquire(*ring);
            r.copy(*view, &[e, n0, zero], slot, cols);
            r.pass(slot);
        }
        r.for_(lo, hi, m_tile, |r, i| {
            let rows = remaining(r, hi, i, m_tile);
            let slot = r.acquire(a);
            r.copy_gather(x_view, &[], gather_view, &[i], slot, rows);
            r.pass(slot);
        });
    });
    kb.role(RoleKind::Matrix, "matrix", |r| {
        let (_, lo, hi) = bounds(r);
        let b_slots: Vec<tile::Value> = b_rings.iter().map(|b| r.take(*b)).collect();
        r.for_(lo, hi, m_tile, |r, i| {
            let rows = remaining(r, hi, i, m_tile);
            let a_slot = r.take(a);
            for (b, c) in b_slots.iter().zip(&c_rings) {
                let acc = r.acquire(*c);
                r.mma(acc, a_slot, *b, rows, true);
                r.pass(acc);
            }
            r.release(a_slot);
        });
        b_slots.iter().for_each(|b| r.release(*b));
    });
    kb.role(RoleKind::Vector, "vector", |r| {
        let (_, lo, hi) = bounds(r);
        let (n0, zero) = (r.index_tile(n_axis), r.index_const(0));
        r.for_(lo, hi, m_tile, |r, i| {
            let rows = remaining(r, hi, i, m_tile);
            let slots: Vec<tile::Value> = c_rings.iter().map(|c| r.take(*c)).collect();
            by_width(r, n0, n, n_tile, |r, width| {
                r.for_(zero, rows, 1, |r, j| {
                    let at = r.index(IndexOp::Add, i, j);
                    let pair = r.index_read(pairs_view, &[at]);
                    let weight = scale_view.map(|s| r.load(s, &[pair, zero], 1, 1));
                    let rows: Vec<tile::Value> =
                        slots.iter().map(|s| r.slot_load(*s, j, zero, 1, width)).collect();
                    let y = epilogue.emit(r, &rows, weight);
                    r.store(y, out_view, &[pair, n0]);
                });
            });
            slots.iter().for_each(|s| r.release(*s));
        });
    });
    Ok(kb.finish()?)
}
