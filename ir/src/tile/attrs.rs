//! Typed attributes of tile ops: closed lists of scalar functions.

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }
        impl $name {
            /// Every variant, in table order.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// Name in the text form.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
            /// The variant called `name`.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|v| v.name() == name)
            }
        }
    };
}

named! {
    /// Two-operand integer functions on 64-bit indices, wrapping; comparisons give 0 or 1.
    IndexOp {
        /// `a + b`.
        Add = "add",
        /// `a − b`.
        Sub = "sub",
        /// `a · b`, wrapping.
        Mul = "mul",
        /// `a / b` towards zero, `b > 0`.
        Div = "div",
        /// Remainder of the division towards zero, `b > 0`.
        Rem = "rem",
        /// The smaller.
        Min = "min",
        /// The larger.
        Max = "max",
        /// Bitwise exclusive or.
        Xor = "xor",
        /// Bitwise and.
        And = "and",
        /// 1 if `a < b`.
        Lt = "lt",
        /// 1 if `a ≤ b`.
        Le = "le",
        /// 1 if `a = b`.
        Eq = "eq",
    }
}

named! {
    /// One-operand functions on f32 elements.
    Unary {
        /// `−x`.
        Neg = "neg",
        /// `|x|`.
        Abs = "abs",
        /// Square root, correctly rounded.
        Sqrt = "sqrt",
        /// `1 / sqrt(x)`, as a correctly rounded root and division.
        Rsqrt = "rsqrt",
        /// `eˣ`.
        Exp = "exp",
        /// `1 / (1 + e⁻ˣ)`.
        Sigmoid = "sigmoid",
        /// `x / (1 + e⁻ˣ)`.
        Silu = "silu",
        /// `sqrt(ln(1 + eˣ))`, the logarithm replaced by x above 20.
        SqrtSoftplus = "sqrt_softplus",
        /// `max(x, 0)`; NaN stays NaN.
        Relu = "relu",
    }
}

named! {
    /// Two-operand functions on f32 elements, each rounded once (never contracted to a fused multiply-add).
    Binary {
        /// `a + b`.
        Add = "add",
        /// `a − b`.
        Sub = "sub",
        /// `a · b`.
        Mul = "mul",
        /// `a / b`.
        Div = "div",
        /// The smaller; NaN if either is NaN.
        Min = "min",
        /// The larger; NaN if either is NaN.
        Max = "max",
        /// `|a|` with the sign of `b`.
        CopySign = "copysign",
    }
}

named! {
    /// Reductions along one axis.
    Reduce {
        /// Sum. Along columns: 16 lanes (element i in lane i mod 16), then lanes j += j+8, j+4, j+2, j+1.
        /// Along rows: ascending.
        Sum = "sum",
        /// Largest; −∞ of nothing; NaN wins.
        Max = "max",
        /// Largest magnitude; 0 of nothing; NaN wins.
        AbsMax = "absmax",
    }
}

named! {
    /// Which part of a quantised slot a copy fills.
    Part {
        /// Codes and scales.
        All = "all",
        /// The codes.
        Codes = "codes",
        /// The scales.
        Scales = "scales",
    }
}

impl IndexOp {
    /// `f(a, b)`; `None` for a division by a number below 1.
    pub fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            IndexOp::Add => Some(a.wrapping_add(b)),
            IndexOp::Sub => Some(a.wrapping_sub(b)),
            IndexOp::Mul => Some(a.wrapping_mul(b)),
            IndexOp::Div => (b > 0).then(|| a / b),
            IndexOp::Rem => (b > 0).then(|| a % b),
            IndexOp::Min => Some(a.min(b)),
            IndexOp::Max => Some(a.max(b)),
            IndexOp::Xor => Some(a ^ b),
            IndexOp::And => Some(a & b),
            IndexOp::Lt => Some(i64::from(a < b)),
            IndexOp::Le => Some(i64::from(a <= b)),
            IndexOp::Eq => Some(i64::from(a == b)),
        }
    }
}
