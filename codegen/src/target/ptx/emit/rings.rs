//! Where rings lie: rings that travel together share barriers and stages; offsets in shared memory, columns of tensor memory.
//!
//! A *bundle* is a set of rings that the same roles take together and give away together, so that one barrier speaks for all
//! of them and a stage of the bundle holds one slot of each. Every station after the first has a barrier per stage that
//! the station before arrives at, the first one a barrier that the last arrives at.

use super::copy::by_threads;
use super::shared::Map;
use super::{Reason, unsupported};
use tessera_ir::machine::sm100;
use tessera_ir::tile::{Class, Kernel, Node, Op, Ring, RoleKind, Stmt, Type, Value};

/// Most stages of a turn.
const MOST_IN_LINE: u32 = 2;
/// Bytes of a barrier.
const BARRIER: u32 = 8;

/// Which memory holds a bundle's stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Shared memory.
    Shared {
        /// Offset of the first stage.
        offset: u32,
        /// Bytes from stage to stage.
        pitch: u32,
    },
    /// Tensor memory.
    Tensor {
        /// First column.
        column: u32,
        /// Columns from stage to stage.
        pitch: u32,
    },
    /// Nothing: one role alone uses the ring and keeps it for itself.
    Own,
}

/// A ring of a bundle.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Index into the kernel's rings.
    pub(super) ring: usize,
    /// Bytes or columns from the start of a stage.
    pub(super) inner: u32,
    /// First of the columns that hold the slot's scales, in each of the two sets; `None` for slots without.
    pub(super) scales: Option<[u32; 2]>,
}

/// Rings that travel together.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    pub(super) members: Vec<Member>,
    pub(super) depth: u32,
    pub(super) room: Room,
    /// Roles of each station.
    pub(super) stations: Vec<Vec<usize>>,
    /// Offset of the barriers that each station waits for before it works on a slot, one for each stage; none
    /// for bundles of one role.
    pub(super) barriers: Vec<u32>,
    /// Arrivals that complete each of those barriers.
    pub(super) counts: Vec<u32>,
    /// Offset of the barrier that station i waits for to get a returned slot, and its arrivals.
    pub(super) back: Vec<Option<(u32, u32)>>,
}

impl Bundle {
    /// Station of `role`.
    pub(super) fn station(&self, role: usize) -> Option<usize> {
        self.stations.iter().position(|s| s.contains(&role))
    }
}

/// Where all rings of a kernel lie.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    pub(super) bundles: Vec<Bundle>,
    /// Bundle and member of each ring.
    pub(super) of: Vec<(usize, usize)>,
    /// Columns of tensor memory used; a power of two from 32 on, or 0.
    pub(super) columns: u32,
}

impl Places {
    /// The bundle of ring value `v` of `kernel`, and the member.
    pub(super) fn of_ring(&self, kernel: &Kernel, v: Value) -> (usize, usize) {
        self.of[v.index() - kernel.params.len()]
    }
    /// Every barrier with its number of arrivals.
    pub(super) fn barriers(&self) -> impl Iterator<Item = (u32, u32)> {
        self.bundles.iter().flat_map(|b| {
            let arrays = b.barriers.iter().zip(&b.counts).map(|(offset, count)| (*offset, *count));
            let backs = b.back.iter().flatten().copied();
            arrays
                .chain(backs)
                .flat_map(|(offset, count)| (0..b.depth).map(move |i| (offset + i * BARRIER, count)))
        })
    }
    /// Lays out the rings of `kernel` that travel between roles.
    pub(super) fn new(kernel: &Kernel, map: &mut Map) -> Result<Self, Reason> {
        let mut bundles: Vec<Bundle> = Vec::new();
        let mut of = Vec::with_capacity(kernel.rings.len());
        for (i, ring) in kernel.rings.iter().enumerate() {
            let stations: Vec<Vec<usize>> = ring.path.iter().map(|h| h.roles.clone()).collect();
            let fits = |b: &Bundle| {
                let first = &kernel.rings[b.members[0].ring];
                stations.len() == 2
                    && ring.class != Class::Vec
                    && first.class == ring.class
                    && b.depth as usize == ring.depth
                    && first.scope == ring.scope
                    && b.stations.len() == 2
                    && b.stations[1] == stations[1]
                    && in_step(kernel, b.members[0].ring, i)
            };
            let member = Member { ring: i, inner: 0, scales: None };
            match bundles.iter().position(fits) {
                Some(n) => {
                    let b = &mut bundles[n];
                    of.push((n, b.members.len()));
                    b.members.push(member);
                    for role in &stations[0] {
                        if !b.stations[0].contains(role) {
                            b.stations[0].push(*role);
                        }
                    }
                }
                None => {
                    of.push((bundles.len(), 0));
                    bundles.push(Bundle {
                        members: vec![member],
                        depth: ring.depth as u32,
                        room: Room::Own,
                        stations,
                        barriers: Vec::new(),
                        counts: Vec::new(),
                        back: Vec::new(),
                    });
                }
            }
        }
        let mut places = Places { bundles, of, columns: 0 };
        places.rooms(kernel, map)?;
        places.barrier_words(kernel, map);
        Ok(places)
    }

    /// Gives every bundle its memory. Stages come first, for their alignment.
    fn rooms(&mut self, kernel: &Kernel, map: &mut Map) -> Result<(), Reason> {
        let mut column = 0u32;
        for b in self.bundles.iter_mut().filter(|b| b.stations.len() > 1) {
            let first = &kernel.rings[b.members[0].ring];
            let mut inner = 0u32;
            match first.class {
                Class::Accum => {
                    for m in &mut b.members {
                        m.inner = inner;
                        let ring = &kernel.rings[m.ring];
                        inner += sm100::accumulator_columns(ring).ok_or_else(|| unplaced(ring))? as u32;
                    }
                    b.room = Room::Tensor { column, pitch: inner };
                    column += inner * b.depth;
                }
                Class::Stage | Class::Vec => {
                    for m in &mut b.members {
                        m.inner = inner;
                        let ring = &kernel.rings[m.ring];
                        let slot = slot_of(ring)?;
                        inner += match ring.class {
                            Class::Vec => slot.data.next_multiple_of(16),
                            Class::Stage | Class::Accum => slot.pitch(),
                        } as u32;
                    }
                    let align = if first.class == Class::Stage { sm100::OPERAND_ALIGN as u32 } else { 16 };
                    let offset = map.take(inner * b.depth, align);
                    b.room = Room::Shared { offset, pitch: inner };
                }
            }
        }
        for set in 0..2 {
            for m in self.bundles.iter_mut().flat_map(|b| &mut b.members) {
                let columns = sm100::scale_columns(&kernel.rings[m.ring]) as u32;
                if columns > 0 && multiplied(kernel, m.ring) {
                    m.scales.get_or_insert([0; 2])[set] = column;
                    column += columns;
                }
            }
        }
        self.columns = if column == 0 { 0 } else { column.next_power_of_two().max(32) };
        Ok(())
    }

    /// Gives every station its barriers.
    fn barrier_words(&mut self, kernel: &Kernel, map: &mut Map) {
        for b in &mut self.bundles {
            let n = b.stations.len();
            if n < 2 {
                b.back = vec![None; n];
                continue;
            }
            for station in 0..n {
                let before = if station == 0 { n - 1 } else { station - 1 };
                let count = b.stations[before].iter().map(|role| arrivals(kernel, b, *role)).sum();
                b.barriers.push(map.take(BARRIER * b.depth, BARRIER));
                b.counts.push(count);
            }
            for station in 0..n {
                let next = (station + 1) % n;
                let returned =
                    station + 1 < n && b.members.iter().any(|m| returns(kernel, m.ring, &b.stations[next]));
                b.back.push(returned.then(|| {
                    let count = b.stations[next].iter().map(|role| arrivals(kernel, b, *role)).sum();
                    (map.take(BARRIER * b.depth, BARRIER), count)
                }));
            }
        }
    }
}

/// Arrivals with which `role` gives a stage of the bundle away.
fn arrivals(kernel: &Kernel, b: &Bundle, role: usize) -> u32 {
    let of = &kernel.roles[role];
    // Both blocks of a pair arrive at the first one's barriers; products arrive at both blocks' barriers alike.
    let blocks = kernel.cluster as u32;
    match of.kind {
        RoleKind::Matrix => 1,
        RoleKind::Vector => blocks * 32 * of.warps as u32,
        RoleKind::Copy => {
            let (mut bulk, mut threads) = (false, false);
            for m in &b.members {
                for op in copies_into(kernel, role, m.ring) {
                    if by_threads(kernel, op) { threads = true } else { bulk = true }
                }
            }
            // A role that only reads gives its slots away with all its lanes.
            blocks
                * match (bulk, threads) {
                    (true, false) => 1,
                    (true, true) => 1 + 32,
                    (false, _) => 32,
                }
        }
    }
}

/// The ops of a block and of the blocks inside, in text order.
pub(super) fn nodes_of(block: &[Stmt]) -> Vec<&Node> {
    block
        .iter()
        .flat_map(|stmt| match stmt {
            Stmt::Op(node) => vec![node],
            Stmt::For { body, .. } | Stmt::If { body, .. } => nodes_of(body),
        })
        .collect()
}

/// The ops of `role`, in text order.
pub(super) fn nodes(kernel: &Kernel, role: usize) -> Vec<&Node> {
    nodes_of(&kernel.roles[role].body)
}

/// Slots of `ring` that `role` holds.
fn slots(kernel: &Kernel, role: usize, ring: usize) -> Vec<Value> {
    let ring = kernel.ring_value(ring);
    nodes(kernel, role)
        .into_iter()
        .filter_map(|n| match &n.result {
            Some((v, Type::Slot { ring: of })) if *of == ring => Some(*v),
            Some(_) | None => None,
        })
        .collect()
}

/// The copies of `role` into slots of `ring`.
pub(super) fn copies_into(kernel: &Kernel, role: usize, ring: usize) -> Vec<&Op> {
    let held = slots(kernel, role, ring);
    nodes(kernel, role)
        .into_iter()
        .map(|n| &n.op)
        .filter(|op| copied_slot(op).is_some_and(|slot| held.contains(&slot)))
        .collect()
}

/// The slot that a copy fills.
fn copied_slot(op: &Op) -> Option<Value> {
    let (Op::CopyTile { slot, .. }
    | Op::CopyRows { slot, .. }
    | Op::CopyWrap { slot, .. }
    | Op::Copy { slot, .. }
    | Op::CopyRing { slot, .. }
    | Op::CopyGather { slot, .. }) = op
    else {
        return None;
    };
    Some(*slot)
}

/// True if an operand of a product lies in `ring`.
fn multiplied(kernel: &Kernel, ring: usize) -> bool {
    (0..kernel.roles.len()).any(|role| {
        let held = slots(kernel, role, ring);
        nodes(kernel, role)
            .iter()
            .any(|n| matches!(&n.op, Op::MmaTile { a, b, .. } if held.contains(a) || held.contains(b)))
    })
}

/// True if one of `roles` gives slots of `ring` back to the station before.
fn returns(kernel: &Kernel, ring: usize, roles: &[usize]) -> bool {
    roles.iter().any(|role| {
        let held = slots(kernel, *role, ring);
        nodes(kernel, *role).iter().any(|n| matches!(&n.op, Op::Return { slot } if held.contains(slot)))
    })
}

/// What happens to a ring's slots in the blocks of a role: for each block how many are begun.
pub(super) fn begun(kernel: &Kernel, role: usize, ring: usize) -> Vec<usize> {
    fn of(block: &[Stmt], ring: Value, found: &mut Vec<usize>) {
        let count = block
            .iter()
            .filter(|s| {
                matches!(s, Stmt::Op(Node { op: Op::Acquire { ring: r } | Op::Take { ring: r }, .. }) if *r == ring)
            })
            .count();
        found.push(count);
        for stmt in block {
            match stmt {
                Stmt::Op(_) => {}
                Stmt::For { body, .. } | Stmt::If { body, .. } => of(body, ring, found),
            }
        }
    }
    let mut found = Vec::new();
    of(&kernel.roles[role].body, kernel.ring_value(ring), &mut found);
    found
}

/// True if every role that uses both rings begins as many slots of each in every block, gives nothing back to the station
/// before, and no role begins a slot while it holds the one before.
fn in_step(kernel: &Kernel, a: usize, b: usize) -> bool {
    let uses = |role: usize, ring: usize| kernel.rings[ring].station(role).is_some();
    (0..kernel.roles.len())
        .all(|role| !uses(role, a) || !uses(role, b) || begun(kernel, role, a) == begun(kernel, role, b))
        && [a, b].iter().all(|ring| {
            let all: Vec<usize> = (0..kernel.roles.len()).filter(|r| uses(*r, *ring)).collect();
            !returns(kernel, *ring, &all)
        })
}

/// Slots that `role` begins in a straight line before the count of begun ones must be known: a divisor of the depth
/// that divides every block's number.
pub(super) fn unrolled(kernel: &Kernel, b: &Bundle, role: usize) -> u32 {
    let member = b.members.iter().find(|m| kernel.rings[m.ring].station(role).is_some());
    let counts = member.map(|m| begun(kernel, role, m.ring)).unwrap_or_default();
    let all = counts.into_iter().filter(|n| *n > 0).fold(0u32, |g, n| gcd(g, n as u32));
    // More would let the assembler keep so many addresses that they no longer fit its uniform registers.
    gcd(gcd(all, b.depth), MOST_IN_LINE).max(1)
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Where codes and scales of a slot of `ring` lie.
pub(super) fn slot_of(ring: &Ring) -> Result<sm100::SharedSlot, Reason> {
    sm100::shared_slot(ring).ok_or_else(|| unplaced(ring))
}

fn unplaced(ring: &Ring) -> Reason {
    unsupported(format!("ring %{}, whose slots have no size on this machine", ring.name))
}

/// The ring of the slot that value `v` names.
pub(super) fn ring_of_slot(kernel: &Kernel, v: Value) -> Option<usize> {
    (0..kernel.roles.len()).flat_map(|role| nodes(kernel, role)).find_map(|n| match &n.result {
        Some((r, Type::Slot { ring })) if *r == v => ring.index().checked_sub(kernel.params.len()),
        Some(_) | None => None,
    })
}
