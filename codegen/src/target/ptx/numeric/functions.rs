//! The scalar functions of Tile IR. Each step rounds once; nothing is contracted.

use super::super::isa::{Asm, Cmp, Reg, Ty};
use super::{exp, log1p};
use tessera_ir::tile::{Binary, Unary};

/// `f(x)` for an f32 `x`. [`Unary::Exp`] and what is made of it keep the bounds of [`exp`] and [`log1p`]; the rest is exact
/// in the sense of IEEE.
pub fn unary(asm: &mut Asm, f: Unary, x: Reg) -> Reg {
    match f {
        Unary::Neg => asm.neg_f32(x),
        Unary::Abs => asm.abs_f32(x),
        Unary::Sqrt => asm.sqrt_f32(x),
        Unary::Rsqrt => {
            let root = asm.sqrt_f32(x);
            asm.rcp_f32(root)
        }
        Unary::Exp => exp(asm, x),
        Unary::Sigmoid => sigmoid(asm, x),
        Unary::Silu => silu(asm, x),
        Unary::SqrtSoftplus => sqrt_softplus(asm, x),
        Unary::Relu => {
            let negative = asm.setp(Cmp::Lt, Ty::F32, x, 0.0f32);
            asm.selp(Ty::F32, 0.0f32, x, negative)
        }
    }
}

/// `f(a, b)` for f32, rounded once. Minima and maxima with NaN are NaN; they order −0 below +0.
pub fn binary(asm: &mut Asm, f: Binary, a: Reg, b: Reg) -> Reg {
    match f {
        Binary::Add => asm.add_f32(a, b),
        Binary::Sub => asm.sub_f32(a, b),
        Binary::Mul => asm.mul_f32(a, b),
        Binary::Div => asm.div_f32(a, b),
        Binary::Min => asm.min_nan_f32(a, b),
        Binary::Max => asm.max_nan_f32(a, b),
        // The instruction takes the sign from its first operand.
        Binary::CopySign => asm.copysign_f32(b, a),
    }
}

/// `1 / (1 + e⁻ˣ)` in f32 steps, within 2.5 units in the last place.
pub fn sigmoid(asm: &mut Asm, x: Reg) -> Reg {
    let below = one_plus_exp_neg(asm, x);
    asm.rcp_f32(below)
}

/// `x / (1 + e⁻ˣ)` in f32 steps, within 2.5 units in the last place; −∞ gives NaN.
pub fn silu(asm: &mut Asm, x: Reg) -> Reg {
    let below = one_plus_exp_neg(asm, x);
    asm.div_f32(x, below)
}

fn one_plus_exp_neg(asm: &mut Asm, x: Reg) -> Reg {
    let minus = asm.neg_f32(x);
    let e = exp(asm, minus);
    asm.add_f32(e, 1.0f32)
}

/// `sqrt(ln(1 + eˣ))` within 2 units in the last place, the logarithm replaced by x above 20. Where eˣ is subnormal, below
/// −87.3, it is the root of a number within 1.1 steps.
pub fn sqrt_softplus(asm: &mut Asm, x: Reg) -> Reg {
    let e = exp(asm, x);
    let log = log1p(asm, e);
    let large = asm.setp(Cmp::Gt, Ty::F32, x, 20.0f32);
    let soft = asm.selp(Ty::F32, x, log, large);
    asm.sqrt_f32(soft)
}
