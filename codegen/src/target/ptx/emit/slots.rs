//! Slots as a role sees them: waiting for one, its address, giving it away.
//!
//! A role keeps for each bundle the stage that comes next and the parity of its barriers. Where every block begins a
//! multiple of some number of slots, a turn of that many stages lies at constant distances from one base, and the role steps once
//! for all of them.

use super::copy::{bulk_bytes, by_threads};
use super::rings::{Bundle, Room, copies_into, unrolled};
use super::{Emitter, Result, unsupported};
use crate::target::ptx::isa::{Addr, Cmp, CtaGroup, FenceProxy, Reg, Ty};
use std::collections::BTreeMap;
use tessera_ir::tile::{Ring, RoleKind, Value};

/// A slot that the role holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) bundle: usize,
    pub(super) member: usize,
    /// Start of the slot: an address in shared memory, or of tensor memory (lane 0, first column).
    pub(super) base: Reg,
    /// Bytes or columns to add to it.
    pub(super) offset: i64,
    /// Stage within the turn.
    at: u32,
    /// The stage's barrier in the first station's array.
    barrier: Addr,
    /// The same barrier of the first block of a pair, which both blocks arrive at.
    shared: Addr,
    /// Which of the two sets of scale columns the slot takes.
    pub(super) set: Set,
}

/// A choice between two sets of columns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Set {
    /// Known.
    Fixed(usize),
    /// The number that a register holds, 0 or 1.
    Parity(Reg),
}

/// How a role gives a slot away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Give {
    Pass,
    Release,
    Return,
}

/// What a role knows of a bundle.
#[derive(Debug)]
struct Use {
    station: usize,
    /// Next stage; none where one turn passes all stages.
    index: Option<Reg>,
    /// Parity to wait for.
    parity: Reg,
    /// Parity for slots that come back.
    back: Option<Reg>,
    /// Stages of a turn.
    turn: u32,
    /// Rings of the bundle that the role uses.
    members: u32,
    /// Stage within the turn of the slot begun last, and how many of its rings were begun.
    at: u32,
    begun: u32,
    /// Rings given away, by stage of the turn.
    given: BTreeMap<u32, u32>,
    open: Option<Open>,
}

/// Addresses of one turn.
#[derive(Clone, Copy, Debug)]
struct Open {
    base: Reg,
    barrier: Addr,
    shared: Addr,
    parity: Option<Reg>,
}

/// The bundles of one role.
#[derive(Debug, Default)]
pub(super) struct Travel {
    uses: BTreeMap<usize, Use>,
    held: BTreeMap<Value, Held>,
}

impl Emitter<'_> {
    /// Starts the bookkeeping of the role being emitted, once, before its first tile.
    pub(super) fn travel_start(&mut self) {
        let places = self.places.clone();
        let mut uses = BTreeMap::new();
        for (i, b) in places.bundles.iter().enumerate() {
            let Some(station) = b.station(self.team.role) else { continue };
            if b.room == Room::Own {
                continue;
            }
            let turn = unrolled(self.kernel, b, self.team.role);
            // Fresh barriers look as if the phase before had ended: the first station may begin at once.
            let parity = self.asm.mov_b32(i64::from(station == 0));
            let index = (turn < b.depth).then(|| self.asm.mov_b32(0));
            let back = b.back.get(station).copied().flatten().map(|_| self.asm.mov_b32(0));
            let of_role =
                b.members.iter().filter(|m| self.kernel.rings[m.ring].station(self.team.role).is_some());
            let members = of_role.count() as u32;
            let given = BTreeMap::new();
            let (at, begun, open) = (turn - 1, members, None);
            uses.insert(i, Use { station, index, parity, back, turn, members, at, begun, given, open });
        }
        self.travel = Travel { uses, held: BTreeMap::new() };
    }
    /// Forgets the slots of the tile before, which were all given away.
    pub(super) fn travel_tile(&mut self) {
        self.travel.held.clear();
    }
    /// The slot that value `v` names.
    pub(super) fn held(&self, v: Value) -> Result<Held> {
        self.travel.held.get(&v).copied().ok_or_else(|| unsupported(format!("{v} is no slot here")))
    }
    /// The ring of a slot.
    pub(super) fn ring_held(&self, held: Held) -> Ring {
        self.kernel.rings[self.places.bundles[held.bundle].members[held.member].ring].clone()
    }
    /// Address of a byte of a slot in shared memory.
    pub(super) fn held_at(&self, held: Held, byte: i64) -> Addr {
        held.base.at(held.offset + byte)
    }

    /// `acquire` and `take`: waits for the next slot of `ring` and names it `v`. `again` says that the first station takes a
    /// slot that came back.
    pub(super) fn slot_begin(&mut self, ring: Value, v: Value, again: bool) -> Result<()> {
        let places = self.places.clone();
        let (n, member) = places.of_ring(self.kernel, ring);
        let b = &places.bundles[n];
        let Some(mut u) = self.travel.uses.remove(&n) else {
            return Err(unsupported("a slot of a ring of another role"));
        };
        let (stages, first) = (b.barriers.len(), b.barriers.first().copied().unwrap_or_default());
        if again {
            // Bundles whose slots come back have one stage.
            if let (Some(Some((offset, _))), Some(parity)) = (b.back.get(u.station), u.back) {
                let bar = self.smem.at(i64::from(*offset));
                self.asm.mbar_wait(bar, parity);
                self.asm.xor_b32_to(parity, parity, 1);
                self.after_wait(b);
            }
        } else if u.begun == u.members {
            u.at = (u.at + 1) % u.turn;
            u.begun = 1;
            if u.at == 0 {
                u.open = Some(self.opened(b, &u));
            }
            if let Some(open) = u.open
                && stages > 0
            {
                let bar = open.barrier.plus(i64::from(b.barriers[u.station] - first) + 8 * i64::from(u.at));
                match self.pair {
                    Some(_) => self.asm.mbar_wait_cluster(bar, u.parity),
                    None => self.asm.mbar_wait(bar, u.parity),
                }
            }
            self.announce(b, &u);
            if u.at + 1 == u.turn {
                self.step(b, &u);
            }
            self.after_wait(b);
        } else {
            u.begun += 1;
        }
        if let Some(open) = u.open {
            let set = match open.parity {
                Some(p) if u.turn % 2 == 1 => Set::Parity(p),
                Some(_) | None => Set::Fixed((u.at % 2) as usize),
            };
            let held = Held {
                bundle: n,
                member,
                base: open.base,
                offset: i64::from(b.members[member].inner) + i64::from(u.at * pitch_of(b)),
                at: u.at,
                barrier: open.barrier.plus(8 * i64::from(u.at)),
                shared: open.shared.plus(8 * i64::from(u.at)),
                set,
            };
            self.travel.held.insert(v, held);
        }
        self.travel.uses.insert(n, u);
        Ok(())
    }
    /// What follows a wait before the slot is touched.
    fn after_wait(&mut self, b: &Bundle) {
        if self.role().kind == RoleKind::Matrix || matches!(b.room, Room::Tensor { .. }) {
            self.asm.tmem_fence_after();
        }
    }
    /// A copy role's word that bytes will come, before it issues the copies.
    fn announce(&mut self, b: &Bundle, u: &Use) {
        if self.role().kind != RoleKind::Copy || u.station != 0 {
            return;
        }
        let bytes: u32 = b.members.iter().map(|m| bulk_bytes(self.kernel, self.team.role, m.ring)).sum();
        let (Some(open), Some(offset)) = (u.open.filter(|_| bytes > 0), b.barriers.get(1)) else { return };
        let bar = open.shared.plus(i64::from(offset - b.barriers[0]) + 8 * i64::from(u.at));
        let pair = self.pair.is_some();
        self.once(|asm| match pair {
            true => asm.mbar_arrive_expect_tx_remote(bar, i64::from(bytes)),
            false => asm.mbar_arrive_expect_tx(bar, i64::from(bytes)),
        });
    }
    /// The barrier that bulk copies into a slot complete.
    pub(super) fn filled(&self, held: Held) -> Addr {
        match self.places.bundles[held.bundle].barriers.as_slice() {
            [first, second, ..] => held.shared.plus(i64::from(second - first)),
            _ => held.shared,
        }
    }
    /// Addresses of the stages from the one that comes next.
    fn opened(&mut self, b: &Bundle, u: &Use) -> Open {
        let (from, first, pitch) = match b.room {
            Room::Shared { offset, pitch } => (self.smem, offset, pitch),
            Room::Tensor { column, pitch } => (self.tmem.unwrap_or(self.smem), column, pitch),
            Room::Own => (self.smem, 0, 0),
        };
        let barriers = i64::from(b.barriers.first().copied().unwrap_or_default());
        let asm = &mut self.asm;
        match u.index {
            None => {
                let base = asm.add_u32(from, i64::from(first));
                let shared = self.pair.map_or(self.smem, |p| p.first).at(barriers);
                Open { base, barrier: self.smem.at(barriers), shared, parity: None }
            }
            Some(index) => {
                let moved = asm.mad_u32(index, i64::from(pitch), from);
                let base = asm.add_u32(moved, i64::from(first));
                let eight = asm.shl_b32(index, 3);
                let barrier = asm.add_u32(self.smem, eight);
                let alternates = u.turn % 2 == 1 && b.members.iter().any(|m| m.scales.is_some());
                let parity = alternates.then(|| asm.and_b32(index, 1));
                let shared = match self.pair {
                    Some(p) => self.asm.add_u32(p.first, eight),
                    None => barrier,
                };
                Open { base, barrier: barrier.at(barriers), shared: shared.at(barriers), parity }
            }
        }
    }
    /// Steps to the next turn.
    fn step(&mut self, b: &Bundle, u: &Use) {
        let asm = &mut self.asm;
        match u.index {
            None => asm.xor_b32_to(u.parity, u.parity, 1),
            Some(index) => {
                asm.add_u32_to(index, index, i64::from(u.turn));
                let round = asm.setp(Cmp::Eq, Ty::U32, index, i64::from(b.depth));
                let zero = asm.mov_b32(0);
                asm.selp_to(index, Ty::B32, zero, index, round);
                let parity = u.parity;
                asm.guard(round, |asm| asm.xor_b32_to(parity, parity, 1));
            }
        }
    }

    /// `pass`, `release` and `return` of the slot that `v` names.
    pub(super) fn slot_give(&mut self, v: Value, how: Give) -> Result<()> {
        let held = self.held(v)?;
        self.travel.held.remove(&v);
        self.products.given(v);
        let places = self.places.clone();
        let b = &places.bundles[held.bundle];
        let kind = self.role().kind;
        let (kernel, role) = (self.kernel, self.team.role);
        // Ordinary stores of a copy role filled the slot, or a part of it.
        let threads = kind == RoleKind::Copy
            && b.members
                .iter()
                .any(|m| copies_into(kernel, role, m.ring).iter().any(|op| by_threads(kernel, op)));
        let Some(u) = self.travel.uses.get_mut(&held.bundle) else { return Ok(()) };
        let given = u.given.entry(held.at).or_default();
        *given += 1;
        if *given < u.members {
            return Ok(());
        }
        u.given.remove(&held.at);
        let station = u.station;
        let first = b.barriers.first().copied().unwrap_or_default();
        let array = match how {
            Give::Pass => b.barriers.get(station + 1).copied(),
            Give::Release => Some(first),
            Give::Return => b.back.get(station.wrapping_sub(1)).copied().flatten().map(|(offset, _)| offset),
        };
        let Some(array) = array else { return Err(unsupported("a slot given to nobody")) };
        let by = i64::from(array) - i64::from(first);
        let (bar, shared) = (held.barrier.plus(by), held.shared.plus(by));
        let pair = self.pair.is_some();
        match kind {
            RoleKind::Matrix if pair => {
                // Assemblers before 13.5 take the mask from a register only.
                let both = self.asm.mov(Ty::B16, 3u32);
                self.once(|asm| asm.mma_commit_multicast(CtaGroup::Two, bar, both));
            }
            RoleKind::Matrix => self.once(|asm| asm.mma_commit(CtaGroup::One, bar)),
            RoleKind::Vector => {
                match b.room {
                    Room::Tensor { .. } => self.asm.tmem_fence_before(),
                    Room::Shared { .. } if how == Give::Pass => self.asm.fence_proxy(FenceProxy::SharedCta),
                    Room::Shared { .. } | Room::Own => {}
                }
                self.arrive(bar, shared);
            }
            RoleKind::Copy => {
                // Bulk copies were announced when the slot was begun.
                if threads {
                    self.asm.fence_proxy(FenceProxy::SharedCta);
                }
                if threads || station > 0 {
                    self.arrive(bar, shared);
                }
            }
        }
        Ok(())
    }
}

impl Emitter<'_> {
    /// An arrival at the block's barrier, or at that of the first block of a pair.
    fn arrive(&mut self, bar: Addr, shared: Addr) {
        match self.pair {
            Some(_) => self.asm.mbar_arrive_remote(shared),
            None => self.asm.mbar_arrive(bar),
        }
    }
}

fn pitch_of(b: &Bundle) -> u32 {
    match b.room {
        Room::Shared { pitch, .. } | Room::Tensor { pitch, .. } => pitch,
        Room::Own => 0,
    }
}
