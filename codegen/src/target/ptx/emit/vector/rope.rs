//! Rotary embeddings: angles of a position, and rotations of adjacent pairs (V4.1 §2.5).

use super::super::{Emitter, Result, unsupported};
use super::flat::{Form, Shape};
use super::{Data, Place, Source, Tile};
use crate::target::ptx::isa::{Cmp, Operand, Reg, Ty};
use tessera_ir::graph::Rope;
use tessera_ir::tile::Value;
use tessera_ir::{Elem, Format};

impl Emitter<'_> {
    /// `angles`: thread m computes the cosine and sine of frequency m; the table lies in shared memory.
    pub(in super::super) fn angles(&mut self, v: Value, pos: Value, rope: &Rope) -> Result<()> {
        if self.uses_of(v).all == 0 {
            return Ok(());
        }
        let pos = self.ix(pos)?;
        let frequencies = rope.frequencies();
        let half = frequencies.len();
        let threads = self.team.threads() as usize;
        let position = {
            let long = self.long(pos);
            let long = self.asm.in_reg(Ty::S64, long);
            self.asm.cvt(Ty::F32, Ty::S64, Some(crate::target::ptx::isa::Round::Near), long)
        };
        let offset = self.shared.take(8 * half as u32, 16);
        self.before_fresh(offset, 8 * half as u32);
        let thread = self.team.thread;
        for (turn, part) in frequencies.chunks(threads).enumerate() {
            let frequency = self.chosen(part);
            let angle = self.asm.mul_f32(position, frequency);
            let angle = self.asm.f64_f32(angle);
            let (cos, sin) = self.cos_sin(angle);
            let (cos, sin) = (self.asm.f32_f64(cos), self.asm.f32_f64(sin));
            let there = self.asm.setp(Cmp::Lt, Ty::U32, thread, part.len());
            let first = offset + 4 * (turn * threads) as u32;
            let at = Place::shared(self.smem, first);
            let at = self.stepped_by(at, thread.into(), 4);
            self.store_words(at, Ty::F32, &[cos], Some(there));
            self.store_words(at.plus(4 * half as i64), Ty::F32, &[sin], Some(there));
        }
        // Whoever reads it meets first.
        let source = Source {
            at: Place::shared(self.smem, offset),
            pitch: 2 * half,
            format: Format::F32,
            align: 16,
            constant: false,
        };
        let shape = self.shape(1, 2 * half)?;
        self.bind_tile(v, Tile { shape, format: Format::F32, data: Data::Memory(source) })
    }

    /// The number of `list` that belongs to this thread, by halving the list at every bit of the thread's number.
    fn chosen(&mut self, list: &[f32]) -> Reg {
        let mut level: Vec<Operand> = list.iter().map(|x| Operand::from(*x)).collect();
        let mut bit = 1u32;
        while level.len() > 1 {
            let thread = self.team.thread;
            let masked = self.asm.and_b32(thread, bit);
            let odd = self.asm.setp(Cmp::Ne, Ty::U32, masked, 0u32);
            level = level
                .chunks(2)
                .map(|pair| match pair {
                    [even, other] => self.asm.selp(Ty::F32, *other, *even, odd).into(),
                    one => one[0],
                })
                .collect();
            bit *= 2;
        }
        let only = level.first().copied().unwrap_or(Operand::from(0f32));
        self.asm.in_reg(Ty::F32, only)
    }

    /// `rotate`.
    pub(in super::super) fn rotate(&mut self, v: Value, x: Value, table: Value, inverse: bool) -> Result<()> {
        if self.uses_of(v).all == 0 {
            return Ok(());
        }
        let (tile, table) = (self.tile_of(x)?, self.tile_of(table)?);
        let shape = tile.shape;
        let turned = table.shape.cols;
        let source = match &table.data {
            Data::Memory(source) if source.format == Format::F32 => *source,
            Data::Memory(_)
            | Data::Splat(_)
            | Data::Regs(_)
            | Data::Rounded { .. }
            | Data::Pairs(_)
            | Data::Products(_) => {
                let regs = self.regs(&table)?;
                self.spread(&table.shape, &regs)?
            }
            Data::Quantised(_) | Data::Columns(_) => return Err(unsupported("a quantised table")),
        };
        let regs = self.regs(&tile)?;
        if source.at.is_shared() {
            self.before_read();
        }
        let out = match shape.form {
            Form::Copies => self.turn_copies(&shape, &regs, &source, turned, inverse),
            Form::ByRows | Form::Packed => self.turn_chunks(&shape, &regs, &source, turned, inverse)?,
            Form::Lanes => return Err(unsupported("rotating rows, one a thread")),
        };
        self.bind_tile(v, Tile { shape, format: Format::F32, data: Data::Regs(out) })
    }

    /// Rotation where every thread has all elements.
    fn turn_copies(
        &mut self,
        shape: &Shape,
        regs: &[Reg],
        table: &Source,
        turned: usize,
        inverse: bool,
    ) -> Vec<Reg> {
        let mut out = regs.to_vec();
        let first = shape.cols - turned;
        for m in 0..turned / 2 {
            let at = table.at.plus(4 * m as i64);
            let cos =
                self.load_words(at, Ty::F32, crate::target::ptx::isa::Class::F32, 1, table.constant, None)[0];
            let at = at.plus(2 * turned as i64);
            let sin =
                self.load_words(at, Ty::F32, crate::target::ptx::isa::Class::F32, 1, table.constant, None)[0];
            for row in 0..shape.rows {
                let i = row * shape.cols + first + 2 * m;
                (out[i], out[i + 1]) = self.turn((out[i], out[i + 1]), (cos, sin), inverse);
            }
        }
        out
    }

    /// `(e·c − o·s, e·s + o·c)`, each product and sum rounded.
    fn turn(&mut self, (e, o): (Reg, Reg), (cos, sin): (Reg, Reg), inverse: bool) -> (Reg, Reg) {
        let asm = &mut self.asm;
        let (ec, os) = (asm.mul_f32(e, cos), asm.mul_f32(o, sin));
        let (es, oc) = (asm.mul_f32(e, sin), asm.mul_f32(o, cos));
        if inverse {
            (asm.add_f32(ec, os), asm.sub_f32(oc, es))
        } else {
            (asm.sub_f32(ec, os), asm.add_f32(es, oc))
        }
    }

    /// Rotation of chunks: threads whose chunks lie before the rotated columns do nothing.
    fn turn_chunks(
        &mut self,
        shape: &Shape,
        regs: &[Reg],
        table: &Source,
        turned: usize,
        inverse: bool,
    ) -> Result<Vec<Reg>> {
        let (chunk, first) = (shape.chunk, shape.cols - turned);
        if !chunk.is_multiple_of(2) || !first.is_multiple_of(chunk) || table.format.elem != Elem::F32 {
            return Err(unsupported(format!(
                "rotating {turned} of {} columns in chunks of {chunk}",
                shape.cols
            )));
        }
        let out: Vec<Reg> = regs.iter().map(|r| self.asm.mov_f32(*r)).collect();
        let passes = shape.passes();
        // Passes in which a thread's chunk has the same place along the row share their angles.
        let one_column = shape.form == Form::Packed && shape.threads.is_multiple_of(shape.row_chunks());
        let rounds: Vec<Vec<usize>> = match shape.form {
            Form::ByRows => {
                (0..passes).map(|pass| (0..shape.rows).map(|row| shape.at(row, pass, 0)).collect()).collect()
            }
            Form::Packed | Form::Copies | Form::Lanes if one_column => {
                vec![(0..passes).map(|pass| pass * chunk).collect()]
            }
            Form::Packed | Form::Copies | Form::Lanes => (0..passes).map(|pass| vec![pass * chunk]).collect(),
        };
        for (pass, chunks) in rounds.into_iter().enumerate() {
            let (along, _) = self.chunk_at(shape, pass);
            let along = self.asm.in_reg(Ty::U32, along);
            let end = self.asm.label("turned");
            let before = self.asm.setp(Cmp::Lt, Ty::U32, along, first / chunk);
            self.asm.bra_if(before, end);
            if shape.form == Form::ByRows
                && let Some(p) = self.holds(shape, pass)
            {
                self.asm.bra_unless(p, end);
            }
            let number = self.asm.sub_u32(along, first / chunk);
            let at = self.stepped_by(table.at, number.into(), (2 * chunk) as u32);
            let align = table.align.min(2 * chunk).min(1 << (2 * turned).trailing_zeros().min(4));
            let angles = Source { at, align, pitch: 0, ..*table };
            let cos = self.load_run(at, &angles, chunk / 2, None)?;
            let sin = self.load_run(at.plus(2 * turned as i64), &angles, chunk / 2, None)?;
            for from in chunks {
                for j in 0..chunk / 2 {
                    let i = from + 2 * j;
                    let pair = self.turn((regs[i], regs[i + 1]), (cos[j], sin[j]), inverse);
                    self.asm.mov_to(out[i], pair.0);
                    self.asm.mov_to(out[i + 1], pair.1);
                }
            }
            self.asm.place(end);
        }
        Ok(out)
    }
}
