//! Statements and the dispatch of ops.

use super::entry::fault;
use super::env::operands;
use super::ix::Ix;
use super::tile::Place;
use super::{Emitter, Result, foreign};
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use tessera_ir::Elem;
use tessera_ir::tile::{IndexOp, Node, Op, Stmt, Value};

impl Emitter<'_> {
    /// Emits the program of one tile.
    pub(super) fn program(&mut self) {
        let program = self.program;
        self.values.clear();
        self.block(&program.body);
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Op(node) => self.node(node),
                Stmt::For { var, lo, hi, step, body } => {
                    if let Err(reason) = self.for_loop(*var, *lo, *hi, *step, body) {
                        self.faults.push(fault("for", reason.0));
                    }
                    self.used(*lo);
                    self.used(*hi);
                }
                Stmt::If { cond, body } => {
                    if let Err(reason) = self.branch(*cond, body) {
                        self.faults.push(fault("if", reason.0));
                    }
                    self.used(*cond);
                }
            }
        }
    }

    fn for_loop(&mut self, var: Value, lo: Value, hi: Value, step: usize, body: &[Stmt]) -> Result<()> {
        if self.is_nothing(lo) || self.is_nothing(hi) {
            return Ok(());
        }
        let (lo, hi) = (self.index(lo)?, self.index(hi)?);
        self.enter(body)?;
        let step = i64::try_from(step.max(1)).unwrap_or(i64::MAX);
        let done = self.repeat(lo, hi, step, &mut |e, i| {
            e.bind_index(var, i);
            e.block(body);
            Ok(())
        });
        self.leave();
        done
    }

    fn branch(&mut self, cond: Value, body: &[Stmt]) -> Result<()> {
        if self.is_nothing(cond) {
            return Ok(());
        }
        let cond = self.index(cond)?;
        self.enter(body)?;
        let done = match cond {
            Ix::Const(0) => Ok(()),
            Ix::Const(_) => {
                self.block(body);
                Ok(())
            }
            Ix::Val(..) => {
                let holds = self.val(cond);
                self.when(holds, &mut |e| {
                    e.block(body);
                    Ok(())
                })
            }
        };
        self.leave();
        done
    }

    fn node(&mut self, node: &Node) {
        if !self.has_nothing(&node.op) {
            if let Err(reason) = self.op(node) {
                self.faults.push(fault(node.op.mnemonic(), reason.0));
                self.bind_result(node);
            }
        } else {
            self.bind_result(node);
        }
        operands(&node.op, &mut |v| self.used(v));
    }

    fn bind_result(&mut self, node: &Node) {
        if let Some((v, _)) = &node.result {
            self.bind_nothing(*v);
        }
    }

    fn op(&mut self, node: &Node) -> Result<()> {
        let result = node.result.as_ref().map(|(v, _)| *v);
        if let Some(v) = result {
            return self.valued(v, &node.op);
        }
        self.effect(&node.op)
    }

    /// Ops with a result.
    fn valued(&mut self, v: Value, op: &Op) -> Result<()> {
        match op {
            Op::IndexConst { value } => self.bind_index(v, Ix::Const(*value)),
            Op::IndexDim { dim } => {
                let x = self.dim(dim);
                self.bind_index(v, x);
            }
            Op::IndexTile { axis } => {
                let x = self.tile.get(*axis).copied().map_or(Ix::Const(0), Ix::from);
                self.bind_index(v, x);
            }
            Op::IndexBinary { a, b, f } => {
                let (a, b) = (self.index(*a)?, self.index(*b)?);
                let x = self.index_op(*f, a, b);
                self.bind_index(v, x);
            }
            Op::IndexRead { view, at } => {
                let x = self.index_read(*view, at)?;
                self.bind_index(v, x);
            }
            // Slots are places known now; moving them round the roles costs nothing.
            Op::Acquire { .. } | Op::Take { .. } => {}
            Op::Load { view, at, rows, cols } => self.load(v, *view, at, *rows, cols)?,
            Op::SlotLoad { slot, row, col, rows, cols } => {
                let t = self.slot_load(*slot, *row, *col, *rows, cols)?;
                self.bind_tile(v, t)?;
            }
            Op::Splat { value } => self.splat(v, *value)?,
            Op::Map { x, f } => self.map(v, *x, *f)?,
            Op::Zip { a, b, f } => self.zip(v, *a, *b, *f)?,
            Op::Reduce { x, f, axis } => self.reduce(v, *x, *f, *axis)?,
            Op::Dot { a, b } => self.dot(v, *a, *b)?,
            Op::Slice { x, row, rows, col, cols } => self.slice(v, *x, (*row, *rows), (*col, *cols))?,
            Op::Reshape { x, rows, cols } => self.reshape(v, *x, *rows, *cols)?,
            Op::Cast { x, format } => self.cast(v, *x, *format)?,
            Op::Rotate { x, table, inverse } => self.rotate(v, *x, *table, *inverse)?,
            Op::Angles { pos, rope } => self.angles(v, *pos, rope)?,
            Op::TopK { x, n, k } => self.topk(v, *x, *n, *k)?,
            Op::TopRanked { x, k } => self.topk_ranked(v, *x, *k)?,
            Op::PickCols { x, ids } => self.pick(v, *x, *ids)?,
            Op::Argmax { x } => self.argmax(v, *x)?,
            Op::IndexWrite { .. }
            | Op::Pass { .. }
            | Op::Release { .. }
            | Op::Copy { .. }
            | Op::CopyRing { .. }
            | Op::CopyGather { .. }
            | Op::Mma { .. }
            | Op::MmaScores { .. }
            | Op::MmaValues { .. }
            | Op::MmaIndex { .. }
            | Op::Store { .. }
            | Op::SlotStore { .. }
            | Op::SlotFill { .. }
            | Op::BlockMax { .. }
            | Op::Restrict { .. } => {}
            Op::IndexGroup { .. }
            | Op::IndexEnd { .. }
            | Op::Transpose { .. }
            | Op::MaskCols { .. }
            | Op::MaskIds { .. }
            | Op::Any { .. }
            | Op::TopKView { .. }
            | Op::TopKListed { .. } => return Err(foreign()),
            Op::Return { .. }
            | Op::CopyTile { .. }
            | Op::CopyRows { .. }
            | Op::CopyWrap { .. }
            | Op::Decode { .. }
            | Op::MmaTile { .. }
            | Op::StoreRows { .. }
            | Op::StoreScatter { .. }
            | Op::SortGroups { .. } => {}
        }
        Ok(())
    }

    /// Ops without a result.
    fn effect(&mut self, op: &Op) -> Result<()> {
        if let Some(place) = self.writes(op) {
            let x = match op {
                Op::Store { x, .. } | Op::SlotStore { x, .. } => Some(*x),
                _ => None,
            };
            self.before_write(place, x)?;
        }
        match op {
            Op::IndexWrite { value, view, at } => self.index_write(*value, *view, at),
            Op::Pass { .. } | Op::Release { .. } => Ok(()),
            Op::Copy { view, at, slot, rows } => self.copy(*view, at, *slot, *rows),
            Op::CopyRing { view, outer, start, slot, rows } => {
                self.copy_ring(*view, outer, *start, *slot, *rows)
            }
            Op::CopyGather { view, outer, ids, at, slot, rows } => {
                self.copy_gather(*view, outer, (*ids, at), *slot, *rows)
            }
            Op::Mma { acc, a, b, rows, init } => self.mma(*acc, *a, *b, *rows, *init),
            Op::MmaScores { acc, q, keys, col, n, scale } => {
                self.mma_scores(*acc, *q, *keys, (*col, *n), *scale)
            }
            Op::MmaValues { acc, e, values, col, n } => self.mma_values(*acc, *e, *values, (*col, *n)),
            Op::MmaIndex { acc, q, w, keys, col, n, round } => {
                self.mma_index(*acc, (*q, *w), *keys, (*col, *n), *round)
            }
            Op::Store { x, view, at } => self.store(*x, *view, at),
            Op::SlotStore { x, slot, row, col } => self.slot_store(*x, *slot, *row, *col),
            Op::SlotFill { slot, value } => self.slot_fill(*slot, *value),
            Op::BlockMax { scores, n, newest, out, block } => {
                self.block_max(*scores, *n, *newest, *out, *block)
            }
            Op::Restrict { scores, n, blocks, block } => self.restrict(*scores, *n, *blocks, *block),
            Op::IndexConst { .. }
            | Op::IndexDim { .. }
            | Op::IndexTile { .. }
            | Op::IndexBinary { .. }
            | Op::IndexRead { .. }
            | Op::Acquire { .. }
            | Op::Take { .. }
            | Op::Load { .. }
            | Op::SlotLoad { .. }
            | Op::Splat { .. }
            | Op::Map { .. }
            | Op::Zip { .. }
            | Op::Reduce { .. }
            | Op::Dot { .. }
            | Op::Slice { .. }
            | Op::Reshape { .. }
            | Op::Cast { .. }
            | Op::Rotate { .. }
            | Op::Angles { .. }
            | Op::TopK { .. }
            | Op::TopRanked { .. }
            | Op::PickCols { .. }
            | Op::Argmax { .. } => Ok(()),
            Op::Return { .. }
            | Op::CopyTile { .. }
            | Op::CopyRows { .. }
            | Op::CopyWrap { .. }
            | Op::Decode { .. }
            | Op::MmaTile { .. }
            | Op::StoreRows { .. }
            | Op::StoreScatter { .. }
            | Op::SortGroups { .. } => Err(foreign()),
            Op::IndexGroup { .. }
            | Op::IndexEnd { .. }
            | Op::Transpose { .. }
            | Op::MaskCols { .. }
            | Op::MaskIds { .. }
            | Op::Any { .. }
            | Op::TopKView { .. }
            | Op::TopKListed { .. } => Ok(()),
        }
    }

    /// The memory that an op writes.
    fn writes(&self, op: &Op) -> Option<Place> {
        match op {
            Op::IndexWrite { view, .. } | Op::Store { view, .. } => Some(Place::Param(view.index())),
            Op::Copy { slot, .. }
            | Op::CopyRing { slot, .. }
            | Op::CopyGather { slot, .. }
            | Op::SlotStore { slot, .. }
            | Op::SlotFill { slot, .. } => self.slot_place(*slot),
            Op::Mma { acc, .. }
            | Op::MmaScores { acc, .. }
            | Op::MmaValues { acc, .. }
            | Op::MmaIndex { acc, .. } => self.slot_place(*acc),
            Op::BlockMax { out, .. } => self.slot_place(*out),
            Op::Restrict { scores, .. } => self.slot_place(*scores),
            Op::IndexConst { .. }
            | Op::IndexDim { .. }
            | Op::IndexTile { .. }
            | Op::IndexBinary { .. }
            | Op::IndexRead { .. }
            | Op::Acquire { .. }
            | Op::Take { .. }
            | Op::Pass { .. }
            | Op::Release { .. }
            | Op::Load { .. }
            | Op::SlotLoad { .. }
            | Op::Splat { .. }
            | Op::Map { .. }
            | Op::Zip { .. }
            | Op::Reduce { .. }
            | Op::Dot { .. }
            | Op::Slice { .. }
            | Op::Reshape { .. }
            | Op::Cast { .. }
            | Op::Rotate { .. }
            | Op::Angles { .. }
            | Op::TopK { .. }
            | Op::TopRanked { .. }
            | Op::PickCols { .. }
            | Op::Argmax { .. }
            | Op::IndexGroup { .. }
            | Op::IndexEnd { .. }
            | Op::Transpose { .. }
            | Op::MaskCols { .. }
            | Op::MaskIds { .. }
            | Op::Any { .. }
            | Op::TopKView { .. }
            | Op::TopKListed { .. }
            | Op::Return { .. }
            | Op::CopyTile { .. }
            | Op::CopyRows { .. }
            | Op::CopyWrap { .. }
            | Op::Decode { .. }
            | Op::MmaTile { .. }
            | Op::StoreRows { .. }
            | Op::StoreScatter { .. }
            | Op::SortGroups { .. } => None,
        }
    }

    /// The memory that a block and the blocks inside it write.
    pub(super) fn written(&self, body: &[Stmt]) -> Vec<Place> {
        let mut places = Vec::new();
        super::env::each_op(body, &mut |node| {
            if let Some(p) = self.writes(&node.op)
                && !places.contains(&p)
            {
                places.push(p);
            }
        });
        places
    }

    fn index_op(&mut self, f: IndexOp, a: Ix, b: Ix) -> Ix {
        let compared = |e: &mut Self, cc: IntCC, holds: fn(i64, i64) -> bool| match (a, b) {
            (Ix::Const(a), Ix::Const(b)) => Ix::Const(i64::from(holds(a, b))),
            _ => {
                let (a, b) = (e.val(a), e.val(b));
                e.compare(cc, a, b).into()
            }
        };
        match f {
            IndexOp::Add => self.add(a, b),
            IndexOp::Sub => self.sub(a, b),
            IndexOp::Mul => self.mul(a, b),
            IndexOp::Min => self.min(a, b),
            IndexOp::Max => self.max(a, b),
            IndexOp::Lt => compared(self, IntCC::SignedLessThan, |a, b| a < b),
            IndexOp::Le => compared(self, IntCC::SignedLessThanOrEqual, |a, b| a <= b),
            IndexOp::Eq => compared(self, IntCC::Equal, |a, b| a == b),
            IndexOp::Div | IndexOp::Rem => {
                // A divisor is positive by the op's contract; data that breaks it must not stop the process.
                let divisor = self.max(b, Ix::Const(1));
                if let (Ix::Const(a), Ix::Const(b)) = (a, divisor) {
                    return Ix::Const(if f == IndexOp::Div { a.wrapping_div(b) } else { a.wrapping_rem(b) });
                }
                let (a, b) = (self.val(a), self.val(divisor));
                Ix::from(match f {
                    IndexOp::Div => self.b.ins().sdiv(a, b),
                    _ => self.b.ins().srem(a, b),
                })
            }
            IndexOp::Xor | IndexOp::And => {
                let (a, b) = (self.val(a), self.val(b));
                Ix::from(match f {
                    IndexOp::Xor => self.b.ins().bxor(a, b),
                    _ => self.b.ins().band(a, b),
                })
            }
        }
    }

    fn index_read(&mut self, view: Value, at: &[Value]) -> Result<Ix> {
        let at = self.indices(at)?;
        let m = self.view_block(view, &at)?;
        Ok(Ix::from(match m.elem {
            Elem::I64 => self.b.ins().load(I64, super::FLAGS, m.ptr, 0),
            Elem::I32 | Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 => {
                let x = self.b.ins().load(I32, super::FLAGS, m.ptr, 0);
                self.b.ins().sextend(I64, x)
            }
        }))
    }

    fn index_write(&mut self, value: Value, view: Value, at: &[Value]) -> Result<()> {
        let (x, at) = (self.index(value)?, self.indices(at)?);
        let m = self.view_block(view, &at)?;
        let x = self.val(x);
        let x = if m.elem == Elem::I64 { x } else { self.b.ins().ireduce(I32, x) };
        self.b.ins().store(super::FLAGS, x, m.ptr, 0);
        Ok(())
    }
}
