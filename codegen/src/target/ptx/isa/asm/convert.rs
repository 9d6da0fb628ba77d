//! Conversions, by method.

use super::super::convert::{Convert, Pack, Round};
use super::{Asm, Class, Operand, Reg, Ty};

impl Asm {
    /// `src` of type `from` as type `to`, exact or rounded as said.
    pub fn cvt(&mut self, to: Ty, from: Ty, round: Option<Round>, src: impl Into<Operand>) -> Reg {
        let dst = self.reg(to.class());
        self.cvt_to(dst, to, from, round, src);
        dst
    }
    /// The same into `dst`.
    pub fn cvt_to(&mut self, dst: Reg, to: Ty, from: Ty, round: Option<Round>, src: impl Into<Operand>) {
        self.push(Convert::One { to, from, round, sat: false, dst, src: src.into() });
    }
    /// An integer as another type; what doesn't fit becomes the nearest that does. To tf32: too large becomes the largest.
    pub fn cvt_sat(&mut self, to: Ty, from: Ty, round: Option<Round>, src: impl Into<Operand>) -> Reg {
        let dst = self.reg(to.class());
        self.push(Convert::One { to, from, round, sat: true, dst, src: src.into() });
        dst
    }
    /// Zero-extended to 64 bits.
    pub fn u64_u32(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::U64, Ty::U32, None, src)
    }
    /// Sign-extended to 64 bits.
    pub fn s64_s32(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::S64, Ty::S32, None, src)
    }
    /// The low 32 bits.
    pub fn u32_u64(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::U32, Ty::U64, None, src)
    }
    /// Zero-extended to 32 bits.
    pub fn u32_u16(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::U32, Ty::U16, None, src)
    }
    /// The low 16 bits.
    pub fn u16_u32(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::U16, Ty::U32, None, src)
    }
    /// A byte, zero-extended to 32 bits.
    pub fn u32_u8(&mut self, src: Reg) -> Reg {
        self.cvt(Ty::U32, Ty::U8, None, src)
    }
    /// The low byte.
    pub fn u8_u32(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::U8, Ty::U32, None, src)
    }
    /// An unsigned integer as f32, to nearest.
    pub fn f32_u32(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::F32, Ty::U32, Some(Round::Near), src)
    }
    /// An integer as f32, to nearest.
    pub fn f32_s32(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::F32, Ty::S32, Some(Round::Near), src)
    }
    /// An f32 as integer, rounded as said; NaN is 0, too large is the nearest.
    pub fn s32_f32(&mut self, round: Round, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::S32, Ty::F32, Some(round), src)
    }
    /// An f32 as f64.
    pub fn f64_f32(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::F64, Ty::F32, None, src)
    }
    /// An f64 as f32, to nearest.
    pub fn f32_f64(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::F32, Ty::F64, Some(Round::Near), src)
    }
    /// A bfloat16 in a 16-bit register as f32.
    pub fn f32_bf16(&mut self, src: Reg) -> Reg {
        self.cvt(Ty::F32, Ty::Bf16, None, src)
    }
    /// An f32 as bfloat16 in a 16-bit register, to nearest.
    pub fn bf16_f32(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::Bf16, Ty::F32, Some(Round::Near), src)
    }
    /// A binary16 in a 16-bit register as f32.
    pub fn f32_f16(&mut self, src: Reg) -> Reg {
        self.cvt(Ty::F32, Ty::F16, None, src)
    }
    /// An f32 as tf32 in a 32-bit register, to nearest, ties away from zero.
    pub fn tf32_f32(&mut self, src: impl Into<Operand>) -> Reg {
        self.cvt(Ty::Tf32, Ty::F32, Some(Round::Away), src)
    }
    /// The two bfloat16 of a 32-bit register as f32, low half first: a shift and a mask.
    pub fn f32_bf16x2(&mut self, src: Reg) -> [Reg; 2] {
        let low = self.shl_b32(src, 16);
        let high = self.and_b32(src, 0xffff_0000u32);
        [self.bits(low), self.bits(high)]
    }
    /// The two binary16 of a 32-bit register as f32, low half first.
    pub fn f32_f16x2(&mut self, src: Reg) -> [Reg; 2] {
        let halves = self.split(src, Class::B16, 2);
        [self.f32_f16(halves[0]), self.f32_f16(halves[1])]
    }
    /// Two f32 as a pair, `lo` in the lower half; saturates where the format asks for it.
    pub fn pack(&mut self, to: Pack, round: Round, hi: impl Into<Operand>, lo: impl Into<Operand>) -> Reg {
        let dst = self.reg(to.ty().class());
        let satfinite = matches!(to, Pack::E4m3x2 | Pack::E5m2x2 | Pack::E2m1x2);
        let (hi, lo) = (hi.into(), lo.into());
        self.push(Convert::Pack { to, round, satfinite, dst, hi, lo });
        dst
    }
    /// Two f32 as bfloat16, `lo` in the lower half, to nearest.
    pub fn bf16x2_f32(&mut self, hi: impl Into<Operand>, lo: impl Into<Operand>) -> Reg {
        self.pack(Pack::Bf16x2, Round::Near, hi, lo)
    }
    /// Two f32 as binary16, `lo` in the lower half, to nearest.
    pub fn f16x2_f32(&mut self, hi: impl Into<Operand>, lo: impl Into<Operand>) -> Reg {
        self.pack(Pack::F16x2, Round::Near, hi, lo)
    }
    /// Two f32 as e4m3 in 16 bits, `lo` in the lower byte; beyond ±448 saturates.
    pub fn e4m3x2_f32(&mut self, hi: impl Into<Operand>, lo: impl Into<Operand>) -> Reg {
        self.pack(Pack::E4m3x2, Round::Near, hi, lo)
    }
    /// Four f32 as e4m3 in 32 bits, the first in the lowest byte.
    pub fn e4m3x4_f32(&mut self, x: [Reg; 4]) -> Reg {
        let low = self.e4m3x2_f32(x[1], x[0]);
        let high = self.e4m3x2_f32(x[3], x[2]);
        self.join(Class::B32, &[low.into(), high.into()])
    }
    /// Two f32 as e2m1 in an 8-bit register, `lo` in the lower nibble; beyond ±6 saturates.
    pub fn e2m1x2_f32(&mut self, hi: impl Into<Operand>, lo: impl Into<Operand>) -> Reg {
        self.pack(Pack::E2m1x2, Round::Near, hi, lo)
    }
    /// Eight f32 as e2m1 in 32 bits, the first in the lowest nibble.
    pub fn e2m1x8_f32(&mut self, x: [Reg; 8]) -> Reg {
        let bytes: Vec<Operand> = (0..4).map(|i| self.e2m1x2_f32(x[2 * i + 1], x[2 * i]).into()).collect();
        self.join(Class::B32, &bytes)
    }
    /// The powers of two not below (`Round::Up`) or not above (`Round::Zero`) two f32, as ue8m0 bytes in 16 bits.
    pub fn ue8m0x2_f32(&mut self, round: Round, hi: impl Into<Operand>, lo: impl Into<Operand>) -> Reg {
        let dst = self.reg(Class::B16);
        let (hi, lo) = (hi.into(), lo.into());
        let satfinite = round == Round::Up;
        self.push(Convert::Pack { to: Pack::Ue8m0x2, round, satfinite, dst, hi, lo });
        dst
    }
    /// A pair of one format as a pair of another.
    pub fn repack(&mut self, to: Pack, from: Pack, src: Reg) -> Reg {
        let dst = self.reg(to.ty().class());
        self.push(Convert::Repack { to, from, dst, src });
        dst
    }
    /// Two e4m3 in 16 bits as binary16; exact.
    pub fn f16x2_e4m3x2(&mut self, src: Reg) -> Reg {
        self.repack(Pack::F16x2, Pack::E4m3x2, src)
    }
    /// Two e2m1 in an 8-bit register as binary16; exact.
    pub fn f16x2_e2m1x2(&mut self, src: Reg) -> Reg {
        self.repack(Pack::F16x2, Pack::E2m1x2, src)
    }
    /// Two ue8m0 in 16 bits as bfloat16; exact.
    pub fn bf16x2_ue8m0x2(&mut self, src: Reg) -> Reg {
        self.repack(Pack::Bf16x2, Pack::Ue8m0x2, src)
    }
}
