//! Arithmetic, logic, comparisons and moves of one value.

use super::line::Line;
use super::operand::{Operand, Reg};
use super::target::Feature;
use super::ty::{Class, Ty};

/// Two operands, one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bin {
    Add,
    Sub,
    /// Low half for integers.
    Mul,
    MulHi,
    /// Result of twice the width.
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    /// NaN if one operand is.
    MinNan,
    MaxNan,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    /// Magnitude of the second, sign of the first.
    CopySign,
}

/// One operand, one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Un {
    Neg,
    Abs,
    Not,
    Popc,
    Clz,
    Brev,
    /// Position of the highest set bit.
    Bfind,
    SqrtRn,
    RcpRn,
    RcpApprox,
    RsqrtApprox,
    SqrtApprox,
    Ex2Approx,
    Lg2Approx,
    TanhApprox,
    SinApprox,
    CosApprox,
}

/// Three operands or more, one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ter {
    /// Integers: low half of the product, plus.
    Mad,
    MadWide,
    Fma,
    /// Product of two binary16, exact, plus an f32.
    FmaF16,
    Prmt,
    /// The table is indexed by bits of 0xf0, 0xcc and 0xaa.
    Lop3(u8),
    Bfe,
    /// Funnel shifts, shift taken modulo 32.
    ShfL,
    ShfR,
    Max3,
    Min3,
    /// Four products of bytes, plus.
    Dp4a,
}

/// A comparison. With the types of floats, `…u` holds also when an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cmp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Equal or NaN.
    Equ,
    /// Not equal or NaN.
    Neu,
    /// Less or NaN.
    Ltu,
    /// Less, equal or NaN.
    Leu,
    /// Greater or NaN.
    Gtu,
    /// Greater, equal or NaN.
    Geu,
    /// No operand is NaN.
    Num,
    /// An operand is NaN.
    Nan,
}

impl Cmp {
    fn name(self) -> &'static str {
        match self {
            Cmp::Eq => ".eq",
            Cmp::Ne => ".ne",
            Cmp::Lt => ".lt",
            Cmp::Le => ".le",
            Cmp::Gt => ".gt",
            Cmp::Ge => ".ge",
            Cmp::Equ => ".equ",
            Cmp::Neu => ".neu",
            Cmp::Ltu => ".ltu",
            Cmp::Leu => ".leu",
            Cmp::Gtu => ".gtu",
            Cmp::Geu => ".geu",
            Cmp::Num => ".num",
            Cmp::Nan => ".nan",
        }
    }
    fn plain(self) -> bool {
        matches!(self, Cmp::Eq | Cmp::Ne | Cmp::Lt | Cmp::Le | Cmp::Gt | Cmp::Ge)
    }
}

/// How a comparison is joined with another truth value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logic {
    /// Both.
    And,
    /// At least one.
    Or,
    /// Exactly one.
    Xor,
}

impl Logic {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Logic::And => ".and",
            Logic::Or => ".or",
            Logic::Xor => ".xor",
        }
    }
}

/// Scalar instructions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Mov {
        ty: Ty,
        dst: Reg,
        src: Operand,
    },
    /// Joins halves (quarters), lowest first, into one register.
    Join {
        dst: Reg,
        parts: Vec<Operand>,
    },
    /// Splits a register into halves (quarters), lowest first.
    Split {
        parts: Vec<Reg>,
        src: Reg,
    },
    Bin {
        op: Bin,
        ty: Ty,
        dst: Reg,
        a: Operand,
        b: Operand,
    },
    Un {
        op: Un,
        ftz: bool,
        ty: Ty,
        dst: Reg,
        a: Operand,
    },
    Ter {
        op: Ter,
        ty: Ty,
        dst: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// `len` bits from `pos` of `b` replaced by the low bits of `a`.
    Bfi {
        ty: Ty,
        dst: Reg,
        a: Operand,
        b: Operand,
        pos: Operand,
        len: Operand,
    },
    Selp {
        ty: Ty,
        dst: Reg,
        a: Operand,
        b: Operand,
        p: Reg,
    },
    Setp {
        cmp: Cmp,
        ty: Ty,
        dst: Reg,
        a: Operand,
        b: Operand,
        join: Option<(Logic, Reg, bool)>,
    },
}

const WORDS: [Ty; 6] = [Ty::U16, Ty::S16, Ty::U32, Ty::S32, Ty::U64, Ty::S64];
const NO_FORM: &str = "no such form for this type";

impl Scalar {
    pub(crate) fn describe(&self, l: &mut Line<'_, '_>) {
        match self {
            Scalar::Mov { ty, dst, src } => {
                l.name("mov").ty(*ty).dst(*dst, *ty).src(*src, *ty);
                wide_move(l, *ty);
                l.rule(!matches!(ty, Ty::B8 | Ty::U8 | Ty::S8), "8-bit registers have no moves");
            }
            Scalar::Join { dst, parts } => {
                let (whole, part) = (Ty::bits_of(dst.class()), part(dst.class(), parts.len()));
                l.name("mov").ty(whole).rule(part.is_some(), "no register has so many parts");
                wide_move(l, whole);
                l.dst(*dst, whole).srcs(parts, part.unwrap_or(whole));
            }
            Scalar::Split { parts, src } => {
                let (whole, part) = (Ty::bits_of(src.class()), part(src.class(), parts.len()));
                l.name("mov").ty(whole).rule(part.is_some(), "no register has so many parts");
                wide_move(l, whole);
                l.dsts(parts, part.unwrap_or(whole)).reg(*src, whole);
            }
            Scalar::Bin { op, ty, dst, a, b } => binary(l, *op, *ty, *dst, *a, *b),
            Scalar::Un { op, ftz, ty, dst, a } => unary(l, *op, *ftz, *ty, *dst, *a),
            Scalar::Ter { op, ty, dst, a, b, c } => ternary(l, *op, *ty, *dst, [*a, *b, *c]),
            Scalar::Bfi { ty, dst, a, b, pos, len } => {
                l.name("bfi").ty(*ty).rule(matches!(ty, Ty::B32 | Ty::B64), NO_FORM);
                l.dst(*dst, *ty).src(*a, *ty).src(*b, *ty).src(*pos, Ty::U32).src(*len, Ty::U32);
            }
            Scalar::Selp { ty, dst, a, b, p } => {
                l.name("selp").ty(*ty);
                l.rule(ty.bits() >= 16 && *ty != Ty::B128 && !packed(*ty), NO_FORM);
                l.dst(*dst, *ty).src(*a, *ty).src(*b, *ty).pred(*p, true);
            }
            Scalar::Setp { cmp, ty, dst, a, b, join } => {
                l.name("setp").name(cmp.name());
                if let Some((logic, _, _)) = join {
                    l.name(logic.name());
                }
                l.ty(*ty);
                let float = matches!(ty, Ty::F32 | Ty::F64);
                let bits = matches!(ty, Ty::B16 | Ty::B32 | Ty::B64);
                let legal = float
                    || (WORDS.contains(ty) && cmp.plain())
                    || (bits && matches!(cmp, Cmp::Eq | Cmp::Ne));
                l.rule(legal, NO_FORM).dst(*dst, Ty::Pred).src(*a, *ty).src(*b, *ty);
                if let Some((_, p, wanted)) = join {
                    l.pred(*p, *wanted);
                }
            }
        }
    }
}

fn wide_move(l: &mut Line<'_, '_>, ty: Ty) {
    if ty == Ty::B128 {
        l.needs(8, 3, Feature::Sm80);
    }
}

/// The type of each of `n` parts of a register.
fn part(class: Class, n: usize) -> Option<Ty> {
    match (class, n) {
        (Class::B128, 2) => Some(Ty::B64),
        (Class::B128, 4) => Some(Ty::B32),
        (Class::B64 | Class::F64, 2) => Some(Ty::B32),
        (Class::B64 | Class::F64, 4) => Some(Ty::B16),
        (Class::B32 | Class::F32, 2) => Some(Ty::B16),
        (Class::B32 | Class::F32, 4) | (Class::B16, 2) => Some(Ty::B8),
        _ => None,
    }
}

fn packed(ty: Ty) -> bool {
    matches!(ty, Ty::F16x2 | Ty::Bf16x2 | Ty::F32x2 | Ty::F16 | Ty::Bf16 | Ty::Tf32)
}

fn small_float(ty: Ty) -> bool {
    matches!(ty, Ty::F16 | Ty::Bf16 | Ty::F16x2 | Ty::Bf16x2)
}

/// Adds what the versions of packed types need.
fn needs_float(l: &mut Line<'_, '_>, ty: Ty) {
    if ty == Ty::F32x2 {
        l.needs(8, 6, Feature::Sm100);
    }
}

fn binary(l: &mut Line<'_, '_>, op: Bin, ty: Ty, dst: Reg, a: Operand, b: Operand) {
    let int = WORDS.contains(&ty);
    let wide = matches!(ty, Ty::F32 | Ty::F64);
    let (name, legal) = match op {
        Bin::Add => (if int { "add" } else { "add.rn" }, int || wide || small_float(ty) || ty == Ty::F32x2),
        Bin::Sub => (if int { "sub" } else { "sub.rn" }, int || wide || small_float(ty) || ty == Ty::F32x2),
        Bin::Mul => {
            (if int { "mul.lo" } else { "mul.rn" }, int || wide || small_float(ty) || ty == Ty::F32x2)
        }
        Bin::MulHi => ("mul.hi", int),
        Bin::MulWide => ("mul.wide", matches!(ty, Ty::U16 | Ty::S16 | Ty::U32 | Ty::S32)),
        Bin::Div => (if int { "div" } else { "div.rn" }, int || wide),
        Bin::Rem => ("rem", int),
        Bin::Min => ("min", int || wide || small_float(ty)),
        Bin::Max => ("max", int || wide || small_float(ty)),
        Bin::MinNan => ("min.NaN", ty == Ty::F32 || small_float(ty)),
        Bin::MaxNan => ("max.NaN", ty == Ty::F32 || small_float(ty)),
        Bin::And => ("and", matches!(ty, Ty::Pred | Ty::B16 | Ty::B32 | Ty::B64)),
        Bin::Or => ("or", matches!(ty, Ty::Pred | Ty::B16 | Ty::B32 | Ty::B64)),
        Bin::Xor => ("xor", matches!(ty, Ty::Pred | Ty::B16 | Ty::B32 | Ty::B64)),
        Bin::Shl => ("shl", matches!(ty, Ty::B16 | Ty::B32 | Ty::B64)),
        Bin::Shr => ("shr", int || matches!(ty, Ty::B16 | Ty::B32 | Ty::B64)),
        Bin::CopySign => ("copysign", wide),
    };
    l.name(name).ty(ty).rule(legal, NO_FORM);
    needs_float(l, ty);
    if matches!(ty, Ty::Bf16 | Ty::Bf16x2) && matches!(op, Bin::Add | Bin::Sub | Bin::Mul) {
        l.needs(7, 8, Feature::Sm90);
    }
    let result = match (op, ty) {
        (Bin::MulWide, Ty::U32 | Ty::S32) => Ty::B64,
        (Bin::MulWide, _) => Ty::B32,
        _ => ty,
    };
    let second = if matches!(op, Bin::Shl | Bin::Shr) { Ty::U32 } else { ty };
    l.dst(dst, result).src(a, ty).src(b, second);
}

fn unary(l: &mut Line<'_, '_>, op: Un, ftz: bool, ty: Ty, dst: Reg, a: Operand) {
    let wide = matches!(ty, Ty::F32 | Ty::F64);
    let half = small_float(ty);
    let signed = matches!(ty, Ty::S16 | Ty::S32 | Ty::S64);
    let words = matches!(ty, Ty::B32 | Ty::B64);
    let (name, legal) = match op {
        Un::Neg => ("neg", signed || wide || half),
        Un::Abs => ("abs", signed || wide || half),
        Un::Not => ("not", matches!(ty, Ty::Pred | Ty::B16 | Ty::B32 | Ty::B64)),
        Un::Popc => ("popc", words),
        Un::Clz => ("clz", words),
        Un::Brev => ("brev", words),
        Un::Bfind => ("bfind", matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64)),
        Un::SqrtRn => ("sqrt.rn", wide),
        Un::RcpRn => ("rcp.rn", wide),
        Un::RcpApprox => ("rcp.approx", ty == Ty::F32),
        Un::RsqrtApprox => ("rsqrt.approx", ty == Ty::F32),
        Un::SqrtApprox => ("sqrt.approx", ty == Ty::F32),
        Un::Ex2Approx => ("ex2.approx", ty == Ty::F32 || (ty == Ty::Bf16x2 && ftz)),
        Un::Lg2Approx => ("lg2.approx", ty == Ty::F32),
        Un::TanhApprox => ("tanh.approx", !ftz && (ty == Ty::F32 || half)),
        Un::SinApprox => ("sin.approx", ty == Ty::F32),
        Un::CosApprox => ("cos.approx", ty == Ty::F32),
    };
    l.name(name).name(if ftz { ".ftz" } else { "" }).ty(ty).rule(legal, NO_FORM);
    if op == Un::Ex2Approx && ty == Ty::Bf16x2 {
        l.needs(7, 8, Feature::Sm90);
    }
    let approximate = !matches!(
        op,
        Un::Neg | Un::Abs | Un::Not | Un::Popc | Un::Clz | Un::Brev | Un::Bfind | Un::SqrtRn | Un::RcpRn
    );
    l.rule(approximate || !ftz, "only approximations flush small numbers here");
    let result = if matches!(op, Un::Popc | Un::Clz | Un::Bfind) { Ty::U32 } else { ty };
    l.dst(dst, result).src(a, ty);
}

fn ternary(l: &mut Line<'_, '_>, op: Ter, ty: Ty, dst: Reg, [a, b, c]: [Operand; 3]) {
    let int = WORDS.contains(&ty);
    let fused = matches!(ty, Ty::F32 | Ty::F64 | Ty::F32x2) || small_float(ty);
    let (name, legal) = match op {
        Ter::Mad => ("mad.lo", int),
        Ter::MadWide => ("mad.wide", matches!(ty, Ty::U32 | Ty::S32)),
        Ter::Fma => ("fma.rn", fused),
        Ter::FmaF16 => ("fma.rn", ty == Ty::F32),
        Ter::Prmt => ("prmt", ty == Ty::B32),
        Ter::Lop3(_) => ("lop3", ty == Ty::B32),
        Ter::Bfe => ("bfe", matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64)),
        Ter::ShfL => ("shf.l.wrap", ty == Ty::B32),
        Ter::ShfR => ("shf.r.wrap", ty == Ty::B32),
        Ter::Max3 => ("max", ty == Ty::F32),
        Ter::Min3 => ("min", ty == Ty::F32),
        Ter::Dp4a => ("dp4a", matches!(ty, Ty::U32 | Ty::S32)),
    };
    l.name(name).ty(ty).rule(legal, NO_FORM);
    needs_float(l, ty);
    match op {
        Ter::MadWide => {
            l.dst(dst, Ty::B64).src(a, ty).src(b, ty).src(c, Ty::U64);
        }
        Ter::Bfe => {
            l.dst(dst, ty).src(a, ty).src(b, Ty::U32).src(c, Ty::U32);
        }
        Ter::Lop3(table) => {
            l.dst(dst, ty).src(a, ty).src(b, ty).src(c, ty).hex(table.into());
        }
        Ter::Dp4a => {
            l.ty(ty).dst(dst, ty).src(a, Ty::B32).src(b, Ty::B32).src(c, ty);
        }
        Ter::FmaF16 => {
            l.ty(Ty::F16).needs(8, 6, Feature::Sm100).dst(dst, ty);
            l.src(a, Ty::F16).src(b, Ty::F16).src(c, ty);
        }
        Ter::Max3 | Ter::Min3 => {
            l.needs(8, 8, Feature::Sm100).dst(dst, ty).src(a, ty).src(b, ty).src(c, ty);
        }
        Ter::Mad | Ter::Fma | Ter::Prmt | Ter::ShfL | Ter::ShfR => {
            l.dst(dst, ty).src(a, ty).src(b, ty).src(c, ty);
        }
    }
}
