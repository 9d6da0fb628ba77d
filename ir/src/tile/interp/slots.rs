//! Rings of a run: where each slot is, what it holds, and the copies that have not landed in it yet.

use super::block::{Elems, Matrix};
use super::error::Fault;
use super::memory::View;
use super::rng::Rng;
use crate::tile::SlotType;
use std::collections::VecDeque;

/// A ring's slots.
pub(super) struct RingSlots {
    ty: SlotType,
    cols: usize,
    depth: usize,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// By place on the path: slots passed to that role, the oldest first.
    waiting: Vec<VecDeque<usize>>,
}

/// A slot's contents.
pub(super) struct Slot {
    /// What has landed.
    pub(super) matrix: Matrix,
    pending: Vec<Pending>,
}

/// A copy under way. It reads its source when it lands.
pub(super) struct Pending {
    /// Number of the parameter it reads.
    pub(super) view: usize,
    /// Flat number of the first element of each row, `None` for a row of zeros.
    pub(super) rows: Vec<Option<usize>>,
}

impl RingSlots {
    /// All slots free. They are made when first needed, since a ring may be deeper than memory.
    pub(super) fn new(ty: &SlotType, cols: usize, depth: usize, path: usize) -> Self {
        let waiting = vec![VecDeque::new(); path];
        RingSlots { ty: ty.clone(), cols, depth, slots: Vec::new(), free: Vec::new(), waiting }
    }

    /// Any free slot, poisoned.
    pub(super) fn acquire(&mut self, rng: &mut Rng) -> Result<Option<usize>, Fault> {
        let fresh = usize::from(self.slots.len() < self.depth);
        let choices = self.free.len() + fresh;
        if choices == 0 {
            return Ok(None);
        }
        let empty = Matrix::poison(self.ty.rows, self.cols, self.ty.format)?;
        let choice = rng.below(choices);
        let contents = Slot { matrix: empty, pending: Vec::new() };
        if choice < self.free.len() {
            let slot = self.free.swap_remove(choice);
            self.slots[slot] = contents;
            return Ok(Some(slot));
        }
        self.slots.push(contents);
        Ok(Some(self.slots.len() - 1))
    }

    /// The oldest slot that waits for the role at `place`.
    pub(super) fn take(&mut self, place: usize) -> Option<usize> {
        self.waiting.get_mut(place)?.pop_front()
    }

    /// A slot leaves the role at `place`.
    pub(super) fn give(&mut self, place: usize, slot: usize) {
        match self.waiting.get_mut(place + 1) {
            Some(next) => next.push_back(slot),
            None => self.free.push(slot),
        }
    }

    /// A slot, without regard to copies under way.
    pub(super) fn slot_mut(&mut self, slot: usize) -> &mut Slot {
        &mut self.slots[slot]
    }

    /// The contents of a slot, without regard to copies under way.
    pub(super) fn matrix(&self, slot: usize) -> &Matrix {
        &self.slots[slot].matrix
    }

    /// Lands every copy into `slot`.
    pub(super) fn land(&mut self, slot: usize, views: &mut [View<'_>], tile: u32) -> Result<(), Fault> {
        self.slots[slot].land(views, tile)
    }

    /// Lands the copies from parameter `view`, into whatever slot, before it is written.
    pub(super) fn land_from(&mut self, view: usize, views: &mut [View<'_>], tile: u32) -> Result<(), Fault> {
        for slot in &mut self.slots {
            if slot.pending.iter().any(|p| p.view == view) {
                slot.land(views, tile)?;
            }
        }
        Ok(())
    }

    /// Lands some copies, as it happens.
    pub(super) fn land_some(
        &mut self,
        rng: &mut Rng,
        views: &mut [View<'_>],
        tile: u32,
    ) -> Result<(), Fault> {
        for slot in &mut self.slots {
            if !slot.pending.is_empty() && rng.below(8) == 0 {
                slot.land(views, tile)?;
            }
        }
        Ok(())
    }
}

impl Slot {
    /// Starts a copy into the first rows, which are poison until it lands.
    pub(super) fn copy(&mut self, pending: Pending) {
        for i in 0..pending.rows.len() {
            self.matrix.forget_row(i);
        }
        self.pending.push(pending);
    }

    fn land(&mut self, views: &mut [View<'_>], tile: u32) -> Result<(), Fault> {
        for copy in self.pending.drain(..) {
            let view = &mut views[copy.view];
            let cols = self.matrix.cols;
            for (i, source) in copy.rows.iter().enumerate() {
                let range = i * cols..(i + 1) * cols;
                match &mut self.matrix.elems {
                    Elems::Real(v) => {
                        for (j, to) in v[range.clone()].iter_mut().enumerate() {
                            *to = source.map_or(Ok(0.0), |at| view.real(tile, at + j))?;
                        }
                    }
                    Elems::Int(v) => {
                        for (j, to) in v[range.clone()].iter_mut().enumerate() {
                            *to = source.map_or(Ok(0), |at| view.int(tile, at + j))? as i32;
                        }
                    }
                }
                self.matrix.known[range].fill(true);
            }
        }
        Ok(())
    }
}
