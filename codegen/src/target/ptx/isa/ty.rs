//! Instruction types and register classes.

use std::fmt;

/// A class of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Truth values.
    Pred,
    /// 8 bits: only for conversions of pairs of 4-bit floats.
    B8,
    /// 16 bits.
    B16,
    /// 32 bits: integers and packed pairs.
    B32,
    /// 64 bits: integers, addresses, descriptors, pairs of f32.
    B64,
    /// 128 bits.
    B128,
    /// f32.
    F32,
    /// f64.
    F64,
}

impl Class {
    /// All classes in the order of their declarations.
    pub const ALL: &'static [Class] =
        &[Class::Pred, Class::B8, Class::B16, Class::B32, Class::B64, Class::B128, Class::F32, Class::F64];
    /// Type name and prefix of register names.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Class::Pred => ("pred", "%p"),
            Class::B8 => ("b8", "%rb"),
            Class::B16 => ("b16", "%rs"),
            Class::B32 => ("b32", "%r"),
            Class::B64 => ("b64", "%rd"),
            Class::B128 => ("b128", "%rq"),
            Class::F32 => ("f32", "%f"),
            Class::F64 => ("f64", "%fd"),
        }
    }
    /// Bits of a register; 1 for truth values.
    pub fn bits(self) -> u32 {
        match self {
            Class::Pred => 1,
            Class::B8 => 8,
            Class::B16 => 16,
            Class::B32 | Class::F32 => 32,
            Class::B64 | Class::F64 => 64,
            Class::B128 => 128,
        }
    }
}

/// The type of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    /// A truth value.
    Pred,
    /// 8 bits.
    B8,
    /// 16 bits.
    B16,
    /// 32 bits.
    B32,
    /// 64 bits.
    B64,
    /// 128 bits.
    B128,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 8 bits.
    S8,
    /// Signed, 16 bits.
    S16,
    /// Signed, 32 bits.
    S32,
    /// Signed, 64 bits.
    S64,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// Two of binary16.
    F16x2,
    /// Two of bfloat16.
    Bf16x2,
    /// tf32 in a 32-bit register.
    Tf32,
    /// f32.
    F32,
    /// Two of f32 in a 64-bit register.
    F32x2,
    /// f64.
    F64,
}

impl Ty {
    /// The name in mnemonics.
    pub fn name(self) -> &'static str {
        match self {
            Ty::Pred => "pred",
            Ty::B8 => "b8",
            Ty::B16 => "b16",
            Ty::B32 => "b32",
            Ty::B64 => "b64",
            Ty::B128 => "b128",
            Ty::U8 => "u8",
            Ty::U16 => "u16",
            Ty::U32 => "u32",
            Ty::U64 => "u64",
            Ty::S8 => "s8",
            Ty::S16 => "s16",
            Ty::S32 => "s32",
            Ty::S64 => "s64",
            Ty::F16 => "f16",
            Ty::Bf16 => "bf16",
            Ty::F16x2 => "f16x2",
            Ty::Bf16x2 => "bf16x2",
            Ty::Tf32 => "tf32",
            Ty::F32 => "f32",
            Ty::F32x2 => "f32x2",
            Ty::F64 => "f64",
        }
    }
    /// The class of registers that hold values of the type.
    pub fn class(self) -> Class {
        match self {
            Ty::Pred => Class::Pred,
            Ty::B8 | Ty::U8 | Ty::S8 => Class::B8,
            Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 | Ty::Bf16 => Class::B16,
            Ty::B32 | Ty::U32 | Ty::S32 | Ty::F16x2 | Ty::Bf16x2 | Ty::Tf32 => Class::B32,
            Ty::B64 | Ty::U64 | Ty::S64 | Ty::F32x2 => Class::B64,
            Ty::B128 => Class::B128,
            Ty::F32 => Class::F32,
            Ty::F64 => Class::F64,
        }
    }
    /// Whether a register of class `class` may stand for the type: bit types take every register of their width.
    pub fn takes(self, class: Class) -> bool {
        self.class() == class
            || (self == Ty::B32 && class == Class::F32)
            || (self == Ty::B64 && class == Class::F64)
    }
    /// Bits of a value.
    pub fn bits(self) -> u32 {
        self.class().bits()
    }
    /// Whether values are integers with or without sign.
    pub fn is_int(self) -> bool {
        self.is_signed() || matches!(self, Ty::U8 | Ty::U16 | Ty::U32 | Ty::U64)
    }
    /// Whether values are integers with a sign.
    pub fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }
    /// Whether values are bits without a meaning.
    pub fn is_bits(self) -> bool {
        matches!(self, Ty::B8 | Ty::B16 | Ty::B32 | Ty::B64 | Ty::B128)
    }
    /// Whether values are one or two floats.
    pub fn is_float(self) -> bool {
        !self.is_int() && !self.is_bits() && self != Ty::Pred
    }
    /// The bit type of a class.
    pub fn bits_of(class: Class) -> Ty {
        match class {
            Class::Pred => Ty::Pred,
            Class::B8 => Ty::B8,
            Class::B16 => Ty::B16,
            Class::B32 | Class::F32 => Ty::B32,
            Class::B64 | Class::F64 => Ty::B64,
            Class::B128 => Ty::B128,
        }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
