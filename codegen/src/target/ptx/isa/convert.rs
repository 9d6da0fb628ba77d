//! Conversions between formats.

use super::line::Line;
use super::operand::{Operand, Reg};
use super::target::Feature;
use super::ty::Ty;

/// How a conversion rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To nearest, ties to even.
    Near,
    /// Toward zero.
    Zero,
    /// Toward minus infinity.
    Down,
    /// Toward plus infinity.
    Up,
    /// To nearest, ties away from zero; tf32 only.
    Away,
}

impl Round {
    fn name(self) -> &'static str {
        match self {
            Round::Near => ".rn",
            Round::Zero => ".rz",
            Round::Down => ".rm",
            Round::Up => ".rp",
            Round::Away => ".rna",
        }
    }
}

/// Two small floats in one register, the first operand in the upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pack {
    /// bfloat16, 32 bits.
    Bf16x2,
    /// binary16, 32 bits.
    F16x2,
    /// e4m3, 16 bits.
    E4m3x2,
    /// e5m2, 16 bits.
    E5m2x2,
    /// e2m1, 8 bits.
    E2m1x2,
    /// ue8m0, 16 bits.
    Ue8m0x2,
}

impl Pack {
    fn name(self) -> &'static str {
        match self {
            Pack::Bf16x2 => ".bf16x2",
            Pack::F16x2 => ".f16x2",
            Pack::E4m3x2 => ".e4m3x2",
            Pack::E5m2x2 => ".e5m2x2",
            Pack::E2m1x2 => ".e2m1x2",
            Pack::Ue8m0x2 => ".ue8m0x2",
        }
    }
    /// The type of the register that holds the pair.
    pub fn ty(self) -> Ty {
        match self {
            Pack::Bf16x2 | Pack::F16x2 => Ty::B32,
            Pack::E4m3x2 | Pack::E5m2x2 | Pack::Ue8m0x2 => Ty::B16,
            Pack::E2m1x2 => Ty::B8,
        }
    }
}

/// Conversions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Convert {
    /// One number.
    One { to: Ty, from: Ty, round: Option<Round>, sat: bool, dst: Reg, src: Operand },
    /// Two f32 to a pair.
    Pack { to: Pack, round: Round, satfinite: bool, dst: Reg, hi: Operand, lo: Operand },
    /// A pair of one format to a pair of another.
    Repack { to: Pack, from: Pack, dst: Reg, src: Reg },
}

impl Convert {
    pub(crate) fn describe(&self, l: &mut Line<'_, '_>) {
        match self {
            Convert::One { to, from, round, sat, dst, src } => {
                l.name("cvt").rule(one(*to, *from, *round, *sat), "no such conversion");
                if let Some(round) = round {
                    l.name(round.name());
                    if from.is_float() && to.is_int() {
                        l.name("i");
                    }
                }
                l.name(if *sat && *to == Ty::Tf32 {
                    ".satfinite"
                } else if *sat {
                    ".sat"
                } else {
                    ""
                });
                l.ty(*to).ty(*from);
                if *from == Ty::Bf16 {
                    l.needs(7, 1, Feature::Sm80);
                }
                if *to == Ty::Tf32 {
                    if *sat {
                        l.needs(8, 6, Feature::Sm100);
                    } else if *round != Some(Round::Away) {
                        l.needs(7, 8, Feature::Sm90);
                    }
                }
                let wide = |ty: Ty| if ty.bits() == 8 { eight(ty) } else { ty };
                l.dst(*dst, wide(*to)).src(*src, wide(*from));
            }
            Convert::Pack { to, round, satfinite, dst, hi, lo } => {
                l.name("cvt").name(round.name());
                l.name(if *satfinite { ".satfinite" } else { "" });
                l.name(to.name()).name(".f32");
                let near = *round == Round::Near;
                let (legal, why) = match to {
                    Pack::Bf16x2 | Pack::F16x2 => (
                        matches!(round, Round::Near | Round::Zero) && !*satfinite,
                        "bf16x2 and f16x2 round to nearest or to zero, without saturation",
                    ),
                    Pack::E4m3x2 | Pack::E5m2x2 | Pack::E2m1x2 => {
                        (near && *satfinite, "8- and 4-bit floats round to nearest and saturate")
                    }
                    Pack::Ue8m0x2 => (matches!(round, Round::Zero | Round::Up), "ue8m0 rounds up or to zero"),
                };
                l.rule(legal, why);
                match to {
                    Pack::Bf16x2 | Pack::F16x2 => {}
                    Pack::E4m3x2 | Pack::E5m2x2 => {
                        l.needs(7, 8, Feature::Sm90);
                    }
                    Pack::E2m1x2 | Pack::Ue8m0x2 => {
                        l.needs(8, 6, Feature::Sm100Family);
                    }
                }
                l.dst(*dst, to.ty()).src(*hi, Ty::F32).src(*lo, Ty::F32);
            }
            Convert::Repack { to, from, dst, src } => {
                let legal = matches!(
                    (to, from),
                    (Pack::F16x2, Pack::E4m3x2 | Pack::E5m2x2 | Pack::E2m1x2)
                        | (Pack::Bf16x2, Pack::Ue8m0x2)
                        | (Pack::E4m3x2 | Pack::E5m2x2, Pack::F16x2)
                );
                let narrow = matches!(to, Pack::E4m3x2 | Pack::E5m2x2);
                l.name(if narrow { "cvt.rn.satfinite" } else { "cvt.rn" }).name(to.name()).name(from.name());
                l.rule(legal, "no such conversion");
                if matches!(from, Pack::E2m1x2 | Pack::Ue8m0x2) {
                    l.needs(8, 6, Feature::Sm100Family);
                } else {
                    l.needs(7, 8, Feature::Sm90);
                }
                l.dst(*dst, to.ty()).reg(*src, from.ty());
            }
        }
    }
}

/// 8-bit conversions read and write the bits of a register of any class of integers; ours use 8-bit registers.
fn eight(ty: Ty) -> Ty {
    if ty == Ty::S8 { Ty::S8 } else { Ty::U8 }
}

fn one(to: Ty, from: Ty, round: Option<Round>, sat: bool) -> bool {
    use Round::{Away, Down, Near, Up, Zero};
    let real = |ty: Ty| matches!(ty, Ty::F32 | Ty::F64);
    let half = |ty: Ty| matches!(ty, Ty::F16 | Ty::Bf16);
    let directed = matches!(round, Some(Near | Zero | Down | Up));
    if to == Ty::Tf32 {
        let round = matches!(round, Some(Near | Zero)) || (round == Some(Away) && !sat);
        return from == Ty::F32 && round;
    }
    if to.is_int() && from.is_int() {
        return round.is_none() && (to != from || sat);
    }
    if sat {
        return false;
    }
    let int_float =
        (to.is_int() && (real(from) || from == Ty::F16)) || (from.is_int() && (real(to) || to == Ty::F16));
    match (to, from) {
        (Ty::F32, Ty::F64) => directed,
        (Ty::F64, Ty::F32) => round.is_none(),
        (Ty::F32, from) if half(from) => round.is_none(),
        (to, Ty::F32) if half(to) => matches!(round, Some(Near | Zero)),
        _ => int_float && directed && to.bits() >= 16 && from.bits() >= 16,
    }
}
