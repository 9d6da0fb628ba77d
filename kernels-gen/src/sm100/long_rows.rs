//! Family `rows` on SM100 where a row is as long as the vocabulary: elementwise ops and `argmax`, one piece of the row after
//! another, because neither registers nor shared memory hold a row.
//!
//! The largest element is found in two steps: the maxima of the pieces stay on chip, then the piece that has the largest, the
//! first of equals, is computed once more.

use super::knobs::Knobs;
use crate::error::Error;
use crate::interface::{Fragment, Views};
use tessera_ir::graph::{Op, Value as GraphValue};
use tessera_ir::tile::{
    Binary, Class, IndexOp, Kernel, KernelBuilder, Lanes, RoleBuilder, RoleKind, SlotType, Target, Threads,
    Value,
};
use tessera_ir::{Dim, Format};

/// Columns of the longest row that is kept whole.
const WHOLE: usize = 16_384;
/// Fewest columns of a piece.
const LEAST: usize = 64;
/// Columns that a thread reads at once.
const CHUNK: usize = 4;

/// Columns of a fragment's rows, if it computes rows that are not kept whole.
fn width(f: &Fragment<'_>) -> Option<usize> {
    let of = |v: GraphValue| match f.ty(v).shape.as_slice() {
        [_, cols] => cols.fixed().filter(|n| *n > WHOLE),
        _ => None,
    };
    f.module.nodes.iter().flat_map(|n| n.results()).find_map(of)
}

/// True for fragments that this schedule is for.
pub(super) fn applies(f: &Fragment<'_>) -> bool {
    width(f).is_some()
}

/// Schedules the ops of one row, piece by piece.
pub(crate) fn schedule(f: &Fragment<'_>, knobs: &Knobs) -> Result<Kernel, Error> {
    let width = width(f).ok_or_else(|| f.fault("its rows are short".to_owned()))?;
    let piece = (LEAST..=WHOLE).rev().find(|n| width.is_multiple_of(*n) && n.is_multiple_of(CHUNK));
    let piece = piece.ok_or_else(|| f.fault(format!("rows of {width} columns have no equal pieces")))?;
    let largest: Vec<(GraphValue, GraphValue)> = f
        .module
        .nodes
        .iter()
        .filter_map(|n| match n.op {
            Op::Argmax { x } => Some((n.first, x)),
            _ => None,
        })
        .collect();
    if largest.len() > 1 {
        return Err(f.fault("it looks for the largest element of more than one row".to_owned()));
    }
    let node = f.module.nodes.last().ok_or_else(|| f.fault("it is empty".to_owned()))?;
    let rows = f.ty(node.first).shape[0].clone();

    let mut kb = KernelBuilder::new(f.module.name.clone());
    kb.target(Target::Sm100);
    let views = Views::declare(&mut kb, f, |_, ty| ty.clone());
    let axis = kb.axis("row", rows, 1);
    let slot = SlotType { rows: 1, cols: Dim::Fixed(width / piece), format: Format::F32 };
    let tops = (!largest.is_empty()).then(|| kb.ring("tops", Class::Vec, slot, 1, &[0]));
    // Few rows: as many threads a row as there can be.
    let warps = if knobs.rows <= knobs.cores { 32 } else { 16 };
    let threads = Threads { warps, registers: None, lanes: Lanes { count: 32 * warps, chunk: CHUNK } };
    kb.role_of(RoleKind::Vector, "rows", threads, |r| {
        let (row, zero, all) = (r.index_tile(axis), r.index_const(0), r.index_const(width as i64));
        let pieces = Pieces { f, views: &views, row, piece };
        let slot = tops.map(|ring| r.acquire(ring));
        r.for_(zero, all, piece, |r, at| {
            for node in &f.module.nodes {
                let Some(out) = views.get(node.first) else { continue };
                match &node.op {
                    Op::InterleaveRows { parts } => pieces.interleave(r, parts, out, at)?,
                    Op::Argmax { .. } => {}
                    _ => {
                        let x = pieces.value(r, node.first, at)?;
                        r.store(x, out, &[row, at]);
                    }
                }
            }
            if let (Some(slot), Some((_, x))) = (slot, largest.first()) {
                let x = pieces.value(r, *x, at)?;
                let best = r.argmax(x);
                let top = r.pick(x, best);
                let length = r.index_const(piece as i64);
                let number = r.index(IndexOp::Div, at, length);
                r.slot_store(top, slot, zero, number);
            }
            Ok::<(), Error>(())
        })?;
        if let (Some(slot), Some((out, x))) = (slot, largest.first()) {
            let out = views.of(f, *out)?;
            let tops = r.slot_load(slot, zero, zero, 1, width / piece);
            let first = r.argmax(tops);
            r.release(slot);
            r.store(first, out, &[row]);
            let (number, length) = (r.index_read(out, &[row]), r.index_const(piece as i64));
            let at = r.index(IndexOp::Mul, number, length);
            let x = pieces.value(r, *x, at)?;
            let best = r.argmax(x);
            r.store(best, out, &[row]);
            let inside = r.index_read(out, &[row]);
            let place = r.index(IndexOp::Add, at, inside);
            r.index_write(place, out, &[row]);
        }
        Ok::<(), Error>(())
    })?;
    Ok(kb.finish()?)
}

/// Values of a row, piece by piece.
struct Pieces<'f> {
    f: &'f Fragment<'f>,
    views: &'f Views,
    row: Value,
    piece: usize,
}

impl Pieces<'_> {
    /// The piece at column `at` of value `v`, computed from memory.
    fn value(&self, r: &mut RoleBuilder<'_>, v: GraphValue, at: Value) -> Result<Value, Error> {
        let Some(node) = self.f.module.nodes.iter().find(|n| n.results().any(|x| x == v)) else {
            let view = self.views.of(self.f, v)?;
            return Ok(r.load(view, &[self.row, at], 1, self.piece));
        };
        let x = match &node.op {
            Op::EveryRow { x, step, offset } => {
                let (step, offset) = (r.index_const(*step as i64), r.index_const(*offset as i64));
                let first = r.index(IndexOp::Mul, self.row, step);
                let row = r.index(IndexOp::Add, first, offset);
                r.load(self.views.of(self.f, *x)?, &[row, at], 1, self.piece)
            }
            Op::SelectRows { x, rows } => {
                let row = r.index_read(self.views.of(self.f, *rows)?, &[self.row]);
                r.load(self.views.of(self.f, *x)?, &[row, at], 1, self.piece)
            }
            Op::Add { a, b } => {
                let (a, b) = (self.value(r, *a, at)?, self.value(r, *b, at)?);
                r.zip(a, b, Binary::Add)
            }
            Op::Scale { x, factor } => {
                let (x, factor) = (self.value(r, *x, at)?, r.splat(*factor));
                r.zip(x, factor, Binary::Mul)
            }
            Op::Cast { x } => self.value(r, *x, at)?,
            other => {
                return Err(self.f.fault(format!("`{}` needs the whole of a long row", other.mnemonic())));
            }
        };
        Ok(match self.f.ty(v).format {
            Format::F32 => x,
            format => r.cast(x, format),
        })
    }

    /// The piece at column `at` of row `n·q + i`, which is row q of part i.
    fn interleave(
        &self,
        r: &mut RoleBuilder<'_>,
        parts: &[GraphValue],
        out: Value,
        at: Value,
    ) -> Result<(), Error> {
        let count = r.index_const(parts.len() as i64);
        let (part, from) = (r.index(IndexOp::Rem, self.row, count), r.index(IndexOp::Div, self.row, count));
        for (i, v) in parts.iter().enumerate() {
            let view = self.views.of(self.f, *v)?;
            let number = r.index_const(i as i64);
            let here = r.index(IndexOp::Eq, part, number);
            let narrow = self.f.ty(*v).format;
            r.if_(here, |r| {
                let x = r.load(view, &[from, at], 1, self.piece);
                let x = if narrow == Format::F32 { x } else { r.cast(x, narrow) };
                r.store(x, out, &[self.row, at]);
            });
        }
        Ok(())
    }
}
