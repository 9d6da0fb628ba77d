//! Integers, bits, comparisons, selection, and folded index arithmetic.

use super::super::scalar::{Bin, Cmp, Logic, Scalar, Ter};
use super::{Asm, Class, Operand, Reg, Ty, methods};

methods! { binary:
    /// Sum, 32 bits.
    add_u32 add_u32_to Add U32 -> B32;
    /// Sum, 32 bits.
    add_s32 add_s32_to Add S32 -> B32;
    /// Sum, 64 bits.
    add_u64 add_u64_to Add U64 -> B64;
    /// Sum, 64 bits.
    add_s64 add_s64_to Add S64 -> B64;
    /// Difference, 32 bits.
    sub_u32 sub_u32_to Sub U32 -> B32;
    /// Difference, 32 bits.
    sub_s32 sub_s32_to Sub S32 -> B32;
    /// Difference, 64 bits.
    sub_u64 sub_u64_to Sub U64 -> B64;
    /// Difference, 64 bits.
    sub_s64 sub_s64_to Sub S64 -> B64;
    /// Low half of the product.
    mul_u32 mul_u32_to Mul U32 -> B32;
    /// Low half of the product.
    mul_s32 mul_s32_to Mul S32 -> B32;
    /// Low half of the product.
    mul_u64 mul_u64_to Mul U64 -> B64;
    /// Low half of the product.
    mul_s64 mul_s64_to Mul S64 -> B64;
    /// High half of the product.
    mul_hi_u32 mul_hi_u32_to MulHi U32 -> B32;
    /// High half of the product.
    mul_hi_u64 mul_hi_u64_to MulHi U64 -> B64;
    /// The 64-bit product of unsigned 32-bit numbers.
    mul_wide_u32 mul_wide_u32_to MulWide U32 -> B64;
    /// The 64-bit product of signed 32-bit numbers.
    mul_wide_s32 mul_wide_s32_to MulWide S32 -> B64;
    /// Quotient, rounded to zero.
    div_u32 div_u32_to Div U32 -> B32;
    /// Quotient, rounded to zero.
    div_s32 div_s32_to Div S32 -> B32;
    /// Quotient, rounded to zero.
    div_u64 div_u64_to Div U64 -> B64;
    /// Quotient, rounded to zero.
    div_s64 div_s64_to Div S64 -> B64;
    /// Remainder.
    rem_u32 rem_u32_to Rem U32 -> B32;
    /// Remainder; sign of the dividend.
    rem_s32 rem_s32_to Rem S32 -> B32;
    /// Remainder.
    rem_u64 rem_u64_to Rem U64 -> B64;
    /// Remainder; sign of the dividend.
    rem_s64 rem_s64_to Rem S64 -> B64;
    /// Smaller.
    min_u32 min_u32_to Min U32 -> B32;
    /// Smaller.
    min_s32 min_s32_to Min S32 -> B32;
    /// Smaller.
    min_u64 min_u64_to Min U64 -> B64;
    /// Smaller.
    min_s64 min_s64_to Min S64 -> B64;
    /// Larger.
    max_u32 max_u32_to Max U32 -> B32;
    /// Larger.
    max_s32 max_s32_to Max S32 -> B32;
    /// Larger.
    max_u64 max_u64_to Max U64 -> B64;
    /// Larger.
    max_s64 max_s64_to Max S64 -> B64;
    /// Bits in both.
    and_b16 and_b16_to And B16 -> B16;
    /// Bits in both.
    and_b32 and_b32_to And B32 -> B32;
    /// Bits in both.
    and_b64 and_b64_to And B64 -> B64;
    /// Both hold.
    and_pred and_pred_to And Pred -> Pred;
    /// Bits in one.
    or_b16 or_b16_to Or B16 -> B16;
    /// Bits in one.
    or_b32 or_b32_to Or B32 -> B32;
    /// Bits in one.
    or_b64 or_b64_to Or B64 -> B64;
    /// One holds.
    or_pred or_pred_to Or Pred -> Pred;
    /// Bits in exactly one.
    xor_b16 xor_b16_to Xor B16 -> B16;
    /// Bits in exactly one.
    xor_b32 xor_b32_to Xor B32 -> B32;
    /// Bits in exactly one.
    xor_b64 xor_b64_to Xor B64 -> B64;
    /// Exactly one holds.
    xor_pred xor_pred_to Xor Pred -> Pred;
    /// Left by so many bits; 32 and more give 0.
    shl_b16 shl_b16_to Shl B16 -> B16;
    /// Left by so many bits; 32 and more give 0.
    shl_b32 shl_b32_to Shl B32 -> B32;
    /// Left by so many bits; 64 and more give 0.
    shl_b64 shl_b64_to Shl B64 -> B64;
    /// Right, zeros come in.
    shr_u16 shr_u16_to Shr U16 -> B16;
    /// Right, zeros come in.
    shr_u32 shr_u32_to Shr U32 -> B32;
    /// Right, the sign comes in.
    shr_s32 shr_s32_to Shr S32 -> B32;
    /// Right, zeros come in.
    shr_u64 shr_u64_to Shr U64 -> B64;
    /// Right, the sign comes in.
    shr_s64 shr_s64_to Shr S64 -> B64;
}

methods! { unary false:
    /// Minus `a`.
    neg_s32 neg_s32_to Neg S32 -> B32;
    /// Minus `a`.
    neg_s64 neg_s64_to Neg S64 -> B64;
    /// Magnitude.
    abs_s32 abs_s32_to Abs S32 -> B32;
    /// Every bit flipped.
    not_b16 not_b16_to Not B16 -> B16;
    /// Every bit flipped.
    not_b32 not_b32_to Not B32 -> B32;
    /// Every bit flipped.
    not_b64 not_b64_to Not B64 -> B64;
    /// Does not hold.
    not_pred not_pred_to Not Pred -> Pred;
    /// Bits set.
    popc_b32 popc_b32_to Popc B32 -> B32;
    /// Bits set, of 64.
    popc_b64 popc_b64_to Popc B64 -> B32;
    /// Leading zeros.
    clz_b32 clz_b32_to Clz B32 -> B32;
    /// Leading zeros, of 64.
    clz_b64 clz_b64_to Clz B64 -> B32;
    /// Bits in reverse order.
    brev_b32 brev_b32_to Brev B32 -> B32;
    /// Bits in reverse order.
    brev_b64 brev_b64_to Brev B64 -> B64;
    /// Position of the highest set bit; 0xffffffff for 0.
    bfind_u32 bfind_u32_to Bfind U32 -> B32;
    /// Position of the highest set bit; 0xffffffff for 0.
    bfind_u64 bfind_u64_to Bfind U64 -> B32;
}

methods! { ternary:
    /// `a·b + c`, low half.
    mad_u32 mad_u32_to Mad U32 -> B32;
    /// `a·b + c`, low half.
    mad_s32 mad_s32_to Mad S32 -> B32;
    /// `a·b + c`, low half.
    mad_u64 mad_u64_to Mad U64 -> B64;
    /// `a·b + c`, low half.
    mad_s64 mad_s64_to Mad S64 -> B64;
    /// `a·b + c` with 32-bit factors and a 64-bit sum.
    mad_wide_u32 mad_wide_u32_to MadWide U32 -> B64;
    /// `a·b + c` with 32-bit factors and a 64-bit sum.
    mad_wide_s32 mad_wide_s32_to MadWide S32 -> B64;
    /// Byte `i` of the result is byte `c[4i..4i+3]` of `b:a`.
    prmt prmt_to Prmt B32 -> B32;
    /// Field of `c` bits from bit `b`, zeros above.
    bfe_u32 bfe_u32_to Bfe U32 -> B32;
    /// Field of `c` bits from bit `b`, sign above.
    bfe_s32 bfe_s32_to Bfe S32 -> B32;
    /// Field of `c` bits from bit `b`, zeros above.
    bfe_u64 bfe_u64_to Bfe U64 -> B64;
    /// Upper half of `b:a` shifted left by `c` modulo 32.
    shf_l shf_l_to ShfL B32 -> B32;
    /// Lower half of `b:a` shifted right by `c` modulo 32.
    shf_r shf_r_to ShfR B32 -> B32;
    /// Four products of signed bytes, plus `c`.
    dp4a_s32 dp4a_s32_to Dp4a S32 -> B32;
}

impl Asm {
    /// Appends an integer or float operation; products and quotients by powers of two become shifts.
    pub(super) fn binary(&mut self, op: Bin, ty: Ty, dst: Reg, a: Operand, b: Operand) {
        let power = match b {
            Operand::Int(v) if v > 0 && (v & (v - 1)) == 0 => Some(v.trailing_zeros()),
            Operand::Int(_)
            | Operand::Reg(_)
            | Operand::F32(_)
            | Operand::F64(_)
            | Operand::Special(_)
            | Operand::Symbol(_) => None,
        };
        let bits = if ty.bits() == 64 { Ty::B64 } else { Ty::B32 };
        let integer = matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64);
        let unsigned = matches!(ty, Ty::U32 | Ty::U64);
        let (op, ty, b) = match (op, power) {
            (Bin::Mul, Some(n)) if integer => (Bin::Shl, bits, n.into()),
            (Bin::Div, Some(n)) if unsigned => (Bin::Shr, ty, n.into()),
            (Bin::Rem, Some(n)) if unsigned => (Bin::And, bits, ((1i64 << n) - 1).into()),
            _ => (op, ty, b),
        };
        self.push(Scalar::Bin { op, ty, dst, a, b });
    }
    /// Any function of three words: bit `4a + 2b + c` of `table` is the result for bits `a`, `b`, `c`.
    pub fn lop3(
        &mut self,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
        table: u8,
    ) -> Reg {
        let dst = self.reg(Class::B32);
        let (a, b, c) = (a.into(), b.into(), c.into());
        self.push(Scalar::Ter { op: Ter::Lop3(table), ty: Ty::B32, dst, a, b, c });
        dst
    }
    /// `b` with `len` bits from `pos` replaced by the low bits of `a`; 32 bits.
    pub fn bfi_b32(
        &mut self,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        pos: impl Into<Operand>,
        len: impl Into<Operand>,
    ) -> Reg {
        let dst = self.reg(Class::B32);
        let (a, b, pos, len) = (a.into(), b.into(), pos.into(), len.into());
        self.push(Scalar::Bfi { ty: Ty::B32, dst, a, b, pos, len });
        dst
    }
    /// `b` with `len` bits from `pos` replaced by the low bits of `a`; 64 bits.
    pub fn bfi_b64(
        &mut self,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        pos: impl Into<Operand>,
        len: impl Into<Operand>,
    ) -> Reg {
        let dst = self.reg(Class::B64);
        let (a, b, pos, len) = (a.into(), b.into(), pos.into(), len.into());
        self.push(Scalar::Bfi { ty: Ty::B64, dst, a, b, pos, len });
        dst
    }
    /// `a` if `p` holds, else `b`.
    pub fn selp(&mut self, ty: Ty, a: impl Into<Operand>, b: impl Into<Operand>, p: Reg) -> Reg {
        let dst = self.reg(ty.class());
        self.selp_to(dst, ty, a, b, p);
        dst
    }
    /// The same into `dst`.
    pub fn selp_to(&mut self, dst: Reg, ty: Ty, a: impl Into<Operand>, b: impl Into<Operand>, p: Reg) {
        self.push(Scalar::Selp { ty, dst, a: a.into(), b: b.into(), p });
    }
    /// Whether `a cmp b`.
    pub fn setp(&mut self, cmp: Cmp, ty: Ty, a: impl Into<Operand>, b: impl Into<Operand>) -> Reg {
        let dst = self.reg(Class::Pred);
        self.setp_to(dst, cmp, ty, a, b);
        dst
    }
    /// The same into `dst`.
    pub fn setp_to(&mut self, dst: Reg, cmp: Cmp, ty: Ty, a: impl Into<Operand>, b: impl Into<Operand>) {
        self.push(Scalar::Setp { cmp, ty, dst, a: a.into(), b: b.into(), join: None });
    }
    /// Whether `a cmp b`, joined by `logic` with `p` (with not `p` unless `wanted`).
    pub fn setp_with(
        &mut self,
        cmp: Cmp,
        ty: Ty,
        [a, b]: [Operand; 2],
        logic: Logic,
        (p, wanted): (Reg, bool),
    ) -> Reg {
        let dst = self.reg(Class::Pred);
        self.push(Scalar::Setp { cmp, ty, dst, a, b, join: Some((logic, p, wanted)) });
        dst
    }
    /// A truth value that always (never) holds.
    pub fn pred_const(&mut self, value: bool) -> Reg {
        let dst = self.reg(Class::Pred);
        self.pred_const_to(dst, value);
        dst
    }
    /// The same into `dst`.
    pub fn pred_const_to(&mut self, dst: Reg, value: bool) {
        self.push(Scalar::Mov { ty: Ty::Pred, dst, src: Operand::Int(value.into()) });
    }
    /// 1 where `p` holds, else 0.
    pub fn pred_u32(&mut self, p: Reg) -> Reg {
        self.selp(Ty::U32, 1, 0, p)
    }

    /// `a + b`, computed here where both are known and without an instruction where one is 0. The result is a value to
    /// read, not a register to write: it may be `a` itself.
    pub fn fold_add(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Operand {
        match (a.into(), b.into()) {
            (Operand::Int(a), Operand::Int(b)) => Operand::Int(wrap32(a.wrapping_add(b))),
            (x, Operand::Int(0)) | (Operand::Int(0), x) => x,
            (a @ Operand::Int(_), b) => self.add_s32(b, a).into(),
            (a, b) => self.add_s32(a, b).into(),
        }
    }
    /// `a − b`, folded like [`Asm::fold_add`].
    pub fn fold_sub(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Operand {
        match (a.into(), b.into()) {
            (Operand::Int(a), Operand::Int(b)) => Operand::Int(wrap32(a.wrapping_sub(b))),
            (x, Operand::Int(0)) => x,
            (a @ Operand::Int(_), b) => {
                let a = self.mov_b32(a);
                self.sub_s32(a, b).into()
            }
            (a, b) => self.sub_s32(a, b).into(),
        }
    }
    /// `a · b`, folded like [`Asm::fold_add`].
    pub fn fold_mul(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Operand {
        match (a.into(), b.into()) {
            (Operand::Int(a), Operand::Int(b)) => Operand::Int(wrap32(a.wrapping_mul(b))),
            (_, Operand::Int(0)) | (Operand::Int(0), _) => Operand::Int(0),
            (x, Operand::Int(1)) | (Operand::Int(1), x) => x,
            (a @ Operand::Int(_), b) => self.mul_u32(b, a).into(),
            (a, b) => self.mul_u32(a, b).into(),
        }
    }
    /// `a / b` of unsigned numbers, folded like [`Asm::fold_add`].
    pub fn fold_div(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Operand {
        match (a.into(), b.into()) {
            (Operand::Int(a), Operand::Int(b)) if a >= 0 && b > 0 => Operand::Int(a / b),
            (x, Operand::Int(1)) => x,
            (a @ Operand::Int(_), b) => {
                let a = self.mov_b32(a);
                self.div_u32(a, b).into()
            }
            (a, b) => self.div_u32(a, b).into(),
        }
    }
    /// `a mod b` of unsigned numbers, folded like [`Asm::fold_add`].
    pub fn fold_rem(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Operand {
        match (a.into(), b.into()) {
            (Operand::Int(a), Operand::Int(b)) if a >= 0 && b > 0 => Operand::Int(a % b),
            (_, Operand::Int(1)) => Operand::Int(0),
            (a @ Operand::Int(_), b) => {
                let a = self.mov_b32(a);
                self.rem_u32(a, b).into()
            }
            (a, b) => self.rem_u32(a, b).into(),
        }
    }
    /// An operand as a register: constants are loaded.
    pub fn in_reg(&mut self, ty: Ty, x: impl Into<Operand>) -> Reg {
        match x.into() {
            Operand::Reg(r) => r,
            other => self.mov(ty, other),
        }
    }
    /// The address `base + index · scale + offset` in device memory; `index` unsigned, 32 bits.
    pub fn element(&mut self, base: Reg, index: impl Into<Operand>, scale: u32) -> Reg {
        match index.into() {
            Operand::Int(v) => self.add_s64(base, v.wrapping_mul(scale.into())),
            index => self.mad_wide_u32(index, scale, base),
        }
    }
}

/// The signed number of the low 32 bits, or the number itself where it fits an unsigned one.
fn wrap32(v: i64) -> i64 {
    if u32::try_from(v).is_ok() || i32::try_from(v).is_ok() { v } else { i64::from(v as i32) }
}
