//! Family `linear` on SM100: weights on the matrix unit's M side, rows on its N side, operands in rings of K blocks.
//!
//! Grid: group of the weight × 128 columns (256 for a pair of cores) × a tile of rows, rows fastest, so that blocks which run together share
//! weights; persistent. Roles: `weights`, `rows` and `scales` move the operands, `matrix` multiplies,
//! `epilogue` takes the accumulators, of which there are two, so that it works while the next tile is multiplied.

use super::knobs::Knobs;
use super::stages::{Operands, STEP};
use crate::error::Error;
use crate::interface::{Fragment, Views, as_matrix};
use crate::linear::{Epilogue, remaining};
use tessera_ir::graph::Op;
use tessera_ir::tile::{self, IndexOp, Kernel, KernelBuilder, Part, RoleBuilder, Target};
use tessera_ir::{Dim, Format, Layout, TensorType};

/// Schedules the products of one input.
pub(crate) fn schedule(f: &Fragment<'_>, knobs: &Knobs) -> Result<Kernel, Error> {
    let mut x = None;
    let (mut weights, mut products) = (Vec::new(), Vec::new());
    let mut groups = 1;
    for node in &f.module.nodes {
        match &node.op {
            Op::Linear { x: from, weight, groups: g } => {
                x = Some(*from);
                weights.push(*weight);
                products.push(node.first);
                groups = *g;
            }
            Op::SwiGlu { .. } | Op::Quantize { .. } => {}
            other => return Err(f.foreign(other)),
        }
    }
    let x = x.ok_or_else(|| f.fault("it has no product".to_owned()))?;
    let (epilogue, out, _) = Epilogue::of(f, &products)?;
    let (n_all, k) = (f.fixed(weights[0], 0)?, f.fixed(weights[0], 1)?);
    let n = n_all / groups;
    let rows_dim = f.ty(x).shape.first().cloned().unwrap_or(Dim::Fixed(1));
    let tokens = if weights.len() == 1 { knobs.tokens } else { knobs.dual_tokens };
    // A tile of a grouped weight ends with its group; elsewhere columns outside the view are dropped.
    // A pair's turn over K has more to keep in step, which takes four blocks to pay.
    let long = [4, 6].iter().any(|turn| k.div_ceil(128).is_multiple_of(*turn));
    let whole = groups == 1 && weights.len() == 1 && n.is_multiple_of(2 * STEP) && long;
    let cores = if knobs.pair && whole { 2 } else { 1 };
    let width = if groups == 1 { STEP * cores } else { n.min(STEP) };
    if groups > 1 && !n.is_multiple_of(width) {
        return Err(f.fault(format!("{n} columns a group are more than 128 and no multiple of it")));
    }

    let mut kb = KernelBuilder::new(f.module.name.clone());
    kb.target(Target::Sm100);
    kb.persistent(knobs.cores / cores);
    kb.cluster(cores);
    let views = Views::declare(&mut kb, f, |v, ty| {
        if weights.contains(&v) {
            let grouped = [groups, n, k].map(Dim::Fixed).to_vec();
            let shape = if groups > 1 { grouped } else { ty.shape.clone() };
            let format = weight_format(f.ty(x).format, ty.format);
            weight_type(&TensorType { shape, format, ..ty.clone() })
        } else {
            as_matrix(ty)
        }
    });
    let group_axis = (groups > 1).then(|| kb.axis("group", groups, 1));
    let n_axis = kb.axis("n", n, width);
    let m_axis = kb.axis("m", rows_dim.clone(), tokens);
    let ops = Operands::new(f, x, &weights, k, (tokens, cores))?;
    let rings = ops.rings(&mut kb, false);
    let x_view = views.of(f, x)?;
    let out_view = views.of(f, out)?;
    let weight_views = weights.iter().map(|w| views.of(f, *w)).collect::<Result<Vec<_>, _>>()?;
    let place = |r: &mut RoleBuilder<'_>| {
        let (n0, m0) = (r.index_tile(n_axis), r.index_tile(m_axis));
        let all = r.index_dim(rows_dim.clone());
        let rows = remaining(r, all, m0, tokens);
        match group_axis {
            None => Place { m0, rows, n0, group: None },
            Some(axis) => Place { m0, rows, n0, group: Some(r.index_tile(axis)) },
        }
    };

    ops.weights_role(&mut kb, |r| {
        let n0 = r.index_tile(n_axis);
        let group = group_axis.map(|axis| r.index_tile(axis));
        ops.each_block(r, |r, k, _| {
            let at: Vec<_> = group.into_iter().chain([n0, k]).collect();
            for (ring, view) in rings.weights.iter().zip(&weight_views) {
                let slot = r.acquire(*ring);
                r.copy_tile(*view, &at, slot, Part::All);
                r.pass(slot);
            }
        });
    });
    ops.rows_role(&mut kb, |r| {
        let at = place(r);
        let first = at.first(r, k);
        ops.each_block(r, |r, k, _| {
            let slot = r.acquire(rings.rows);
            let col = sum(r, first, k);
            r.copy_tile(x_view, &[at.m0, col], slot, ops.codes());
            r.pass(slot);
        });
    });
    ops.scales_role(&mut kb, |r| {
        let at = place(r);
        let first = at.first(r, k);
        ops.each_block(r, |r, k, _| {
            let slot = r.acquire(rings.rows);
            let col = sum(r, first, k);
            r.copy_tile(x_view, &[at.m0, col], slot, Part::Scales);
            r.pass(slot);
        });
    });
    ops.matrix_role(&mut kb, &rings, |r| place(r).rows);
    ops.epilogue_role(&mut kb, |r| {
        let at = place(r);
        let first = at.first(r, n);
        let col = sum(r, first, at.n0);
        ops.each_sixteen(r, &rings, at.rows, width, |r, tiles, from, rows| {
            let y = epilogue.emit(r, tiles, None);
            let row = r.index(IndexOp::Add, at.m0, from);
            r.store_rows(y, out_view, &[row, col], rows);
        });
    });
    Ok(kb.finish()?)
}

/// Where a tile lies; every role computes it for itself.
struct Place {
    m0: tile::Value,
    /// Live rows.
    rows: tile::Value,
    /// First row of the weight, counted in its group.
    n0: tile::Value,
    group: Option<tile::Value>,
}

impl Place {
    /// First of the `each` columns that belong to the tile's group.
    fn first(&self, r: &mut RoleBuilder<'_>, each: usize) -> Option<tile::Value> {
        let each = self.group.map(|_| r.index_const(each as i64));
        self.group.zip(each).map(|(group, each)| r.index(IndexOp::Mul, group, each))
    }
}

/// `first + by`, where there is a first.
fn sum(r: &mut RoleBuilder<'_>, first: Option<tile::Value>, by: tile::Value) -> tile::Value {
    match first {
        None => by,
        Some(first) => r.index(IndexOp::Add, first, by),
    }
}

/// The format in which a weight is kept for rows in `rows`. The matrix unit multiplies formats with scales with each other
/// only, so that a scaled weight of plain rows is kept as bf16, which holds each of its values.
pub(super) fn weight_format(rows: Format, weight: Format) -> Format {
    if rows == Format::BF16 && weight == Format::W8 { Format::BF16 } else { weight }
}

/// The type of a weight as the matrix unit wants it.
pub(super) fn weight_type(ty: &TensorType) -> TensorType {
    let layout = if ty.format.group.is_some() { Layout::Blocks128 } else { Layout::Rows };
    TensorType { layout, ..ty.clone() }
}
