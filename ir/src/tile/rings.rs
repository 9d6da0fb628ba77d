//! Slots of a ring on their way round its path, without their contents.

use super::kernel::{Ring, Stmt};
use super::ops::Op;
use std::collections::{BTreeSet, VecDeque};

/// Which slots are in use and which wait for a role.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RingState {
    depth: usize,
    /// Slots that are not free: held by a role or waiting for one.
    used: BTreeSet<usize>,
    /// By place on the path: slots passed to that role, the oldest first. Nothing waits at place 0.
    waiting: Vec<VecDeque<usize>>,
}

impl RingState {
    /// All slots free.
    pub(super) fn new(ring: &Ring) -> Self {
        RingState {
            depth: ring.depth,
            used: BTreeSet::new(),
            waiting: vec![VecDeque::new(); ring.path.len()],
        }
    }
    pub(super) fn all_free(&self) -> bool {
        self.used.is_empty()
    }
    /// The first free slot.
    pub(super) fn acquire(&mut self) -> Option<usize> {
        let slot = self.used.iter().enumerate().find(|(i, s)| i != *s).map_or(self.used.len(), |(i, _)| i);
        (slot < self.depth).then(|| {
            self.used.insert(slot);
            slot
        })
    }
    /// The oldest slot that waits for the role at `place`.
    pub(super) fn take(&mut self, place: usize) -> Option<usize> {
        self.waiting.get_mut(place)?.pop_front()
    }
    /// A slot leaves the role at `place`: to the next one, or free from the last. `None` if nobody held it.
    pub(super) fn give(&mut self, place: usize, slot: usize) -> Option<()> {
        if !self.used.contains(&slot) || self.waiting.iter().any(|w| w.contains(&slot)) {
            return None;
        }
        match self.waiting.get_mut(place + 1) {
            Some(next) => next.push_back(slot),
            None => {
                self.used.remove(&slot);
            }
        }
        Some(())
    }
}

/// True if a block holds a statement that moves slots.
pub(super) fn moves_slots(block: &[Stmt]) -> bool {
    block.iter().any(|stmt| match stmt {
        Stmt::Op(node) => {
            matches!(node.op, Op::Acquire { .. } | Op::Take { .. } | Op::Pass { .. } | Op::Release { .. })
        }
        Stmt::For { body, .. } | Stmt::If { body, .. } => moves_slots(body),
    })
}
