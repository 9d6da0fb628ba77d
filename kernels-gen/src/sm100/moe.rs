//! Families `moe_up` and `moe_linear` on SM100: the products of dense weights over a grid whose rows are grouped by expert.
//!
//! Rows are gathered as they are copied, results go back to the place of their choice. A tile lies in one expert, so
//! experts that nobody chose cost nothing and a tile of few rows costs few columns.

use super::gemm::weight_type;
use super::knobs::Knobs;
use super::stages::{Operands, STEP};
use crate::error::Error;
use crate::family::Family;
use crate::interface::{Fragment, Views};
use crate::linear::{Epilogue, remaining};
use crate::moe::by_choice;
use tessera_ir::graph::Op;
use tessera_ir::tile::{IndexOp, Kernel, KernelBuilder, Part, RoleBuilder, Target};

/// Schedules one product of experts, or gate and up with their activation.
pub(crate) fn product(f: &Fragment<'_>, knobs: &Knobs) -> Result<Kernel, Error> {
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
    let (epilogue, out, factor) = Epilogue::of(f, &products)?;
    let choices = f.fixed(experts, 1)?;
    let shared_input = f.ty(x).shape.len() == 2;
    let (count, n, k) = (f.fixed(weights[0], 0)?, f.fixed(weights[0], 1)?, f.fixed(weights[0], 2)?);
    let most = if weights.len() == 1 { knobs.tokens } else { knobs.dual_tokens };
    let tokens = knobs.expert_tokens(choices, count, most);

    let mut kb = KernelBuilder::new(f.module.name.clone());
    kb.target(Target::Sm100);
    kb.persistent(knobs.cores);
    let views = Views::declare(&mut kb, f, |v, ty| {
        if weights.contains(&v) {
            weight_type(ty)
        } else if v == out || Some(v) == factor || (v == x && !shared_input) {
            by_choice(ty, choices)
        } else {
            ty.clone()
        }
    });
    let (x_view, out_view) = (views.of(f, x)?, views.of(f, out)?);
    let offsets_view = views.of(f, offsets)?;
    let pairs_view = views.of(f, pairs)?;
    let gather_view = if shared_input { views.of(f, of_rows)? } else { pairs_view };
    let factor_view = factor.map(|s| views.of(f, s)).transpose()?;
    let weight_views = weights.iter().map(|w| views.of(f, *w)).collect::<Result<Vec<_>, _>>()?;
    let pairs_dim = f.ty(pairs).shape[0].clone();
    let m_axis = kb.grouped_axis("m", pairs_dim, tokens, offsets_view);
    let n_axis = kb.axis("n", n, STEP);
    let ops = Operands::new(f, x, &weights, k, (tokens, 1))?;
    if !ops.scaled() {
        return Err(f.fault("weights of experts have scales on this machine".to_owned()));
    }
    let rings = ops.rings(&mut kb, factor.is_some());
    // First row of the tile in the sorted list, and live rows.
    let place = |r: &mut RoleBuilder<'_>| {
        let (m0, end) = (r.index_tile(m_axis), r.index_end(m_axis));
        (m0, remaining(r, end, m0, tokens))
    };

    ops.weights_role(&mut kb, |r| {
        let (expert, n0) = (r.index_group(m_axis), r.index_tile(n_axis));
        ops.each_block(r, |r, k, _| {
            for (ring, view) in rings.weights.iter().zip(&weight_views) {
                let slot = r.acquire(*ring);
                r.copy_tile(*view, &[expert, n0, k], slot, Part::All);
                r.pass(slot);
            }
        });
    });
    ops.rows_role(&mut kb, |r| {
        let (m0, rows) = place(r);
        ops.each_block(r, |r, k, _| {
            let slot = r.acquire(rings.rows);
            r.copy_rows(x_view, &[], gather_view, &[m0], k, slot, rows, 1, Part::Codes);
            r.pass(slot);
        });
    });
    ops.scales_role(&mut kb, |r| {
        let (m0, rows) = place(r);
        if let (Some(ring), Some(view)) = (rings.factors, factor_view) {
            let zero = r.index_const(0);
            let slot = r.acquire(ring);
            r.copy_rows(view, &[], pairs_view, &[m0], zero, slot, rows, 1, Part::All);
            r.pass(slot);
        }
        ops.each_block(r, |r, k, _| {
            let slot = r.acquire(rings.rows);
            r.copy_rows(x_view, &[], gather_view, &[m0], k, slot, rows, 1, Part::Scales);
            r.pass(slot);
        });
    });
    ops.matrix_role(&mut kb, &rings, |r| place(r).1);
    ops.epilogue_role(&mut kb, |r| {
        let (m0, rows) = place(r);
        let n0 = r.index_tile(n_axis);
        let factors = rings.factors.map(|ring| r.take(ring));
        ops.each_sixteen(r, &rings, rows, STEP, |r, tiles, from, live| {
            let weight = factors.map(|slot| {
                let zero = r.index_const(0);
                r.slot_load(slot, from, zero, 16, 1)
            });
            let y = epilogue.emit(r, tiles, weight);
            let at = r.index(IndexOp::Add, m0, from);
            r.store_scatter(y, out_view, pairs_view, &[at], n0, live);
        });
        if let Some(slot) = factors {
            r.release(slot);
        }
    });
    Ok(kb.finish()?)
}
