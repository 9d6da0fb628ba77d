//! One match over all ops: looks operands up, calls the family, keeps the result.

use super::block::Matrix;
use super::error::Fault;
use super::machine::{Done, Held, Machine};
use super::memory::within;
use super::{arith, matrix, select, tiles};
use crate::tile::kernel::Seat;
use crate::tile::{Lanes, Node, Op, SlotRef, Value};
use std::rc::Rc;

impl Machine<'_, '_> {
    /// Runs one op of a role.
    pub(super) fn exec(&mut self, role: usize, node: &Node) -> Result<Done, Fault> {
        let r = role;
        let result = match &node.op {
            Op::IndexConst { value } => Held::Index(*value),
            Op::IndexDim { dim } => {
                let n = dim.eval(self.bindings).and_then(|n| i64::try_from(n).ok());
                Held::Index(n.ok_or_else(|| Fault::Unbound(dim.to_string()))?)
            }
            Op::IndexTile { axis } => Held::Index(self.at.get(*axis).map_or(0, |n| *n as i64)),
            Op::IndexGroup { axis } => Held::Index(self.group(*axis).0 as i64),
            Op::IndexEnd { axis } => Held::Index(self.group(*axis).1 as i64),
            Op::IndexBinary { a, b, f } => {
                let (a, b) = (self.index(r, *a)?, self.index(r, *b)?);
                Held::Index(f.apply(a, b).ok_or(Fault::Division(b))?)
            }
            Op::IndexRead { view, at } => {
                let (view, at) = (self.view(*view)?, self.indices(r, at)?);
                let at = self.views[view].element(&at)?;
                Held::Index(self.views[view].int(self.tile, at)?)
            }
            Op::IndexWrite { value, view, at } => {
                let (view, at, value) = (self.view(*view)?, self.indices(r, at)?, self.index(r, *value)?);
                self.settle(view)?;
                let at = self.views[view].element(&at)?;
                self.views[view].set_int(self.tile, at, value)?;
                return Ok(Done::Yes);
            }
            Op::Acquire { ring } | Op::Take { ring } => match self.get(r, *ring, &node.op)? {
                Some(slot) => Held::Slot(slot),
                None => return Ok(Done::Wait),
            },
            Op::Pass { slot } | Op::Release { slot } => {
                let at = self.slot(r, *slot)?;
                let seat = self.seat(r, at.ring).ok_or(Fault::Operand(*slot))?;
                self.rings[at.ring].give(seat, at.slot).ok_or(Fault::Operand(*slot))?;
                return Ok(Done::Yes);
            }
            Op::Return { slot } => {
                let at = self.slot(r, *slot)?;
                let seat = self.seat(r, at.ring).ok_or(Fault::Operand(*slot))?;
                self.rings[at.ring].back(seat, at.slot).ok_or(Fault::Operand(*slot))?;
                return Ok(Done::Yes);
            }
            Op::CopyTile { view, at, slot, part } => {
                let at = self.indices(r, at)?;
                self.copy_tile(r, *view, &at, *slot, *part)?;
                return Ok(Done::Yes);
            }
            Op::CopyRows { view, outer, ids, at, col, slot, rows, per, part } => {
                let (outer, at) = (self.indices(r, outer)?, self.indices(r, at)?);
                let (col, rows) = (self.index(r, *col)?, self.index(r, *rows)?);
                self.copy_rows(r, *view, &outer, (*ids, &at), col, *slot, (rows, *per), *part)?;
                return Ok(Done::Yes);
            }
            Op::CopyWrap { view, outer, start, slot, rows } => {
                let outer = self.indices(r, outer)?;
                let (start, rows) = (self.index(r, *start)?, self.index(r, *rows)?);
                self.copy_wrap(r, *view, &outer, start, *slot, rows)?;
                return Ok(Done::Yes);
            }
            Op::Decode { from, to, row } => {
                let row = self.index(r, *row)?;
                self.matrix_op(r, *to, [*from], |to, [from]| matrix::decode(to, from, row))?;
                return Ok(Done::Yes);
            }
            Op::MmaTile { acc, a, b, n, first, trans } => {
                let scaled = self.slot_format(r, *a)?.group.is_some();
                let (n, first) = (self.index(r, *n)?, self.index(r, *first)? != 0);
                let product = |acc: &mut Matrix, [a, b]: [&Matrix; 2]| {
                    matrix::mma_tile(acc, a, b, n, first, (*trans, scaled))
                };
                self.matrix_op(r, *acc, [*a, *b], product)?;
                return Ok(Done::Yes);
            }
            Op::StoreRows { x, view, at, rows } => {
                let (x, at) = (self.matrix(r, *x)?, self.indices(r, at)?);
                let rows = self.index(r, *rows)?;
                self.store_rows(&x, *view, &at, rows)?;
                return Ok(Done::Yes);
            }
            Op::StoreScatter { x, view, ids, at, col, rows } => {
                let (x, at) = (self.matrix(r, *x)?, self.indices(r, at)?);
                let (col, rows) = (self.index(r, *col)?, self.index(r, *rows)?);
                self.store_scatter(&x, *view, (*ids, &at), col, rows)?;
                return Ok(Done::Yes);
            }
            Op::SortGroups { experts, offsets, pairs, rows, count } => {
                self.sort_groups(*experts, *offsets, [*pairs, *rows], *count)?;
                return Ok(Done::Yes);
            }
            Op::Copy { view, at, slot, rows } => {
                let at = self.indices(r, at)?;
                let rows = self.index(r, *rows)?;
                self.copy(r, *view, &at, *slot, rows)?;
                return Ok(Done::Yes);
            }
            Op::CopyRing { view, outer, start, slot, rows } => {
                let outer = self.indices(r, outer)?;
                let (start, rows) = (self.index(r, *start)?, self.index(r, *rows)?);
                self.copy_ring(r, *view, &outer, start, *slot, rows)?;
                return Ok(Done::Yes);
            }
            Op::CopyGather { view, outer, ids, at, slot, rows } => {
                let (outer, at) = (self.indices(r, outer)?, self.indices(r, at)?);
                let rows = self.index(r, *rows)?;
                self.copy_gather(r, *view, &outer, (*ids, &at), *slot, rows)?;
                return Ok(Done::Yes);
            }
            Op::Mma { acc, a, b, rows, init } => {
                let scaled = self.slot_format(r, *b)?.group.is_some();
                let rows = self.index(r, *rows)?;
                self.matrix_op(r, *acc, [*a, *b], |acc, [a, b]| matrix::mma(acc, a, b, rows, *init, scaled))?;
                return Ok(Done::Yes);
            }
            Op::MmaScores { acc, q, keys, col, n, scale } => {
                let (col, n) = (self.index(r, *col)?, self.index(r, *n)?);
                let scores =
                    |acc: &mut Matrix, [q, keys]: [&Matrix; 2]| matrix::scores(acc, q, keys, col, n, *scale);
                self.matrix_op(r, *acc, [*q, *keys], scores)?;
                return Ok(Done::Yes);
            }
            Op::MmaValues { acc, e, values, col, n } => {
                let (col, n) = (self.index(r, *col)?, self.index(r, *n)?);
                let sum =
                    |acc: &mut Matrix, [e, values]: [&Matrix; 2]| matrix::values(acc, e, values, col, n);
                self.matrix_op(r, *acc, [*e, *values], sum)?;
                return Ok(Done::Yes);
            }
            Op::MmaIndex { acc, q, w, keys, col, n, round } => {
                let (col, n) = (self.index(r, *col)?, self.index(r, *n)?);
                let scores = |acc: &mut Matrix, [q, w, keys]: [&Matrix; 3]| {
                    matrix::index_scores(acc, q, w, keys, [col, n], *round)
                };
                self.matrix_op(r, *acc, [*q, *w, *keys], scores)?;
                return Ok(Done::Yes);
            }
            Op::Load { view, at, rows, cols } => {
                let (at, cols) = (self.indices(r, at)?, self.length(cols)?);
                self.load(*view, &at, *rows, cols)?
            }
            Op::Store { x, view, at } => {
                let (x, at) = (self.matrix(r, *x)?, self.indices(r, at)?);
                self.store(&x, *view, &at)?;
                return Ok(Done::Yes);
            }
            Op::SlotLoad { slot, row, col, rows, cols } => {
                let (row, col, cols) = (self.index(r, *row)?, self.index(r, *col)?, self.length(cols)?);
                tile(tiles::slot_load(self.contents(r, *slot)?, row, col, *rows, cols)?)
            }
            Op::SlotStore { x, slot, row, col } => {
                let (x, row, col) = (self.matrix(r, *x)?, self.index(r, *row)?, self.index(r, *col)?);
                tiles::slot_store(self.contents(r, *slot)?, row, col, &x)?;
                return Ok(Done::Yes);
            }
            Op::SlotFill { slot, value } => {
                let to = self.contents(r, *slot)?;
                *to = Matrix::reals(to.rows, to.cols, vec![*value; to.known.len()]);
                return Ok(Done::Yes);
            }
            Op::Splat { value } => tile(Matrix::reals(1, 1, vec![*value])),
            Op::Map { x, f } => tile(arith::map(&*self.matrix(r, *x)?, *f)),
            Op::Zip { a, b, f } => tile(arith::zip(&*self.matrix(r, *a)?, &*self.matrix(r, *b)?, *f)?),
            Op::Reduce { x, f, axis } => tile(arith::reduce(&*self.matrix(r, *x)?, *f, *axis, self.lanes(r))),
            Op::Dot { a, b } => {
                tile(arith::dots(&*self.matrix(r, *a)?, &*self.matrix(r, *b)?, self.lanes(r)))
            }
            Op::Transpose { x } => {
                let format = match &node.result {
                    Some((_, crate::tile::Type::Tile { format, .. })) => *format,
                    Some(_) | None => crate::types::Format::F32,
                };
                tile(tiles::transpose(&*self.matrix(r, *x)?, format)?)
            }
            Op::MaskCols { x, n, value } => {
                let n = self.index(r, *n)?;
                tile(tiles::mask(&*self.matrix(r, *x)?, *value, |j| j as i64 >= n))
            }
            Op::MaskIds { x, ids, at, value } => {
                let (x, at) = (self.matrix(r, *x)?, self.indices(r, at)?);
                let ids = self.list(*ids, &at, x.cols)?;
                tile(tiles::mask(&x, *value, |j| ids.get(j).is_none_or(|id| *id < 0)))
            }
            Op::Any { x } => Held::Index(select::any(&*self.matrix(r, *x)?)?),
            Op::TopKView { view, at, n, newest, k, block } => {
                let at = self.indices(r, at)?;
                let (n, newest) = (self.index(r, *n)?, self.index(r, *newest)?);
                tile(select::top_k_view(&self.reals(*view, &at, n)?, newest, *k, *block))
            }
            Op::TopKListed { view, at, n, list, from, k, block } => {
                let (at, from) = (self.indices(r, at)?, self.indices(r, from)?);
                let n = self.index(r, *n)?;
                let (row, list) = (self.reals(*view, &at, n)?, self.list(*list, &from, usize::MAX)?);
                tile(select::top_k_listed(&row, &list, *k, *block)?)
            }
            Op::Slice { x, row, rows, col, cols } => {
                tile(tiles::slice(&*self.matrix(r, *x)?, *row, *rows, *col, *cols)?)
            }
            Op::Reshape { x, rows, cols } => {
                let x = self.matrix(r, *x)?;
                tile(Matrix { rows: *rows, cols: *cols, elems: x.elems.clone(), known: x.known.clone() })
            }
            Op::Cast { x, format } => tile(tiles::cast(&*self.matrix(r, *x)?, *format)?),
            Op::Rotate { x, table, inverse } => {
                tile(arith::rotate(&*self.matrix(r, *x)?, &*self.matrix(r, *table)?, *inverse))
            }
            Op::Angles { pos, rope } => tile(arith::angles(self.index(r, *pos)?, rope)),
            Op::TopK { x, n, k } => {
                let n = self.index(r, *n)?;
                tile(select::top_k(&*self.matrix(r, *x)?, n, *k)?)
            }
            Op::TopRanked { x, k } => tile(select::top_ranked(&*self.matrix(r, *x)?, *k)?),
            Op::PickCols { x, ids } => tile(select::pick(&*self.matrix(r, *x)?, &*self.matrix(r, *ids)?)?),
            Op::BlockMax { scores, n, newest, out, block } => {
                let (n, newest) = (self.index(r, *n)?, self.index(r, *newest)?);
                self.matrix_op(r, *out, [*scores], |out, [x]| select::block_max(out, x, n, newest, *block))?;
                return Ok(Done::Yes);
            }
            Op::Restrict { scores, n, blocks, block } => {
                let (n, blocks) = (self.index(r, *n)?, self.matrix(r, *blocks)?);
                select::restrict(self.contents(r, *scores)?, n, &blocks, *block)?;
                return Ok(Done::Yes);
            }
            Op::Argmax { x } => tile(select::argmax(&*self.matrix(r, *x)?)?),
        };
        if let Some((v, _)) = &node.result {
            self.define(role, *v, result);
        }
        Ok(Done::Yes)
    }

    /// Seat of a role on the path of a ring.
    fn seat(&self, role: usize, ring: usize) -> Option<Seat> {
        self.kernel.rings.get(ring)?.seat(role)
    }

    /// Group and its end along a grouped axis.
    fn group(&self, axis: usize) -> (usize, usize) {
        self.groups.get(axis).copied().flatten().unwrap_or_default()
    }

    /// Order of a role's sums.
    fn lanes(&self, role: usize) -> Lanes {
        self.kernel.roles.get(role).map(|r| r.lanes).unwrap_or_default()
    }

    /// `sort.groups`.
    fn sort_groups(
        &mut self,
        experts: Value,
        offsets: Value,
        [pairs, rows]: [Option<Value>; 2],
        count: usize,
    ) -> Result<(), Fault> {
        let (experts, offsets) = (self.view(experts)?, self.view(offsets)?);
        let elements = |m: &Self, view: usize| m.views[view].shape.iter().product::<usize>();
        let total = elements(self, experts);
        let width = self.views[experts].width().max(1);
        within("the number of borders", count as i64 + 1, elements(self, offsets).saturating_add(1))?;
        let mut lists = Vec::new();
        for (list, by) in [(pairs, 1), (rows, width)] {
            let Some(list) = list else { continue };
            let list = self.view(list)?;
            within("the number of choices", total as i64, elements(self, list).saturating_add(1))?;
            lists.push((list, by));
        }
        for view in lists.iter().map(|(list, _)| *list).chain([offsets]) {
            self.settle(view)?;
        }
        let mut groups = vec![Vec::new(); count];
        for i in 0..total {
            let e = within("an expert", self.views[experts].int(self.tile, i)?, count)?;
            groups[e].push(i);
        }
        let mut start = 0;
        self.views[offsets].set_int(self.tile, 0, 0)?;
        for (e, group) in groups.iter().enumerate() {
            for (i, choice) in group.iter().enumerate() {
                for (list, by) in &lists {
                    self.views[*list].set_int(self.tile, start + i, (choice / by) as i64)?;
                }
            }
            start += group.len();
            self.views[offsets].set_int(self.tile, e + 1, start as i64)?;
        }
        Ok(())
    }

    /// `acquire` or `take`.
    fn get(&mut self, role: usize, ring: Value, op: &Op) -> Result<Option<SlotRef>, Fault> {
        let number = ring.index().checked_sub(self.kernel.params.len()).ok_or(Fault::Operand(ring))?;
        let seat = self.seat(role, number).ok_or(Fault::Operand(ring))?;
        let state = self.rings.get_mut(number).ok_or(Fault::Operand(ring))?;
        let slot =
            if matches!(op, Op::Acquire { .. }) { state.acquire(seat, self.rng)? } else { state.take(seat) };
        Ok(slot.map(|slot| SlotRef { ring: number, slot }))
    }

    /// Calls `f` with the slot that an op writes and those that it reads.
    fn matrix_op<const N: usize>(
        &mut self,
        role: usize,
        written: Value,
        read: [Value; N],
        f: impl FnOnce(&mut Matrix, [&Matrix; N]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut inputs = Vec::new();
        for v in read {
            self.contents(role, v)?;
            inputs.push(self.slot(role, v)?);
        }
        // Taken out for the time of the op: it is none of the slots read.
        let mut out = std::mem::replace(self.contents(role, written)?, Matrix::reals(0, 0, Vec::new()));
        let rings = &self.rings;
        let inputs = std::array::from_fn(|i| rings[inputs[i].ring].matrix(inputs[i].slot));
        let result = f(&mut out, inputs);
        *self.contents(role, written)? = out;
        result
    }

    fn slot_format(&self, role: usize, v: Value) -> Result<crate::types::Format, Fault> {
        let ring = self.slot(role, v)?.ring;
        self.kernel.rings.get(ring).map(|r| r.slot.format).ok_or(Fault::Operand(v))
    }

    fn length(&self, dim: &crate::types::Dim) -> Result<usize, Fault> {
        dim.eval(self.bindings).ok_or_else(|| Fault::Unbound(dim.to_string()))
    }
}

fn tile(matrix: Matrix) -> Held {
    Held::Tile(Rc::new(matrix))
}
