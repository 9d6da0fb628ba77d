//! Barriers of blocks and clusters, barriers in shared memory, fences.

use super::line::{Line, Window};
use super::operand::{Addr, Operand, Reg};
use super::target::Feature;
use super::ty::Ty;

/// Which threads a promise concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The block.
    Cta,
    /// The cluster.
    Cluster,
    /// The device.
    Gpu,
    /// All devices and the host.
    Sys,
}

impl Scope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scope::Cta => ".cta",
            Scope::Cluster => ".cluster",
            Scope::Gpu => ".gpu",
            Scope::Sys => ".sys",
        }
    }
}

/// Which ordinary writes asynchronous copies and matrix instructions then see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceProxy {
    /// All.
    All,
    /// To the block's shared memory.
    SharedCta,
    /// To global memory.
    Global,
}

/// Which state a wait on a shared-memory barrier sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// What threads of the block released.
    Cta,
    /// What threads of the cluster released.
    Cluster,
    /// Nothing but the phase.
    Nothing,
}

/// Barrier instructions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Barrier {
    /// All threads, or `count` of them, meet.
    Sync {
        id: Operand,
        count: Option<Operand>,
    },
    Arrive {
        id: Operand,
        count: Operand,
    },
    /// Meets and tells whether the truth value held in any (all) of the threads.
    Red {
        any: bool,
        dst: Reg,
        id: Operand,
        count: Option<Operand>,
        p: Reg,
    },
    /// Meets and counts the threads in which the truth value held.
    Popc {
        dst: Reg,
        id: Operand,
        count: Option<Operand>,
        p: Reg,
    },
    ClusterArrive {
        relaxed: bool,
    },
    ClusterWait,
    FenceAcqRel(Scope),
    /// Barriers are initialised, as seen by the cluster.
    FenceInit,
    FenceProxy(FenceProxy),
    Init {
        bar: Addr,
        count: u32,
    },
    Inval {
        bar: Addr,
    },
    ExpectTx {
        bar: Addr,
        bytes: Operand,
    },
    MbarArrive {
        remote: bool,
        bar: Addr,
        count: Option<u32>,
    },
    ArriveExpectTx {
        remote: bool,
        bar: Addr,
        bytes: Operand,
    },
    Test {
        spin: bool,
        seen: Seen,
        dst: Reg,
        bar: Addr,
        parity: Operand,
    },
}

impl Barrier {
    pub(crate) fn describe(&self, l: &mut Line<'_, '_>) {
        match self {
            Barrier::Sync { id, count } => {
                l.name("bar.sync");
                meeting(l, *id, *count);
            }
            Barrier::Arrive { id, count } => {
                l.name("bar.arrive");
                meeting(l, *id, Some(*count));
            }
            Barrier::Red { any, dst, id, count, p } => {
                l.name(if *any { "bar.red.or.pred" } else { "bar.red.and.pred" }).dst(*dst, Ty::Pred);
                meeting(l, *id, *count);
                l.pred(*p, true);
            }
            Barrier::Popc { dst, id, count, p } => {
                l.name("bar.red.popc.u32").dst(*dst, Ty::U32);
                meeting(l, *id, *count);
                l.pred(*p, true);
            }
            Barrier::ClusterArrive { relaxed } => {
                l.name("barrier.cluster.arrive").name(if *relaxed { ".relaxed" } else { ".release" });
                l.name(".aligned").needs(8, 0, Feature::Sm90);
            }
            Barrier::ClusterWait => {
                l.name("barrier.cluster.wait.acquire.aligned").needs(8, 0, Feature::Sm90);
            }
            Barrier::FenceAcqRel(scope) => {
                l.name("fence.acq_rel").name(scope.name());
                if *scope == Scope::Cluster {
                    l.needs(7, 8, Feature::Sm90);
                }
            }
            Barrier::FenceInit => {
                l.name("fence.mbarrier_init.release.cluster").needs(8, 0, Feature::Sm90);
            }
            Barrier::FenceProxy(which) => {
                l.needs(8, 0, Feature::Sm90).name("fence.proxy.async").name(match which {
                    FenceProxy::All => "",
                    FenceProxy::SharedCta => ".shared::cta",
                    FenceProxy::Global => ".global",
                });
            }
            Barrier::Init { bar, count } => {
                l.name("mbarrier.init.shared::cta.b64").needs(7, 8, Feature::Sm80);
                l.rule((1..1 << 20).contains(count), "barriers count 1 to 2^20 - 1");
                l.addr(*bar, Window::Shared).number((*count).into());
            }
            Barrier::Inval { bar } => {
                l.name("mbarrier.inval.shared::cta.b64").needs(7, 8, Feature::Sm80);
                l.addr(*bar, Window::Shared);
            }
            Barrier::ExpectTx { bar, bytes } => {
                l.name("mbarrier.expect_tx.relaxed.cta.shared::cta.b64").needs(8, 0, Feature::Sm90);
                l.addr(*bar, Window::Shared);
                transfer(l, *bytes);
            }
            Barrier::MbarArrive { remote, bar, count } => {
                l.name(if *remote {
                    "mbarrier.arrive.release.cluster.shared::cluster.b64"
                } else {
                    "mbarrier.arrive.shared::cta.b64"
                });
                if *remote {
                    l.needs(8, 0, Feature::Sm90);
                } else {
                    l.needs(7, 8, Feature::Sm80);
                }
                l.literal("_").addr(*bar, Window::Shared);
                if let Some(count) = count {
                    l.variant("count").needs(7, 8, Feature::Sm90);
                    l.rule((1..1 << 20).contains(count), "barriers count 1 to 2^20 - 1");
                    l.number((*count).into());
                }
            }
            Barrier::ArriveExpectTx { remote, bar, bytes } => {
                l.name("mbarrier.arrive.expect_tx").needs(8, 0, Feature::Sm90);
                l.name(if *remote { ".release.cluster.shared::cluster.b64" } else { ".shared::cta.b64" });
                l.literal("_").addr(*bar, Window::Shared);
                transfer(l, *bytes);
            }
            Barrier::Test { spin, seen, dst, bar, parity } => {
                l.name(if *spin { "mbarrier.try_wait.parity" } else { "mbarrier.test_wait.parity" });
                l.name(match seen {
                    Seen::Cta => "",
                    Seen::Cluster => ".acquire.cluster",
                    Seen::Nothing => ".relaxed.cluster",
                });
                l.name(".shared::cta.b64");
                match seen {
                    Seen::Cta if *spin => l.needs(7, 8, Feature::Sm90),
                    Seen::Cta => l.needs(7, 8, Feature::Sm80),
                    Seen::Cluster => l.needs(8, 0, Feature::Sm90),
                    Seen::Nothing => l.needs(8, 6, Feature::Sm90),
                };
                l.dst(*dst, Ty::Pred).addr(*bar, Window::Shared).src(*parity, Ty::U32);
            }
        }
    }
}

/// Barrier number and thread count.
fn meeting(l: &mut Line<'_, '_>, id: Operand, count: Option<Operand>) {
    let legal = id.int().is_none_or(|v| (0..16).contains(&v));
    l.rule(legal, "blocks have barriers 0 to 15").src(id, Ty::U32);
    if let Some(count) = count {
        let legal = count.int().is_none_or(|v| v > 0 && v % 32 == 0);
        l.rule(legal, "whole warps meet").src(count, Ty::U32);
    }
}

/// Bytes that a barrier expects.
fn transfer(l: &mut Line<'_, '_>, bytes: Operand) {
    let legal = bytes.int().is_none_or(|v| (0..1 << 20).contains(&v));
    l.rule(legal, "barriers expect less than 2^20 bytes").src(bytes, Ty::U32);
}
