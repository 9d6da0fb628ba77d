//! Family `linear`: products with dense weights, alone or as gate and up halves with their activation (V4.1 §2.2, §2.9).
//!
//! Grid: group of the weight × columns × rows, rows fastest, so that a panel of the weight stays in cache while the rows
//! pass. Roles: copy → matrix → vector; the rings hold a block of rows, a panel of the weight and the accumulator.

use crate::config::Config;
use crate::error::Error;
use crate::interface::{Fragment, Views, as_matrix};
use crate::rows::gated;
use tessera_ir::graph::{Op, Value};
use tessera_ir::tile::{self, Class, IndexOp, Kernel, KernelBuilder, RoleBuilder, RoleKind, SlotType};
use tessera_ir::{Dim, Format, Layout, TensorType};

/// Elements of a block of rows that should stay in a core's second-level cache as f32.
const ROW_BLOCK_ELEMENTS: usize = 64 * 1024;

/// What follows the products, for one row of a tile.
pub(crate) struct Epilogue {
    /// Formats to which the single products are rounded.
    pub(crate) products: Vec<Format>,
    /// Limit of the activation, for gate and up halves.
    pub(crate) limit: Option<f32>,
    /// Format of the activation's result, before quantisation.
    pub(crate) activation: Format,
    /// Format of what is stored.
    pub(crate) stored: Format,
}

impl Epilogue {
    /// The epilogue of a fragment whose products are `products`, in node order.
    pub(crate) fn of(f: &Fragment<'_>, products: &[Value]) -> Result<(Self, Value, Option<Value>), Error> {
        let formats = products.iter().map(|v| f.ty(*v).format).collect();
        let out = f.module.outputs.first().map(|o| o.value);
        let out = out.ok_or_else(|| f.fault("it has no output".to_owned()))?;
        let mut e =
            Epilogue { products: formats, limit: None, activation: Format::F32, stored: f.ty(out).format };
        if products.len() == 1 {
            e.activation = e.products[0];
            return Ok((e, out, None));
        }
        let (gate, up, weight, limit, activation) = f.only("swiglu", |n| match &n.op {
            Op::SwiGlu { gate, up, weight, limit } => Some((*gate, *up, *weight, *limit, n.first)),
            _ => None,
        })?;
        if [gate, up] != *products {
            return Err(f.fault("its products are not gate, then up".to_owned()));
        }
        e.limit = Some(limit);
        e.activation = f.ty(activation).format;
        Ok((e, out, weight))
    }

    /// The value to store from the rows of the accumulators.
    pub(crate) fn emit(
        &self,
        r: &mut RoleBuilder<'_>,
        rows: &[tile::Value],
        weight: Option<tile::Value>,
    ) -> tile::Value {
        let mut rounded = rows.iter().zip(&self.products).map(|(x, f)| (*x, *f)).collect::<Vec<_>>();
        for (x, f) in &mut rounded {
            if *f != Format::F32 {
                *x = r.cast(*x, *f);
            }
        }
        let y = match (self.limit, rounded.as_slice()) {
            (Some(limit), [(gate, _), (up, _)]) => {
                let y = gated(r, *gate, *up, weight, limit);
                if self.activation == Format::F32 { y } else { r.cast(y, self.activation) }
            }
            (_, [(x, _), ..]) => *x,
            (_, []) => r.splat(0.0),
        };
        if self.stored == self.activation { y } else { r.cast(y, self.stored) }
    }
}

/// Format of a slot that holds rows of activations: codes and scales stay, plain rows become f32.
pub(crate) fn row_slot_format(x: Format) -> Format {
    if x.group.is_some() { x } else { Format::F32 }
}

/// Rows of a block of `k` columns under a knob.
pub(crate) fn row_block(knob: usize, k: usize) -> usize {
    knob.min((ROW_BLOCK_ELEMENTS / k.max(1)).max(1))
}

/// Width of a column tile of `n` columns under a knob: a divisor if there is one, else the knob with a shorter last tile.
pub(crate) fn column_tile(knob: usize, n: usize) -> usize {
    if n <= knob {
        return n;
    }
    (1..=knob / 32).rev().map(|i| i * 32).find(|w| n.is_multiple_of(*w)).unwrap_or(knob)
}

/// Stores one row of every accumulator through `row`, for the full width or that of the last tile.
pub(crate) fn by_width(
    r: &mut RoleBuilder<'_>,
    n0: tile::Value,
    n: usize,
    width: usize,
    mut row: impl FnMut(&mut RoleBuilder<'_>, usize),
) {
    let rest = n % width;
    if rest == 0 {
        row(r, width);
        return;
    }
    let last = r.index_const((n - rest) as i64);
    let full = r.index(IndexOp::Lt, n0, last);
    r.if_(full, |r| row(r, width));
    let short = r.index(IndexOp::Eq, n0, last);
    r.if_(short, |r| row(r, rest));
}

/// Schedules the products of one input.
pub(crate) fn schedule(f: &Fragment<'_>, config: &Config) -> Result<Kernel, Error> {
    let mut x = None;
    let mut weights = Vec::new();
    let mut products = Vec::new();
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
    if groups > 1 && !n.is_multiple_of(16) {
        return Err(f.fault(format!("{n} columns a group are not a multiple of 16")));
    }
    let rows_dim = f.ty(x).shape.first().cloned().unwrap_or(Dim::Fixed(1));
    let (m_tile, n_tile) = (row_block(config.linear_rows, k), column_tile(config.linear_cols, n));

    let mut kb = KernelBuilder::new(f.module.name.clone());
    let views = Views::declare(&mut kb, f, |v, ty| {
        if weights.contains(&v) {
            TensorType { layout: Layout::Panels16, ..ty.clone() }
        } else {
            as_matrix(ty)
        }
    });
    let group_axis = (groups > 1).then(|| kb.axis("group", groups, 1));
    let n_axis = kb.axis("n", n, n_tile);
    let m_axis = kb.axis("m", rows_dim.clone(), m_tile);
    let a_slot = SlotType { rows: m_tile, cols: Dim::Fixed(k), format: row_slot_format(f.ty(x).format) };
    let a = kb.ring("a", Class::Stage, a_slot, 1, &[0, 1]);
    let mut b_rings = Vec::new();
    let mut c_rings = Vec::new();
    for (i, w) in weights.iter().enumerate() {
        let b_slot = SlotType { rows: n_tile, cols: Dim::Fixed(k), format: f.ty(*w).format };
        b_rings.push(kb.ring(format!("b{i}"), Class::Stage, b_slot, 1, &[0, 1]));
        let c_slot = SlotType { rows: m_tile, cols: Dim::Fixed(n_tile), format: Format::F32 };
        c_rings.push(kb.ring(format!("c{i}"), Class::Accum, c_slot, 1, &[1, 2]));
    }
    let x_view = views.of(f, x)?;
    let out_view = views.of(f, out)?;
    let weight_views = weights.iter().map(|w| views.of(f, *w)).collect::<Result<Vec<_>, _>>()?;

    kb.role(RoleKind::Copy, "copy", |r| {
        let at = Place::of(r, group_axis, n_axis, m_axis, &rows_dim, m_tile, n_tile, n, k);
        for (ring, view) in b_rings.iter().zip(&weight_views) {
            let slot = r.acquire(*ring);
            let zero = r.index_const(0);
            r.copy(*view, &[at.weight_row, zero], slot, at.cols);
            r.pass(slot);
        }
        let slot = r.acquire(a);
        r.copy(x_view, &[at.m0, at.x_col], slot, at.rows);
        r.pass(slot);
    });
    kb.role(RoleKind::Matrix, "matrix", |r| {
        let at = Place::of(r, group_axis, n_axis, m_axis, &rows_dim, m_tile, n_tile, n, k);
        let b_slots: Vec<_> = b_rings.iter().map(|b| r.take(*b)).collect();
        let a_slot = r.take(a);
        for (b, c) in b_slots.iter().zip(&c_rings) {
            let acc = r.acquire(*c);
            r.mma(acc, a_slot, *b, at.rows, true);
            r.pass(acc);
        }
        r.release(a_slot);
        b_slots.iter().for_each(|b| r.release(*b));
    });
    kb.role(RoleKind::Vector, "vector", |r| {
        let at = Place::of(r, group_axis, n_axis, m_axis, &rows_dim, m_tile, n_tile, n, k);
        let slots: Vec<_> = c_rings.iter().map(|c| r.take(*c)).collect();
        let zero = r.index_const(0);
        by_width(r, at.n0, n, n_tile, |r, width| {
            r.for_(zero, at.rows, 1, |r, i| {
                let rows: Vec<_> = slots.iter().map(|s| r.slot_load(*s, i, zero, 1, width)).collect();
                let y = epilogue.emit(r, &rows, None);
                let row = r.index(IndexOp::Add, at.m0, i);
                r.store(y, out_view, &[row, at.out_col]);
            });
        });
        slots.iter().for_each(|s| r.release(*s));
    });
    Ok(kb.finish()?)
}

/// Where a tile lies; every role computes it for itself.
struct Place {
    m0: tile::Value,
    n0: tile::Value,
    /// Live rows.
    rows: tile::Value,
    /// Live columns.
    cols: tile::Value,
    weight_row: tile::Value,
    x_col: tile::Value,
    out_col: tile::Value,
}

impl Place {
    #[expect(clippy::too_many_arguments, reason = "the tile's geometry, used by three roles alike")]
    fn of(
        r: &mut RoleBuilder<'_>,
        group_axis: Option<usize>,
        n_axis: usize,
        m_axis: usize,
        rows: &Dim,
        m_tile: usize,
        n_tile: usize,
        n: usize,
        k: usize,
    ) -> Self {
        let n0 = r.index_tile(n_axis);
        let m0 = r.index_tile(m_axis);
        let all_rows = r.index_dim(rows.clone());
        let rows = remaining(r, all_rows, m0, m_tile);
        let all_cols = r.index_const(n as i64);
        let cols = remaining(r, all_cols, n0, n_tile);
        let (weight_row, x_col) = match group_axis {
            None => (n0, r.index_const(0)),
            Some(axis) => {
                let group = r.index_tile(axis);
                let (n, k) = (r.index_const(n as i64), r.index_const(k as i64));
                let first = r.index(IndexOp::Mul, group, n);
                let row = r.index(IndexOp::Add, first, n0);
                (row, r.index(IndexOp::Mul, group, k))
            }
        };
        Place { m0, n0, rows, cols, weight_row, x_col, out_col: weight_row }
    }
}

/// `min(tile, end − from)`.
pub(crate) fn remaining(
    r: &mut RoleBuilder<'_>,
    end: tile::Value,
    from: tile::Value,
    tile: usize,
) -> tile::Value {
    let left = r.index(IndexOp::Sub, end, from);
    let tile = r.index_const(tile as i64);
    r.index(IndexOp::Min, tile, left)
}
