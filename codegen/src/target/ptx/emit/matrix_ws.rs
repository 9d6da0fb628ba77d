//! Products of 64 rows on the matrix unit: the form with weights kept in it, whose accumulator folds its columns into both
//! halves of the lanes.
//!
//! Such a product has 64, 128 or 256 columns; wider slots are pieces of 256 side by side, each 128 columns of tensor memory.
//! The first operand lies K-major. So does the second of a plain product; of a transposed one the slot's rows are K, and it is
//! read with the other major: 64 columns by 8 rows of K are one swizzle atom of 1024 bytes, 8 rows further on the next, 64 columns
//! further on the next tile (PTX ISA, canonical layouts).

use super::matrix::{OPERAND_HIGH, OPERAND_LOW};
use super::slots::Held;
use super::{Emitter, Result, unsupported};
use crate::target::ptx::isa::{Asm, Cmp, CtaGroup, Mma, MmaA, MmaKind, Operand, Reg, Ty};
use tessera_ir::Format;
use tessera_ir::tile::{Ring, Value};

/// Rows of the accumulator.
const ROWS: usize = 64;
/// Most columns of one instruction.
const PIECE: usize = 256;
/// Depth of one instruction.
const STEP: usize = 16;
/// Columns of bf16 in a row of an operand tile.
const TILE: usize = 64;
/// Bytes of such a row.
const ROW: usize = 128;
/// bf16 times bf16 to f32, 64 rows (PTX ISA, instruction descriptor).
const DESCRIPTOR: i64 = 1 << 4 | 1 << 7 | 1 << 10 | (ROWS as i64 >> 4) << 24;
/// The second operand is read in columns.
const TRANSPOSED: i64 = 1 << 16;

impl Emitter<'_> {
    /// True for slots of folded accumulators.
    pub(super) fn is_folded(&self, acc: Value) -> bool {
        self.held(acc).is_ok_and(|held| self.ring_held(held).slot.rows <= ROWS)
    }

    /// `mma.tile` of 64 rows.
    pub(super) fn mma_folded(
        &mut self,
        acc: Value,
        (a, b): (Value, Value),
        first: Value,
        trans: bool,
    ) -> Result<()> {
        let (acc, a, b) = (self.held(acc)?, self.held(a)?, self.held(b)?);
        let (rd, ra, rb) = (self.ring_held(acc), self.ring_held(a), self.ring_held(b));
        let cols = rd.slot.cols.fixed().unwrap_or_default();
        let depth = ra.slot.cols.fixed().unwrap_or_default();
        let piece = cols.min(PIECE);
        if !folds(&rd, &ra, &rb) || ![64, 128, 256].contains(&piece) || !cols.is_multiple_of(piece) {
            return Err(unsupported(
                "a product of 64 rows but of bf16 with 64, 128 or multiples of 256 columns",
            ));
        }
        let first = self.ix(first)?;
        let asm = &mut self.asm;
        let again: Operand = match first.known() {
            Some(n) => Operand::Int(i64::from(n == 0)),
            None => {
                let first = asm.in_reg(Ty::B32, first.low());
                asm.setp(Cmp::Eq, Ty::S32, first, 0i64).into()
            }
        };
        let tile = |r: &Ring| (r.slot.rows.next_multiple_of(8) * ROW / 16) as i64;
        let (tile_a, tile_b) = (tile(&ra), tile(&rb));
        let word = DESCRIPTOR | (piece as i64 >> 3) << 17 | if trans { TRANSPOSED } else { 0 };
        let idesc = asm.mov_b32(word);
        // The leading offset is the distance of tiles where the major is the other one, else unused and 1.
        let leading = if trans { tile_b << 16 } else { OPERAND_LOW };
        let (from_a, from_b) = (start(asm, a, OPERAND_LOW), start(asm, b, leading));
        for part in 0..cols / piece {
            let d = self.asm.fold_add(acc.base, acc.offset + (part * piece / 2) as i64);
            let d = self.asm.in_reg(Ty::B32, d);
            for k in 0..depth / STEP {
                let along = |tile: i64| (k / 4) as i64 * tile + (k % 4) as i64 * 2;
                let down = if trans {
                    (part * piece / TILE) as i64 * tile_b + (k * STEP * ROW / 16) as i64
                } else {
                    (part * piece * ROW / 16) as i64 + along(tile_b)
                };
                let asm = &mut self.asm;
                let mma = Mma {
                    group: CtaGroup::One,
                    kind: MmaKind::F16,
                    d,
                    a: MmaA::Shared(moved(asm, from_a, along(tile_a))),
                    b: moved(asm, from_b, down),
                    idesc,
                    scales: None,
                    accumulate: if k > 0 { Operand::Int(1) } else { again },
                    collector: None,
                };
                self.once(|asm| asm.mma_ws(mma));
            }
        }
        Ok(())
    }
}

/// The descriptor of a slot's start.
fn start(asm: &mut Asm, held: Held, leading: i64) -> Reg {
    let low = asm.shr_u32(held.base, 4);
    let low = asm.add_u32(low, held.offset / 16 + leading);
    asm.join2(low, OPERAND_HIGH)
}

/// The descriptor `by` units of 16 bytes on: one 64-bit addition, whose carry stays in the lower word, since addresses have
/// 14 bits there. The assembler keeps fewer registers alive than with the words apart.
fn moved(asm: &mut Asm, from: Reg, by: i64) -> Reg {
    if by == 0 { from } else { asm.add_s64(from, by) }
}

/// Whether the product is one of two bf16 operands into a folded accumulator.
fn folds(acc: &Ring, a: &Ring, b: &Ring) -> bool {
    let bf16 = |r: &Ring| r.slot.format == Format::BF16;
    acc.slot.rows == ROWS
        && bf16(a)
        && bf16(b)
        && a.slot.cols.fixed().is_some_and(|k| k.is_multiple_of(TILE))
        && b.slot.cols.fixed().is_some_and(|k| k.is_multiple_of(TILE))
}
