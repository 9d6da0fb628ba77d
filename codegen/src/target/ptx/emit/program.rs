//! Statements of a role, and the dispatch of ops to the files that emit them.

use super::index::{Ix, power};
use super::slots::Give;
use super::{Bound, Emitter, Result, foreign, unsupported, vector};
use crate::error::Unsupported;
use crate::target::ptx::isa::{Class, Cmp, Ty};
use tessera_ir::tile::{Node, Op, Stmt, Value, print_node};

impl<'k> Emitter<'k> {
    /// Emits statements in order; what has no code is noted, and emission goes on to find the rest.
    pub(super) fn block(&mut self, stmts: &'k [Stmt]) {
        for (i, stmt) in stmts.iter().enumerate() {
            let (name, result) = match stmt {
                Stmt::Op(node) => {
                    let ahead = self.records_ahead(node, stmts.get(i + 1));
                    (node.op.mnemonic(), ahead.and_then(|()| self.node(node)))
                }
                Stmt::For { var, lo, hi, step, body } => ("for", self.for_(*var, *lo, *hi, *step, body)),
                Stmt::If { cond, body } => ("if", self.if_(*cond, body)),
            };
            if let Err(reason) = result {
                self.faults.push(Unsupported { op: name, what: reason.0 });
            }
        }
    }

    /// `for`: tested before the first round; the counter is a register.
    fn for_(&mut self, var: Value, lo: Value, hi: Value, step: usize, body: &'k [Stmt]) -> Result<()> {
        let (lo, hi) = (self.ix(lo)?, self.ix(hi)?);
        let most = i64::from(i32::MAX) - step as i64;
        if !lo.narrow() || !hi.narrow() || step as i64 > most {
            return Err(unsupported("a loop whose bounds do not fit 32 bits"));
        }
        self.asm.comment("for");
        let counter = self.asm.mov(Ty::S32, lo.low());
        self.copies_before_loop((var, lo, step), body)?;
        self.products_before_loop(body)?;
        let end = self.asm.label("for_end");
        let none = self.asm.setp(Cmp::Ge, Ty::S32, counter, hi.low());
        self.asm.bra_if(none, end);
        let top = self.asm.here("for");
        // Any round may follow any other.
        self.vector.hazards.unknown();
        let (known, strides) = (self.values.clone(), self.vector.strides());
        let by = power(step as i64).min(lo.divisor() as i64);
        let index = Ix::word(counter, lo.range().0, hi.range().1).multiple_of(by);
        self.bind(var, Bound::Index(index));
        self.folded_enter(body)?;
        self.block(body);
        self.folded_leave();
        self.values = known;
        self.vector.restore(strides);
        self.asm.add_s32_to(counter, counter, step);
        let more = self.asm.setp(Cmp::Lt, Ty::S32, counter, hi.low());
        self.asm.bra_if(more, top);
        self.asm.place(end);
        self.vector.hazards.unknown();
        Ok(())
    }

    /// `if`: all threads of the role go the same way.
    fn if_(&mut self, cond: Value, body: &'k [Stmt]) -> Result<()> {
        let cond = self.ix(cond)?;
        match cond.known() {
            Some(0) => return Ok(()),
            Some(_) => {
                self.block(body);
                return Ok(());
            }
            None => {}
        }
        let p = self.truth(cond);
        let end = self.asm.label("if_end");
        self.asm.bra_unless(p, end);
        let (known, strides) = (self.values.clone(), self.vector.strides());
        let before = self.vector.hazards.clone();
        self.block(body);
        self.values = known;
        self.vector.restore(strides);
        self.vector.hazards.or(before);
        self.asm.place(end);
        Ok(())
    }

    fn node(&mut self, node: &'k Node) -> Result<()> {
        // An op without a result binds nothing.
        let v = node.result.as_ref().map_or(Value(u32::MAX), |(v, _)| *v);
        if !matches!(node.op, Op::IndexConst { .. } | Op::Splat { .. }) {
            let text = print_node(self.kernel, node);
            self.asm.comment(text.trim());
        }
        if self.folded.is_some() && vector::folded::on_tiles(node) {
            return self.folded_node(node);
        }
        match &node.op {
            Op::IndexConst { value } => {
                self.bind(v, Bound::Index(Ix::constant(*value)));
                Ok(())
            }
            Op::IndexDim { dim } => self.index_dim(v, dim),
            Op::IndexTile { axis } => {
                let first = self.tile.get(*axis).map(|c| c.first);
                self.coordinate(v, first)
            }
            Op::IndexGroup { axis } => {
                let group = self.tile.get(*axis).and_then(|c| c.group).map(|(g, _)| g);
                self.coordinate(v, group)
            }
            Op::IndexEnd { axis } => {
                let end = self.tile.get(*axis).and_then(|c| c.group).map(|(_, e)| e);
                self.coordinate(v, end)
            }
            Op::IndexBinary { a, b, f } => {
                let (a, b) = (self.ix(*a)?, self.ix(*b)?);
                let ix = self.ix_binary(*f, a, b);
                self.bind(v, Bound::Index(ix));
                Ok(())
            }
            Op::IndexRead { view, at } => self.index_read(v, *view, at),
            Op::IndexWrite { value, view, at } => self.index_write(*value, *view, at),

            Op::Acquire { ring } if self.folded_acquire(*ring, v) => Ok(()),
            Op::Acquire { ring } if self.keeps(*ring) => self.own_slot(v, *ring),
            Op::Acquire { ring } => self.slot_begin(*ring, v, false),
            Op::Take { ring } => {
                let again = self.begins(*ring);
                self.slot_begin(*ring, v, again)
            }
            Op::Release { slot } | Op::Pass { slot } | Op::Return { slot } if self.folded_give(*slot) => {
                Ok(())
            }
            Op::Release { slot } if self.held(*slot).is_err() => self.own_given(*slot, &node.op),
            Op::Release { slot } => self.slot_give(*slot, Give::Release),
            Op::Pass { slot } => self.slot_give(*slot, Give::Pass),
            Op::Return { slot } => self.slot_give(*slot, Give::Return),

            Op::CopyTile { view, at, slot, part } => self.copy_tile(*view, at, *slot, *part),
            Op::CopyRows { slot, .. } | Op::CopyWrap { slot, .. } if self.is_raw(*slot) => {
                self.copy_records(&node.op)
            }
            Op::CopyRows { .. } => self.copy_rows(&node.op),
            Op::CopyWrap { .. } => Err(foreign(&node.op)),
            Op::Decode { from, to, row } => self.decode_records(*from, *to, *row),
            Op::MmaTile { acc, a, b, n: _, first, trans } if self.is_folded(*acc) => {
                self.mma_folded(*acc, (*a, *b), *first, *trans)
            }
            Op::MmaTile { acc, a, b, n, first, trans: false } => self.mma_tile(*acc, (*a, *b), *n, *first),
            Op::MmaTile { .. } => Err(foreign(&node.op)),

            Op::Load { view, at, rows, cols } => self.load(v, *view, at, *rows, cols),
            Op::Store { x, view, at } => self.store(*x, *view, at),
            Op::StoreRows { x, view, at, rows } => self.store_rows(*x, *view, at, *rows),
            Op::StoreScatter { x, view, ids, at, col, rows } => {
                self.store_scatter(*x, *view, (*ids, at), *col, *rows)
            }
            Op::SlotLoad { slot, row, col, rows, cols } => match self.held(*slot) {
                Ok(held) => self.held_load(v, held, (*row, *col), *rows, cols),
                Err(_) => self.slot_load(v, *slot, (*row, *col), *rows, cols),
            },
            Op::SlotStore { x, slot, row, col } => self.slot_store(*x, *slot, *row, *col),
            Op::SlotFill { slot, value } => self.slot_fill(*slot, *value),

            Op::Splat { value } => self.splat(v, *value),
            Op::Map { x, f } => self.map(v, *x, *f),
            Op::Zip { a, b, f } => self.zip(v, *a, *b, *f),
            Op::Reduce { x, f, axis } => self.reduce(v, *x, *f, *axis),
            Op::Dot { a, b } => self.dot(v, *a, *b),
            Op::Slice { x, row, rows, col, cols } => self.slice(v, *x, (*row, *rows), (*col, *cols)),
            Op::Reshape { x, rows, cols } => self.reshape(v, *x, *rows, *cols),
            Op::Transpose { x } => self.transpose(v, *x),
            Op::MaskCols { x, n, value } => self.mask_cols(v, *x, *n, *value),
            Op::MaskIds { .. } | Op::Any { .. } => Err(foreign(&node.op)),
            Op::Cast { x, format } => self.cast(v, *x, *format),
            Op::Rotate { x, table, inverse } => self.rotate(v, *x, *table, *inverse),
            Op::Angles { pos, rope } => self.angles(v, *pos, rope),

            Op::TopRanked { x, k } => self.topk_ranked(v, *x, *k),
            Op::PickCols { x, ids } => self.pick(v, *x, *ids),
            Op::Argmax { x } => self.argmax(v, *x),
            Op::TopKView { view, at, n, newest, k, block } => {
                self.topk_view(v, (*view, at), (*n, *newest), (*k, *block))
            }
            Op::TopKListed { view, at, n, list, from, k, block } => {
                self.topk_listed(v, (*view, at), *n, (*list, from), (*k, *block))
            }
            Op::SortGroups { experts, offsets, pairs, rows, count } => {
                self.sort_groups(*experts, *offsets, (*pairs, *rows), *count)
            }

            // Written for a processor's core.
            Op::Copy { .. }
            | Op::CopyRing { .. }
            | Op::CopyGather { .. }
            | Op::Mma { .. }
            | Op::MmaScores { .. }
            | Op::MmaValues { .. }
            | Op::MmaIndex { .. }
            | Op::TopK { .. }
            | Op::BlockMax { .. }
            | Op::Restrict { .. } => Err(foreign(&node.op)),
        }
    }

    fn coordinate(&mut self, v: Value, ix: Option<Ix>) -> Result<()> {
        let ix = ix.ok_or_else(|| unsupported("an axis that the grid does not have"))?;
        self.bind(v, Bound::Index(ix));
        Ok(())
    }

    /// An f32 register, not written yet.
    pub(super) fn real(&mut self) -> crate::target::ptx::isa::Reg {
        self.asm.reg(Class::F32)
    }
}
