//! Tensor memory and the matrix instructions of SM100.

use super::line::{Line, Window};
use super::operand::{Addr, Operand, Reg};
use super::target::{Feature, Target};
use super::ty::Ty;

/// Blocks that work together on one matrix instruction. A kernel uses one of both throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtaGroup {
    /// A block alone.
    One,
    /// Two neighbours of a cluster.
    Two,
}

impl CtaGroup {
    fn name(self) -> &'static str {
        match self {
            CtaGroup::One => ".cta_group::1",
            CtaGroup::Two => ".cta_group::2",
        }
    }
}

/// Formats that a matrix instruction multiplies (PTX ISA 9.7.16.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MmaKind {
    /// binary16 or bfloat16.
    F16,
    /// tf32.
    Tf32,
    /// 8-, 6- and 4-bit floats, mixed.
    F8f6f4,
    /// Bytes.
    I8,
    /// 8-, 6- and 4-bit floats with a ue8m0 scale per 32.
    Mxf8f6f4,
    /// e2m1 with a ue8m0 scale per 32.
    Mxf4,
    /// e2m1 with a ue4m3 scale per 16.
    Mxf4nvf4,
}

impl MmaKind {
    /// All kinds.
    pub const ALL: &'static [MmaKind] = &[
        MmaKind::F16,
        MmaKind::Tf32,
        MmaKind::F8f6f4,
        MmaKind::I8,
        MmaKind::Mxf8f6f4,
        MmaKind::Mxf4,
        MmaKind::Mxf4nvf4,
    ];
    /// Whether the instruction takes scales.
    pub fn scaled(self) -> bool {
        matches!(self, MmaKind::Mxf8f6f4 | MmaKind::Mxf4 | MmaKind::Mxf4nvf4)
    }
    fn name(self) -> &'static str {
        match self {
            MmaKind::F16 => ".kind::f16",
            MmaKind::Tf32 => ".kind::tf32",
            MmaKind::F8f6f4 => ".kind::f8f6f4",
            MmaKind::I8 => ".kind::i8",
            MmaKind::Mxf8f6f4 => ".kind::mxf8f6f4.block_scale",
            MmaKind::Mxf4 => ".kind::mxf4.block_scale",
            MmaKind::Mxf4nvf4 => ".kind::mxf4nvf4.block_scale",
        }
    }
    /// How many scales a row has per instruction, spelled for the target: B200's own set counts them, the family's
    /// set names the block.
    fn scale(self, target: Target) -> &'static str {
        let family = target == Target::Sm100f;
        match self {
            MmaKind::F16 | MmaKind::Tf32 | MmaKind::F8f6f4 | MmaKind::I8 => "",
            MmaKind::Mxf8f6f4 if !family => ".scale_vec::1X",
            MmaKind::Mxf4 if !family => ".scale_vec::2X",
            MmaKind::Mxf4nvf4 if !family => ".scale_vec::4X",
            MmaKind::Mxf8f6f4 | MmaKind::Mxf4 => ".block32",
            MmaKind::Mxf4nvf4 => ".block16",
        }
    }
}

/// Where the first factor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmaA {
    /// Shared memory: descriptor, 64 bits.
    Shared(Reg),
    /// Tensor memory: address, 32 bits.
    Tensor(Reg),
}

/// What happens to the first factor in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collector {
    /// Kept for the next instruction.
    Fill,
    /// Taken from the buffer, and kept.
    Use,
    /// Taken from the buffer the last time.
    LastUse,
    /// Not kept.
    Discard,
}

impl Collector {
    fn name(self) -> &'static str {
        match self {
            Collector::Fill => "::fill",
            Collector::Use => "::use",
            Collector::LastUse => "::lastuse",
            Collector::Discard => "::discard",
        }
    }
}

/// One matrix instruction: `D = A·B`, plus D where `accumulate` holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mma {
    /// Blocks that take part.
    pub group: CtaGroup,
    /// Formats.
    pub kind: MmaKind,
    /// Address of D in tensor memory.
    pub d: Reg,
    /// First factor.
    pub a: MmaA,
    /// Descriptor of the second factor, 64 bits.
    pub b: Reg,
    /// Instruction descriptor, 32 bits.
    pub idesc: Reg,
    /// Addresses of the scales of A and B in tensor memory; for kinds with scales only.
    pub scales: Option<(Reg, Reg)>,
    /// A truth value, or 0 or 1.
    pub accumulate: Operand,
    /// Buffer of the first factor.
    pub collector: Option<Collector>,
}

/// What a copy to tensor memory copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpShape {
    /// 128 lanes of 32 bytes.
    L128x256b,
    /// 4 lanes of 32 bytes.
    L4x256b,
    /// 128 lanes of 16 bytes.
    L128x128b,
    /// 64 lanes of 16 bytes, for warps 0 and 2, and again for 1 and 3.
    L64x128bWarps02_13,
    /// 64 lanes of 16 bytes, for warps 0 and 1, and again for 2 and 3.
    L64x128bWarps01_23,
    /// 32 lanes of 16 bytes, for each of the four warps: scales.
    L32x128bWarpX4,
}

impl CpShape {
    /// All shapes.
    pub const ALL: &'static [CpShape] = &[
        CpShape::L128x256b,
        CpShape::L4x256b,
        CpShape::L128x128b,
        CpShape::L64x128bWarps02_13,
        CpShape::L64x128bWarps01_23,
        CpShape::L32x128bWarpX4,
    ];
    fn name(self) -> &'static str {
        match self {
            CpShape::L128x256b => ".128x256b",
            CpShape::L4x256b => ".4x256b",
            CpShape::L128x128b => ".128x128b",
            CpShape::L64x128bWarps02_13 => ".64x128b.warpx2::02_13",
            CpShape::L64x128bWarps01_23 => ".64x128b.warpx2::01_23",
            CpShape::L32x128bWarpX4 => ".32x128b.warpx4",
        }
    }
}

/// How a load or store of tensor memory spreads over a warp (PTX ISA 9.7.16.2.3). The repeat is along columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TmemShape {
    /// 32 lanes, one column per repeat.
    S32x32b,
    /// 16 lanes, two columns per repeat.
    S16x64b,
    /// 16 lanes, four columns per repeat.
    S16x128b,
    /// 16 lanes, eight columns per repeat.
    S16x256b,
    /// Twice 16 lanes, the second half this many columns further on.
    S16x32bx2(u32),
}

impl TmemShape {
    /// The name in PTX.
    pub fn name(self) -> &'static str {
        match self {
            TmemShape::S32x32b => ".32x32b",
            TmemShape::S16x64b => ".16x64b",
            TmemShape::S16x128b => ".16x128b",
            TmemShape::S16x256b => ".16x256b",
            TmemShape::S16x32bx2(_) => ".16x32bx2",
        }
    }
    /// Registers of a thread for one repeat.
    pub fn registers(self) -> usize {
        match self {
            TmemShape::S32x32b | TmemShape::S16x64b | TmemShape::S16x32bx2(_) => 1,
            TmemShape::S16x128b => 2,
            TmemShape::S16x256b => 4,
        }
    }
}

/// Instructions of tensor memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tcgen {
    /// Writes the address of the columns to shared memory.
    Alloc {
        group: CtaGroup,
        to: Addr,
        columns: Operand,
    },
    Dealloc {
        group: CtaGroup,
        at: Reg,
        columns: Operand,
    },
    Relinquish {
        group: CtaGroup,
    },
    Mma(Mma),
    /// Weight-stationary: the collector is that of B, of the number given.
    MmaWs {
        mma: Mma,
        buffer: u8,
        zero_columns: Option<Reg>,
    },
    /// `unpack`: 4-bit numbers to bytes.
    Cp {
        group: CtaGroup,
        shape: CpShape,
        unpack: bool,
        to: Reg,
        desc: Reg,
    },
    Commit {
        group: CtaGroup,
        bar: Addr,
        multicast: Option<Operand>,
    },
    Ld {
        shape: TmemShape,
        pack: bool,
        dsts: Vec<Reg>,
        from: Reg,
    },
    St {
        shape: TmemShape,
        unpack: bool,
        to: Reg,
        srcs: Vec<Operand>,
    },
    WaitLd,
    WaitSt,
    FenceBefore,
    FenceAfter,
    /// Lanes down by 32 bytes' worth of rows.
    Shift {
        group: CtaGroup,
        at: Reg,
    },
}

impl Tcgen {
    pub(crate) fn describe(&self, l: &mut Line<'_, '_>) {
        l.name("tcgen05").needs(8, 6, Feature::Sm100Family);
        match self {
            Tcgen::Alloc { group, to, columns } => {
                l.name(".alloc").group(*group, group.name()).name(".sync.aligned.shared::cta.b32");
                l.addr(*to, Window::Shared);
                columns_of(l, *columns);
            }
            Tcgen::Dealloc { group, at, columns } => {
                l.name(".dealloc").group(*group, group.name()).name(".sync.aligned.b32").reg(*at, Ty::U32);
                columns_of(l, *columns);
            }
            Tcgen::Relinquish { group } => {
                l.name(".relinquish_alloc_permit").group(*group, group.name()).name(".sync.aligned");
            }
            Tcgen::Mma(mma) => {
                l.name(".mma");
                multiply(l, mma, None);
            }
            Tcgen::MmaWs { mma, buffer, zero_columns } => {
                l.name(".mma.ws").rule(mma.group == CtaGroup::One, "pairs have no weight-stationary form");
                l.rule(!mma.kind.scaled(), "the weight-stationary form takes no scales");
                l.rule(*buffer < 4, "B has four buffers");
                multiply(l, mma, Some(*buffer));
                if let Some(mask) = zero_columns {
                    l.reg(*mask, Ty::B64);
                }
            }
            Tcgen::Cp { group, shape, unpack, to, desc } => {
                l.name(".cp").group(*group, group.name()).name(shape.name());
                l.name(if *unpack { ".b8x16.b4x16_p64" } else { "" });
                l.addr(to.at(0), Window::Tensor).reg(*desc, Ty::U64);
            }
            Tcgen::Commit { group, bar, multicast } => {
                l.name(".commit").group(*group, group.name());
                l.name(".mbarrier::arrive::one.shared::cluster");
                l.name(if multicast.is_some() { ".multicast::cluster" } else { "" }).name(".b64");
                l.addr(*bar, Window::Shared);
                if let Some(mask) = multicast {
                    l.src(*mask, Ty::U16);
                }
            }
            Tcgen::Ld { shape, pack, dsts, from } => {
                let n = repeat(l, ".ld", *shape, dsts.len());
                l.name(n).name(if *pack { ".pack::16b" } else { "" }).name(".b32");
                l.dsts(dsts, Ty::B32).addr(from.at(0), Window::Tensor);
                if let TmemShape::S16x32bx2(split) = shape {
                    l.number((*split).into());
                }
            }
            Tcgen::St { shape, unpack, to, srcs } => {
                let n = repeat(l, ".st", *shape, srcs.len());
                l.name(n).name(if *unpack { ".unpack::16b" } else { "" }).name(".b32");
                l.addr(to.at(0), Window::Tensor);
                if let TmemShape::S16x32bx2(split) = shape {
                    l.number((*split).into());
                }
                l.srcs(srcs, Ty::B32);
            }
            Tcgen::WaitLd => {
                l.name(".wait::ld.sync.aligned");
            }
            Tcgen::WaitSt => {
                l.name(".wait::st.sync.aligned");
            }
            Tcgen::FenceBefore => {
                l.name(".fence::before_thread_sync");
            }
            Tcgen::FenceAfter => {
                l.name(".fence::after_thread_sync");
            }
            Tcgen::Shift { group, at } => {
                l.name(".shift").group(*group, group.name()).name(".down").needs(8, 6, Feature::Sm100Own);
                l.addr(at.at(0), Window::Tensor);
            }
        }
    }
}

fn columns_of(l: &mut Line<'_, '_>, columns: Operand) {
    let legal = columns.int().is_none_or(|v| matches!(v, 32 | 64 | 128 | 256 | 512));
    l.rule(legal, "32, 64, 128, 256 or 512 columns").src(columns, Ty::U32);
}

/// Begins a load or store and gives the repeat of `registers` registers.
fn repeat(l: &mut Line<'_, '_>, name: &str, shape: TmemShape, registers: usize) -> &'static str {
    l.name(name).name(".sync.aligned").name(shape.name());
    let per = shape.registers();
    let names = [".x1", ".x2", ".x4", ".x8", ".x16", ".x32", ".x64", ".x128"];
    let n = registers / per;
    let legal = n.is_power_of_two() && n * per == registers && registers <= 128;
    l.rule(legal, "a power of two of repeats, 128 registers at most");
    names.get(n.max(1).trailing_zeros() as usize).copied().unwrap_or(".x128")
}

/// All of a matrix instruction after its first words.
fn multiply(l: &mut Line<'_, '_>, mma: &Mma, buffer: Option<u8>) {
    l.group(mma.group, mma.group.name()).name(mma.kind.name());
    let target = l.target();
    l.name(mma.kind.scale(target));
    if mma.kind.scaled() && target == Target::Sm100f {
        l.needs(8, 8, Feature::Sm100Family);
    }
    if mma.kind == MmaKind::I8 {
        l.needs(8, 6, Feature::Sm100Own);
    }
    if mma.kind == MmaKind::Mxf4nvf4 {
        l.needs(8, 7, Feature::Sm100Family);
    }
    if let Some(collector) = mma.collector {
        l.name(match buffer {
            None => ".collector::a",
            Some(0) => ".collector::b0",
            Some(1) => ".collector::b1",
            Some(2) => ".collector::b2",
            Some(_) => ".collector::b3",
        });
        l.name(collector.name());
    }
    l.rule(mma.kind.scaled() == mma.scales.is_some(), "scales go with kinds that have scales");
    l.addr(mma.d.at(0), Window::Tensor);
    match mma.a {
        MmaA::Shared(desc) => l.reg(desc, Ty::U64),
        MmaA::Tensor(at) => l.addr(at.at(0), Window::Tensor),
    };
    l.reg(mma.b, Ty::U64).reg(mma.idesc, Ty::U32);
    if let Some((a, b)) = mma.scales {
        l.addr(a.at(0), Window::Tensor).addr(b.at(0), Window::Tensor);
    }
    l.src(mma.accumulate, Ty::Pred);
}
