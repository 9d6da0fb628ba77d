//! Loads, stores, atomics, and matrix loads and stores of one warp.

use super::barrier::Scope;
use super::line::{Line, Window};
use super::operand::{Addr, Operand, Reg};
use super::target::Feature;
use super::ty::{Class, Ty};

/// An address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Device memory; 64-bit addresses.
    Global,
    /// Shared memory of the own block; 32-bit addresses.
    Shared,
    /// Shared memory of any block of the cluster; 32-bit addresses made by `mapa`.
    Cluster,
    /// Parameters of the entry, by name.
    Param,
}

impl Space {
    fn name(self) -> &'static str {
        match self {
            Space::Global => ".global",
            Space::Shared => ".shared",
            Space::Cluster => ".shared::cluster",
            Space::Param => ".param",
        }
    }
    /// Appends the name.
    fn print<'l, 'a, 'p>(self, l: &'l mut Line<'a, 'p>) -> &'l mut Line<'a, 'p> {
        if self == Space::Cluster {
            l.needs(7, 8, Feature::Sm90);
        }
        l.name(self.name())
    }
    pub(crate) fn window(self) -> Window {
        match self {
            Space::Global => Window::Wide,
            Space::Shared | Space::Cluster => Window::Shared,
            Space::Param => Window::Param,
        }
    }
}

/// What an access promises to other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Nothing.
    Weak,
    /// No order.
    Relaxed(Scope),
    /// Loads: what was released before is seen.
    Acquire(Scope),
    /// Stores: what came before is seen by who acquires.
    Release(Scope),
    /// Atomics: both.
    AcqRel(Scope),
    /// Every access happens as written.
    Volatile,
}

impl Visibility {
    fn print(self, l: &mut Line<'_, '_>) {
        let (name, scope) = match self {
            Visibility::Weak => ("", None),
            Visibility::Volatile => (".volatile", None),
            Visibility::Relaxed(s) => (".relaxed", Some(s)),
            Visibility::Acquire(s) => (".acquire", Some(s)),
            Visibility::Release(s) => (".release", Some(s)),
            Visibility::AcqRel(s) => (".acq_rel", Some(s)),
        };
        l.name(name).name(scope.map_or("", Scope::name));
        if scope == Some(Scope::Cluster) {
            l.needs(7, 8, Feature::Sm90);
        }
    }
}

/// How a line is kept in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// As usual.
    Normal,
    /// Goes first.
    First,
    /// Goes last.
    Last,
    /// Not kept; first level only.
    NoAllocate,
}

/// Bytes around the address that the second-level cache fetches too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
}

/// What atomics do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomOp {
    /// Sum.
    Add,
    /// Smaller.
    Min,
    /// Larger.
    Max,
    /// Bits in both.
    And,
    /// Bits in one.
    Or,
    /// Bits in exactly one.
    Xor,
    /// The new value.
    Exch,
    /// 0 once the bound is reached, else one more.
    Inc,
}

impl AtomOp {
    fn name(self) -> &'static str {
        match self {
            AtomOp::Add => ".add",
            AtomOp::Min => ".min",
            AtomOp::Max => ".max",
            AtomOp::And => ".and",
            AtomOp::Or => ".or",
            AtomOp::Xor => ".xor",
            AtomOp::Exch => ".exch",
            AtomOp::Inc => ".inc",
        }
    }
    fn takes(self, ty: Ty) -> bool {
        let int = matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64);
        match self {
            AtomOp::Add => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::F32 | Ty::F64),
            AtomOp::Min | AtomOp::Max => int,
            AtomOp::And | AtomOp::Or | AtomOp::Xor | AtomOp::Exch => matches!(ty, Ty::B32 | Ty::B64),
            AtomOp::Inc => ty == Ty::U32,
        }
    }
}

/// Hints of a load or store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Hints {
    /// The data doesn't change while the kernel runs; global loads only.
    pub(crate) constant: bool,
    pub(crate) l1: Option<Evict>,
    pub(crate) l2: Option<Prefetch>,
    /// A policy of the second-level cache.
    pub(crate) policy: Option<Operand>,
}

/// Memory instructions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Memory {
    Load {
        space: Space,
        see: Visibility,
        hints: Hints,
        ty: Ty,
        dsts: Vec<Reg>,
        addr: Addr,
    },
    Store {
        space: Space,
        see: Visibility,
        hints: Hints,
        ty: Ty,
        addr: Addr,
        srcs: Vec<Operand>,
    },
    Atom {
        space: Space,
        see: Visibility,
        op: AtomOp,
        ty: Ty,
        dst: Reg,
        addr: Addr,
        src: Operand,
    },
    /// Compare and swap.
    Cas {
        space: Space,
        see: Visibility,
        ty: Ty,
        dst: Reg,
        addr: Addr,
        old: Operand,
        new: Operand,
    },
    Red {
        space: Space,
        see: Visibility,
        op: AtomOp,
        ty: Ty,
        addr: Addr,
        srcs: Vec<Operand>,
    },
    /// Sum of pairs of bfloat16.
    RedBf16x2 {
        addr: Addr,
        src: Operand,
    },
    /// The generic address of a place among the parameters, given by its address there.
    Generic {
        dst: Reg,
        param: Operand,
    },
    /// The address of the own block's `addr` in block `rank` of the cluster.
    Mapa {
        dst: Reg,
        addr: Operand,
        rank: Operand,
    },
    /// `wide`: 8×8 tiles of 16 bits; else 16×8 tiles of bytes, transposed.
    LdMatrix {
        trans: bool,
        dsts: Vec<Reg>,
        addr: Addr,
    },
    StMatrix {
        bytes: bool,
        trans: bool,
        addr: Addr,
        srcs: Vec<Operand>,
    },
    /// Copies 4, 8 or 16 bytes to shared memory; bytes past `valid` become 0.
    CpAsync {
        bytes: u8,
        dst: Addr,
        src: Addr,
        valid: Option<Operand>,
    },
    CpAsyncCommit,
    CpAsyncWait(u8),
    /// An arrival when the thread's copies so far are done, counted in the barrier's expected count.
    CpAsyncArrive(Addr),
    PrefetchL2(Addr),
}

const NO_FORM: &str = "no such form for this type or space";

impl Memory {
    pub(crate) fn describe(&self, l: &mut Line<'_, '_>) {
        match self {
            Memory::Load { space, see, hints, ty, dsts, addr } => {
                l.name("ld");
                let legal = matches!(see, Visibility::Weak | Visibility::Volatile)
                    || matches!(see, Visibility::Relaxed(_) | Visibility::Acquire(_));
                l.rule(legal, "loads acquire, they don't release");
                see.print(l);
                space.print(l);
                l.rule(!hints.constant || (*space == Space::Global && *see == Visibility::Weak), NO_FORM);
                hints.print(l, *space, true);
                vector(l, *space, *ty, dsts.len());
                l.ty(*ty);
                match dsts.as_slice() {
                    [one] => l.dst(*one, carrier(*ty, *one)),
                    many => l.dsts(many, *ty),
                };
                l.addr(*addr, space.window());
                hints.operand(l);
            }
            Memory::Store { space, see, hints, ty, addr, srcs } => {
                l.name("st");
                let legal = matches!(see, Visibility::Weak | Visibility::Volatile)
                    || matches!(see, Visibility::Relaxed(_) | Visibility::Release(_));
                l.rule(legal, "stores release, they don't acquire");
                see.print(l);
                space.print(l).rule(*space != Space::Param, "parameters can't be written");
                hints.print(l, *space, false);
                vector(l, *space, *ty, srcs.len());
                l.ty(*ty).addr(*addr, space.window());
                match srcs.as_slice() {
                    [Operand::Reg(one)] => l.reg(*one, carrier(*ty, *one)),
                    [one] => l.src(*one, *ty),
                    many => l.srcs(many, *ty),
                };
                hints.operand(l);
            }
            Memory::Atom { space, see, op, ty, dst, addr, src } => {
                l.name("atom");
                see.print(l);
                space.print(l).name(op.name()).ty(*ty);
                l.rule(*space != Space::Param && op.takes(*ty), NO_FORM);
                l.dst(*dst, *ty).addr(*addr, space.window()).src(*src, *ty);
            }
            Memory::Cas { space, see, ty, dst, addr, old, new } => {
                l.name("atom");
                see.print(l);
                space.print(l).name(".cas").ty(*ty);
                l.rule(*space != Space::Param && matches!(ty, Ty::B16 | Ty::B32 | Ty::B64), NO_FORM);
                l.dst(*dst, *ty).addr(*addr, space.window()).src(*old, *ty).src(*new, *ty);
            }
            Memory::Red { space, see, op, ty, addr, srcs } => {
                l.name("red");
                see.print(l);
                space.print(l);
                let one = srcs.len() == 1;
                let vector = *space == Space::Global
                    && *ty == Ty::F32
                    && *op == AtomOp::Add
                    && [2, 4].contains(&srcs.len());
                l.rule(*space != Space::Param && *op != AtomOp::Exch && op.takes(*ty), NO_FORM);
                l.rule(one || vector, "only sums of f32 in global memory have vectors, of 2 or 4");
                if one {
                    l.name(op.name()).ty(*ty).addr(*addr, space.window()).src(srcs[0], *ty);
                } else {
                    l.name(if srcs.len() == 2 { ".v2" } else { ".v4" }).ty(*ty).name(op.name());
                    l.needs(8, 1, Feature::Sm90).addr(*addr, space.window()).srcs(srcs, *ty);
                }
            }
            Memory::RedBf16x2 { addr, src } => {
                l.name("red.global.add.noftz.bf16x2").needs(7, 8, Feature::Sm90);
                l.addr(*addr, Window::Wide).src(*src, Ty::Bf16x2);
            }
            Memory::Generic { dst, param } => {
                l.name("cvta.param.u64").needs(7, 7, Feature::Sm80);
                l.dst(*dst, Ty::U64).src(*param, Ty::U64);
            }
            Memory::Mapa { dst, addr, rank } => {
                l.name("mapa.shared::cluster.u32").needs(7, 8, Feature::Sm90);
                l.dst(*dst, Ty::U32).src(*addr, Ty::U32).src(*rank, Ty::U32);
            }
            Memory::LdMatrix { trans, dsts, addr } => {
                l.name("ldmatrix.sync.aligned.m8n8").name(matrices(dsts.len()));
                l.rule([1, 2, 4].contains(&dsts.len()), "1, 2 or 4 tiles");
                l.name(if *trans { ".trans" } else { "" }).name(".shared.b16");
                l.dsts(dsts, Ty::B32).addr(*addr, Window::Shared);
            }
            Memory::StMatrix { bytes, trans, addr, srcs } => {
                l.name("stmatrix.sync.aligned").name(if *bytes { ".m16n8" } else { ".m8n8" });
                l.name(matrices(srcs.len())).rule([1, 2, 4].contains(&srcs.len()), "1, 2 or 4 tiles");
                l.name(if *trans { ".trans" } else { "" }).name(".shared");
                l.name(if *bytes { ".b8" } else { ".b16" });
                l.rule(*trans || !*bytes, "tiles of bytes are stored transposed");
                if *bytes {
                    l.needs(8, 6, Feature::Sm100Family);
                } else {
                    l.needs(7, 8, Feature::Sm90);
                }
                l.addr(*addr, Window::Shared).srcs(srcs, Ty::B32);
            }
            Memory::CpAsync { bytes, dst, src, valid } => {
                l.name(if *bytes == 16 { "cp.async.cg.shared.global" } else { "cp.async.ca.shared.global" });
                l.rule([4, 8, 16].contains(bytes), "copies have 4, 8 or 16 bytes");
                l.addr(*dst, Window::Shared).addr(*src, Window::Wide).number((*bytes).into());
                if let Some(valid) = valid {
                    l.src(*valid, Ty::U32);
                }
            }
            Memory::CpAsyncCommit => {
                l.name("cp.async.commit_group");
            }
            Memory::CpAsyncWait(n) => {
                l.name("cp.async.wait_group").number((*n).into());
            }
            Memory::CpAsyncArrive(bar) => {
                l.name("cp.async.mbarrier.arrive.noinc.shared::cta.b64")
                    .needs(7, 8, Feature::Sm80)
                    .addr(*bar, Window::Shared);
            }
            Memory::PrefetchL2(addr) => {
                l.name("prefetch.global.L2").addr(*addr, Window::Wide);
            }
        }
    }
}

impl Hints {
    fn print(&self, l: &mut Line<'_, '_>, space: Space, load: bool) {
        let any = self.l1.is_some() || self.l2.is_some() || self.policy.is_some();
        l.rule(!any || space == Space::Global, "only global memory has cache hints");
        if any {
            l.needs(7, 4, Feature::Sm80);
        }
        l.name(if self.constant { ".nc" } else { "" });
        l.name(match self.l1 {
            None => "",
            Some(Evict::Normal) => ".L1::evict_normal",
            Some(Evict::First) => ".L1::evict_first",
            Some(Evict::Last) => ".L1::evict_last",
            Some(Evict::NoAllocate) => ".L1::no_allocate",
        });
        l.name(if self.policy.is_some() { ".L2::cache_hint" } else { "" });
        l.rule(load || self.l2.is_none(), "stores prefetch nothing");
        l.name(match self.l2 {
            None => "",
            Some(Prefetch::B64) => ".L2::64B",
            Some(Prefetch::B128) => ".L2::128B",
            Some(Prefetch::B256) => ".L2::256B",
        });
    }
    fn operand(&self, l: &mut Line<'_, '_>) {
        if let Some(policy) = self.policy {
            l.src(policy, Ty::B64);
        }
    }
}

/// The type under which a register holds a loaded or stored value: bytes and half words may lie in wider integer registers
/// (PTX ISA, "Operand Size Exceeding Instruction-Type Size").
fn carrier(ty: Ty, reg: Reg) -> Ty {
    let narrow = matches!(ty, Ty::B8 | Ty::U8 | Ty::S8 | Ty::B16 | Ty::U16 | Ty::S16);
    let wide = matches!(reg.class, Class::B16 | Class::B32 | Class::B64) && reg.class.bits() > ty.bits();
    if narrow && wide { Ty::bits_of(reg.class) } else { ty }
}

/// The vector part of a load or store of `n` elements: at most 16 bytes, 32 in global memory.
fn vector(l: &mut Line<'_, '_>, space: Space, ty: Ty, n: usize) {
    let name = match n {
        1 => "",
        2 => ".v2",
        4 => ".v4",
        _ => ".v8",
    };
    let bits = ty.bits() as usize * n;
    l.name(name).rule([1, 2, 4, 8].contains(&n), "vectors have 2, 4 or 8 elements");
    if bits > 128 {
        l.rule(space == Space::Global && bits == 256, "at most 16 bytes, 32 in global memory");
        l.needs(8, 8, Feature::Sm100);
    } else {
        l.rule(n < 8, "eight elements have 32 bytes");
    }
    l.rule(n == 1 || ty != Ty::B128, "128-bit elements have no vectors");
    if ty == Ty::B128 {
        l.needs(8, 3, Feature::Sm80);
    }
    l.rule(ty != Ty::Pred && (!ty.is_float() || matches!(ty, Ty::F32 | Ty::F64)), NO_FORM);
}

fn matrices(n: usize) -> &'static str {
    match n {
        1 => ".x1",
        2 => ".x2",
        _ => ".x4",
    }
}
