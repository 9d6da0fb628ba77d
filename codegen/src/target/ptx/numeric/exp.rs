//! Exponentials in f32 by range reduction and a polynomial.
//!
//! The polynomial costs six fused multiply-adds of the 128 that a processor starts in a cycle, less than its share of
//! the 16 approximate exponentials, whose error alone (2^-22.5) would use up the bound.

use super::super::isa::{Asm, Reg};

/// 1.5·2²³: adding it rounds to an integer, which then stands in the low bits.
const MAGIC: f32 = 12_582_912.0;
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; the first has 16 bits.
const LN2: [f32; 2] = [f32::from_bits(0x3f31_7200), 1.428_606_8e-6];
/// (eʳ − 1 − r) / r² on |r| ≤ 0.3466, interpolated at Chebyshev nodes: eʳ within 2^-26.4 relative.
const TAIL: [f32; 5] = [0.5, 0.166_665_76, 0.041_666_556, 0.008_363_178, 0.001_392_618_2];

/// `eˣ` within 1.1 units in the last place, of subnormal results in their steps. Infinities and NaN as in IEEE.
pub fn exp(asm: &mut Asm, x: Reg) -> Reg {
    // Beyond these the result is 0 or infinite anyway, and n stays small.
    let x = asm.min_nan_f32(x, 90.0f32);
    let x = asm.max_nan_f32(x, -105.0f32);
    let shifted = asm.fma_f32(x, LOG2_E, MAGIC);
    let n = asm.sub_f32(shifted, MAGIC);
    let r = asm.fma_f32(n, -LN2[0], x);
    let r = asm.fma_f32(n, -LN2[1], r);
    let y = tail(asm, r);
    scale(asm, y, shifted)
}

/// `2ˣ` within 1.1 units in the last place, of subnormal results in their steps. Infinities and NaN as in IEEE.
pub fn exp2(asm: &mut Asm, x: Reg) -> Reg {
    let x = asm.min_nan_f32(x, 129.0f32);
    let x = asm.max_nan_f32(x, -151.0f32);
    let shifted = asm.add_f32(x, MAGIC);
    let n = asm.sub_f32(shifted, MAGIC);
    let fraction = asm.sub_f32(x, n);
    let r = asm.mul_f32(fraction, std::f32::consts::LN_2);
    let y = tail(asm, r);
    scale(asm, y, shifted)
}

/// `eʳ` for |r| ≤ 0.3466.
fn tail(asm: &mut Asm, r: Reg) -> Reg {
    let mut p = asm.fma_f32(r, TAIL[4], TAIL[3]);
    for c in [TAIL[2], TAIL[1], TAIL[0]] {
        p = asm.fma_f32(p, r, c);
    }
    let square = asm.mul_f32(r, r);
    let p = asm.fma_f32(p, square, r);
    asm.add_f32(p, 1.0f32)
}

/// `y·2ⁿ`, n in the low bits of `shifted`, in two factors, so that only the second product can round.
fn scale(asm: &mut Asm, y: Reg, shifted: Reg) -> Reg {
    let bits = asm.bits(shifted);
    let n = asm.sub_s32(bits, MAGIC.to_bits().cast_signed());
    let half = asm.shr_s32(n, 1);
    let rest = asm.sub_s32(n, half);
    let one = 1.0f32.to_bits().cast_signed();
    let [a, b] = [half, rest].map(|k| {
        let shifted = asm.shl_b32(k, 23);
        let power = asm.add_s32(shifted, one);
        asm.bits(power)
    });
    let y = asm.mul_f32(y, a);
    asm.mul_f32(y, b)
}
