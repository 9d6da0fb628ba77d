//! What instructions work on: registers, immediates, special registers, symbols, addresses, labels.

use super::target::{Feature, PtxVersion};
use super::ty::Class;
use std::fmt;

/// A virtual register; the number counts within its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reg {
    pub(crate) class: Class,
    pub(crate) index: u32,
}

impl Reg {
    /// The register's class.
    pub fn class(self) -> Class {
        self.class
    }
    /// The address `self + offset` bytes.
    pub fn at(self, offset: i64) -> Addr {
        Addr { base: Base::Reg(self), offset }
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.class.names().1, self.index)
    }
}

/// A read-only register of the machine. All have 32 bits but the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Thread in the block, x.
    TidX,
    /// Threads in a block, x.
    NTidX,
    /// Block in the grid, x.
    CtaIdX,
    /// Block in the grid, y.
    CtaIdY,
    /// Block in the grid, z.
    CtaIdZ,
    /// Blocks in the grid, x.
    NCtaIdX,
    /// Blocks in the grid, y.
    NCtaIdY,
    /// Blocks in the grid, z.
    NCtaIdZ,
    /// Lane of the warp.
    LaneId,
    /// Processor.
    SmId,
    /// Block's rank in its cluster.
    ClusterCtaRank,
    /// Blocks in a cluster.
    ClusterNCtaRank,
    /// Cluster in the grid, x.
    ClusterIdX,
    /// Clusters in the grid, x.
    NClusterIdX,
    /// Lanes below this one, as a mask.
    LaneMaskLt,
    /// Lanes up to this one, as a mask.
    LaneMaskLe,
    /// Bytes of dynamic shared memory.
    DynamicSmemSize,
    /// Cycle counter, 64 bits.
    Clock64,
    /// Nanoseconds, 64 bits.
    GlobalTimer,
}

impl Special {
    /// All of them.
    pub const ALL: &'static [Special] = &[
        Special::TidX,
        Special::NTidX,
        Special::CtaIdX,
        Special::CtaIdY,
        Special::CtaIdZ,
        Special::NCtaIdX,
        Special::NCtaIdY,
        Special::NCtaIdZ,
        Special::LaneId,
        Special::SmId,
        Special::ClusterCtaRank,
        Special::ClusterNCtaRank,
        Special::ClusterIdX,
        Special::NClusterIdX,
        Special::LaneMaskLt,
        Special::LaneMaskLe,
        Special::DynamicSmemSize,
        Special::Clock64,
        Special::GlobalTimer,
    ];
    /// The name in PTX.
    pub fn name(self) -> &'static str {
        match self {
            Special::TidX => "%tid.x",
            Special::NTidX => "%ntid.x",
            Special::CtaIdX => "%ctaid.x",
            Special::CtaIdY => "%ctaid.y",
            Special::CtaIdZ => "%ctaid.z",
            Special::NCtaIdX => "%nctaid.x",
            Special::NCtaIdY => "%nctaid.y",
            Special::NCtaIdZ => "%nctaid.z",
            Special::LaneId => "%laneid",
            Special::SmId => "%smid",
            Special::ClusterCtaRank => "%cluster_ctarank",
            Special::ClusterNCtaRank => "%cluster_nctarank",
            Special::ClusterIdX => "%clusterid.x",
            Special::NClusterIdX => "%nclusterid.x",
            Special::LaneMaskLt => "%lanemask_lt",
            Special::LaneMaskLe => "%lanemask_le",
            Special::DynamicSmemSize => "%dynamic_smem_size",
            Special::Clock64 => "%clock64",
            Special::GlobalTimer => "%globaltimer",
        }
    }
    /// What reading it needs.
    pub fn needs(self) -> (PtxVersion, Feature) {
        match self {
            Special::ClusterCtaRank
            | Special::ClusterNCtaRank
            | Special::ClusterIdX
            | Special::NClusterIdX => (PtxVersion(7, 8), Feature::Sm90),
            Special::TidX
            | Special::NTidX
            | Special::CtaIdX
            | Special::CtaIdY
            | Special::CtaIdZ
            | Special::NCtaIdX
            | Special::NCtaIdY
            | Special::NCtaIdZ
            | Special::LaneId
            | Special::SmId
            | Special::LaneMaskLt
            | Special::LaneMaskLe
            | Special::DynamicSmemSize
            | Special::Clock64
            | Special::GlobalTimer => (PtxVersion(7, 0), Feature::Sm80),
        }
    }
    /// The class of a register that holds it.
    pub fn class(self) -> Class {
        match self {
            Special::Clock64 | Special::GlobalTimer => Class::B64,
            Special::TidX
            | Special::NTidX
            | Special::CtaIdX
            | Special::CtaIdY
            | Special::CtaIdZ
            | Special::NCtaIdX
            | Special::NCtaIdY
            | Special::NCtaIdZ
            | Special::LaneId
            | Special::SmId
            | Special::ClusterCtaRank
            | Special::ClusterNCtaRank
            | Special::ClusterIdX
            | Special::NClusterIdX
            | Special::LaneMaskLt
            | Special::LaneMaskLe
            | Special::DynamicSmemSize => Class::B32,
        }
    }
}

/// A name with an address: dynamic shared memory or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// The start of dynamic shared memory, `smem`.
    Smem,
    /// The parameter of this number.
    Param(u32),
}

impl Symbol {
    /// The address `self + offset` bytes.
    pub fn at(self, offset: i64) -> Addr {
        Addr { base: Base::Symbol(self), offset }
    }
}

/// A source operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// An integer or a bit pattern; 64-bit patterns stand as the signed number of the same bits.
    Int(i64),
    /// An f32, bit pattern.
    F32(u32),
    /// An f64, bit pattern. Where an f32 is asked for, it must be one exactly.
    F64(u64),
    /// A special register; only in moves.
    Special(Special),
    /// An address; only in moves.
    Symbol(Symbol),
}

impl Operand {
    /// The integer, if it is one.
    pub fn int(self) -> Option<i64> {
        match self {
            Operand::Int(v) => Some(v),
            Operand::Reg(_)
            | Operand::F32(_)
            | Operand::F64(_)
            | Operand::Special(_)
            | Operand::Symbol(_) => None,
        }
    }
}

impl From<Reg> for Operand {
    fn from(r: Reg) -> Self {
        Operand::Reg(r)
    }
}
impl From<i32> for Operand {
    fn from(v: i32) -> Self {
        Operand::Int(v.into())
    }
}
impl From<u32> for Operand {
    fn from(v: u32) -> Self {
        Operand::Int(v.into())
    }
}
impl From<i64> for Operand {
    fn from(v: i64) -> Self {
        Operand::Int(v)
    }
}
impl From<u64> for Operand {
    fn from(v: u64) -> Self {
        Operand::Int(v.cast_signed())
    }
}
impl From<usize> for Operand {
    fn from(v: usize) -> Self {
        Operand::from(v as u64)
    }
}
impl From<f32> for Operand {
    fn from(v: f32) -> Self {
        Operand::F32(v.to_bits())
    }
}
impl From<f64> for Operand {
    fn from(v: f64) -> Self {
        Operand::F64(v.to_bits())
    }
}
impl From<Special> for Operand {
    fn from(s: Special) -> Self {
        Operand::Special(s)
    }
}
impl From<Symbol> for Operand {
    fn from(s: Symbol) -> Self {
        Operand::Symbol(s)
    }
}
impl From<&Reg> for Operand {
    fn from(r: &Reg) -> Self {
        Operand::Reg(*r)
    }
}
impl From<&Operand> for Operand {
    fn from(o: &Operand) -> Self {
        *o
    }
}

/// What an address counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Reg(Reg),
    Symbol(Symbol),
}

/// An address: register or symbol, plus bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addr {
    pub(crate) base: Base,
    pub(crate) offset: i64,
}

impl Addr {
    /// The address `bytes` further on.
    pub fn plus(self, bytes: i64) -> Addr {
        Addr { offset: self.offset.wrapping_add(bytes), ..self }
    }
}

impl From<Reg> for Addr {
    fn from(r: Reg) -> Self {
        r.at(0)
    }
}
impl From<Symbol> for Addr {
    fn from(s: Symbol) -> Self {
        s.at(0)
    }
}

/// A place in the text that branches go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(pub(crate) u32);
