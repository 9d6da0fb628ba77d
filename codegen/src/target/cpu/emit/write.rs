//! Fused loops: evaluates a tile element by element into memory or registers.

use super::ix::Ix;
use super::lane::{Lane, Width, shift_of};
use super::tile::{Mem, Node, Place, Tile};
use super::{Emitter, Result, too_large, unsupported};
use crate::target::cpu::scratch::Bytes;
use cranelift_codegen::ir::{InstBuilder, Value};
use std::rc::Rc;
use tessera_ir::{Dim, Elem, Format};

/// Rows that are written one after another rather than in a loop.
const ROWS_UNROLLED: usize = 4;
/// Vectors written in one round of a loop over columns.
const UNROLL: i64 = 2;

/// Rows of plain elements to write.
#[derive(Clone, Copy)]
pub(super) struct Dst {
    /// Address of the first element.
    pub(super) ptr: Value,
    /// Bytes from row to row.
    pub(super) stride: Ix,
    /// Type of the elements.
    pub(super) elem: Elem,
}

impl Emitter<'_> {
    /// Writes every element of `t` to `dst`, row by row.
    pub(super) fn write(&mut self, t: &Tile, dst: Dst) -> Result<()> {
        let rows = Emitter::size(t.rows);
        if t.rows <= ROWS_UNROLLED || t.fixed_rows() {
            for r in 0..t.rows {
                self.write_row(t, Emitter::size(r), dst)?;
            }
            return Ok(());
        }
        self.repeat(Ix::Const(0), rows, 1, &mut |e, r| e.write_row(t, r, dst))
    }

    fn write_row(&mut self, t: &Tile, r: Ix, dst: Dst) -> Result<()> {
        let lane = self.lane(t, r)?;
        let row = self.mul(r, dst.stride);
        let (ptr, offset) = match row {
            Ix::Const(n) => (dst.ptr, n),
            Ix::Val(v, n) => (self.b.ins().iadd(dst.ptr, v), n),
        };
        let cols = self.dim(&t.cols);
        if t.fixed_cols() {
            let n = t.cols.fixed().unwrap_or(0);
            for c in 0..n {
                self.put(&lane, ptr, offset, Emitter::size(c), dst.elem, Width::One);
            }
            return Ok(());
        }
        self.columns(cols, &mut |e, c, w| e.put(&lane, ptr, offset, c, dst.elem, w))
    }

    /// Emits `body` for all columns below `cols`, in vectors of four, then one by one.
    pub(super) fn columns(&mut self, cols: Ix, body: &mut dyn FnMut(&mut Self, Ix, Width)) -> Result<()> {
        let Ix::Const(n) = cols else {
            let v = self.val(cols);
            let whole = self.whole_vectors(v);
            self.repeat(Ix::Const(0), whole, 4, &mut |e, c| {
                body(e, c, Width::Four);
                Ok(())
            })?;
            return self.repeat(whole, cols, 1, &mut |e, c| {
                body(e, c, Width::One);
                Ok(())
            });
        };
        let round = 4 * UNROLL;
        let looped = n - n % round;
        self.repeat(Ix::Const(0), Ix::Const(looped), round, &mut |e, c| {
            for u in 0..UNROLL {
                let c = e.add(c, Ix::Const(4 * u));
                body(e, c, Width::Four);
            }
            Ok(())
        })?;
        let mut c = looped;
        while c + 4 <= n {
            body(self, Ix::Const(c), Width::Four);
            c += 4;
        }
        while c < n {
            body(self, Ix::Const(c), Width::One);
            c += 1;
        }
        Ok(())
    }

    fn put(&mut self, lane: &Lane, ptr: Value, offset: i64, c: Ix, elem: Elem, w: Width) {
        let x = match w {
            Width::One => self.one(lane, c),
            Width::Four => self.four(lane, c),
        };
        let (ptr, offset) = self.element(ptr, offset, c, elem);
        self.store_elem(x, ptr, offset, elem, w);
    }

    /// All elements of a small tile as registers, row-major.
    pub(super) fn regs(&mut self, t: &Tile) -> Result<Rc<[Value]>> {
        if let Node::Regs(regs) = &t.node {
            return Ok(Rc::clone(regs));
        }
        let cols = t.cols.fixed().unwrap_or(0);
        let mut out = Vec::with_capacity(t.rows * cols);
        for r in 0..t.rows {
            let lane = self.lane(t, Emitter::size(r))?;
            for c in 0..cols {
                out.push(self.one(&lane, Emitter::size(c)));
            }
        }
        Ok(out.into())
    }

    /// Fresh memory for a `rows × cols` tile of 4-byte elements.
    pub(super) fn temp(&mut self, rows: usize, cols: &Dim, elem: Elem) -> Result<Mem> {
        let bytes = Bytes::of(rows, cols, 4).ok_or_else(too_large)?;
        let region = Rc::new(self.scratch.take(&bytes).ok_or_else(too_large)?);
        let ptr = self.region(&region);
        let cols = self.dim(cols);
        let stride = self.mul(cols, Ix::Const(4));
        Ok(Mem { ptr, stride, elem, place: Place::Temp, at: None, hold: Some(region) })
    }

    /// Evaluates `t` into fresh memory.
    pub(super) fn materialise(&mut self, t: &Tile) -> Result<Mem> {
        let elem = if t.format == Format::I32 { Elem::I32 } else { Elem::F32 };
        let mem = self.temp(t.rows, &t.cols, elem)?;
        self.write(t, Dst { ptr: mem.ptr, stride: mem.stride, elem })?;
        Ok(mem)
    }

    /// `t` in memory as f32 (or i32), each row without gaps: where it lies if it does, a copy else.
    pub(super) fn in_memory(&mut self, t: &Tile) -> Result<Mem> {
        match &t.node {
            Node::Mem(m) if shift_of(m.elem) == 2 => Ok(m.clone()),
            Node::Quantised(_) => Err(unsupported("arithmetic on a quantised tile (cast it to f32)")),
            Node::Mem(_)
            | Node::Const(_)
            | Node::Regs(_)
            | Node::Map(..)
            | Node::Zip(..)
            | Node::Round(_)
            | Node::Part(..)
            | Node::Fold(..) => self.materialise(t),
        }
    }

    /// `t` in memory as f32 without gaps between rows.
    pub(super) fn contiguous(&mut self, t: &Tile) -> Result<Mem> {
        if let Node::Mem(m) = &t.node
            && shift_of(m.elem) == 2
            && (t.rows == 1 || self.row_bytes4(&t.cols) == m.stride)
        {
            return Ok(m.clone());
        }
        match &t.node {
            Node::Mem(_) => self.materialise(t),
            Node::Quantised(_)
            | Node::Const(_)
            | Node::Regs(_)
            | Node::Map(..)
            | Node::Zip(..)
            | Node::Round(_)
            | Node::Part(..)
            | Node::Fold(..) => self.in_memory(t),
        }
    }

    fn row_bytes4(&mut self, cols: &Dim) -> Ix {
        let cols = self.dim(cols);
        self.mul(cols, Ix::Const(4))
    }
}
