//! Selection: top-k, picks, block maxima, restriction to blocks, argmax.

use super::ix::Ix;
use super::lane::Width;
use super::tile::{Mem, Node, SMALL, Tile};
use super::write::Dst;
use super::{Emitter, FLAGS, Result, too_large, unsupported};
use crate::target::cpu::calls::Call;
use crate::target::cpu::scratch::Bytes;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, I8, I64};
use cranelift_codegen::ir::{BlockArg, InstBuilder};
use std::rc::Rc;
use tessera_ir::tile::Value;
use tessera_ir::{Dim, Elem, Format};

impl Emitter<'_> {
    /// `topk`.
    pub(super) fn topk(&mut self, v: Value, x: Value, n: Value, k: usize) -> Result<()> {
        let n = self.index(n)?;
        let (t, mem) = self.tile_in_memory(x, false)?;
        let bytes = Bytes::of(1, &t.cols, 8).ok_or_else(too_large)?;
        let work = self.scratch.take(&bytes).ok_or_else(too_large)?;
        let out = self.temp(1, &Dim::Fixed(k), Elem::I32)?;
        let (n, k_value) = (self.val(n), self.val(Self::size(k)));
        let work = self.region(&work);
        self.call(Call::Topk, &[mem.ptr, n, k_value, out.ptr, work]);
        self.bind_positions(v, out, k)
    }

    /// `topk.ranked`.
    pub(super) fn topk_ranked(&mut self, v: Value, x: Value, k: usize) -> Result<()> {
        let (t, mem) = self.tile_in_memory(x, false)?;
        let out = self.temp(1, &Dim::Fixed(k), Elem::I32)?;
        let cols = self.dim(&t.cols);
        let (n, k_value) = (self.val(cols), self.val(Self::size(k)));
        self.call(Call::TopkRanked, &[mem.ptr, n, k_value, out.ptr]);
        self.bind_positions(v, out, k)
    }

    fn bind_positions(&mut self, v: Value, out: Mem, k: usize) -> Result<()> {
        self.bind_tile(v, Tile { rows: 1, cols: Dim::Fixed(k), format: Format::I32, node: Node::Mem(out) })
    }

    /// `argmax`.
    pub(super) fn argmax(&mut self, v: Value, x: Value) -> Result<()> {
        let (t, mem) = self.tile_in_memory(x, false)?;
        let cols = self.dim(&t.cols);
        let n = self.val(cols);
        let Some(at) = self.call(Call::Argmax, &[mem.ptr, n]) else {
            return Err(unsupported("an argmax without a result"));
        };
        let node = Node::Regs(Rc::from([at]));
        self.bind_tile(v, Tile { rows: 1, cols: Dim::Fixed(1), format: Format::I32, node })
    }

    /// `pick`.
    pub(super) fn pick(&mut self, v: Value, x: Value, ids: Value) -> Result<()> {
        let (_, from) = self.tile_in_memory(x, false)?;
        let ids = self.tile(ids)?;
        let cols = ids.cols.clone();
        let result = |node| Tile { rows: 1, cols: cols.clone(), format: Format::F32, node };
        if ids.small().is_some_and(|n| n <= SMALL) {
            let mut picked = Vec::new();
            for id in self.regs(&ids)?.iter() {
                let id = self.b.ins().sextend(I64, *id);
                let (ptr, offset) = self.element(from.ptr, 0, id.into(), Elem::F32);
                picked.push(self.load_elem(ptr, offset, Elem::F32, Width::One));
            }
            return self.bind_tile(v, result(Node::Regs(picked.into())));
        }
        let list = self.in_memory(&ids)?;
        let out = self.temp(1, &cols, Elem::F32)?;
        let n = self.dim(&cols);
        self.repeat(Ix::Const(0), n, 1, &mut |e, i| {
            let (ptr, offset) = e.element(list.ptr, 0, i, Elem::I32);
            let id = e.b.ins().sload32(FLAGS, ptr, offset);
            let (ptr, offset) = e.element(from.ptr, 0, id.into(), Elem::F32);
            let x = e.load_elem(ptr, offset, Elem::F32, Width::One);
            let (ptr, offset) = e.element(out.ptr, 0, i, Elem::F32);
            e.store_elem(x, ptr, offset, Elem::F32, Width::One);
            Ok(())
        })?;
        self.bind_tile(v, result(Node::Mem(out)))
    }

    /// `block.max`.
    pub(super) fn block_max(
        &mut self,
        scores: Value,
        n: Value,
        newest: Value,
        out: Value,
        block: usize,
    ) -> Result<()> {
        let (n, newest) = (self.index(n)?, self.index(newest)?);
        let (scores, out) = (self.slot(scores)?, self.slot(out)?);
        let (from, to) = (self.slot_rows(&scores)?, self.slot_rows(&out)?);
        let block = self.val(Self::size(block));
        let n = self.val(n);
        let newest = self.val(newest);
        // No block has the number −1.
        let holds = self.b.ins().udiv(newest, block);
        let none = self.b.ins().iconst(I64, -1);
        let negative = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, newest, 0);
        let forced = self.b.ins().select(negative, none, holds);
        self.call(Call::BlockMax, &[from.ptr, n, block, forced, to.ptr]);
        Ok(())
    }

    /// `restrict`: blocks that the list lacks are filled with −∞.
    pub(super) fn restrict(&mut self, scores: Value, n: Value, blocks: Value, block: usize) -> Result<()> {
        let n = self.index(n)?;
        let slot = self.slot(scores)?;
        let m = self.slot_rows(&slot)?;
        let list_tile = self.tile(blocks)?;
        let length = self.dim(&list_tile.cols);
        let list = self.temp(1, &list_tile.cols, Elem::I32)?;
        self.write(&list_tile, Dst { ptr: list.ptr, stride: list.stride, elem: Elem::I32 })?;
        let width = i64::try_from(block.max(1)).map_err(|_| too_large())?;
        let lowest = self.b.ins().f32const(f32::NEG_INFINITY);
        debug_assert_eq!(self.b.func.dfg.value_type(lowest), F32);
        let count = self.div_ceil_const(n, width);
        self.repeat(Ix::Const(0), count, 1, &mut |e, b| {
            let number = e.val(b);
            let listed = e.listed(&list, length, number);
            let missing = e.b.ins().icmp_imm_u(IntCC::Equal, listed, 0);
            e.when(missing, &mut |e| {
                let from = e.mul(b, Ix::Const(width));
                let left = e.sub(n, from);
                let len = e.min(left, Ix::Const(width));
                let by = e.mul(from, Ix::Const(4));
                let ptr = e.offset(m.ptr, by);
                e.fill(ptr, len, lowest)
            })
        })
    }

    /// Whether one of the first `n` numbers of a list equals `number`.
    fn listed(
        &mut self,
        list: &Mem,
        n: Ix,
        number: cranelift_codegen::ir::Value,
    ) -> cranelift_codegen::ir::Value {
        let inside = self.b.create_block();
        let after = self.b.create_block();
        let i = self.b.append_block_param(inside, I64);
        let found = self.b.append_block_param(inside, I8);
        let result = self.b.append_block_param(after, I8);
        let (zero, no) = (self.b.ins().iconst(I64, 0), self.b.ins().iconst(I8, 0));
        let end = self.val(n);
        let any = self.b.ins().icmp(IntCC::SignedLessThan, zero, end);
        let first = [BlockArg::Value(zero), BlockArg::Value(no)];
        self.b.ins().brif(any, inside, &first, after, &[BlockArg::Value(no)]);
        self.b.switch_to_block(inside);
        let (ptr, offset) = self.element(list.ptr, 0, i.into(), Elem::I32);
        let x = self.b.ins().sload32(FLAGS, ptr, offset);
        let same = self.b.ins().icmp(IntCC::Equal, x, number);
        let found = self.b.ins().bor(found, same);
        let next = self.b.ins().iadd_imm_s(i, 1);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, next, end);
        let again = [BlockArg::Value(next), BlockArg::Value(found)];
        self.b.ins().brif(more, inside, &again, after, &[BlockArg::Value(found)]);
        self.b.switch_to_block(after);
        result
    }
}
