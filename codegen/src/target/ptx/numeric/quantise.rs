//! Group formats: scales from largest magnitudes, codes from values and back (V4.1 §3.2, §3.3).

use super::super::isa::{Asm, Class, Cmp, Reg, Ty};
use tessera_ir::Format;

/// The three rules by which groups get scales and codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantiser {
    /// e4m3 codes, a power of two per 32: [`Format::MX8`], [`Format::KV8`].
    Mx8,
    /// e2m1 codes, a power of two per 32: [`Format::INDEX4`], [`Format::MX4`].
    Index4,
    /// e2m1 codes, an e4m3 scale per 16: [`Format::KV4`].
    Kv4,
}

/// Scale of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The scale's byte in a 32-bit register.
    pub byte: Reg,
    /// What elements are multiplied with (the reciprocal of a power of two) or, for [`Quantiser::Kv4`], divided by; NaN
    /// under the NaN scale.
    pub factor: Reg,
}

/// Smallest `amax` that a group counts as having, and the factor that makes a scale of it (V4.1 §3.2, §3.3).
const MX8: [f32; 2] = [1e-4, (1.0f64 / 448.0) as f32];
const INDEX4: [f32; 2] = [6.0 * f32::MIN_POSITIVE, (1.0f64 / 6.0) as f32];
const KV4_FLOOR: f32 = 6.0 / 512.0;
const NAN_E4M3: u32 = 0x7f;

impl Quantiser {
    /// The rule of a format for rows; none for formats without groups and for [`Format::W8`], whose tiles span rows.
    pub fn of(format: Format) -> Option<Self> {
        if format == Format::MX8 || format == Format::KV8 {
            Some(Quantiser::Mx8)
        } else if format == Format::INDEX4 || format == Format::MX4 {
            Some(Quantiser::Index4)
        } else if format == Format::KV4 {
            Some(Quantiser::Kv4)
        } else {
            None
        }
    }
    /// Elements of a group.
    pub fn group(self) -> usize {
        match self {
            Quantiser::Mx8 | Quantiser::Index4 => 32,
            Quantiser::Kv4 => 16,
        }
    }
    /// Elements whose codes fill 32 bits.
    pub fn per_word(self) -> usize {
        match self {
            Quantiser::Mx8 => 4,
            Quantiser::Index4 | Quantiser::Kv4 => 8,
        }
    }

    /// The scale of a group whose largest magnitude is `amax` (f32, not negative, NaN or infinity if an element is).
    pub fn scale(self, asm: &mut Asm, amax: Reg) -> Scale {
        match self {
            Quantiser::Mx8 => power(asm, amax, MX8),
            Quantiser::Index4 => power(asm, amax, INDEX4),
            Quantiser::Kv4 => {
                let least = asm.max_nan_f32(amax, KV4_FLOOR);
                let scale = asm.div_f32(least, 6.0f32);
                let zero = asm.mov_f32(0.0f32);
                let code = asm.e4m3x2_f32(zero, scale);
                let code = asm.u32_u16(code);
                // The conversion saturates infinity, which must become NaN.
                let infinite = asm.setp(Cmp::Eq, Ty::F32, scale, f32::INFINITY);
                let byte = asm.selp(Ty::U32, NAN_E4M3, code, infinite);
                let factor = self.scale_value(asm, byte);
                Scale { byte, factor }
            }
        }
    }
    /// Elements as the codes take them, before rounding: `x / scale`.
    fn scaled(self, asm: &mut Asm, scale: Scale, x: Reg) -> Reg {
        match self {
            // A product with a reciprocal that is a power of two rounds like the quotient.
            Quantiser::Mx8 | Quantiser::Index4 => asm.mul_f32(x, scale.factor),
            Quantiser::Kv4 => asm.div_f32(x, scale.factor),
        }
    }
    /// Codes of two f32 of a group, the first lowest: 16 bits of a B16 register for e4m3, a B8 register for e2m1.
    pub fn encode2(self, asm: &mut Asm, scale: Scale, [a, b]: [Reg; 2]) -> Reg {
        let (a, b) = (self.scaled(asm, scale, a), self.scaled(asm, scale, b));
        match self {
            Quantiser::Mx8 => asm.e4m3x2_f32(b, a),
            Quantiser::Index4 | Quantiser::Kv4 => asm.e2m1x2_f32(b, a),
        }
    }
    /// Codes of the f32 `x` of one group, 32 bits a register, the first element lowest. As many elements are taken as
    /// fill registers ([`Quantiser::per_word`]).
    pub fn encode(self, asm: &mut Asm, scale: Scale, x: &[Reg]) -> Vec<Reg> {
        let words = x.chunks_exact(self.per_word());
        let encode = |word: &[Reg]| {
            let pairs = word.as_chunks::<2>().0;
            let codes: Vec<_> = pairs.iter().map(|pair| self.encode2(asm, scale, *pair).into()).collect();
            asm.join(Class::B32, &codes)
        };
        words.map(encode).collect()
    }

    /// The f32 of a scale byte in a 32-bit register; exact.
    pub fn scale_value(self, asm: &mut Asm, byte: Reg) -> Reg {
        let half = asm.u16_u32(byte);
        match self {
            Quantiser::Mx8 | Quantiser::Index4 => {
                let pair = asm.bf16x2_ue8m0x2(half);
                let bits = asm.shl_b32(pair, 16);
                asm.bits(bits)
            }
            Quantiser::Kv4 => {
                let pair = asm.f16x2_e4m3x2(half);
                asm.f32_f16x2(pair)[0]
            }
        }
    }
    /// The f32 that the codes of a 32-bit register stand for without their scale, first element first; exact.
    pub fn code_values(self, asm: &mut Asm, codes: Reg) -> Vec<Reg> {
        match self {
            Quantiser::Mx8 => {
                let pairs = asm.split(codes, Class::B16, 2);
                pairs.into_iter().flat_map(|pair| self.code_values2(asm, pair)).collect()
            }
            Quantiser::Index4 | Quantiser::Kv4 => {
                let pairs = asm.split(codes, Class::B8, 4);
                pairs.into_iter().flat_map(|pair| self.code_values2(asm, pair)).collect()
            }
        }
    }
    /// The same for two codes as [`Quantiser::encode2`] packs them.
    pub fn code_values2(self, asm: &mut Asm, pair: Reg) -> [Reg; 2] {
        let halves = match self {
            Quantiser::Mx8 => asm.f16x2_e4m3x2(pair),
            Quantiser::Index4 | Quantiser::Kv4 => asm.f16x2_e2m1x2(pair),
        };
        asm.f32_f16x2(halves)
    }
    /// Values code × scale of a 32-bit register of codes; `scale` is the f32 of [`Quantiser::scale_value`].
    pub fn decode(self, asm: &mut Asm, scale: Reg, codes: Reg) -> Vec<Reg> {
        let values = self.code_values(asm, codes);
        values.into_iter().map(|v| asm.mul_f32(v, scale)).collect()
    }
}

/// The smallest power of two not below max(amax, floor)·factor, decided on the bits: exponent, plus one if the mantissa
/// is not zero. The floors keep it normal, and f32 ends before its reciprocal does.
fn power(asm: &mut Asm, amax: Reg, [floor, factor]: [f32; 2]) -> Scale {
    let least = asm.max_nan_f32(amax, floor);
    let v = asm.mul_f32(least, factor);
    let bits = asm.bits(v);
    let up = asm.add_u32(bits, 0x007f_ffffu32);
    let byte = asm.shr_u32(up, 23);
    // Infinity has come to 255, NaN to 256.
    let byte = asm.min_u32(byte, 255u32);
    let whole = asm.mov_b32(254u32);
    let exponent = asm.sub_s32(whole, byte);
    let bits = asm.shl_b32(exponent, 23);
    let nan = asm.setp(Cmp::Eq, Ty::U32, byte, 255u32);
    let bits = asm.selp(Ty::B32, 0x7fff_ffffu32, bits, nan);
    Scale { byte, factor: asm.bits(bits) }
}
