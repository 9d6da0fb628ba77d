//! One match over all ops: looks operands up, calls the family, keeps the result.

use super::block::Matrix;
use super::error::Fault;
use super::machine::{Done, Held, Machine};
use super::{arith, matrix, select, tiles};
use crate::tile::{Node, Op, SlotRef, Value};
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
                let place = self.place(r, at.ring).ok_or(Fault::Operand(*slot))?;
                self.rings[at.ring].give(place, at.slot);
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
            Op::Reduce { x, f, axis } => tile(arith::reduce(&*self.matrix(r, *x)?, *f, *axis)),
            Op::Dot { a, b } => tile(arith::dots(&*self.matrix(r, *a)?, &*self.matrix(r, *b)?)),
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

    /// Place of a role on the path of a ring.
    fn place(&self, role: usize, ring: usize) -> Option<usize> {
        self.kernel.rings.get(ring)?.path.iter().position(|r| *r == role)
    }

    /// `acquire` or `take`.
    fn get(&mut self, role: usize, ring: Value, op: &Op) -> Result<Option<SlotRef>, Fault> {
        let number = ring.index().checked_sub(self.kernel.params.len()).ok_or(Fault::Operand(ring))?;
        let place = self.place(role, number).ok_or(Fault::Operand(ring))?;
        let state = self.rings.get_mut(number).ok_or(Fault::Operand(ring))?;
        let slot =
            if matches!(op, Op::Acquire { .. }) { state.acquire(self.rng)? } else { state.take(place) };
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
