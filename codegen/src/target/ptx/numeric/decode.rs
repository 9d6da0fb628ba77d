//! Cache records decoded to pairs of bf16.
//!
//! Codes go through binary16, where both formats are exact; the product with the scale is exact in bf16 but for the
//! smallest e4m3 numbers, which are rounded once.

use crate::target::ptx::isa::{Asm, Class, Reg};

/// Words of four e4m3 codes with one e8m0 scale, the lower byte of a 16-bit register whose upper byte is 0; two pairs a word,
/// the lower code in the lower half.
pub fn decode_kv8(asm: &mut Asm, words: &[Reg], scale: Reg) -> Vec<Reg> {
    let scale = asm.bf16x2_ue8m0x2(scale);
    let scale = asm.prmt(scale, scale, 0x1010);
    let mut out = Vec::with_capacity(2 * words.len());
    for word in words {
        for half in asm.split(*word, Class::B16, 2) {
            let pair = asm.f16x2_e4m3x2(half);
            let [lo, hi] = asm.f32_f16x2(pair);
            let pair = asm.bf16x2_f32(hi, lo);
            out.push(asm.mul_bf16x2(pair, scale));
        }
    }
    out
}

/// Words of eight e2m1 codes with one e4m3 scale, the lower byte of a 16-bit register; four pairs a word, the lower code in the
/// lower half.
pub fn decode_kv4(asm: &mut Asm, words: &[Reg], scale: Reg) -> Vec<Reg> {
    let scale = asm.f16x2_e4m3x2(scale);
    let scale = asm.split(scale, Class::B16, 2)[0];
    let mut out = Vec::with_capacity(4 * words.len());
    for word in words {
        for byte in asm.split(*word, Class::B8, 4) {
            let pair = asm.f16x2_e2m1x2(byte);
            // −0 as the addend keeps the sign of zeros.
            let products: Vec<Reg> =
                asm.split(pair, Class::B16, 2).iter().map(|h| asm.fma_f32_f16(*h, scale, -0.0f32)).collect();
            out.push(asm.bf16x2_f32(products[1], products[0]));
        }
    }
    out
}
