//! Cosine and sine of rotary angles: the f32 product of position and frequency, evaluated in f64.

use super::super::isa::{Asm, Class, Cmp, Operand, Reg, Ty};
use std::f64::consts::FRAC_2_PI;

/// 1.5·2⁵²: adding it rounds to an integer, which then stands in the low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;
/// π/2 in two parts. Fused multiply-adds make products with the first exact, and the two reach to 2^-108, so a third
/// part would change nothing that can be seen in f32.
const HALF_PI: [f64; 2] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17];
/// Taylor terms of the cosine, r² to r¹⁴: on |r| ≤ π/4 the next is below 2^-49.
const COS: [f64; 7] = [
    -1.0 / 2.0,
    1.0 / 24.0,
    -1.0 / 720.0,
    1.0 / 40_320.0,
    -1.0 / 3_628_800.0,
    1.0 / 479_001_600.0,
    -1.0 / 87_178_291_200.0,
];
/// Taylor terms of the sine, r³ to r¹³: on |r| ≤ π/4 the next is below 2^-45 of the value.
const SIN: [f64; 6] =
    [-1.0 / 6.0, 1.0 / 120.0, -1.0 / 5_040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0, 1.0 / 6_227_020_800.0];

/// Cosine and sine of `f32(position) · frequency` as f32: `position` an s32 register, `frequency` an f32 register or
/// constant (one of [`Rope::frequencies`](tessera_ir::graph::Rope::frequencies)).
pub fn angle(asm: &mut Asm, position: Reg, frequency: impl Into<Operand>) -> [Reg; 2] {
    let position = asm.f32_s32(position);
    let x = asm.mul_f32(position, frequency);
    angle_of(asm, x)
}

/// Cosine and sine of the f32 `x`, |x| < 2³¹: within 2^-44 relative in f64, then rounded to f32.
pub fn angle_of(asm: &mut Asm, x: Reg) -> [Reg; 2] {
    let x = asm.f64_f32(x);
    let shifted = asm.fma_f64(x, FRAC_2_PI, MAGIC);
    let [quadrant, _] = asm.split2(shifted, Class::B32);
    let n = asm.sub_f64(shifted, MAGIC);
    let r = asm.fma_f64(n, -HALF_PI[0], x);
    let r = asm.fma_f64(n, -HALF_PI[1], r);
    let square = asm.mul_f64(r, r);

    let mut c = asm.fma_f64(square, COS[6], COS[5]);
    for term in COS[..5].iter().rev() {
        c = asm.fma_f64(c, square, *term);
    }
    let c = asm.fma_f64(c, square, 1.0f64);
    let mut s = asm.fma_f64(square, SIN[5], SIN[4]);
    for term in SIN[..4].iter().rev() {
        s = asm.fma_f64(s, square, *term);
    }
    let cube = asm.mul_f64(square, r);
    let s = asm.fma_f64(s, cube, r);

    // Odd quadrants swap the two; the sine is negative in the upper two, the cosine in the middle ones.
    let (c, s) = (asm.f32_f64(c), asm.f32_f64(s));
    let odd = asm.and_b32(quadrant, 1);
    let odd = asm.setp(Cmp::Ne, Ty::U32, odd, 0);
    let cosine = asm.selp(Ty::F32, s, c, odd);
    let sine = asm.selp(Ty::F32, c, s, odd);
    let next = asm.add_u32(quadrant, 1);
    [(cosine, next), (sine, quadrant)].map(|(value, quadrant)| {
        let sign = asm.shl_b32(quadrant, 30);
        let sign = asm.and_b32(sign, 0x8000_0000u32);
        let bits = asm.bits(value);
        let signed = asm.xor_b32(bits, sign);
        asm.bits(signed)
    })
}
