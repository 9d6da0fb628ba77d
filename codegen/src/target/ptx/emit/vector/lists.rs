//! Selections from rows in memory and the sort of choices: ops whose operands never are tiles.

use super::super::index::Ix;
use super::super::select::{Choices, Crew, Elements, Kind, Scratch, groups, sort_scratch, topk};
use super::super::{Emitter, Result, unsupported};
use super::{Data, Place, Source, Tile};
use crate::target::ptx::isa::{Cmp, Operand, Reg, Ty};
use tessera_ir::tile::Value;
use tessera_ir::{Dim, Format};

/// Elements of the largest block whose maximum one thread takes.
const BLOCK: usize = 64;

impl Emitter<'_> {
    /// `topk.view`.
    pub(in super::super) fn topk_view(
        &mut self,
        v: Value,
        (view, at): (Value, &[Value]),
        (n, newest): (Value, Value),
        (k, block): (usize, usize),
    ) -> Result<()> {
        let (row, format) = self.row_of(view, at)?;
        let len = self.length(n)?;
        let kind = if block == 1 {
            Kind::Plain
        } else if block <= BLOCK {
            let block = block as u32;
            let up = self.asm.add_u32(len, block - 1);
            let blocks = self.asm.div_u32(up, block);
            Kind::Maxima { block, blocks, newest: self.block_of(newest, block)? }
        } else {
            return Err(unsupported(format!("maxima of blocks of {block}")));
        };
        self.select(v, &Elements { row, format, len, kind }, k)
    }

    /// `topk.listed`.
    pub(in super::super) fn topk_listed(
        &mut self,
        v: Value,
        (view, at): (Value, &[Value]),
        n: Value,
        (list, from): (Value, &[Value]),
        (k, block): (usize, usize),
    ) -> Result<()> {
        let (row, format) = self.row_of(view, at)?;
        let len = self.length(n)?;
        let whole = match from.last() {
            Some(col) => self.ix(*col)?.known() == Some(0),
            None => false,
        };
        let keep = self.kernel.param_of(list).and_then(|p| p.ty.shape.last()).and_then(Dim::fixed);
        let keep = keep.filter(|_| whole).ok_or_else(|| unsupported("a list whose length is not known"))?;
        let list = self.plain_at(list, from)?.0;
        let kind = Kind::Listed { block: block as u32, list, keep: keep as u32 };
        self.select(v, &Elements { row, format, len, kind }, k)
    }

    /// Selects; the result stays in shared memory.
    fn select(&mut self, v: Value, row: &Elements, k: usize) -> Result<()> {
        let shape = self.shape(1, k)?;
        let (crew, k) = (self.crew()?, k as u32);
        let bytes = Scratch::new(crew.threads, k).bytes;
        let (smem, offset) = self.room(bytes);
        let lies = topk(&mut self.asm, &crew, row, k, smem);
        // All threads met after the last write.
        self.vector.hazards.met();
        let at = Place::shared(self.smem, offset + lies.result);
        let data =
            Data::Memory(Source { at, pitch: k as usize, format: Format::I32, align: 16, constant: false });
        self.bind_tile(v, Tile { shape, format: Format::I32, data })
    }

    /// `sort.groups`.
    pub(in super::super) fn sort_groups(
        &mut self,
        experts: Value,
        offsets: Value,
        (pairs, rows): (Option<Value>, Option<Value>),
        count: usize,
    ) -> Result<()> {
        let param = self.kernel.param_of(experts).ok_or_else(|| unsupported("no parameter"))?;
        let per_row = param.ty.shape.last().and_then(Dim::fixed);
        let per_row = per_row.ok_or_else(|| unsupported("choices a row that are not known"))? as u32;
        let mut total = Ix::constant(1);
        for dim in &param.ty.shape {
            let dim = self.dim(dim);
            total = self.ix_mul(total, dim);
        }
        let total = self.asm.in_reg(Ty::U32, total.low());
        let plane = |e: &mut Self, v: Option<Value>| v.map(|v| e.plane(v, 0)).transpose();
        let choices = Choices {
            experts: self.plane(experts, 0)?,
            total,
            per_row,
            count: count as u32,
            offsets: self.plane(offsets, 0)?,
            pairs: plane(self, pairs)?,
            rows: plane(self, rows)?,
        };
        let crew = self.crew()?;
        let (smem, _) = self.room(sort_scratch(crew.threads, count as u32));
        groups(&mut self.asm, &crew, &choices, smem);
        self.vector.hazards.met();
        Ok(())
    }

    /// The role's threads as a crew.
    fn crew(&mut self) -> Result<Crew> {
        let (team, threads) = (self.team, self.team.threads());
        if !threads.is_power_of_two() {
            return Err(unsupported(format!("a selection by {threads} threads: a power of two is wanted")));
        }
        Ok(Crew::new(&mut self.asm, threads, team.thread, team.barrier))
    }
    /// Shared memory that no thread reads any more: its address, and its offset.
    fn room(&mut self, bytes: u32) -> (Reg, u32) {
        let offset = self.shared.take(bytes, 16);
        self.before_fresh(offset, bytes);
        (self.asm.add_u32(self.smem, offset), offset)
    }
    /// Address of an element in memory, and its format.
    fn row_of(&mut self, view: Value, at: &[Value]) -> Result<(Reg, Format)> {
        let (row, format) = self.plain_at(view, at)?;
        match format {
            Format::F32 | Format::BF16 => Ok((row, format)),
            other => Err(unsupported(format!("a selection from {other}"))),
        }
    }
    /// A number of elements, 0 or more.
    fn length(&mut self, n: Value) -> Result<Reg> {
        let n = self.ix(n)?;
        if !n.narrow() {
            return Err(unsupported("a row whose length does not fit 32 bits"));
        }
        let len = self.asm.in_reg(Ty::S32, n.low());
        Ok(if n.natural() { len } else { self.asm.max_s32(len, 0) })
    }
    /// Number of the block that holds element `at`; a number that no block has if `at` is negative.
    fn block_of(&mut self, at: Value, block: u32) -> Result<Reg> {
        let at = self.ix(at)?;
        let word = match at.low() {
            Operand::Reg(word) if at.narrow() => word,
            known if at.narrow() => self.asm.mov_b32(known),
            _ => return Err(unsupported("an element whose number does not fit 32 bits")),
        };
        let number = self.asm.div_u32(word, block);
        let there = self.asm.setp(Cmp::Ge, Ty::S32, word, 0);
        Ok(self.asm.selp(Ty::U32, number, u32::MAX, there))
    }
}
