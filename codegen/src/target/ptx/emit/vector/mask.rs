//! Columns of a tile set to one value.

use super::super::{Emitter, Result, unsupported};
use super::flat::Form;
use super::{Data, Tile};
use crate::target::ptx::isa::{Cmp, Operand, Reg, Ty};
use tessera_ir::Format;
use tessera_ir::tile::Value;

impl Emitter<'_> {
    /// `mask.cols`.
    pub(in super::super) fn mask_cols(&mut self, v: Value, x: Value, n: Value, value: f32) -> Result<()> {
        let tile = self.tile_of(x)?;
        let n = self.ix(n)?;
        if !n.narrow() {
            return Err(unsupported("a number of columns that does not fit 32 bits"));
        }
        let (shape, mut regs) = (tile.shape, self.regs(&tile)?);
        match shape.form {
            // A register is a column.
            Form::Copies | Form::Lanes => {
                for (i, x) in regs.iter_mut().enumerate() {
                    *x = self.kept(*x, Operand::Int((i % shape.cols) as i64), n.low(), value);
                }
            }
            Form::ByRows | Form::Packed => {
                for chunk in shape.chunks() {
                    let (number, _) = self.chunk_at(&shape, chunk.pass);
                    let first = self.asm.fold_mul(number, shape.chunk);
                    for e in 0..shape.chunk {
                        let col = self.asm.fold_add(first, e);
                        regs[chunk.first + e] = self.kept(regs[chunk.first + e], col, n.low(), value);
                    }
                }
            }
        }
        self.bind_tile(v, Tile { format: Format::F32, data: Data::Regs(regs), ..tile })
    }

    /// `x` where `col < n`, else `value`.
    fn kept(&mut self, x: Reg, col: Operand, n: Operand, value: f32) -> Reg {
        if let (Some(col), Some(n)) = (col.int(), n.int()) {
            return if col < n { x } else { self.asm.mov_f32(value) };
        }
        let col = self.asm.in_reg(Ty::S32, col);
        let there = self.asm.setp(Cmp::Lt, Ty::S32, col, n);
        self.asm.selp(Ty::F32, x, value, there)
    }
}
