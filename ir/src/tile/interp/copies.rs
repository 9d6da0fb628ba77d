//! Copies into slots, and loads and stores of tiles.

use super::block::{Elems, Matrix};
use super::error::Fault;
use super::machine::{Held, Machine};
use super::memory::{fitting, within};
use super::slots::{Pending, RowSource};
use crate::tile::{Part, SlotRef, Value};
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

    /// Starts a copy of whole rows of the slot's width.
    fn start(&mut self, at: SlotRef, view: usize, cols: usize, rows: Vec<Option<usize>>) {
        let rows = rows.into_iter().map(|first| RowSource { first, cols }).collect();
        self.start_part(at, view, Part::All, rows);
    }

    fn start_part(&mut self, at: SlotRef, view: usize, part: Part, rows: Vec<RowSource>) {
        self.rings[at.ring].slot_mut(at.slot).copy(Pending { view, part, rows });
    }

    /// `copy.tile`.
    pub(super) fn copy_tile(
        &mut self,
        role: usize,
        view: Value,
        at: &[i64],
        slot: Value,
        part: Part,
    ) -> Result<(), Fault> {
        let view = self.view(view)?;
        let (slot, most, cols) = self.shape(role, slot)?;
        let rows = self.views[view].clipped(at, most, cols)?;
        self.start_part(slot, view, part, rows);
        Ok(())
    }

    /// `copy.rows`; `per` rows for each id.
    #[allow(clippy::too_many_arguments, reason = "as many as the op has operands")]
    pub(super) fn copy_rows(
        &mut self,
        role: usize,
        view: Value,
        outer: &[i64],
        (ids, at): (Value, &[i64]),
        col: i64,
        slot: Value,
        (rows, per): (i64, usize),
        part: Part,
    ) -> Result<(), Fault> {
        let (view, ids) = (self.view(view)?, self.view(ids)?);
        let (slot, most, cols) = self.shape(role, slot)?;
        let count = Self::count(rows, most)?;
        let listed = count.div_ceil(per);
        let list = self.views[ids].block(at, listed.min(1), listed)?;
        let (first, have) = self.views[view].rows_under(outer)?;
        let width = self.views[view].width();
        let col = within("the column", col, width.max(1))?;
        self.views[view].aligned(0, col)?;
        let cols = cols.min(width - col);
        let mut sources = vec![RowSource { first: None, cols }; most];
        for (i, source) in sources.iter_mut().enumerate().take(count) {
            let id = self.views[ids].int(self.tile, list[0] + i / per)?;
            if id >= 0 {
                let row = id.saturating_mul(per as i64).saturating_add((i % per) as i64);
                source.first = Some(first + within("a row number", row, have)? * width + col);
            }
        }
        self.start_part(slot, view, part, sources);
        Ok(())
    }

    /// `copy.wrap`.
    pub(super) fn copy_wrap(
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
        let count = Self::count(rows, most.min(ring))?;
        let cols = cols.min(v.width());
        let start = if count == 0 { 0 } else { within("the first position", start, usize::MAX)? };
        let row = |i: usize| (i < count).then(|| first + start.wrapping_add(i) % ring * v.width());
        let sources = (0..most).map(|i| RowSource { first: row(i), cols }).collect();
        self.start_part(slot, view, Part::All, sources);
        Ok(())
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
        self.start(slot, view, cols, rows.into_iter().map(Some).collect());
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
        self.start(slot, view, cols, rows);
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
        self.start(slot, view, cols, rows);
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

    /// `store.rows`.
    pub(super) fn store_rows(&mut self, x: &Matrix, view: Value, at: &[i64], rows: i64) -> Result<(), Fault> {
        let view = self.view(view)?;
        self.settle(view)?;
        let rows = Self::count(rows, x.rows)?;
        let places = self.views[view].clipped(at, rows, x.cols)?;
        for (i, place) in places.iter().enumerate() {
            let first = place.first.ok_or_else(|| Fault::Range {
                what: "a row to store".into(),
                value: i as i64,
                low: 0,
                high: i as i64 - 1,
            })?;
            self.put_row(x, i, view, first, place.cols)?;
        }
        Ok(())
    }

    /// `store.scatter`.
    pub(super) fn store_scatter(
        &mut self,
        x: &Matrix,
        view: Value,
        (ids, at): (Value, &[i64]),
        col: i64,
        rows: i64,
    ) -> Result<(), Fault> {
        let (view, ids) = (self.view(view)?, self.view(ids)?);
        self.settle(view)?;
        let rows = Self::count(rows, x.rows)?;
        let list = self.views[ids].block(at, rows.min(1), rows)?;
        let (_, have) = self.views[view].rows_under(&[])?;
        let width = self.views[view].width();
        let col = within("the column", col, width.max(1))?;
        self.views[view].aligned(0, col)?;
        for i in 0..rows {
            let id = self.views[ids].int(self.tile, list[0] + i)?;
            let first = within("a row number", id, have)? * width + col;
            self.put_row(x, i, view, first, x.cols.min(width - col))?;
        }
        Ok(())
    }

    /// Writes the first `cols` elements of a row of a tile to memory.
    fn put_row(&mut self, x: &Matrix, i: usize, view: usize, first: usize, cols: usize) -> Result<(), Fault> {
        x.expect_known(i, cols, "the stored tile")?;
        let view = &mut self.views[view];
        for j in 0..cols {
            match &x.elems {
                Elems::Real(v) => view.set_real(self.tile, first + j, v[i * x.cols + j])?,
                Elems::Int(v) => view.set_int(self.tile, first + j, v[i * x.cols + j].into())?,
            }
        }
        Ok(())
    }

    /// The list of integers that begins at `at`, up to the end of its row.
    pub(super) fn list(&mut self, ids: Value, at: &[i64], most: usize) -> Result<Vec<i64>, Fault> {
        let ids = self.view(ids)?;
        let place = self.views[ids].clipped(at, 1, most)?;
        let Some(RowSource { first: Some(first), cols }) = place.first().copied() else {
            return Ok(Vec::new());
        };
        (0..cols).map(|j| self.views[ids].int(self.tile, first + j)).collect()
    }

    /// The first `n` reals of the row that begins at `at`.
    pub(super) fn reals(&mut self, view: Value, at: &[i64], n: i64) -> Result<Vec<f32>, Fault> {
        let view = self.view(view)?;
        let n = within("the number of elements", n, usize::MAX)?;
        let first = self.views[view].block(at, n.min(1), n)?;
        (0..n).map(|j| self.views[view].real(self.tile, first[0] + j)).collect()
    }
}
