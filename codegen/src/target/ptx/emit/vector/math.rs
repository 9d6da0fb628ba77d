//! Functions of one number from IEEE operations alone, so that every machine that follows IEEE 754 gives the same bits.
//!
//! Coefficients are Taylor coefficients of eˣ, and of 2·artanh(s) for the logarithm, taken far enough for the range that the
//! reduction leaves; results are within 2 units in the last place.

use super::super::Emitter;
use crate::target::ptx::isa::{Cmp, Reg, Ty};

/// Below it eˣ is 0 in f32, above the other one infinite.
const EXP_LOW: f32 = -104.0;
const EXP_HIGH: f32 = 89.0;
/// Adding and taking away 1.5·2²³ rounds to an integer.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has few enough bits that its product with an exponent is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Above it the logarithm of 1 + eˣ is x (V4.1 §2.9).
const SOFTPLUS_LINEAR: f32 = 20.0;

impl Emitter<'_> {
    /// `eˣ`: `2ⁿ·e^r` with `|r| ≤ ln 2 / 2`.
    pub(super) fn exp(&mut self, x: Reg) -> Reg {
        let asm = &mut self.asm;
        let low = asm.max_nan_f32(x, EXP_LOW);
        let x = asm.min_nan_f32(low, EXP_HIGH);
        let shifted = asm.fma_f32(x, std::f32::consts::LOG2_E, ROUND);
        let n = asm.sub_f32(shifted, ROUND);
        let r = asm.fma_f32(n, -LN2_HIGH, x);
        let r = asm.fma_f32(n, -LN2_LOW, r);
        // 1 + r + r²·(1/2! + r/3! + …), seven terms.
        let mut p = asm.mov_f32(1.0f32 / 5040.0);
        for factorial in [720.0f32, 120.0, 24.0, 6.0, 2.0] {
            p = asm.fma_f32(p, r, 1.0f32 / factorial);
        }
        let square = asm.mul_f32(r, r);
        let p = asm.fma_f32(p, square, r);
        let p = asm.add_f32(p, 1f32);
        // Two factors, for 2ⁿ alone may be no normal number.
        let bits = asm.bits(shifted);
        let n = asm.sub_s32(bits, ROUND.to_bits());
        let half = asm.shr_s32(n, 1u32);
        let rest = asm.sub_s32(n, half);
        let power = |asm: &mut crate::target::ptx::isa::Asm, n: Reg| {
            let biased = asm.add_s32(n, 127);
            let bits = asm.shl_b32(biased, 23u32);
            asm.bits(bits)
        };
        let (a, b) = (power(asm, half), power(asm, rest));
        let p = asm.mul_f32(p, a);
        asm.mul_f32(p, b)
    }

    /// `ln(1 + eˣ)`, x itself above 20.
    pub(super) fn softplus(&mut self, x: Reg) -> Reg {
        let e = self.exp(x);
        let y = self.ln_1p(e);
        let asm = &mut self.asm;
        let large = asm.setp(Cmp::Gt, Ty::F32, x, SOFTPLUS_LINEAR);
        asm.selp(Ty::F32, x, y, large)
    }

    /// `ln(1 + t)` of t ≥ 0: with `u = 1 + t` rounded it is `ln u + (t − (u − 1)) / u`.
    fn ln_1p(&mut self, t: Reg) -> Reg {
        let asm = &mut self.asm;
        let u = asm.add_f32(t, 1f32);
        let above = asm.sub_f32(u, 1f32);
        let lost = asm.sub_f32(t, above);
        let correction = asm.div_f32(lost, u);
        // u = 2ᵉ·m with m from 2/3 to 4/3.
        let bits = asm.bits(u);
        let moved = asm.sub_s32(bits, 0x3f2a_aaab_u32);
        let exponent = asm.shr_s32(moved, 23u32);
        let cleared = asm.shl_b32(exponent, 23u32);
        let mantissa = asm.sub_s32(bits, cleared);
        let m = asm.bits(mantissa);
        let exponent = asm.f32_s32(exponent);
        // ln m = 2·artanh(s), s = (m − 1) / (m + 1), |s| ≤ 1/5.
        let top = asm.sub_f32(m, 1f32);
        let bottom = asm.add_f32(m, 1f32);
        let s = asm.div_f32(top, bottom);
        let square = asm.mul_f32(s, s);
        let mut p = asm.mov_f32(2.0f32 / 11.0);
        for odd in [9.0f32, 7.0, 5.0, 3.0] {
            p = asm.fma_f32(p, square, 2.0f32 / odd);
        }
        let cube = asm.mul_f32(square, s);
        let p = asm.mul_f32(p, cube);
        let ln = asm.fma_f32(s, 2f32, p);
        let ln = asm.fma_f32(exponent, LN2_LOW, ln);
        let ln = asm.add_f32(ln, correction);
        asm.fma_f32(exponent, LN2_HIGH, ln)
    }

    /// Cosine and sine of an f64 of magnitude below 2³⁰, to the last bits of f64.
    pub(super) fn cos_sin(&mut self, x: Reg) -> (Reg, Reg) {
        let asm = &mut self.asm;
        // x = n·π/2 + r, π/2 in two parts.
        const HIGH: f64 = std::f64::consts::FRAC_PI_2;
        const LOW: f64 = 6.123_233_995_736_766e-17;
        // Adding and taking away 1.5·2⁵² rounds to an integer, which the low bits then hold.
        const ROUND: f64 = 6_755_399_441_055_744.0;
        let shifted = asm.fma_f64(x, std::f64::consts::FRAC_2_PI, ROUND);
        let n = asm.sub_f64(shifted, ROUND);
        let r = asm.fma_f64(n, -HIGH, x);
        let r = asm.fma_f64(n, -LOW, r);
        let square = asm.mul_f64(r, r);
        let series = |asm: &mut crate::target::ptx::isa::Asm, first: u32| {
            // Σ (−r²)^k / (first·(first+1)·…), from the last term on.
            let mut term = 18 + first % 2;
            let mut p = asm.in_reg(Ty::F64, 1f64);
            while term >= first {
                let scaled = asm.mul_f64(p, square);
                let divided = asm.mul_f64(scaled, -1.0 / f64::from(term * (term - 1)));
                p = asm.add_f64(divided, 1f64);
                term -= 2;
            }
            p
        };
        let cos = series(asm, 2);
        let sine = series(asm, 3);
        let sin = asm.mul_f64(sine, r);
        let bits = asm.bits(shifted);
        let quadrant = asm.u32_u64(bits);
        let odd = asm.and_b32(quadrant, 1u32);
        let swap = asm.setp(Cmp::Ne, Ty::U32, odd, 0u32);
        let (c, s) = (asm.selp(Ty::F64, sin, cos, swap), asm.selp(Ty::F64, cos, sin, swap));
        // The sine changes its sign in quadrants 2 and 3, the cosine in 1 and 2.
        let two = asm.and_b32(quadrant, 2u32);
        let minus_sin = asm.setp(Cmp::Ne, Ty::U32, two, 0u32);
        let next = asm.add_u32(quadrant, 1u32);
        let two = asm.and_b32(next, 2u32);
        let minus_cos = asm.setp(Cmp::Ne, Ty::U32, two, 0u32);
        let (nc, ns) = (asm.neg_f64(c), asm.neg_f64(s));
        (asm.selp(Ty::F64, nc, c, minus_cos), asm.selp(Ty::F64, ns, s, minus_sin))
    }
}
