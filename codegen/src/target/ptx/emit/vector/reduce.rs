//! Sums, maxima and dots. Sums along a row follow the role's lanes: a thread is a lane and adds its elements ascending, a
//! warp adds its lanes as a binary tree, the warps are added ascending.

use super::super::{Emitter, Result, unsupported};
use super::flat::{Form, Shape};
use super::{Data, Place, Tile};
use crate::target::ptx::isa::{Reg, Ty};
use tessera_ir::Format;
use tessera_ir::tile::{Reduce, Value};

/// Lanes of a warp.
const WARP: usize = 32;

impl Emitter<'_> {
    /// `reduce`.
    pub(in super::super) fn reduce(&mut self, v: Value, x: Value, f: Reduce, axis: usize) -> Result<()> {
        if self.uses_of(v).all == 0 {
            return Ok(());
        }
        let tile = self.tile_of(x)?;
        let regs = self.regs(&tile)?;
        let own = tile.shape;
        let (rows, cols) = if axis == 0 { (1, own.cols) } else { (own.rows, 1) };
        let shape = self.shape(rows, cols)?;
        let out = if axis == 0 {
            self.reduce_rows(&own, &regs, &shape, f)?
        } else {
            let first = |e: &mut Self, x: &Reg| match f {
                Reduce::Sum | Reduce::Max => *x,
                Reduce::AbsMax => e.asm.abs_f32(*x),
            };
            let terms: Vec<Reg> = regs.iter().map(|x| first(self, x)).collect();
            self.along_rows(&own, f, &|e, acc, i| e.join_to(f, acc, terms[i]), &|_, i| terms[i])?
        };
        self.bind_tile(v, Tile { shape, format: Format::F32, data: Data::Regs(out) })
    }

    /// `dot`.
    pub(in super::super) fn dot(&mut self, v: Value, a: Value, b: Value) -> Result<()> {
        if self.uses_of(v).all == 0 {
            return Ok(());
        }
        let square = a == b;
        let (a, b) = (self.tile_of(a)?, self.tile_of(b)?);
        let own = a.shape;
        if own != b.shape {
            return Err(unsupported("a product of tiles of two layouts"));
        }
        let x = self.regs(&a)?;
        let y = if square { x.clone() } else { self.regs(&b)? };
        let out = self.along_rows(
            &own,
            Reduce::Sum,
            &|e, acc, i| e.asm.fma_f32_to(acc, x[i], y[i], acc),
            &|e, i| e.asm.mul_f32(x[i], y[i]),
        )?;
        let shape = self.shape(own.rows, 1)?;
        self.bind_tile(v, Tile { shape, format: Format::F32, data: Data::Regs(out) })
    }

    fn join(&mut self, f: Reduce, a: Reg, b: Reg) -> Reg {
        match f {
            Reduce::Sum => self.asm.add_f32(a, b),
            Reduce::Max | Reduce::AbsMax => self.asm.max_nan_f32(a, b),
        }
    }
    fn join_to(&mut self, f: Reduce, acc: Reg, x: Reg) {
        match f {
            Reduce::Sum => self.asm.add_f32_to(acc, acc, x),
            Reduce::Max | Reduce::AbsMax => self.asm.max_nan_f32_to(acc, acc, x),
        }
    }

    /// Reduction of every column, rows ascending.
    fn reduce_rows(&mut self, own: &Shape, regs: &[Reg], shape: &Shape, f: Reduce) -> Result<Vec<Reg>> {
        let fits =
            matches!((own.form, shape.form), (Form::ByRows, Form::ByRows) | (Form::Copies, Form::Copies));
        let per_row = regs.len() / own.rows.max(1);
        if !fits {
            // Each thread takes whole columns of the result's layout.
            let source = self.spread(own, regs)?;
            let mut acc: Option<Vec<Reg>> = None;
            for row in 0..own.rows {
                let at = source.at.plus((row * own.cols * 4) as i64);
                let next = self.fetch(shape, &super::Source { at, ..source })?;
                acc = Some(self.joined(f, acc, next));
            }
            return acc.ok_or_else(|| unsupported("a reduction of nothing"));
        }
        let mut acc = None;
        for row in 0..own.rows {
            acc = Some(self.joined(f, acc, regs[row * per_row..(row + 1) * per_row].to_vec()));
        }
        acc.ok_or_else(|| unsupported("a reduction of nothing"))
    }
    fn joined(&mut self, f: Reduce, acc: Option<Vec<Reg>>, next: Vec<Reg>) -> Vec<Reg> {
        match acc {
            None if f == Reduce::AbsMax => next.into_iter().map(|x| self.asm.abs_f32(x)).collect(),
            None => next,
            Some(acc) => acc
                .into_iter()
                .zip(next)
                .map(|(a, x)| {
                    let x = if f == Reduce::AbsMax { self.asm.abs_f32(x) } else { x };
                    self.join(f, a, x)
                })
                .collect(),
        }
    }

    /// One number for each row: `start` makes the first term of a register, `step` adds another one.
    fn along_rows(
        &mut self,
        own: &Shape,
        f: Reduce,
        step: &dyn Fn(&mut Self, Reg, usize),
        start: &dyn Fn(&mut Self, usize) -> Reg,
    ) -> Result<Vec<Reg>> {
        match own.form {
            Form::Copies => Ok(self.in_every_thread(own, f, step, start)),
            // A thread's own row.
            Form::Lanes => Ok(self.in_every_thread(&Shape { rows: 1, ..*own }, f, step, start)),
            Form::ByRows => {
                let mut sums = Vec::with_capacity(own.rows);
                for row in 0..own.rows {
                    sums.push(self.in_thread(own, row, f, step, start));
                }
                Ok(self.across(f, sums))
            }
            Form::Packed => Err(unsupported("a reduction along rows that share threads")),
        }
    }

    /// A thread's part of a row.
    fn in_thread(
        &mut self,
        own: &Shape,
        row: usize,
        f: Reduce,
        step: &dyn Fn(&mut Self, Reg, usize),
        start: &dyn Fn(&mut Self, usize) -> Reg,
    ) -> Reg {
        let acc = self.real();
        // Threads that hold nothing add what changes nothing.
        let neutral = if f == Reduce::Max { f32::NEG_INFINITY } else { 0.0 };
        let mut begun = false;
        for pass in 0..own.passes() {
            let holds = self.holds(own, pass);
            if holds.is_some() && !begun {
                self.asm.mov_to(acc, neutral);
                begun = true;
            }
            let end = holds.map(|p| {
                let end = self.asm.label("held");
                self.asm.bra_unless(p, end);
                end
            });
            for e in 0..own.chunk {
                let i = own.at(row, pass, e);
                if begun {
                    step(self, acc, i);
                } else {
                    let first = start(self, i);
                    self.asm.mov_to(acc, first);
                    begun = true;
                }
            }
            if let Some(end) = end {
                self.asm.place(end);
            }
        }
        acc
    }

    /// The sums of all threads, in every thread.
    fn across(&mut self, f: Reduce, sums: Vec<Reg>) -> Vec<Reg> {
        let mut sums = sums;
        for lanes in [16u32, 8, 4, 2, 1] {
            for sum in &mut sums {
                let other = self.asm.shfl_bfly(*sum, lanes);
                *sum = self.join(f, *sum, other);
            }
        }
        let warps = self.team.warps as usize;
        if warps == 1 {
            return sums;
        }
        let pitch = warps.next_multiple_of(4) * 4;
        let bytes = (sums.len() * pitch) as u32;
        let region = self.shared.take(bytes, 16);
        self.before_fresh(region, bytes);
        let (lane, warp) = (self.team.lane, self.team.warp);
        let first = self.asm.setp(crate::target::ptx::isa::Cmp::Eq, Ty::U32, lane, 0u32);
        let own = self.asm.mad_u32(warp, 4u32, self.smem);
        for (row, sum) in sums.iter().enumerate() {
            let at = own.at(i64::from(region) + (row * pitch) as i64);
            self.asm.guard(first, |asm| asm.st_shared(Ty::F32, at, *sum));
        }
        self.meet();
        self.vector.hazards.read = true;
        let mut out = Vec::with_capacity(sums.len());
        for row in 0..sums.len() {
            let mut acc: Option<Reg> = None;
            for four in 0..warps.div_ceil(4) {
                let n = (warps - 4 * four).min(4);
                let place = Place::shared(self.smem, region + (row * pitch + 16 * four) as u32);
                let parts = self.asm.ld_shared_vec(Ty::F32, 4, place.address());
                for part in parts.into_iter().take(n) {
                    acc = Some(match acc {
                        None => part,
                        Some(acc) => self.join(f, acc, part),
                    });
                }
            }
            out.extend(acc);
        }
        out
    }

    /// The same order where every thread has all elements.
    fn in_every_thread(
        &mut self,
        own: &Shape,
        f: Reduce,
        step: &dyn Fn(&mut Self, Reg, usize),
        start: &dyn Fn(&mut Self, usize) -> Reg,
    ) -> Vec<Reg> {
        let lanes = self.role().lanes;
        let mut out = Vec::with_capacity(own.rows);
        for row in 0..own.rows {
            let mut sums: Vec<Option<Reg>> = vec![None; lanes.count];
            for col in 0..own.cols {
                let (i, lane) = (row * own.cols + col, col / lanes.chunk % lanes.count);
                match sums[lane] {
                    Some(acc) => step(self, acc, i),
                    None => {
                        let first = start(self, i);
                        let acc = self.asm.mov_f32(first);
                        sums[lane] = Some(acc);
                    }
                }
            }
            let mut whole: Option<Reg> = None;
            for group in sums.chunks_mut(WARP) {
                let mut half = group.len() / 2;
                while half > 0 {
                    for j in 0..half {
                        group[j] = match (group[j], group[j + half]) {
                            (Some(a), Some(b)) => Some(self.join(f, a, b)),
                            (a, b) => a.or(b),
                        };
                    }
                    half /= 2;
                }
                whole = match (whole, group[0]) {
                    (Some(a), Some(b)) => Some(self.join(f, a, b)),
                    (a, b) => a.or(b),
                };
            }
            out.extend(whole);
        }
        out
    }
}
