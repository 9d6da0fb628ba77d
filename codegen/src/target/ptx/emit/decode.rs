//! `decode`: raw cache records in shared memory to rows of a bf16 operand, by the 128 threads of a role.
//!
//! A thread takes units of 16 channels. Of a warp's lanes 4 share a row and 8 rows go together, so that the 16-byte stores of
//! 8 lanes, two rows by four units, meet all banks: the operand's swizzle moves odd rows to the odd places. Warps 0 and 2
//! have rows 0..8, warps 1 and 3 rows 8..16; warps 2 and 3 begin 4 units further on.

use super::records::pitches;
use super::{Emitter, Result, unsupported};
use crate::target::ptx::isa::{Asm, Operand, Reg, Ty};
use crate::target::ptx::numeric::{decode_kv4, decode_kv8};
use tessera_ir::Format;
use tessera_ir::tile::Value;

/// Channels of a unit.
const UNIT: usize = 16;
/// Rows that 128 threads take in one turn.
const ROWS: usize = 16;
/// Units of a row taken in one turn.
const UNITS: usize = 8;
/// Threads of the role.
const THREADS: u32 = 128;

/// A raw slot.
#[derive(Clone, Copy, Debug)]
struct Raw {
    /// Its address in shared memory.
    at: Reg,
    format: Format,
    rows: usize,
    /// Channels of a row.
    dim: usize,
}

impl Raw {
    /// Whether the threads' mapping covers it.
    fn fits(&self) -> bool {
        matches!(self.format, Format::KV8 | Format::KV4)
            && self.rows.is_multiple_of(ROWS)
            && self.dim.is_multiple_of(UNIT * UNITS)
    }
}

impl Emitter<'_> {
    /// `decode`.
    pub(super) fn decode_records(&mut self, from: Value, to: Value, row: Value) -> Result<()> {
        let (from, to, row) = (self.held(from)?, self.held(to)?, self.ix(row)?.low());
        let (raw, operand) = (self.ring_held(from), self.ring_held(to));
        let (dim, team) = (raw.slot.cols.fixed().unwrap_or_default(), self.team);
        let at = self.asm.fold_add(from.base, from.offset);
        let at = self.asm.in_reg(Ty::U32, at);
        let raw = Raw { at, format: raw.slot.format, rows: raw.slot.rows, dim };
        if team.threads() != THREADS || !raw.fits() || operand.slot.format != Format::BF16 {
            return Err(unsupported(
                "decoding anything but 16 records of 128 channels with 128 threads, to bf16",
            ));
        }
        let into = self.asm.fold_add(to.base, to.offset);
        let into = self.asm.in_reg(Ty::U32, into);
        decode(&mut self.asm, team.thread, raw, into, operand.slot.rows, row);
        Ok(())
    }
}

/// Decodes all rows of `raw` to rows `row..` of the bf16 operand of `tile_rows` rows at `to`; `thread` is the thread's number
/// in the role. The caller makes the writes visible to the matrix unit.
fn decode(asm: &mut Asm, thread: Reg, raw: Raw, to: Reg, tile_rows: usize, row: impl Into<Operand>) {
    let Some((record, group)) = pitches(raw.format, raw.dim) else { return };
    let (row, tile) = (row.into(), tile_rows.next_multiple_of(8) * 128);
    let lane = asm.and_b32(thread, 31);
    let (unit, of_eight) = (asm.and_b32(lane, 3), asm.shr_u32(lane, 2));
    let warp = asm.shr_u32(thread, 5);
    let (odd, upper) = (asm.and_b32(warp, 1), asm.shr_u32(warp, 1));
    // Row of the slot: group of four and place in it.
    let own = asm.mad_u32(odd, 8, of_eight);
    let (in_group, of_group) = (asm.and_b32(own, 3), asm.shr_u32(own, 2));
    let code_bytes = raw.format.elem.bits() * UNIT / 8;
    let source = asm.mad_u32(in_group, record, raw.at);
    let source = asm.mad_u32(of_group, group, source);
    let first = asm.mad_u32(upper, 4, unit);
    let codes = asm.mad_u32(first, code_bytes, source);
    let scales = match raw.format {
        Format::KV8 => asm.shr_u32(first, 1),
        _ => first,
    };
    let scales = asm.add_u32(scales, source);
    let units = raw.dim / UNIT;
    for turn in 0..raw.rows / ROWS {
        let target = asm.add_u32(own, row);
        let target = if turn == 0 { target } else { asm.add_u32(target, turn * ROWS) };
        let swizzle = asm.and_b32(target, 7);
        let target = asm.mad_u32(target, 128, to);
        let target = asm.mad_u32(upper, tile, target);
        let chunk = asm.shl_b32(unit, 1);
        let even = asm.xor_b32(chunk, swizzle);
        let even_at = asm.mad_u32(even, 16, target);
        let odd_chunk = asm.xor_b32(even, 1);
        let odd_at = asm.mad_u32(odd_chunk, 16, target);
        let base = (turn * ROWS / 4 * group) as i64;
        for step in 0..units / UNITS {
            let at = base + (step * UNITS * code_bytes) as i64;
            let words = match raw.format {
                Format::KV8 => {
                    let scale = base + (raw.dim + step * UNITS / 2) as i64;
                    let scale = asm.ld_shared(Ty::U8, scales.at(scale));
                    let codes = asm.ld_shared_vec(Ty::B32, 4, codes.at(at));
                    let scale = asm.cvt(Ty::U16, Ty::U8, None, scale);
                    decode_kv8(asm, &codes, scale)
                }
                _ => {
                    let scale = base + (raw.dim / 2 + step * UNITS) as i64;
                    let scale = asm.ld_shared(Ty::U8, scales.at(scale));
                    let codes = asm.ld_shared_vec(Ty::B32, 2, codes.at(at));
                    let scale = asm.cvt(Ty::U16, Ty::U8, None, scale);
                    decode_kv4(asm, &codes, scale)
                }
            };
            let tile_at = (step * UNITS * UNIT / 64 * tile) as i64;
            asm.st_shared_vec(Ty::B32, even_at.at(tile_at), &words[..4]);
            asm.st_shared_vec(Ty::B32, odd_at.at(tile_at), &words[4..]);
        }
    }
}
