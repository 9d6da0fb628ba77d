//! Rings of a run: where each slot is, what it holds, and the copies that have not landed in it yet.

use super::block::{Elems, Matrix};
use super::error::Fault;
use super::memory::View;
use super::rng::Rng;
use crate::tile::kernel::Seat;
use crate::tile::rings::RingState;
use crate::tile::{Part, Ring, SlotType};

/// A ring's slots.
pub(super) struct RingSlots {
    ty: SlotType,
    cols: usize,
    state: RingState,
    slots: Vec<Slot>,
}

/// A slot's contents.
pub(super) struct Slot {
    /// What has landed.
    pub(super) matrix: Matrix,
    pending: Vec<Pending>,
    /// By row, where the codes and the scales came from, while only one of them has landed.
    halves: Vec<[Option<RowSource>; 2]>,
}

/// Where the contents of a slot's row come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowSource {
    /// Flat number of the first element, `None` for a row of zeros.
    pub(super) first: Option<usize>,
    /// Elements that are read; the others are zeros.
    pub(super) cols: usize,
}

/// A copy under way. It reads its source when it lands.
pub(super) struct Pending {
    /// Number of the parameter it reads.
    pub(super) view: usize,
    /// What it copies.
    pub(super) part: Part,
    /// Where the first rows come from.
    pub(super) rows: Vec<RowSource>,
}

impl RingSlots {
    /// All slots free. They are made when first needed, since a ring may be deeper than memory.
    pub(super) fn new(ring: &Ring, cols: usize) -> Self {
        RingSlots { ty: ring.slot.clone(), cols, state: RingState::new(ring), slots: Vec::new() }
    }

    /// Any free slot, poisoned, or the one that another role of the station acquired.
    pub(super) fn acquire(&mut self, seat: Seat, rng: &mut Rng) -> Result<Option<usize>, Fault> {
        let acquired = self.state.acquire_one(seat, self.slots.len(), |n| rng.below(n));
        let Some((slot, fresh)) = acquired else { return Ok(None) };
        if fresh {
            let matrix = Matrix::poison(self.ty.rows, self.cols, self.ty.format)?;
            let contents = Slot { matrix, pending: Vec::new(), halves: vec![[None; 2]; self.ty.rows] };
            match self.slots.get_mut(slot) {
                Some(old) => *old = contents,
                None => self.slots.push(contents),
            }
        }
        Ok(Some(slot))
    }

    /// The oldest slot that waits for the role.
    pub(super) fn take(&mut self, seat: Seat) -> Option<usize> {
        self.state.take(seat)
    }

    /// A role gives a slot away, on along the path.
    pub(super) fn give(&mut self, seat: Seat, slot: usize) -> Option<()> {
        self.state.give(seat, slot)
    }

    /// A role gives a slot back to the station before.
    pub(super) fn back(&mut self, seat: Seat, slot: usize) -> Option<()> {
        self.state.back(seat, slot)
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
            match pending.part {
                Part::All => self.halves[i] = [None; 2],
                Part::Codes => self.halves[i][0] = None,
                Part::Scales => self.halves[i][1] = None,
            }
        }
        self.pending.push(pending);
    }

    fn land(&mut self, views: &mut [View<'_>], tile: u32) -> Result<(), Fault> {
        for copy in self.pending.drain(..) {
            let view = &mut views[copy.view];
            for (i, source) in copy.rows.iter().enumerate() {
                let half = match copy.part {
                    Part::All => None,
                    Part::Codes => Some(0),
                    Part::Scales => Some(1),
                };
                if let Some(half) = half {
                    self.halves[i][half] = Some(*source);
                    match self.halves[i] {
                        [Some(codes), Some(scales)] if codes == scales => {}
                        [Some(_), Some(_)] => return Err(Fault::Halves { row: i }),
                        [None, _] | [_, None] => continue,
                    }
                }
                fill(&mut self.matrix, i, *source, view, tile)?;
            }
        }
        Ok(())
    }
}

/// Reads row `i` from its source.
fn fill(
    matrix: &mut Matrix,
    i: usize,
    source: RowSource,
    view: &mut View<'_>,
    tile: u32,
) -> Result<(), Fault> {
    let cols = matrix.cols;
    let range = i * cols..(i + 1) * cols;
    let at = |j: usize| source.first.filter(|_| j < source.cols).map(|first| first + j);
    match &mut matrix.elems {
        Elems::Real(v) => {
            for (j, to) in v[range.clone()].iter_mut().enumerate() {
                *to = at(j).map_or(Ok(0.0), |at| view.real(tile, at))?;
            }
        }
        Elems::Int(v) => {
            for (j, to) in v[range.clone()].iter_mut().enumerate() {
                *to = at(j).map_or(Ok(0), |at| view.int(tile, at))? as i32;
            }
        }
    }
    matrix.known[range].fill(true);
    Ok(())
}
