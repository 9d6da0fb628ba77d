//! Slots of a ring on their way round its path, without their contents.

use super::kernel::{Ring, Seat, Stmt};
use super::ops::Op;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Which slots are in use and which wait for a role.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RingState {
    depth: usize,
    /// Slots that are not free: held by roles or waiting for some.
    used: BTreeSet<usize>,
    /// By station and role: slots that wait for the role, the oldest first. At the first station these are slots that
    /// another role of the station acquired, or that came back.
    waiting: Vec<Vec<VecDeque<usize>>>,
    /// Roles of its station that gave the slot away, while others still have it.
    given: BTreeMap<usize, usize>,
}

impl RingState {
    /// All slots free.
    pub(super) fn new(ring: &Ring) -> Self {
        RingState {
            depth: ring.depth,
            used: BTreeSet::new(),
            waiting: ring.path.iter().map(|hop| vec![VecDeque::new(); hop.roles.len()]).collect(),
            given: BTreeMap::new(),
        }
    }
    pub(super) fn all_free(&self) -> bool {
        self.used.is_empty()
    }
    /// Slots that were ever in use are below this number, if the lowest free one is always acquired or `made` of them exist.
    fn free(&self, made: usize) -> Vec<usize> {
        let known = (0..made.min(self.depth)).filter(|i| !self.used.contains(i));
        known.chain((made < self.depth).then_some(made)).collect()
    }
    /// The first free slot, or the one that another role of the station acquired before.
    pub(super) fn acquire(&mut self, seat: Seat) -> Option<usize> {
        let made = self.used.last().map_or(0, |last| last + 1);
        self.acquire_one(seat, made, |_| 0).map(|(slot, _)| slot)
    }
    /// As [`RingState::acquire`], but of several free slots (`made` of which exist) `choose` picks one by its place in the
    /// list. True if the slot was free until now.
    pub(super) fn acquire_one(
        &mut self,
        seat: Seat,
        made: usize,
        choose: impl FnOnce(usize) -> usize,
    ) -> Option<(usize, bool)> {
        let station = self.waiting.get_mut(seat.station)?;
        if station.len() > 1
            && let Some(slot) = station.get_mut(seat.number)?.pop_front()
        {
            return Some((slot, false));
        }
        let free = self.free(made);
        let slot = *free.get(if free.is_empty() { 0 } else { choose(free.len()) })?;
        self.used.insert(slot);
        for (number, queue) in self.waiting.get_mut(seat.station)?.iter_mut().enumerate() {
            if number != seat.number {
                queue.push_back(slot);
            }
        }
        Some((slot, true))
    }
    /// The oldest slot that waits for the role.
    pub(super) fn take(&mut self, seat: Seat) -> Option<usize> {
        let station = self.waiting.get_mut(seat.station)?;
        // Where several roles acquire, what waits is for `acquire`.
        if seat.station == 0 && station.len() > 1 {
            return None;
        }
        station.get_mut(seat.number)?.pop_front()
    }
    /// A role gives a slot away: when the last of its station has, it moves to the next station, or is free. `None` if
    /// nobody held it.
    pub(super) fn give(&mut self, seat: Seat, slot: usize) -> Option<()> {
        let roles = self.held(seat, slot)?;
        let given = self.given.entry(slot).or_default();
        *given += 1;
        if *given < roles {
            return Some(());
        }
        self.given.remove(&slot);
        match self.waiting.get_mut(seat.station + 1) {
            Some(next) => next.iter_mut().for_each(|queue| queue.push_back(slot)),
            None => {
                self.used.remove(&slot);
            }
        }
        Some(())
    }
    /// A slot goes back to the station before. `None` if nobody held it or there is none.
    pub(super) fn back(&mut self, seat: Seat, slot: usize) -> Option<()> {
        self.held(seat, slot)?;
        let before = self.waiting.get_mut(seat.station.checked_sub(1)?)?;
        before.iter_mut().for_each(|queue| queue.push_back(slot));
        Some(())
    }
    /// Number of roles at the station, if the slot may be held by the one at `seat`.
    fn held(&self, seat: Seat, slot: usize) -> Option<usize> {
        let station = self.waiting.get(seat.station)?;
        let elsewhere = |(i, queues): (usize, &Vec<VecDeque<usize>>)| {
            queues
                .iter()
                .enumerate()
                .any(|(j, q)| q.contains(&slot) && !(i == seat.station && j != seat.number))
        };
        if !self.used.contains(&slot) || self.waiting.iter().enumerate().any(elsewhere) {
            return None;
        }
        Some(station.len())
    }
}

/// True if a block holds a statement that moves slots.
pub(super) fn moves_slots(block: &[Stmt]) -> bool {
    block.iter().any(|stmt| match stmt {
        Stmt::Op(node) => {
            matches!(
                node.op,
                Op::Acquire { .. }
                    | Op::Take { .. }
                    | Op::Pass { .. }
                    | Op::Release { .. }
                    | Op::Return { .. }
            )
        }
        Stmt::For { body, .. } | Stmt::If { body, .. } => moves_slots(body),
    })
}
