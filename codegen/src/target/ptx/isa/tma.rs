//! Bulk copies: tiles of tensors by map, plain bytes, and cancelled launches.

use super::line::{Line, Window};
use super::operand::{Addr, Operand, Reg};
use super::target::Feature;
use super::ty::Ty;

/// Where a bulk load goes and what it tells the cache. The default: the own block, no hint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BulkLoad {
    /// Destination and barrier are addresses of the cluster's shared memory; the own block's are such too.
    pub cluster: bool,
    /// Blocks of the cluster that get the data at the same offset, as a 16-bit mask; each block's barrier at the
    /// same offset counts what arrives there.
    pub multicast: Option<Operand>,
    /// The barrier may be that of the other block of the pair.
    pub pair: bool,
    /// A policy of the second-level cache, 64 bits.
    pub policy: Option<Operand>,
}

impl BulkLoad {
    /// The suffixes after the completion mechanism.
    fn print(&self, l: &mut Line<'_, '_>) {
        l.name(if self.multicast.is_some() { ".multicast::cluster" } else { "" });
        l.name(if self.pair { ".cta_group::2" } else { "" });
        l.name(if self.policy.is_some() { ".L2::cache_hint" } else { "" });
        l.rule(self.cluster || self.multicast.is_none(), "multicast goes to the cluster's shared memory");
        l.rule(self.cluster || !self.pair, "pairs share barriers of the cluster's shared memory");
        if self.multicast.is_some() {
            l.needs(8, 0, Feature::Sm90Own);
        }
        if self.pair {
            l.needs(8, 6, Feature::Sm100Family);
        }
    }
    fn operands(&self, l: &mut Line<'_, '_>) {
        if let Some(mask) = self.multicast {
            l.src(mask, Ty::U16);
        }
        if let Some(policy) = self.policy {
            l.src(policy, Ty::B64);
        }
    }
    fn space(&self, l: &mut Line<'_, '_>) {
        if self.cluster {
            l.name(".shared::cluster").needs(8, 0, Feature::Sm90);
        } else {
            l.name(".shared::cta").needs(8, 6, Feature::Sm90);
        }
    }
}

/// Bulk copy instructions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bulk {
    /// A box of a tensor to shared memory; `gather`: four rows, coordinates column and rows.
    TensorLoad {
        gather: bool,
        to: BulkLoad,
        dst: Addr,
        map: Reg,
        at: Vec<Operand>,
        bar: Addr,
    },
    /// A box to a tensor; `scatter`: four rows.
    TensorStore {
        scatter: bool,
        policy: Option<Operand>,
        map: Reg,
        at: Vec<Operand>,
        src: Addr,
    },
    /// Adds a box to a tensor.
    TensorAdd {
        map: Reg,
        at: Vec<Operand>,
        src: Addr,
    },
    TensorPrefetch {
        map: Reg,
        at: Vec<Operand>,
    },
    /// Bytes of device memory to shared memory.
    Load {
        to: BulkLoad,
        dst: Addr,
        src: Addr,
        bytes: Operand,
        bar: Addr,
    },
    /// Bytes of the own shared memory to another block's.
    ToCluster {
        dst: Addr,
        src: Addr,
        bytes: Operand,
        bar: Addr,
    },
    Store {
        policy: Option<Operand>,
        dst: Addr,
        src: Addr,
        bytes: Operand,
    },
    /// Adds f32 to device memory.
    AddF32 {
        dst: Addr,
        src: Addr,
        bytes: Operand,
    },
    /// Fetches bytes into the second-level cache.
    Prefetch {
        src: Addr,
        bytes: Operand,
    },
    Commit,
    /// Waits until at most `n` groups are under way; `read`: until they have read their sources.
    Wait {
        n: u8,
        read: bool,
    },
    /// Fetches the tensor map at a generic address.
    PrefetchMap(Reg),
    /// 32-bit words to another block, counted by its barrier.
    StAsync {
        dst: Addr,
        srcs: Vec<Operand>,
        bar: Addr,
    },
    /// Asks for a cluster that has not been launched yet; the answer has 16 bytes.
    TryCancel {
        multicast: bool,
        dst: Addr,
        bar: Addr,
    },
    /// Whether there is such a cluster.
    IsCanceled {
        dst: Reg,
        answer: Reg,
    },
    /// Its first block.
    FirstCta {
        dsts: [Reg; 3],
        answer: Reg,
    },
}

const COMPLETE: &str = ".mbarrier::complete_tx::bytes";

impl Bulk {
    pub(crate) fn describe(&self, l: &mut Line<'_, '_>) {
        match self {
            Bulk::TensorLoad { gather, to, dst, map, at, bar } => {
                l.name("cp.async.bulk.tensor").name(rank(*gather, at.len()));
                to.space(l);
                l.name(".global").name(if *gather { ".tile::gather4" } else { ".tile" }).name(COMPLETE);
                if *gather {
                    if to.cluster {
                        l.needs(8, 6, Feature::Sm100Family);
                    } else {
                        l.needs(8, 6, Feature::Sm100);
                    }
                }
                to.print(l);
                coordinates(l, *gather, at.len());
                l.addr(*dst, Window::Shared).tensor(*map, at).addr(*bar, Window::Shared);
                to.operands(l);
            }
            Bulk::TensorStore { scatter, policy, map, at, src } => {
                l.name("cp.async.bulk.tensor").name(rank(*scatter, at.len())).name(".global.shared::cta");
                l.name(if *scatter { ".tile::scatter4" } else { ".tile" }).name(".bulk_group");
                if *scatter {
                    l.needs(8, 6, Feature::Sm100Family);
                } else {
                    l.needs(8, 0, Feature::Sm90);
                }
                coordinates(l, *scatter, at.len());
                hint(l, *policy).tensor(*map, at).addr(*src, Window::Shared);
                hint_operand(l, *policy);
            }
            Bulk::TensorAdd { map, at, src } => {
                l.name("cp.reduce.async.bulk.tensor").name(rank(false, at.len()));
                l.name(".global.shared::cta.add.tile.bulk_group").needs(8, 0, Feature::Sm90);
                coordinates(l, false, at.len());
                l.tensor(*map, at).addr(*src, Window::Shared);
            }
            Bulk::TensorPrefetch { map, at } => {
                l.name("cp.async.bulk.prefetch.tensor").name(rank(false, at.len()));
                l.name(".L2.global.tile").needs(8, 0, Feature::Sm90);
                coordinates(l, false, at.len());
                l.tensor(*map, at);
            }
            Bulk::Load { to, dst, src, bytes, bar } => {
                l.name("cp.async.bulk");
                to.space(l);
                l.name(".global").name(COMPLETE).rule(!to.pair, "only tensors are loaded for pairs");
                to.print(l);
                l.addr(*dst, Window::Shared).addr(*src, Window::Wide);
                size(l, *bytes).addr(*bar, Window::Shared);
                to.operands(l);
            }
            Bulk::ToCluster { dst, src, bytes, bar } => {
                l.name("cp.async.bulk.shared::cluster.shared::cta").name(COMPLETE).needs(8, 0, Feature::Sm90);
                l.addr(*dst, Window::Shared).addr(*src, Window::Shared);
                size(l, *bytes).addr(*bar, Window::Shared);
            }
            Bulk::Store { policy, dst, src, bytes } => {
                l.name("cp.async.bulk.global.shared::cta.bulk_group").needs(8, 0, Feature::Sm90);
                hint(l, *policy).addr(*dst, Window::Wide).addr(*src, Window::Shared);
                size(l, *bytes);
                hint_operand(l, *policy);
            }
            Bulk::AddF32 { dst, src, bytes } => {
                l.name("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32");
                l.needs(8, 0, Feature::Sm90).addr(*dst, Window::Wide).addr(*src, Window::Shared);
                size(l, *bytes);
            }
            Bulk::Prefetch { src, bytes } => {
                l.name("cp.async.bulk.prefetch.L2.global").needs(8, 0, Feature::Sm90);
                size(l.addr(*src, Window::Wide), *bytes);
            }
            Bulk::Commit => {
                l.name("cp.async.bulk.commit_group").needs(8, 0, Feature::Sm90);
            }
            Bulk::Wait { n, read } => {
                l.name("cp.async.bulk.wait_group").name(if *read { ".read" } else { "" });
                l.needs(8, 0, Feature::Sm90).number((*n).into());
            }
            Bulk::PrefetchMap(map) => {
                l.name("prefetch.tensormap").needs(8, 0, Feature::Sm90).addr(map.at(0), Window::Wide);
            }
            Bulk::StAsync { dst, srcs, bar } => {
                l.name("st.async.shared::cluster").name(COMPLETE).needs(8, 1, Feature::Sm90);
                l.rule([1, 2, 4].contains(&srcs.len()), "1, 2 or 4 words");
                l.name(match srcs.len() {
                    1 => ".b32",
                    2 => ".v2.b32",
                    _ => ".v4.b32",
                });
                l.addr(*dst, Window::Shared);
                match srcs.as_slice() {
                    [one] => l.src(*one, Ty::B32),
                    many => l.srcs(many, Ty::B32),
                };
                l.addr(*bar, Window::Shared);
            }
            Bulk::TryCancel { multicast, dst, bar } => {
                l.name("clusterlaunchcontrol.try_cancel.async.shared::cta").name(COMPLETE);
                if *multicast {
                    l.name(".multicast::cluster::all").needs(8, 6, Feature::Sm100Family);
                } else {
                    l.needs(8, 6, Feature::Sm100);
                }
                l.name(".b128").addr(*dst, Window::Shared).addr(*bar, Window::Shared);
            }
            Bulk::IsCanceled { dst, answer } => {
                l.name("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128");
                l.needs(8, 6, Feature::Sm100).dst(*dst, Ty::Pred).reg(*answer, Ty::B128);
            }
            Bulk::FirstCta { dsts: [x, y, z], answer } => {
                l.name("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128");
                l.needs(8, 6, Feature::Sm100);
                l.dsts_and_sink(&[*x, *y, *z], Ty::B32).reg(*answer, Ty::B128);
            }
        }
    }
}

fn rank(rows: bool, coordinates: usize) -> &'static str {
    match coordinates {
        _ if rows => ".2d",
        1 => ".1d",
        2 => ".2d",
        3 => ".3d",
        4 => ".4d",
        _ => ".5d",
    }
}

fn coordinates(l: &mut Line<'_, '_>, rows: bool, n: usize) {
    l.rule((1..=5).contains(&n), "tensors have 1 to 5 dimensions");
    l.rule(!rows || n == 5, "four rows are named by a column and four rows");
}

fn hint<'l, 'a, 'p>(l: &'l mut Line<'a, 'p>, policy: Option<Operand>) -> &'l mut Line<'a, 'p> {
    l.name(if policy.is_some() { ".L2::cache_hint" } else { "" })
}

fn hint_operand(l: &mut Line<'_, '_>, policy: Option<Operand>) {
    if let Some(policy) = policy {
        l.src(policy, Ty::B64);
    }
}

/// The size of a copy of plain bytes.
fn size<'l, 'a, 'p>(l: &'l mut Line<'a, 'p>, bytes: Operand) -> &'l mut Line<'a, 'p> {
    let legal = bytes.int().is_none_or(|v| v > 0 && v % 16 == 0);
    l.rule(legal, "bulk copies have a multiple of 16 bytes").src(bytes, Ty::U32)
}
