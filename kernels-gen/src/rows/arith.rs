//! Row ops that are plain arithmetic, and those that pick rows.

use super::{Lower, extent};
use crate::error::Error;
use tessera_ir::graph::{Rope, Value};
use tessera_ir::tile::{self, Binary, IndexOp, Reduce, Unary};

impl Lower<'_, '_, '_> {
    pub(super) fn embed(&mut self, table: Value, tokens: Value, out: Value) -> Result<(), Error> {
        let id = self.read(tokens)?;
        let row = self.load_row(table, id)?;
        self.define(out, row)
    }

    pub(super) fn scale(&mut self, x: Value, factor: f32, out: Value) -> Result<(), Error> {
        let x = self.tile(x)?;
        let factor = self.r.splat(factor);
        let y = self.r.zip(x, factor, Binary::Mul);
        self.define(out, y)
    }

    pub(super) fn add(&mut self, a: Value, b: Value, out: Value) -> Result<(), Error> {
        let (a, b) = (self.tile(a)?, self.tile(b)?);
        let y = self.r.zip(a, b, Binary::Add);
        self.define(out, y)
    }

    pub(super) fn concat(&mut self, parts: &[Value], out: Value) -> Result<(), Error> {
        let slot = self.buffer(out)?;
        let mut at = 0;
        for part in parts {
            let x = self.tile(*part)?;
            let col = self.constant(at);
            let zero = self.zero;
            self.r.slot_store(x, slot, zero, col);
            at += extent(self.f, *part)?.1;
        }
        self.define_buffer(out, slot)
    }

    pub(super) fn rmsnorm(&mut self, x: Value, weight: Value, eps: f32, out: Value) -> Result<(), Error> {
        let cols = extent(self.f, x)?.1;
        let (x, weight) = (self.tile(x)?, self.weight(weight)?);
        let inverse = self.inverse_rms(x, cols, eps);
        let normed = self.r.zip(x, inverse, Binary::Mul);
        let y = self.r.zip(normed, weight, Binary::Mul);
        self.define(out, y)
    }

    /// `rsqrt(mean(x²) + eps)` of each row of a tile of `cols` columns.
    pub(super) fn inverse_rms(&mut self, x: tile::Value, cols: usize, eps: f32) -> tile::Value {
        let sum = self.r.dot(x, x);
        let count = self.r.splat(cols as f32);
        let mean = self.r.zip(sum, count, Binary::Div);
        let eps = self.r.splat(eps);
        let padded = self.r.zip(mean, eps, Binary::Add);
        self.r.map(padded, Unary::Rsqrt)
    }

    pub(super) fn select_row(&mut self, x: Value, rows: Value, out: Value) -> Result<(), Error> {
        let row = self.read(rows)?;
        self.pick_row(x, row, out)
    }

    pub(super) fn every_row(
        &mut self,
        x: Value,
        step: usize,
        offset: usize,
        out: Value,
    ) -> Result<(), Error> {
        let row = self.row;
        let first = self.index(IndexOp::Mul, row, step);
        let row = self.index(IndexOp::Add, first, offset);
        self.pick_row(x, row, out)
    }

    fn pick_row(&mut self, x: Value, row: tile::Value, out: Value) -> Result<(), Error> {
        if self.f.ty(out).format.is_float() {
            let picked = self.load_row(x, row)?;
            return self.define(out, picked);
        }
        let (from, to) = (self.views.of(self.f, x)?, self.views.of(self.f, out)?);
        let number = self.r.index_read(from, &[row]);
        let here = self.row;
        self.r.index_write(number, to, &[here]);
        Ok(())
    }

    /// Row `n·q + i` is row q of part i.
    pub(super) fn interleave(&mut self, parts: &[Value], out: Value) -> Result<(), Error> {
        let row = self.row;
        let part_of = self.index(IndexOp::Rem, row, parts.len());
        let from = self.index(IndexOp::Div, row, parts.len());
        let float = self.f.ty(out).format.is_float();
        let slot = if float { Some(self.buffer(out)?) } else { None };
        for (i, part) in parts.iter().enumerate() {
            let view = self.views.of(self.f, *part)?;
            let here = self.index(IndexOp::Eq, part_of, i);
            let (rows, cols) = extent(self.f, *part)?;
            let at = self.at(self.f.ty(*part), from);
            let zero = self.zero;
            match slot {
                Some(slot) => self.r.if_(here, |r| {
                    let x = r.load(view, &at, rows, cols);
                    r.slot_store(x, slot, zero, zero);
                }),
                None => {
                    let to = self.views.of(self.f, out)?;
                    self.r.if_(here, |r| {
                        let number = r.index_read(view, &at);
                        r.index_write(number, to, &[row]);
                    });
                }
            }
        }
        match slot {
            Some(slot) => self.define_buffer(out, slot),
            None => Ok(()),
        }
    }

    pub(super) fn rope_table(
        &mut self,
        pos: Value,
        rope: &Rope,
        stride: usize,
        out: Value,
    ) -> Result<(), Error> {
        let pos = self.read(pos)?;
        let group = self.index(IndexOp::Div, pos, stride);
        let first = self.index(IndexOp::Mul, group, stride);
        let table = self.r.angles(first, *rope);
        self.define(out, table)
    }

    pub(super) fn swiglu(
        &mut self,
        gate: Value,
        up: Value,
        weight: Option<Value>,
        limit: f32,
        out: Value,
    ) -> Result<(), Error> {
        let rows = extent(self.f, gate)?.0;
        let (gate, up) = (self.tile(gate)?, self.tile(up)?);
        let weight = match weight {
            // One weight a row of the tile.
            Some(w) => {
                let w = self.tile(w)?;
                Some(self.r.reshape(w, rows, 1))
            }
            None => None,
        };
        let y = gated(self.r, gate, up, weight, limit);
        self.define(out, y)
    }

    /// Parts in order of choice, then the shared expert.
    pub(super) fn combine(&mut self, parts: Value, shared: Value, out: Value) -> Result<(), Error> {
        let (parts, shared) = (self.tile(parts)?, self.tile(shared)?);
        let sum = self.r.reduce(parts, Reduce::Sum, 0);
        let y = self.r.zip(sum, shared, Binary::Add);
        self.define(out, y)
    }
}

/// `weight · (silu(min(gate, limit)) · clamp(up, ±limit))` (V4.1 §2.9).
pub(crate) fn gated(
    r: &mut tile::RoleBuilder<'_>,
    gate: tile::Value,
    up: tile::Value,
    weight: Option<tile::Value>,
    limit: f32,
) -> tile::Value {
    let (high, low) = (r.splat(limit), r.splat(-limit));
    let gate = r.zip(gate, high, Binary::Min);
    let gate = r.map(gate, Unary::Silu);
    let up = r.zip(up, high, Binary::Min);
    let up = r.zip(up, low, Binary::Max);
    let h = r.zip(gate, up, Binary::Mul);
    match weight {
        Some(w) => r.zip(h, w, Binary::Mul),
        None => h,
    }
}
