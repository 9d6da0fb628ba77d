//! The instruction descriptor of a matrix instruction (PTX ISA 9.7.16.4.2).

use super::super::isa::{CtaGroup, MmaKind};
use super::fault::EncodeFault;
use super::shape::MmaShape;

/// Format of a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// tf32.
    Tf32,
    /// e4m3.
    E4m3,
    /// e5m2.
    E5m2,
    /// e2m3.
    E2m3,
    /// e3m2.
    E3m2,
    /// e2m1.
    E2m1,
    /// Unsigned bytes.
    U8,
    /// Signed bytes.
    S8,
}

impl Factor {
    /// All formats.
    pub const ALL: &'static [Factor] = &[
        Factor::F16,
        Factor::Bf16,
        Factor::Tf32,
        Factor::E4m3,
        Factor::E5m2,
        Factor::E2m3,
        Factor::E3m2,
        Factor::E2m1,
        Factor::U8,
        Factor::S8,
    ];
    /// The code of the format in a kind; none where the kind doesn't multiply it.
    fn code(self, kind: MmaKind) -> Option<u32> {
        match (kind, self) {
            (MmaKind::F16, Factor::F16) => Some(0),
            (MmaKind::F16, Factor::Bf16) => Some(1),
            (MmaKind::Tf32, Factor::Tf32) => Some(2),
            (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, Factor::E4m3) => Some(0),
            (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, Factor::E5m2) => Some(1),
            (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, Factor::E2m3) => Some(3),
            (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, Factor::E3m2) => Some(4),
            (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, Factor::E2m1) => Some(5),
            (MmaKind::I8, Factor::U8) => Some(0),
            (MmaKind::I8, Factor::S8) => Some(1),
            (MmaKind::Mxf4 | MmaKind::Mxf4nvf4, Factor::E2m1) => Some(1),
            _ => None,
        }
    }
    /// Whether 16 bytes of shared memory hold fewer than 16 bytes of data, or two elements a byte.
    fn narrow(self) -> bool {
        matches!(self, Factor::E2m3 | Factor::E3m2 | Factor::E2m1)
    }
    fn byte(self) -> bool {
        matches!(self, Factor::E4m3 | Factor::E5m2 | Factor::U8 | Factor::S8)
    }
}

/// Format of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// binary16.
    F16,
    /// f32.
    F32,
    /// 32-bit integers.
    S32,
}

impl Sum {
    /// All formats.
    pub const ALL: &'static [Sum] = &[Sum::F16, Sum::F32, Sum::S32];
    fn code(self) -> u32 {
        match self {
            Sum::F16 => 0,
            Sum::F32 => 1,
            Sum::S32 => 2,
        }
    }
}

/// The dimension along which a factor's elements are neighbours in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    /// K: rows of A, columns of B.
    K,
    /// M or N.
    Mn,
}

/// What an instruction descriptor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstrDesc {
    /// Form and size.
    pub shape: MmaShape,
    /// First factor.
    pub a: Factor,
    /// Second factor.
    pub b: Factor,
    /// Sums.
    pub d: Sum,
    /// Order of the first factor.
    pub a_major: Major,
    /// Order of the second factor.
    pub b_major: Major,
    /// Byte of a column of tensor memory in which the instruction's first scale of A lies.
    pub a_scale: u32,
    /// The same for B.
    pub b_scale: u32,
}

impl InstrDesc {
    /// f32 sums of factors with K as the fastest dimension, scales from byte 0.
    pub fn new(shape: MmaShape, a: Factor, b: Factor) -> Self {
        let (a_major, b_major) = (Major::K, Major::K);
        let d = if shape.kind == MmaKind::I8 { Sum::S32 } else { Sum::F32 };
        InstrDesc { shape, a, b, d, a_major, b_major, a_scale: 0, b_scale: 0 }
    }
    /// With scales of A and B from these bytes.
    pub fn scales(self, a: u32, b: u32) -> Self {
        InstrDesc { a_scale: a, b_scale: b, ..self }
    }
    /// With the factors in these orders.
    pub fn majors(self, a: Major, b: Major) -> Self {
        InstrDesc { a_major: a, b_major: b, ..self }
    }
    /// The 32 bits without the number of columns, for one that is known at run time only: `or` them with
    /// [`InstrDesc::columns`] of a legal number.
    ///
    /// # Errors
    /// What of it no instruction does; the shape's own number of columns stands for all.
    pub fn without_columns(self) -> Result<u32, EncodeFault> {
        Ok(self.encode()? & !(0x3f << 17))
    }
    /// The bits of `n` columns, a multiple of 8.
    pub fn columns(n: u32) -> u32 {
        (n >> 3) << 17
    }
    /// The 32 bits.
    ///
    /// # Errors
    /// What of it no instruction does.
    pub fn encode(self) -> Result<u32, EncodeFault> {
        let MmaShape { kind, group, m, n, .. } = self.shape;
        self.shape.check()?;
        let code = |factor: Factor| factor.code(kind).ok_or(EncodeFault::Factor { kind, factor });
        let (a, b) = (code(self.a)?, code(self.b)?);
        if kind == MmaKind::F16 && self.a != self.b {
            return Err(EncodeFault::Form { kind, why: "both factors have the same format" });
        }
        let sums = match kind {
            MmaKind::F16 if self.a == Factor::F16 => self.d != Sum::S32,
            MmaKind::F8f6f4 => self.d != Sum::S32,
            MmaKind::I8 => self.d == Sum::S32,
            MmaKind::F16 | MmaKind::Tf32 | MmaKind::Mxf8f6f4 | MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => {
                self.d == Sum::F32
            }
        };
        if !sums {
            return Err(EncodeFault::Sum { kind, sum: self.d });
        }
        for (factor, major) in [(self.a, self.a_major), (self.b, self.b_major)] {
            if major == Major::Mn && (factor.narrow() || matches!(kind, MmaKind::Mxf4 | MmaKind::Mxf4nvf4)) {
                return Err(EncodeFault::Major { kind, factor });
            }
        }
        let step = if group == CtaGroup::Two { 32 } else { 16 };
        if self.b_major == Major::Mn && self.b.byte() && n % step != 0 {
            return Err(EncodeFault::N { kind, group, m, n });
        }
        let transposed = |major: Major| u32::from(major == Major::Mn);
        let size = InstrDesc::columns(n) | (m >> 4) << 24;
        let common =
            a << 7 | b << 10 | transposed(self.a_major) << 15 | transposed(self.b_major) << 16 | size;
        if !kind.scaled() {
            return Ok(common | self.d.code() << 4);
        }
        for id in [self.a_scale, self.b_scale] {
            let legal = match kind {
                MmaKind::Mxf4nvf4 => id == 0,
                MmaKind::Mxf4 => id == 0 || id == 2,
                MmaKind::Mxf8f6f4 | MmaKind::F16 | MmaKind::Tf32 | MmaKind::F8f6f4 | MmaKind::I8 => id < 4,
            };
            if !legal {
                return Err(EncodeFault::ScaleId { kind, id });
            }
        }
        // ue8m0 scales, but ue4m3 ones for a scale per 16.
        let powers = u32::from(kind != MmaKind::Mxf4nvf4);
        Ok(common | self.b_scale << 4 | powers << 23 | self.a_scale << 29)
    }
}
