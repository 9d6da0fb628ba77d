//! Row ops that store into rings and caches, and the pooling of a compressor's group (V4.1 §2.7, §5).

use super::{Lower, extent};
use crate::error::Error;
use tessera_ir::graph::Value;
use tessera_ir::tile::{self, Binary, IndexOp, Unary};

impl Lower<'_, '_, '_> {
    /// Rows of a ring when the kernel runs.
    fn ring_rows(&mut self, ring: Value) -> tile::Value {
        let dim = self.f.ty(ring).shape[1].clone();
        self.r.index_dim(dim)
    }

    pub(super) fn ring_store(
        &mut self,
        ring: Value,
        rows: Value,
        seq: Value,
        pos: Value,
    ) -> Result<(), Error> {
        let view = self.views.of(self.f, ring)?;
        let (seq, pos) = (self.read(seq)?, self.read(pos)?);
        let length = self.ring_rows(ring);
        let place = self.r.index(IndexOp::Rem, pos, length);
        if self.f.ty(rows).format.is_float() {
            let x = self.tile(rows)?;
            let x = self.rounded(ring, x);
            let zero = self.zero;
            self.r.store(x, view, &[seq, place, zero]);
        } else {
            let number = self.read(rows)?;
            self.r.index_write(number, view, &[seq, place]);
        }
        Ok(())
    }

    /// 1 if `pos` ends a group of `ratio` tokens.
    fn ends_group(&mut self, pos: tile::Value, ratio: usize) -> tile::Value {
        let next = self.index(IndexOp::Add, pos, 1);
        let rest = self.index(IndexOp::Rem, next, ratio);
        self.index(IndexOp::Eq, rest, 0)
    }

    pub(super) fn cache_append(
        &mut self,
        cache: Value,
        rows: Value,
        seq: Value,
        pos: Value,
        ratio: usize,
    ) -> Result<(), Error> {
        let view = self.views.of(self.f, cache)?;
        let (seq, pos) = (self.read(seq)?, self.read(pos)?);
        let x = self.tile(rows)?;
        let x = self.rounded(cache, x);
        let ends = self.ends_group(pos, ratio);
        let entry = self.index(IndexOp::Div, pos, ratio);
        let zero = self.zero;
        self.r.if_(ends, |r| r.store(x, view, &[seq, entry, zero]));
        Ok(())
    }

    pub(super) fn compress_pool(
        &mut self,
        values: Value,
        gates: Value,
        seq: Value,
        pos: Value,
        ratio: usize,
        out: Value,
    ) -> Result<(), Error> {
        let (values_view, gates_view) = (self.views.of(self.f, values)?, self.views.of(self.f, gates)?);
        let (seq, pos) = (self.read(seq)?, self.read(pos)?);
        let cols = extent(self.f, out)?.1;
        let length = self.ring_rows(values);
        let ends = self.ends_group(pos, ratio);
        let slot = self.buffer(out)?;
        self.r.slot_fill(slot, 0.0);
        let zero = self.zero;
        self.r.if_(ends, |r| {
            let last = r.index_const(ratio as i64 - 1);
            let first = r.index(IndexOp::Sub, pos, last);
            let (mut gate, mut value) = (Vec::new(), Vec::new());
            for i in 0..ratio {
                let i = r.index_const(i as i64);
                let token = r.index(IndexOp::Add, first, i);
                let place = r.index(IndexOp::Rem, token, length);
                gate.push(r.load(gates_view, &[seq, place, zero], 1, cols));
                value.push(r.load(values_view, &[seq, place, zero], 1, cols));
            }
            let top = fold(r, &gate, Binary::Max);
            let e: Vec<tile::Value> = gate
                .iter()
                .map(|g| {
                    let d = r.zip(*g, top, Binary::Sub);
                    r.map(d, Unary::Exp)
                })
                .collect();
            let total = fold(r, &e, Binary::Add);
            let parts: Vec<tile::Value> = e
                .iter()
                .zip(&value)
                .map(|(e, v)| {
                    let share = r.zip(*e, total, Binary::Div);
                    r.zip(share, *v, Binary::Mul)
                })
                .collect();
            let pooled = fold(r, &parts, Binary::Add);
            r.slot_store(pooled, slot, zero, zero);
        });
        self.define_buffer(out, slot)
    }
}

/// `((x0 f x1) f x2) …`; the lists here are never empty.
fn fold(r: &mut tile::RoleBuilder<'_>, xs: &[tile::Value], f: Binary) -> tile::Value {
    let mut all = xs.iter().copied();
    let first = all.next().unwrap_or_else(|| r.splat(0.0));
    all.fold(first, |a, b| r.zip(a, b, f))
}
