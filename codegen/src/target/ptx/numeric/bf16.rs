//! Rounding to bfloat16 and back, the point between two operators of the released arithmetic.

use super::super::isa::{Asm, Reg};

/// The f32 `x` rounded to bfloat16 (nearest, ties to even), as f32. NaN stays NaN.
pub fn round_bf16(asm: &mut Asm, x: Reg) -> Reg {
    let half = asm.bf16_f32(x);
    asm.f32_bf16(half)
}

/// Two f32 rounded to bfloat16, as f32: one conversion for both.
pub fn round_bf16x2(asm: &mut Asm, [a, b]: [Reg; 2]) -> [Reg; 2] {
    let pair = asm.bf16x2_f32(b, a);
    asm.f32_bf16x2(pair)
}
