//! Maps, zips, parts and shapes. Every step is one IEEE operation; nothing is contracted.

use super::super::{Emitter, Result, unsupported};
use super::flat::{Form, Shape};
use super::{Data, Source, Tile};
use crate::target::ptx::isa::{Operand, Reg};
use tessera_ir::Format;
use tessera_ir::tile::{Binary, Unary, Value};

/// Elements of a thread from which on a part of a row in memory is not kept in registers.
const ANEW: usize = 32;

impl Emitter<'_> {
    /// `splat`.
    pub(in super::super) fn splat(&mut self, v: Value, value: f32) -> Result<()> {
        let shape = self.shape(1, 1)?;
        self.bind_tile(v, Tile { shape, format: Format::F32, data: Data::Splat(value) })
    }

    /// `map`.
    pub(in super::super) fn map(&mut self, v: Value, x: Value, f: Unary) -> Result<()> {
        if self.uses_of(v).all == 0 {
            return Ok(());
        }
        let tile = self.tile_of(x)?;
        if let Some(tile) = self.map_pairs(&tile, f) {
            return self.bind_tile(v, tile);
        }
        let regs = self.regs(&tile)?;
        let out = regs.into_iter().map(|r| self.unary(f, r)).collect();
        self.bind_tile(v, Tile { format: Format::F32, data: Data::Regs(out), ..tile })
    }

    fn unary(&mut self, f: Unary, x: Reg) -> Reg {
        match f {
            Unary::Neg => self.asm.neg_f32(x),
            Unary::Abs => self.asm.abs_f32(x),
            Unary::Sqrt => self.asm.sqrt_f32(x),
            Unary::Rsqrt => {
                let root = self.asm.sqrt_f32(x);
                self.asm.rcp_f32(root)
            }
            Unary::Exp => self.exp(x),
            Unary::Sigmoid => {
                let bottom = self.one_plus_exp_of_minus(x);
                self.asm.rcp_f32(bottom)
            }
            Unary::Silu => {
                let bottom = self.one_plus_exp_of_minus(x);
                self.asm.div_f32(x, bottom)
            }
            Unary::SqrtSoftplus => {
                let y = self.softplus(x);
                self.asm.sqrt_f32(y)
            }
            Unary::Relu => self.asm.max_nan_f32(x, 0f32),
        }
    }
    fn one_plus_exp_of_minus(&mut self, x: Reg) -> Reg {
        let minus = self.asm.neg_f32(x);
        let e = self.exp(minus);
        self.asm.add_f32(e, 1f32)
    }

    /// `zip`.
    pub(in super::super) fn zip(&mut self, v: Value, a: Value, b: Value, f: Binary) -> Result<()> {
        if self.uses_of(v).all == 0 {
            return Ok(());
        }
        let (a, b) = (self.tile_of(a)?, self.tile_of(b)?);
        if let Some(tile) = self.zip_pairs(&a, &b, f) {
            return self.bind_tile(v, tile);
        }
        let (rows, cols) = (a.shape.rows.max(b.shape.rows), a.shape.cols.max(b.shape.cols));
        let shape = self.shape(rows, cols)?;
        let (x, y) = (self.repeated(&a, &shape)?, self.repeated(&b, &shape)?);
        let out = x.into_iter().zip(y).map(|(x, y)| self.binary(f, x, y)).collect();
        self.bind_tile(v, Tile { shape, format: Format::F32, data: Data::Regs(out) })
    }

    fn binary(&mut self, f: Binary, a: Operand, b: Operand) -> Reg {
        let asm = &mut self.asm;
        match f {
            Binary::Add => asm.add_f32(a, b),
            Binary::Sub => asm.sub_f32(a, b),
            Binary::Mul => asm.mul_f32(a, b),
            Binary::Div => asm.div_f32(a, b),
            Binary::Min => asm.min_nan_f32(a, b),
            Binary::Max => asm.max_nan_f32(a, b),
            // PTX takes the sign from its first operand.
            Binary::CopySign => asm.copysign_f32(b, a),
        }
    }

    /// The elements of `tile`, repeated along rows and columns to `shape`.
    pub(super) fn repeated(&mut self, tile: &Tile, shape: &Shape) -> Result<Vec<Operand>> {
        if let Data::Splat(value) = tile.data {
            return Ok(vec![Operand::from(value); shape.held()]);
        }
        let own = tile.shape;
        let regs = self.regs(tile)?;
        if own == *shape {
            return Ok(regs.into_iter().map(Operand::from).collect());
        }
        let pick: Box<dyn Fn(usize, usize) -> usize> = match (own.form, shape.form) {
            (Form::Copies, _) if own.rows == 1 && own.cols == 1 => Box::new(|_, _| 0),
            (Form::Copies, Form::ByRows) if own.cols == 1 => Box::new(|row, _| row),
            (Form::Copies, Form::Copies) => Box::new(move |row, col| {
                let row = if own.rows == 1 { 0 } else { row };
                row * own.cols + if own.cols == 1 { 0 } else { col }
            }),
            (Form::ByRows, Form::ByRows) if own.rows == 1 => Box::new(|_, within| within),
            // A thread has one row.
            (Form::Copies, Form::Lanes) if own.rows == 1 => Box::new(|_, col| col),
            (Form::Lanes, Form::Lanes) if own.cols == 1 => Box::new(|_, _| 0),
            (Form::Copies | Form::ByRows | Form::Packed | Form::Lanes, _) => {
                return self.repeated_through_memory(&own, &regs, shape);
            }
        };
        let mut out = Vec::with_capacity(shape.held());
        match shape.form {
            Form::Packed => out.resize(shape.held(), regs[pick(0, 0)]),
            Form::Lanes => out.extend((0..shape.cols).map(|col| regs[pick(0, col)])),
            Form::Copies | Form::ByRows => {
                let per_row = shape.held() / shape.rows;
                for row in 0..shape.rows {
                    out.extend((0..per_row).map(|i| regs[pick(row, i)]));
                }
            }
        }
        Ok(out.into_iter().map(Operand::from).collect())
    }

    fn repeated_through_memory(&mut self, own: &Shape, regs: &[Reg], shape: &Shape) -> Result<Vec<Operand>> {
        if own.cols != shape.cols {
            return Err(unsupported(format!(
                "{}x{} repeated to {}x{}",
                own.rows, own.cols, shape.rows, shape.cols
            )));
        }
        let source = self.spread(own, regs)?;
        let pitch = if own.rows == 1 { 0 } else { source.pitch };
        let regs = self.fetch(shape, &Source { pitch, ..source })?;
        Ok(regs.into_iter().map(Operand::from).collect())
    }

    /// `slice`; each pair is the first and the number.
    pub(in super::super) fn slice(
        &mut self,
        v: Value,
        x: Value,
        rows: (usize, usize),
        cols: (usize, usize),
    ) -> Result<()> {
        let uses = self.uses_of(v);
        if uses.all == 0 {
            return Ok(());
        }
        let tile = self.tile_of(x)?;
        let lazy = uses.parts == uses.all || uses.tables > 0;
        let own = tile.shape;
        let shape = match self.shape(rows.1, cols.1) {
            Err(_) if lazy => Shape::lazy(rows.1, cols.1),
            shape => shape?,
        };
        let data = match &tile.data {
            Data::Splat(value) => Data::Splat(*value),
            Data::Memory(source) => {
                let bytes = source.format.elem.bits() / 8;
                let moved = (rows.0 * source.pitch + cols.0) * bytes;
                let align = source.align.min(1 << (cols.0 * bytes).trailing_zeros().min(4));
                let source = Source { at: source.at.plus(moved as i64), align, ..*source };
                // What is used once is read there: registers are scarcer than time.
                self.part(&shape, source, lazy || uses.all == 1)?
            }
            Data::Regs(_) | Data::Rounded { .. } | Data::Pairs(_) | Data::Products(_) => {
                let regs = self.regs(&tile)?;
                Data::Regs(self.slice_of(&own, &regs, &shape, rows.0, cols.0)?)
            }
            Data::Quantised(_) | Data::Columns(_) => return Err(unsupported("a part of a quantised tile")),
        };
        self.bind_tile(v, Tile { shape, format: tile.format, data })
    }

    /// A part of a tile in memory: read now unless only parts of it are wanted.
    fn part(&mut self, shape: &Shape, source: Source, lazy: bool) -> Result<Data> {
        Ok(if lazy { Data::Memory(source) } else { Data::Regs(self.fetch(shape, &source)?) })
    }

    fn slice_of(
        &mut self,
        own: &Shape,
        regs: &[Reg],
        shape: &Shape,
        row: usize,
        col: usize,
    ) -> Result<Vec<Reg>> {
        let wave = own.threads * own.chunk;
        match (own.form, shape.form) {
            (Form::Copies, Form::Copies) => Ok((0..shape.rows)
                .flat_map(|r| (0..shape.cols).map(move |c| (row + r) * own.cols + col + c))
                .map(|i| regs[i])
                .collect()),
            (Form::ByRows, Form::ByRows) if col.is_multiple_of(wave) => {
                let per_row = shape.held() / shape.rows;
                Ok((0..shape.rows)
                    .flat_map(|r| {
                        let from = own.at(row + r, col / wave, 0);
                        regs[from..from + per_row].iter().copied()
                    })
                    .collect())
            }
            (Form::Lanes, Form::Lanes) => Ok(regs[col..col + shape.cols].to_vec()),
            (Form::Copies | Form::ByRows | Form::Packed | Form::Lanes, _) => {
                let source = self.spread(own, regs)?;
                let at = source.at.plus(((row * own.cols + col) * 4) as i64);
                let align = source.align.min(1 << (col * 4).trailing_zeros().min(4));
                self.fetch(shape, &Source { at, align, ..source })
            }
        }
    }

    /// `reshape`.
    pub(in super::super) fn reshape(&mut self, v: Value, x: Value, rows: usize, cols: usize) -> Result<()> {
        let uses = self.uses_of(v);
        if uses.all == 0 {
            return Ok(());
        }
        let tile = self.tile_of(x)?;
        let lazy = uses.parts == uses.all || uses.tables > 0;
        let shape = match self.shape(rows, cols) {
            Err(_) if lazy => Shape::lazy(rows, cols),
            shape => shape?,
        };
        let own = tile.shape;
        let data = match &tile.data {
            Data::Splat(value) => Data::Splat(*value),
            Data::Memory(source) if source.pitch == own.cols || own.rows == 1 => {
                let bytes = source.format.elem.bits() / 8;
                let align = source.align.min(1 << (cols * bytes).trailing_zeros().min(4));
                // Large parts are read anew for each use: registers are scarcer than time.
                let anew = source.constant && shape.held() >= ANEW;
                self.part(&shape, Source { pitch: cols, align, ..*source }, lazy || anew)?
            }
            Data::Memory(_) | Data::Regs(_) | Data::Rounded { .. } | Data::Pairs(_) | Data::Products(_) => {
                let regs = self.regs(&tile)?;
                let copies = own.form == Form::Copies && shape.form == Form::Copies;
                let sequence = own.in_sequence() && shape.in_sequence() && own.held() == shape.held();
                Data::Regs(if copies || sequence {
                    regs
                } else {
                    let source = self.spread(&own, &regs)?;
                    let align = source.align.min(1 << (cols * 4).trailing_zeros().min(4));
                    self.fetch(&shape, &Source { pitch: cols, align, ..source })?
                })
            }
            Data::Quantised(_) | Data::Columns(_) => {
                return Err(unsupported("a quantised tile in another shape"));
            }
        };
        self.bind_tile(v, Tile { shape, format: tile.format, data })
    }
}
