//! Copies into slots, and loads and stores of tiles.

use super::block::{Elems, Matrix};
use super::error::Fault;
use super::machine::{Held, Machine};
use super::memory::{fitting, within};
use super::slots::Pending;
use crate::tile::{SlotRef, Value};
use std::rc::Rc;

impl Machine<'_, '_> {
    /// Rows and columns of a slot.
    fn shape(&mut self, role: usize, slot: Value) -> Result<(SlotRef, usize, usize), Fault> {
        let at = self.slot(role, slot)?;
        let matrix = self.rings[at.ring].matrix(at.slot);
        Ok((at, matrix.rows, matrix.cols))
    }

    /// Number of rows to copy, of at most `most`.
    fn count(rows: i64, most: usize) -> Result<usize, Fault> {
        within("the number of rows", rows, most + 1)
    }

    fn start(&mut self, at: SlotRef, view: usize, rows: Vec<Option<usize>>) {
        self.rings[at.ring].slot_mut(at.slot).copy(Pending { view, rows });
    }

    pub(super) fn copy(
        &mut self,
        role: usize,
        view: Value,
        at: &[i64],
        slot: Value,
        rows: i64,
    ) -> Result<(), Fault> {
        let view = self.view(view)?;
        let (slot, most, cols) = self.shape(role, slot)?;
        let rows = self.views[view].block(at, Self::count(rows, most)?, cols)?;
        self.start(slot, view, rows.into_iter().map(Some).collect());
        Ok(())
    }

    pub(super) fn copy_ring(
        &mut self,
        role: usize,
        view: Value,
        outer: &[i64],
        start: i64,
        slot: Value,
        rows: i64,
    ) -> Result<(), Fault> {
        let view = self.view(view)?;
        let (slot, most, cols) = self.shape(role, slot)?;
        let v = &self.views[view];
        let (first, ring) = v.rows_under(outer)?;
        // More rows than the ring has would be some rows twice.
        let count = Self::count(rows, most.min(ring))?;
        fitting("column", 0, cols, v.width())?;
        let start = within("the first position", start, usize::MAX)?;
        let rows = (0..count).map(|i| Some(first + start.wrapping_add(i) % ring * v.width())).collect();
        self.start(slot, view, rows);
        Ok(())
    }

    pub(super) fn copy_gather(
        &mut self,
        role: usize,
        view: Value,
        outer: &[i64],
        (ids, at): (Value, &[i64]),
        slot: Value,
        rows: i64,
    ) -> Result<(), Fault> {
        let (view, ids) = (self.view(view)?, self.view(ids)?);
        let (slot, most, cols) = self.shape(role, slot)?;
        let count = Self::count(rows, most)?;
        let list = self.views[ids].block(at, count.min(1), count)?;
        let (first, have) = self.views[view].rows_under(outer)?;
        let width = self.views[view].width();
        fitting("column", 0, cols, width)?;
        let mut rows = Vec::with_capacity(count);
        for i in 0..count {
            let id = self.views[ids].int(self.tile, list[0] + i)?;
            rows.push(if id < 0 { None } else { Some(first + within("a row number", id, have)? * width) });
        }
        self.start(slot, view, rows);
        Ok(())
    }

    pub(super) fn load(&mut self, view: Value, at: &[i64], rows: usize, cols: usize) -> Result<Held, Fault> {
        let view = &mut self.views[view.index()];
        let mut tile = Matrix::poison(rows, cols, view.param.ty.format)?;
        for (i, first) in view.block(at, rows, cols)?.into_iter().enumerate() {
            for j in 0..cols {
                match &mut tile.elems {
                    Elems::Real(v) => v[i * cols + j] = view.real(self.tile, first + j)?,
                    Elems::Int(v) => v[i * cols + j] = view.int(self.tile, first + j)? as i32,
                }
            }
        }
        tile.known.fill(true);
        Ok(Held::Tile(Rc::new(tile)))
    }

    pub(super) fn store(&mut self, x: &Matrix, view: Value, at: &[i64]) -> Result<(), Fault> {
        let view = self.view(view)?;
        self.settle(view)?;
        let view = &mut self.views[view];
        for (i, first) in view.block(at, x.rows, x.cols)?.into_iter().enumerate() {
            x.expect_known(i, x.cols, "the stored tile")?;
            for j in 0..x.cols {
                match &x.elems {
                    Elems::Real(v) => view.set_real(self.tile, first + j, v[i * x.cols + j])?,
                    Elems::Int(v) => view.set_int(self.tile, first + j, v[i * x.cols + j].into())?,
                }
            }
        }
        Ok(())
    }
}
