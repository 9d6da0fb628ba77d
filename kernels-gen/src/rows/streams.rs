//! Row ops on the residual streams (V4.1 §2.3).

use super::{Lower, extent};
use crate::error::Error;
use tessera_ir::graph::Value;
use tessera_ir::tile::{Binary, Reduce};

impl Lower<'_, '_, '_> {
    pub(super) fn hc_open(&mut self, x: Value, streams: usize, out: Value, pre: Value) -> Result<(), Error> {
        let x = self.tile(x)?;
        let zero = self.zero;
        let slot = self.buffer(out)?;
        for j in 0..streams {
            let row = self.constant(j);
            self.r.slot_store(x, slot, row, zero);
        }
        self.define_buffer(out, slot)?;
        let slot = self.buffer(pre)?;
        self.r.slot_fill(slot, 0.0);
        let one = self.r.splat(1.0);
        self.r.slot_store(one, slot, zero, zero);
        self.define_buffer(pre, slot)
    }

    pub(super) fn hc_collapse(&mut self, x: Value, pre: Value, out: Value) -> Result<(), Error> {
        let streams = extent(self.f, x)?.0;
        let (x, pre) = (self.tile(x)?, self.tile(pre)?);
        let pre = self.r.reshape(pre, streams, 1);
        let weighted = self.r.zip(pre, x, Binary::Mul);
        let y = self.r.reduce(weighted, Reduce::Sum, 0);
        self.define(out, y)
    }

    pub(super) fn hc_expand(
        &mut self,
        y: Value,
        x: Value,
        post: Value,
        comb: Value,
        out: Value,
    ) -> Result<(), Error> {
        let (n, d) = extent(self.f, x)?;
        let (y, x) = (self.tile(y)?, self.tile(x)?);
        let (post, comb) = (self.tile(post)?, self.tile(comb)?);
        let together = if self.rings.contains_key(&out) { Some(self.buffer(out)?) } else { None };
        let (zero, row) = (self.zero, self.row);
        for k in 0..n {
            let p = self.r.slice(post, 0, 1, k, 1);
            let own = self.r.zip(p, y, Binary::Mul);
            let mut mixed = None;
            for j in 0..n {
                let c = self.r.slice(comb, j, 1, k, 1);
                let from = self.r.slice(x, j, 1, 0, d);
                let part = self.r.zip(c, from, Binary::Mul);
                mixed = Some(match mixed {
                    Some(sum) => self.r.zip(sum, part, Binary::Add),
                    None => part,
                });
            }
            let stream = match mixed {
                Some(mixed) => self.r.zip(own, mixed, Binary::Add),
                None => own,
            };
            let stream = self.rounded(out, stream);
            let k = self.constant(k);
            if let Some(slot) = together {
                self.r.slot_store(stream, slot, k, zero);
            }
            if let Some(view) = self.views.get(out) {
                self.r.store(stream, view, &[row, k, zero]);
            }
        }
        if let Some(slot) = together {
            let x = self.r.slot_load(slot, zero, zero, n, d);
            self.tiles.insert(out, x);
        }
        Ok(())
    }

    pub(super) fn hc_mean(&mut self, x: Value, out: Value) -> Result<(), Error> {
        let streams = extent(self.f, x)?.0;
        let x = self.tile(x)?;
        let sum = self.r.reduce(x, Reduce::Sum, 0);
        let share = self.r.splat(1.0 / streams as f32);
        let y = self.r.zip(sum, share, Binary::Mul);
        self.define(out, y)
    }
}
