//! The logarithm of 1 + x in f32.

use super::super::isa::{Asm, Reg, Round, Ty};

/// (ln(1+m) − m) / m² on −1/4 ≤ m ≤ 1/2, interpolated at Chebyshev nodes: ln(1+m) within 2^-27.3 relative.
const TAIL: [f32; 10] = [
    -0.5,
    0.333_333_34,
    -0.250_001_52,
    0.199_999_26,
    -0.166_566_67,
    0.142_704_62,
    -0.126_993_09,
    0.117_161_11,
    -0.092_918_69,
    0.039_442_23,
];

/// `ln(1 + x)` within 2 units in the last place for finite x ≥ 0 below 2³⁰. NaN stays NaN.
///
/// 1 + x = 2ᵏ·(1 + m) with m in [−1/4, 1/2): m = x·2⁻ᵏ + (2⁻ᵏ − 1) is rounded once, so that nothing of a small x is
/// lost.
pub fn log1p(asm: &mut Asm, x: Reg) -> Reg {
    let u = asm.add_f32(x, 1.0f32);
    let bits = asm.bits(u);
    let from = asm.sub_s32(bits, 0.75f32.to_bits().cast_signed());
    // k in the place of the exponent.
    let k = asm.and_b32(from, 0xff80_0000u32);
    let one = asm.mov_b32(1.0f32.to_bits());
    let power = asm.sub_s32(one, k);
    let power = asm.bits(power);
    let low = asm.add_f32(power, -1.0f32);
    let m = asm.fma_f32(x, power, low);
    let mut p = asm.fma_f32(m, TAIL[9], TAIL[8]);
    for c in TAIL[..8].iter().rev() {
        p = asm.fma_f32(p, m, *c);
    }
    let square = asm.mul_f32(m, m);
    let p = asm.fma_f32(p, square, m);
    let k = asm.cvt(Ty::F32, Ty::S32, Some(Round::Near), k);
    asm.fma_f32(k, std::f32::consts::LN_2 / (1u32 << 23) as f32, p)
}
