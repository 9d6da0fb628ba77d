//! f32, f64 and packed pairs. Sums and products round to nearest and are never contracted.

use super::{Asm, Operand, Reg, methods};

methods! { binary:
    /// Sum.
    add_f32 add_f32_to Add F32 -> F32;
    /// Difference.
    sub_f32 sub_f32_to Sub F32 -> F32;
    /// Product.
    mul_f32 mul_f32_to Mul F32 -> F32;
    /// Quotient, rounded to nearest.
    div_f32 div_f32_to Div F32 -> F32;
    /// Smaller; a number wins over NaN.
    min_f32 min_f32_to Min F32 -> F32;
    /// Larger; a number wins over NaN.
    max_f32 max_f32_to Max F32 -> F32;
    /// Smaller; NaN wins.
    min_nan_f32 min_nan_f32_to MinNan F32 -> F32;
    /// Larger; NaN wins.
    max_nan_f32 max_nan_f32_to MaxNan F32 -> F32;
    /// Magnitude of `b` with the sign of `a`.
    copysign_f32 copysign_f32_to CopySign F32 -> F32;
    /// Sum.
    add_f64 add_f64_to Add F64 -> F64;
    /// Difference.
    sub_f64 sub_f64_to Sub F64 -> F64;
    /// Product.
    mul_f64 mul_f64_to Mul F64 -> F64;
    /// Quotient.
    div_f64 div_f64_to Div F64 -> F64;
    /// Smaller; a number wins over NaN.
    min_f64 min_f64_to Min F64 -> F64;
    /// Larger; a number wins over NaN.
    max_f64 max_f64_to Max F64 -> F64;
    /// Two sums.
    add_f32x2 add_f32x2_to Add F32x2 -> B64;
    /// Two differences.
    sub_f32x2 sub_f32x2_to Sub F32x2 -> B64;
    /// Two products.
    mul_f32x2 mul_f32x2_to Mul F32x2 -> B64;
    /// Two sums.
    add_bf16x2 add_bf16x2_to Add Bf16x2 -> B32;
    /// Two differences.
    sub_bf16x2 sub_bf16x2_to Sub Bf16x2 -> B32;
    /// Two products.
    mul_bf16x2 mul_bf16x2_to Mul Bf16x2 -> B32;
    /// Two of the larger; NaN wins.
    max_nan_bf16x2 max_nan_bf16x2_to MaxNan Bf16x2 -> B32;
    /// Two of the smaller; NaN wins.
    min_nan_bf16x2 min_nan_bf16x2_to MinNan Bf16x2 -> B32;
    /// Two sums.
    add_f16x2 add_f16x2_to Add F16x2 -> B32;
    /// Two products.
    mul_f16x2 mul_f16x2_to Mul F16x2 -> B32;
}

methods! { unary false:
    /// Minus `a`.
    neg_f32 neg_f32_to Neg F32 -> F32;
    /// Magnitude.
    abs_f32 abs_f32_to Abs F32 -> F32;
    /// Square root, rounded to nearest.
    sqrt_f32 sqrt_f32_to SqrtRn F32 -> F32;
    /// Reciprocal, rounded to nearest.
    rcp_f32 rcp_f32_to RcpRn F32 -> F32;
    /// Reciprocal, within 1 unit in the last place.
    rcp_approx_f32 rcp_approx_f32_to RcpApprox F32 -> F32;
    /// Reciprocal square root, within 2^-22.9 relative.
    rsqrt_approx_f32 rsqrt_approx_f32_to RsqrtApprox F32 -> F32;
    /// Square root, within 2^-23 relative.
    sqrt_approx_f32 sqrt_approx_f32_to SqrtApprox F32 -> F32;
    /// 2 to the `a`, within 2^-22.5 relative; subnormal operands count.
    ex2_f32 ex2_f32_to Ex2Approx F32 -> F32;
    /// Logarithm to base 2, within 2^-22 absolute near 1.
    lg2_f32 lg2_f32_to Lg2Approx F32 -> F32;
    /// Hyperbolic tangent, within 2^-11 relative.
    tanh_approx_f32 tanh_approx_f32_to TanhApprox F32 -> F32;
    /// Sine, within 2^-20.5 absolute in [-π, π].
    sin_approx_f32 sin_approx_f32_to SinApprox F32 -> F32;
    /// Cosine, within 2^-20.5 absolute in [-π, π].
    cos_approx_f32 cos_approx_f32_to CosApprox F32 -> F32;
    /// Minus `a`.
    neg_f64 neg_f64_to Neg F64 -> F64;
    /// Magnitude.
    abs_f64 abs_f64_to Abs F64 -> F64;
    /// Square root.
    sqrt_f64 sqrt_f64_to SqrtRn F64 -> F64;
    /// Reciprocal.
    rcp_f64 rcp_f64_to RcpRn F64 -> F64;
    /// Minus both.
    neg_bf16x2 neg_bf16x2_to Neg Bf16x2 -> B32;
    /// Both magnitudes.
    abs_bf16x2 abs_bf16x2_to Abs Bf16x2 -> B32;
}

methods! { unary true:
    /// Like `rcp_approx_f32`; subnormal operands and results become 0.
    rcp_ftz_f32 rcp_ftz_f32_to RcpApprox F32 -> F32;
    /// Like `rsqrt_approx_f32`; subnormal operands become 0.
    rsqrt_ftz_f32 rsqrt_ftz_f32_to RsqrtApprox F32 -> F32;
    /// Like `ex2_f32`; subnormal operands and results become 0.
    ex2_ftz_f32 ex2_ftz_f32_to Ex2Approx F32 -> F32;
    /// Like `lg2_f32`; subnormal operands become 0.
    lg2_ftz_f32 lg2_ftz_f32_to Lg2Approx F32 -> F32;
    /// Two of 2 to the `a`.
    ex2_bf16x2 ex2_bf16x2_to Ex2Approx Bf16x2 -> B32;
}

methods! { ternary:
    /// `a·b + c`, rounded once.
    fma_f32 fma_f32_to Fma F32 -> F32;
    /// `a·b + c`, rounded once.
    fma_f64 fma_f64_to Fma F64 -> F64;
    /// Two of `a·b + c`, each rounded once.
    fma_f32x2 fma_f32x2_to Fma F32x2 -> B64;
    /// Two of `a·b + c`, each rounded once.
    fma_bf16x2 fma_bf16x2_to Fma Bf16x2 -> B32;
    /// Two of `a·b + c`, each rounded once.
    fma_f16x2 fma_f16x2_to Fma F16x2 -> B32;
    /// The largest of three; PTX 8.8.
    max3_f32 max3_f32_to Max3 F32 -> F32;
    /// The smallest of three; PTX 8.8.
    min3_f32 min3_f32_to Min3 F32 -> F32;
    /// `a·b + c` of two binary16 in 16-bit registers and an f32, rounded once.
    fma_f32_f16 fma_f32_f16_to FmaF16 F32 -> F32;
}

impl Asm {
    /// Two copies of one f32 in a 64-bit register.
    pub fn splat_f32x2(&mut self, x: impl Into<Operand>) -> Reg {
        let x = x.into();
        self.join2(x, x)
    }
}
