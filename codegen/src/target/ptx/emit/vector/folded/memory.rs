//! Folded tiles from and to memory.

use super::{Fold, ROWS, Team, Words};
use crate::target::ptx::emit::READ;
use crate::target::ptx::isa::{Asm, Class, Cmp, Reg, Ty};

/// `slot.store` of a bf16 tile of [`ROWS`] rows and up to 128 columns into an operand of the matrix unit at `to`: the place of
/// 16-byte chunk c of row r is c xor r mod 8 (128-byte swizzle), so that 8 threads with 8 rows meet all banks. The caller
/// makes the writes visible to the matrix unit.
pub(super) fn store_operand(asm: &mut Asm, team: &Team, to: Reg, x: &Fold) {
    let pairs = x.bf16(asm);
    let chunks = pairs.len() / 4;
    // Chunks of a thread: all of one tile of 64 columns, or half of one.
    let (tile, first) = if x.cols > 64 {
        (asm.mul_u32(team.half, ROWS * 128), None)
    } else {
        (asm.mov_b32(0), Some(asm.mul_u32(team.half, chunks)))
    };
    let row = asm.mad_u32(team.row, 128, to);
    let row = asm.add_u32(row, tile);
    let swizzle = asm.and_b32(team.row, 7);
    let swizzle = match first {
        Some(first) => asm.xor_b32(swizzle, first),
        None => swizzle,
    };
    for (i, words) in pairs.chunks(4).enumerate() {
        let chunk = asm.xor_b32(swizzle, i);
        let at = asm.mad_u32(chunk, 16, row);
        asm.st_shared_vec(Ty::B32, at, words);
    }
}

/// `load` of a row of `rows` f32 numbers at `from`, as a column vector. Threads beyond the last row have 0.
pub(super) fn load_column(asm: &mut Asm, team: &Team, from: Reg, rows: usize) -> Fold {
    let value = asm.mov_f32(0.0f32);
    let at = asm.mad_wide_u32(team.row, 4, from);
    if rows < ROWS {
        let inside = asm.setp(Cmp::Lt, Ty::U32, team.row, rows);
        asm.guard(inside, |asm| asm.ld_hint_to(&[value], READ, Ty::F32, at));
    } else {
        asm.ld_hint_to(&[value], READ, Ty::F32, at);
    }
    Fold::f32(rows, 1, vec![value])
}

/// Where a thread writes its part of a tile of `cols` columns to rows that begin at `to`, `pitch` bytes apart.
pub(super) fn row_part(asm: &mut Asm, team: &Team, to: Reg, pitch: usize, bytes: usize) -> Reg {
    let row = asm.mad_wide_u32(team.row, pitch, to);
    asm.mad_wide_u32(team.half, bytes, row)
}

/// Writes elements from number `first` of the thread's part on, which lie side by side, 16 bytes at a time.
pub(super) fn store_part(asm: &mut Asm, part: Reg, x: &Fold, first: usize) {
    let (words, bytes) = match &x.words {
        Words::Bf16(pairs) => (pairs, 2),
        Words::F32(regs) => (regs, 4),
    };
    for (i, four) in words.chunks(4).enumerate() {
        let ty = Ty::bits_of(four.first().map_or(Class::B32, |r| r.class()));
        asm.st_global_vec(ty, part.at((bytes * first + 16 * i) as i64), four);
    }
}
