//! Rankings of one row: the k largest, best first, and columns by number.

use super::super::{Emitter, Result, unsupported};
use super::flat::{Form, Shape};
use super::{Data, Place, Tile};
use crate::target::ptx::isa::{Class, Cmp, Operand, Reduce, Reg, Ty};
use tessera_ir::Format;
use tessera_ir::tile::Value;

impl Emitter<'_> {
    /// `topk.ranked`.
    pub(in super::super) fn topk_ranked(&mut self, v: Value, x: Value, k: usize) -> Result<()> {
        let tile = self.tile_of(x)?;
        let shape = self.shape(1, k)?;
        if shape.form != Form::Copies {
            return Err(unsupported(format!("a ranking of {k}")));
        }
        let ids = self.ranked(&tile, k)?;
        self.bind_tile(v, Tile { shape, format: Format::I32, data: Data::Regs(ids) })
    }

    /// `argmax`.
    pub(in super::super) fn argmax(&mut self, v: Value, x: Value) -> Result<()> {
        let tile = self.tile_of(x)?;
        let shape = self.shape(1, 1)?;
        let ids = self.ranked(&tile, 1)?;
        self.bind_tile(v, Tile { shape, format: Format::I32, data: Data::Regs(ids) })
    }

    /// Positions of the k largest, best first: k times the largest that is left.
    fn ranked(&mut self, tile: &Tile, k: usize) -> Result<Vec<Reg>> {
        let shape = tile.shape;
        if shape.rows != 1 {
            return Err(unsupported("a ranking of several rows"));
        }
        let regs = self.regs(tile)?;
        let columns = self.columns(&shape);
        let mut keys = Vec::with_capacity(regs.len());
        for (i, x) in regs.iter().enumerate() {
            let key = self.rank_key(*x);
            keys.push(match columns[i].1 {
                Some(holds) => self.asm.selp(Ty::B32, key, 0u32, holds),
                None => key,
            });
        }
        let mut ids = Vec::with_capacity(k);
        for turn in 0..k {
            // The largest key, then the lowest position: the complement of the position decides ties.
            let mut best: Option<(Reg, Reg)> = None;
            for (key, (column, _)) in keys.iter().zip(&columns) {
                best = Some(match best {
                    None => (self.asm.mov_b32(*key), self.asm.mov_b32(*column)),
                    Some((most, at)) => {
                        let above = self.asm.setp(Cmp::Gt, Ty::U32, *key, most);
                        (self.asm.max_u32(most, *key), self.asm.selp(Ty::B32, *column, at, above))
                    }
                });
            }
            let (key, at) = best.ok_or_else(|| unsupported("a ranking of nothing"))?;
            let id = if shape.form == Form::Copies { at } else { self.best_of_all(key, at) };
            ids.push(id);
            if turn + 1 < k {
                for (key, (column, _)) in keys.iter_mut().zip(&columns) {
                    let chosen = self.asm.setp(Cmp::Eq, Ty::U32, id, *column);
                    *key = self.asm.selp(Ty::B32, 0u32, *key, chosen);
                }
            }
        }
        Ok(ids)
    }

    /// A number that orders f32: 0 for nothing, 1 for NaN, more for larger values, the same for both zeros.
    fn rank_key(&mut self, x: Reg) -> Reg {
        let asm = &mut self.asm;
        let plain = asm.add_f32(x, 0f32);
        let bits = asm.bits(plain);
        let sign = asm.shr_s32(bits, 31u32);
        let flip = asm.or_b32(sign, 0x8000_0000u32);
        let key = asm.xor_b32(bits, flip);
        let nan = asm.setp(Cmp::Nan, Ty::F32, x, x);
        asm.selp(Ty::B32, 1u32, key, nan)
    }

    /// Column of each register, and whether this thread holds it.
    fn columns(&mut self, shape: &Shape) -> Vec<(Operand, Option<Reg>)> {
        if shape.form == Form::Copies {
            return (0..shape.cols).map(|c| (Operand::from(c), None)).collect();
        }
        let mut columns = Vec::new();
        for pass in 0..shape.passes() {
            let holds = self.holds(shape, pass);
            let (along, _) = self.chunk_at(shape, pass);
            let first = self.asm.fold_mul(along, shape.chunk);
            for e in 0..shape.chunk {
                columns.push((self.asm.fold_add(first, e), holds));
            }
        }
        columns
    }

    /// The position of the largest key of all threads, the lowest one among equals.
    fn best_of_all(&mut self, key: Reg, at: Reg) -> Reg {
        let (most, lowest) = self.best_of_warp(key, at);
        let warps = self.team.warps;
        if warps == 1 {
            return lowest;
        }
        let region = self.shared.take(8 * warps, 16);
        self.before_fresh(region, 8 * warps);
        let (lane, warp) = (self.team.lane, self.team.warp);
        let first = self.asm.setp(Cmp::Eq, Ty::U32, lane, 0u32);
        let place = Place::shared(self.smem, region);
        let own = self.stepped_by(place, warp.into(), 8);
        self.store_words(own, Ty::U32, &[most, lowest], Some(first));
        self.meet();
        self.vector.hazards.read = true;
        let there = self.asm.setp(Cmp::Lt, Ty::U32, lane, warps);
        let of_lane = self.stepped_by(place, lane.into(), 8);
        let pair = self.load_words(of_lane, Ty::U32, Class::B32, 2, false, Some(there));
        self.best_of_warp(pair[0], pair[1]).1
    }
    fn best_of_warp(&mut self, key: Reg, at: Reg) -> (Reg, Reg) {
        let most = self.asm.redux(Reduce::Max, Ty::U32, key);
        let has = self.asm.setp(Cmp::Eq, Ty::U32, key, most);
        let candidate = self.asm.selp(Ty::B32, at, u32::MAX, has);
        (most, self.asm.redux(Reduce::Min, Ty::U32, candidate))
    }

    /// `pick`.
    pub(in super::super) fn pick(&mut self, v: Value, x: Value, ids: Value) -> Result<()> {
        if self.uses_of(v).all == 0 {
            return Ok(());
        }
        let (tile, ids) = (self.tile_of(x)?, self.tile_of(ids)?);
        let (regs, wanted) = (self.regs(&tile)?, self.regs(&ids)?);
        let shape = ids.shape;
        if shape.form != Form::Copies || tile.shape.rows != 1 {
            return Err(unsupported("columns that are not the same in every thread"));
        }
        let columns = self.columns(&tile.shape);
        let one_warp = self.team.warps == 1;
        let region = if one_warp || tile.shape.form == Form::Copies {
            None
        } else {
            let bytes = 4 * wanted.len() as u32;
            let region = self.shared.take(bytes, 16);
            self.before_fresh(region, bytes);
            Some(region)
        };
        let mut out = Vec::with_capacity(wanted.len());
        for (j, id) in wanted.iter().enumerate() {
            let mut found = self.asm.mov_b32(0u32);
            let mut own = self.asm.pred_const(false);
            for (x, (column, holds)) in regs.iter().zip(&columns) {
                let mut here = self.asm.setp(Cmp::Eq, Ty::U32, *id, *column);
                if let Some(p) = holds {
                    here = self.asm.and_pred(here, *p);
                }
                let bits = self.asm.bits(*x);
                found = self.asm.selp(Ty::B32, bits, found, here);
                if region.is_some() {
                    own = self.asm.or_pred(own, here);
                }
            }
            match region {
                None if tile.shape.form == Form::Copies => out.push(found),
                // One lane has its bits, the others zeros.
                None => out.push(self.asm.redux(Reduce::Or, Ty::B32, found)),
                Some(region) => {
                    let place = Place::shared(self.smem, region + 4 * j as u32);
                    self.store_words(place, Ty::U32, &[found], Some(own));
                }
            }
        }
        if let Some(region) = region {
            self.meet();
            self.vector.hazards.read = true;
            for j in 0..wanted.len() {
                let place = Place::shared(self.smem, region + 4 * j as u32);
                out.extend(self.load_words(place, Ty::U32, Class::B32, 1, false, None));
            }
        }
        let out = out.into_iter().map(|bits| self.asm.bits(bits)).collect();
        self.bind_tile(v, Tile { shape, format: Format::F32, data: Data::Regs(out) })
    }
}
