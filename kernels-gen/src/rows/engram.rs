//! Row ops of Engram: n-gram hash, table lookup, gate (V4.1 §2.4).

use super::{Lower, extent};
use crate::error::Error;
use tessera_ir::graph::{Engram, Value};
use tessera_ir::tile::{self, Binary, IndexOp, RoleBuilder, Unary};

/// Smallest magnitude under the gate's square root.
const GATE_FLOOR: f32 = 1e-6;

impl Lower<'_, '_, '_> {
    pub(super) fn engram_hash(
        &mut self,
        history: Value,
        map: Value,
        seq: Value,
        pos: Value,
        engram: &Engram,
        out: Value,
    ) -> Result<(), Error> {
        let (history_view, map_view) = (self.views.of(self.f, history)?, self.views.of(self.f, map)?);
        let out_view = self.views.of(self.f, out)?;
        let (seq, pos, row) = (self.read(seq)?, self.read(pos)?, self.row);
        let length = {
            let dim = self.f.ty(history).shape[1].clone();
            self.r.index_dim(dim)
        };
        let pad = {
            let raw = self.constant(engram.pad_token);
            self.r.index_read(map_view, &[raw])
        };
        let zero = self.zero;
        let mut hash = zero;
        let offsets = engram.offsets();
        let mut column = 0;
        for (back, multiplier) in engram.multipliers.iter().enumerate() {
            // Before the start of the sequence the pad token counts; the ring is then read at a place that exists.
            let back_index = self.constant(back);
            let at = self.r.index(IndexOp::Sub, pos, back_index);
            let inside = self.r.index(IndexOp::Le, zero, at);
            let at = self.r.index(IndexOp::Max, at, zero);
            let place = self.r.index(IndexOp::Rem, at, length);
            let raw = self.r.index_read(history_view, &[seq, place]);
            // A place that was never written holds 0, a legal id.
            let id = self.r.index_read(map_view, &[raw]);
            let above = self.r.index(IndexOp::Sub, id, pad);
            let above = self.r.index(IndexOp::Mul, inside, above);
            let id = self.r.index(IndexOp::Add, pad, above);
            let multiplier = self.r.index_const(*multiplier);
            let product = self.r.index(IndexOp::Mul, id, multiplier);
            hash = if back == 0 { product } else { self.r.index(IndexOp::Xor, hash, product) };
            let Some(primes) = back.checked_sub(1).and_then(|n| engram.primes.get(n)) else { continue };
            for prime in primes {
                let prime = self.r.index_const(*prime);
                let rest = self.r.index(IndexOp::Rem, hash, prime);
                let offset = self.r.index_const(offsets[column]);
                let id = self.r.index(IndexOp::Add, rest, offset);
                let col = self.constant(column);
                self.r.index_write(id, out_view, &[row, col]);
                column += 1;
            }
        }
        Ok(())
    }

    pub(super) fn engram_lookup(&mut self, table: Value, ids: Value, out: Value) -> Result<(), Error> {
        let (table_view, ids_view) = (self.views.of(self.f, table)?, self.views.of(self.f, ids)?);
        let (columns, width) = (self.f.fixed(ids, 1)?, self.f.fixed(table, 1)?);
        let slot = self.buffer(out)?;
        let (zero, row) = (self.zero, self.row);
        let piece = |r: &mut RoleBuilder<'_>, c: tile::Value| {
            let id = r.index_read(ids_view, &[row, c]);
            let x = r.load(table_view, &[id, zero], 1, width);
            let width = r.index_const(width as i64);
            let col = r.index(IndexOp::Mul, c, width);
            r.slot_store(x, slot, zero, col);
        };
        if self.unrolled {
            for c in 0..columns {
                let c = self.constant(c);
                piece(self.r, c);
            }
        } else {
            let end = self.constant(columns);
            self.r.for_(zero, end, 1, piece);
        }
        self.define_buffer(out, slot)
    }

    pub(super) fn engram_gate(
        &mut self,
        x: Value,
        kv: Value,
        q_weight: Value,
        k_weight: Value,
        eps: f32,
        out: Value,
    ) -> Result<(), Error> {
        let (n, d) = extent(self.f, x)?;
        let (x, kv) = (self.tile(x)?, self.tile(kv)?);
        let (qw, kw) = (self.weight(q_weight)?, self.weight(k_weight)?);
        let key = self.r.slice(kv, 0, 1, 0, n * d);
        let key = self.r.reshape(key, n, d);
        let value = self.r.slice(kv, 0, 1, n * d, d);
        let weight = self.r.zip(qw, kw, Binary::Mul);
        let weighted = self.r.zip(x, weight, Binary::Mul);
        let sum = self.r.dot(weighted, key);
        let (rx, rk) = (self.inverse_rms(x, d, eps), self.inverse_rms(key, d, eps));
        let scale = self.r.zip(rx, rk, Binary::Mul);
        let scaled = self.r.zip(sum, scale, Binary::Mul);
        let root = self.r.splat((d as f64).powf(-0.5) as f32);
        let dot = self.r.zip(scaled, root, Binary::Mul);
        let magnitude = self.r.map(dot, Unary::Abs);
        let floor = self.r.splat(GATE_FLOOR);
        let magnitude = self.r.zip(magnitude, floor, Binary::Max);
        let magnitude = self.r.map(magnitude, Unary::Sqrt);
        let signed = self.r.zip(magnitude, dot, Binary::CopySign);
        let gate = self.r.map(signed, Unary::Sigmoid);
        let added = self.r.zip(gate, value, Binary::Mul);
        let y = self.r.zip(x, added, Binary::Add);
        self.define(out, y)
    }
}
