//! Tiles from and to memory: 16 bytes at a time where the rows allow it.

use super::super::view::Rows;
use super::super::{Emitter, Result, unsupported};
use super::flat::{Form, Shape};
use super::{Data, Place, Source, Tile};
use crate::target::ptx::emit::READ;
use crate::target::ptx::isa::{Asm, Class, Operand, Reg, Ty};
use tessera_ir::tile::Value;
use tessera_ir::{Dim, Elem, Format};

/// Bytes of the widest access.
const WIDEST: usize = 16;

impl Emitter<'_> {
    /// `load`.
    pub(in super::super) fn load(
        &mut self,
        v: Value,
        view: Value,
        at: &[Value],
        rows: usize,
        cols: &Dim,
    ) -> Result<()> {
        let cols = cols.fixed().ok_or_else(|| unsupported("a tile of a width not known when compiling"))?;
        let uses = self.uses_of(v);
        if uses.all == 0 {
            return Ok(());
        }
        let lies = self.rows_at(view, at)?;
        if lies.format.group.is_some() {
            let shape = self.shape(rows, cols)?;
            let regs = self.load_quantised(&shape, &lies)?;
            return self.bind_tile(v, Tile { shape, format: Format::F32, data: Data::Regs(regs) });
        }
        let bytes = lies.format.elem.bits() / 8;
        let source = Source {
            at: Place::global(lies.codes),
            pitch: lies.pitch / bytes,
            format: lies.format,
            align: lies.align,
            constant: lies.constant,
        };
        let format = if lies.format.is_float() { Format::F32 } else { lies.format };
        if uses.parts == uses.all || uses.tables > 0 {
            // Any layout does, for the whole tile is never wanted.
            let shape = self.shape(rows, cols).unwrap_or(Shape::lazy(rows, cols));
            return self.bind_tile(v, Tile { shape, format, data: Data::Memory(source) });
        }
        let shape = self.shape(rows, cols)?;
        let regs = if shape.form == Form::Copies && source.pitch == cols {
            // Every thread reads everything, as one run.
            let source = Source { align: lies.start, ..source };
            let n = rows * cols;
            if lies.format == Format::BF16 && n.is_multiple_of(2) && lies.start >= 4 {
                let words = Source { format: Format::I32, ..source };
                let words = self.load_run(source.at, &words, n / 2, None)?;
                let regs = self.halves(&words, n);
                return self.bind_tile(v, Tile { shape, format, data: Data::Rounded { regs, words } });
            }
            self.load_run(source.at, &source, n, None)?
        } else {
            self.fetch(&shape, &source)?
        };
        self.bind_tile(v, Tile { shape, format, data: Data::Regs(regs) })
    }

    /// Reads a tile from memory.
    pub(super) fn fetch(&mut self, shape: &Shape, source: &Source) -> Result<Vec<Reg>> {
        if shape.threads == 0 {
            return Err(unsupported(format!("the whole of a tile {}x{}", shape.rows, shape.cols)));
        }
        let bytes = source.format.elem.bits() / 8;
        if source.at.is_shared() {
            self.before_read();
        }
        if shape.form == Form::Lanes {
            return Err(unsupported("rows of memory, one a thread"));
        }
        if shape.form == Form::Copies {
            let mut regs = Vec::with_capacity(shape.held());
            for row in 0..shape.rows {
                let at = source.at.plus((row * source.pitch * bytes) as i64);
                regs.extend(self.load_run(at, source, shape.cols, None)?);
            }
            return Ok(regs);
        }
        let mut regs = Vec::with_capacity(shape.held());
        let starts = self.chunk_places(shape, source.at, source.pitch * bytes, bytes);
        for (chunk, at) in shape.chunks().into_iter().zip(starts) {
            let holds = self.holds(shape, chunk.pass);
            regs.extend(self.load_run(at, source, shape.chunk, holds)?);
        }
        Ok(regs)
    }

    /// Where this thread's chunks lie in memory of rows of `pitch` bytes, elements of `bytes`.
    pub(super) fn chunk_places(
        &mut self,
        shape: &Shape,
        at: Place,
        pitch: usize,
        bytes: usize,
    ) -> Vec<Place> {
        let chunk = shape.chunk * bytes;
        let dense = shape.form == Form::Packed && pitch == shape.cols * bytes;
        if shape.form == Form::ByRows || dense {
            let first = self.stepped(at, chunk as u32);
            let chunks = shape.chunks().into_iter();
            return chunks
                .map(|c| first.plus((c.row * pitch + c.pass * shape.threads * chunk) as i64))
                .collect();
        }
        (0..shape.passes())
            .map(|pass| {
                let (along, row) = self.chunk_at(shape, pass);
                let place = self.stepped_by(at, along, chunk as u32);
                match row {
                    Some(row) => self.stepped_by(place, row, pitch as u32),
                    None => place,
                }
            })
            .collect()
    }
    /// `at + thread · bytes`.
    fn stepped(&mut self, at: Place, bytes: u32) -> Place {
        let by = self.stride(bytes, !at.is_shared());
        self.moved_place(at, by)
    }
    /// `at + n · bytes`, n a 32-bit number from 0 on.
    pub(super) fn stepped_by(&mut self, at: Place, n: Operand, bytes: u32) -> Place {
        if let Some(n) = n.int() {
            return at.plus(n * i64::from(bytes));
        }
        let by = if at.is_shared() {
            let n = self.asm.in_reg(Ty::U32, n);
            self.asm.mul_u32(n, bytes)
        } else {
            self.offset(n, bytes)
        };
        self.moved_place(at, by)
    }
    /// The place moved by a register of its width.
    fn moved_place(&mut self, at: Place, by: Reg) -> Place {
        let base = if at.is_shared() { self.asm.add_u32(at.base, by) } else { self.asm.add_s64(at.base, by) };
        Place { base, ..at }
    }

    /// Reads `n` neighbouring elements: f32 registers, or 32-bit integers. Threads for which `holds` does not hold get 0.
    pub(super) fn load_run(
        &mut self,
        at: Place,
        source: &Source,
        n: usize,
        holds: Option<Reg>,
    ) -> Result<Vec<Reg>> {
        let elem = source.format.elem;
        let mut out = Vec::with_capacity(n);
        let mut done = 0;
        while done < n {
            let place = at.plus((done * elem.bits() / 8) as i64);
            // The first elements of a run are as aligned as the rows, later ones as far as what came before allows.
            let align = (source.align).min(lowest(done * elem.bits() / 8));
            let take = |bytes: usize| (WIDEST.min(align).max(bytes) / bytes).min(n - done);
            match elem {
                Elem::F32 | Elem::I32 => {
                    let width = floor_power(take(4)).min(4);
                    let (class, ty) =
                        if elem == Elem::F32 { (Class::F32, Ty::F32) } else { (Class::B32, Ty::U32) };
                    out.extend(self.load_words(place, ty, class, width, source.constant, holds));
                    done += width;
                }
                Elem::Bf16 => {
                    let width = floor_power(take(2));
                    if width == 1 {
                        let half = self.load_words(place, Ty::U16, Class::B16, 1, source.constant, holds)[0];
                        out.push(self.asm.f32_bf16(half));
                    } else {
                        let words =
                            self.load_words(place, Ty::U32, Class::B32, width / 2, source.constant, holds);
                        for word in words {
                            out.extend(self.asm.f32_bf16x2(word));
                        }
                    }
                    done += width;
                }
                Elem::I64 | Elem::E4m3 | Elem::E2m1 => {
                    return Err(unsupported(format!("a tile of {}", source.format)));
                }
            }
        }
        Ok(out)
    }

    /// Reads `n` words in one access.
    pub(super) fn load_words(
        &mut self,
        at: Place,
        ty: Ty,
        class: Class,
        n: usize,
        constant: bool,
        holds: Option<Reg>,
    ) -> Vec<Reg> {
        let regs = self.asm.regs(class, n);
        // Bytes have no moves; what threads that read nothing hold is never used.
        if holds.is_some() && class != Class::B8 {
            for r in &regs {
                if class == Class::F32 { self.asm.mov_to(*r, 0f32) } else { self.asm.mov_to(*r, 0) }
            }
        }
        let read = |asm: &mut Asm| {
            if constant && !at.is_shared() {
                asm.ld_hint_to(&regs, READ, ty, at.address());
            } else {
                asm.ld_to(&regs, at.space, ty, at.address());
            }
        };
        match holds {
            Some(p) => self.asm.guard(p, read),
            None => read(&mut self.asm),
        }
        regs
    }

    /// `store`.
    pub(in super::super) fn store(&mut self, x: Value, view: Value, at: &[Value]) -> Result<()> {
        let tile = self.tile_of(x)?;
        let lies = self.rows_at(view, at)?;
        if let Data::Quantised(codes) = &tile.data {
            return self.store_quantised(&tile.shape, codes, &lies);
        }
        let regs = self.regs(&tile)?;
        // What all threads read as an index is written between two meetings.
        let again = self.is_read(view);
        if again {
            self.meet();
        }
        self.write(&tile.shape, &regs, &lies)?;
        if again {
            self.meet();
        }
        Ok(())
    }

    /// Writes plain values to rows in memory.
    fn write(&mut self, shape: &Shape, regs: &[Reg], lies: &Rows) -> Result<()> {
        let elem = lies.format.elem;
        let bytes = elem.bits() / 8;
        let at = Place::global(lies.codes);
        self.write_at(shape, regs, at, (lies.pitch, bytes), (elem, lies.align))
    }

    /// Writes plain values to memory of rows of `pitch` bytes, `bytes` an element.
    pub(super) fn write_at(
        &mut self,
        shape: &Shape,
        regs: &[Reg],
        at: Place,
        (pitch, bytes): (usize, usize),
        (elem, align): (Elem, usize),
    ) -> Result<()> {
        if shape.form == Form::Lanes {
            return Err(unsupported("rows to memory, one a thread"));
        }
        if shape.form == Form::Copies {
            let first = self.first_thread();
            for row in 0..shape.rows {
                let part = &regs[row * shape.cols..(row + 1) * shape.cols];
                self.store_run(at.plus((row * pitch) as i64), part, elem, align, Some(first))?;
            }
            return Ok(());
        }
        let starts = self.chunk_places(shape, at, pitch, bytes);
        for (chunk, at) in shape.chunks().into_iter().zip(starts) {
            let holds = self.holds(shape, chunk.pass);
            let part = &regs[chunk.first..chunk.first + shape.chunk];
            self.store_run(at, part, elem, align, holds)?;
        }
        Ok(())
    }

    /// Writes neighbouring elements.
    fn store_run(
        &mut self,
        at: Place,
        regs: &[Reg],
        elem: Elem,
        align: usize,
        holds: Option<Reg>,
    ) -> Result<()> {
        let mut done = 0;
        while done < regs.len() {
            let offset = done * elem.bits() / 8;
            let place = at.plus(offset as i64);
            let align = align.min(lowest(offset));
            let left = &regs[done..];
            let take = |bytes: usize| (WIDEST.min(align).max(bytes) / bytes).min(left.len());
            match elem {
                Elem::F32 | Elem::I32 => {
                    let width = floor_power(take(4)).min(4);
                    let ty = if elem == Elem::F32 { Ty::F32 } else { Ty::U32 };
                    self.store_words(place, ty, &left[..width], holds);
                    done += width;
                }
                Elem::Bf16 => {
                    let width = floor_power(take(2));
                    if width == 1 {
                        let half = self.asm.bf16_f32(left[0]);
                        self.store_words(place, Ty::U16, &[half], holds);
                    } else {
                        let words: Vec<Reg> = left[..width]
                            .chunks_exact(2)
                            .map(|pair| self.asm.bf16x2_f32(pair[1], pair[0]))
                            .collect();
                        self.store_words(place, Ty::U32, &words, holds);
                    }
                    done += width;
                }
                Elem::I64 | Elem::E4m3 | Elem::E2m1 => {
                    return Err(unsupported("a plain tile in a quantised format"));
                }
            }
        }
        Ok(())
    }

    /// Writes words in one access.
    pub(super) fn store_words(&mut self, at: Place, ty: Ty, regs: &[Reg], holds: Option<Reg>) {
        let write = |asm: &mut Asm| match regs {
            [one] => asm.st(at.space, ty, at.address(), *one),
            many => asm.st_vec(at.space, ty, at.address(), many),
        };
        match holds {
            Some(p) => self.asm.guard(p, write),
            None => write(&mut self.asm),
        }
    }

    /// A tile as rows in shared memory, for whoever wants elements that other threads hold. The memory is used again by
    /// the next such tile.
    pub(super) fn spread(&mut self, shape: &Shape, regs: &[Reg]) -> Result<Source> {
        let bytes = (shape.rows * shape.cols * 4) as u32;
        let offset = match self.vector.scratch {
            Some((offset, size)) if size >= bytes => offset,
            Some(_) | None => {
                let offset = self.shared.take(bytes, 16);
                self.vector.scratch = Some((offset, bytes));
                offset
            }
        };
        self.before_write(offset, bytes);
        let at = Place::shared(self.smem, offset);
        let align = lowest(shape.cols * 4);
        self.write_at(shape, regs, at, (shape.cols * 4, 4), (Elem::F32, align))?;
        Ok(Source { at, pitch: shape.cols, format: Format::F32, align, constant: false })
    }
}

/// The greatest power of two that divides `n`, 16 at most.
fn lowest(n: usize) -> usize {
    1 << n.trailing_zeros().min(4)
}

/// The greatest power of two up to `n`, at least 1.
fn floor_power(n: usize) -> usize {
    1 << n.max(1).ilog2()
}
