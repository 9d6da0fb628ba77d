//! Tile arithmetic: maps, zips, reductions, dots, parts, shapes, rotation, angles.

use super::ix::Ix;
use super::lane::Width;
use super::tile::{Mem, Node, SMALL, Tile};
use super::{Emitter, FLAGS, Result, unsupported};
use crate::target::cpu::calls::Call;
use cranelift_codegen::ir::types::{F32X4, I8X16, I32};
use cranelift_codegen::ir::{ConstantData, InstBuilder, MemFlagsData, Value as Ssa};
use std::rc::Rc;
use tessera_ir::graph::Rope;
use tessera_ir::tile::{Binary, Reduce, Unary, Value};
use tessera_ir::{Dim, Elem, Format};

/// Sums of sixteen lanes: element i in lane i mod 16.
const LANES: usize = 16;

fn call_of(f: Unary) -> Option<Call> {
    match f {
        Unary::Exp => Some(Call::Exp),
        Unary::Sigmoid => Some(Call::Sigmoid),
        Unary::Silu => Some(Call::Silu),
        Unary::SqrtSoftplus => Some(Call::SoftplusSqrt),
        Unary::Neg | Unary::Abs | Unary::Sqrt | Unary::Rsqrt | Unary::Relu => None,
    }
}

impl Emitter<'_> {
    /// `splat`.
    pub(super) fn splat(&mut self, v: Value, value: f32) -> Result<()> {
        let t = Tile { rows: 1, cols: Dim::Fixed(1), format: Format::F32, node: Node::Const(value) };
        self.bind_tile(v, t)
    }

    /// `map`.
    pub(super) fn map(&mut self, v: Value, x: Value, f: Unary) -> Result<()> {
        if self.uses.get(v.index()).copied().unwrap_or(0) == 0 {
            return Ok(());
        }
        let t = self.tile(x)?;
        let (rows, cols) = (t.rows, t.cols.clone());
        let node = match call_of(f) {
            None => Node::Map(f, Rc::new(t)),
            Some(call) => {
                // Rows without gaps are one long row. A copy made just now is changed in place.
                let source = self.contiguous(&t)?;
                let lies_there = matches!(&t.node, Node::Mem(own) if own.ptr == source.ptr);
                let out = if lies_there { self.temp(rows, &cols, Elem::F32)? } else { source.clone() };
                let n = self.dim(&cols);
                let n = self.mul(n, Self::size(rows));
                let n = self.val(n);
                self.call(call, &[out.ptr, source.ptr, n]);
                Node::Mem(out)
            }
        };
        self.bind_tile(v, Tile { rows, cols, format: Format::F32, node })
    }

    /// `zip`.
    pub(super) fn zip(&mut self, v: Value, a: Value, b: Value, f: Binary) -> Result<()> {
        if self.uses.get(v.index()).copied().unwrap_or(0) == 0 {
            return Ok(());
        }
        let (a, b) = (self.tile(a)?, self.tile(b)?);
        let rows = a.rows.max(b.rows);
        let cols = if a.cols == Dim::Fixed(1) { b.cols.clone() } else { a.cols.clone() };
        let (a, b) = (self.cheap(a, rows)?, self.cheap(b, rows)?);
        self.bind_tile(v, Tile { rows, cols, format: Format::F32, node: Node::Zip(f, a, b) })
    }

    /// `reduce`.
    pub(super) fn reduce(&mut self, v: Value, x: Value, f: Reduce, axis: usize) -> Result<()> {
        if self.uses.get(v.index()).copied().unwrap_or(0) == 0 {
            return Ok(());
        }
        if axis == 0 {
            return self.reduce_rows(v, x, f);
        }
        let t = self.tile(x)?;
        let rows = t.rows;
        let column = |node| Tile { rows, cols: Dim::Fixed(1), format: Format::F32, node };
        if t.small().is_some() {
            let cols = t.cols.fixed().unwrap_or(1).max(1);
            let regs = self.regs(&t)?;
            let sums: Vec<Ssa> = regs.chunks(cols).map(|row| self.reduce_small(f, row)).collect();
            return self.bind_tile(v, column(Node::Regs(sums.into())));
        }
        let (t, m) = self.tile_in_memory(x, false)?;
        let call = match f {
            Reduce::Sum => Call::Sum,
            Reduce::Max => Call::Max,
            Reduce::AbsMax => Call::Absmax,
        };
        let node = self.each_row(&t, &m, |e, row, n| e.call(call, &[row, n]))?;
        self.bind_tile(v, column(node))
    }

    /// A number for each row of `t`, which lies at `m`.
    fn each_row(
        &mut self,
        t: &Tile,
        m: &Mem,
        f: impl Fn(&mut Self, Ssa, Ssa) -> Option<Ssa>,
    ) -> Result<Node> {
        let cols = self.dim(&t.cols);
        let lacks = || unsupported("a reduction without a result");
        if t.rows <= SMALL {
            let mut out = Vec::with_capacity(t.rows);
            for r in 0..t.rows {
                let down = self.mul(Self::size(r), m.stride);
                let (row, n) = (self.offset(m.ptr, down), self.val(cols));
                out.push(f(self, row, n).ok_or_else(lacks)?);
            }
            return Ok(Node::Regs(out.into()));
        }
        let out = self.temp(t.rows, &Dim::Fixed(1), Elem::F32)?;
        self.repeat(Ix::Const(0), Self::size(t.rows), 1, &mut |e, r| {
            let down = e.mul(r, m.stride);
            let (row, n) = (e.offset(m.ptr, down), e.val(cols));
            let x = f(e, row, n).ok_or_else(lacks)?;
            let (ptr, offset) = e.element(out.ptr, 0, r, Elem::F32);
            e.store_elem(x, ptr, offset, Elem::F32, Width::One);
            Ok(())
        })?;
        Ok(Node::Mem(out))
    }

    /// A row of at most 16 registers, in the order of long rows: one element a lane, then the lanes as a tree.
    fn reduce_small(&mut self, f: Reduce, row: &[Ssa]) -> Ssa {
        let start = self.start(f, Width::One);
        let mut lanes: Vec<Ssa> = row.iter().map(|x| self.fold(f, start, *x, Width::One)).collect();
        let mut width = LANES / 2;
        while width > 0 {
            // A missing lane holds what the reduction starts from, which changes nothing now.
            for j in 0..width.min(lanes.len().saturating_sub(width)) {
                let other = lanes[j + width];
                lanes[j] = self.join(f, lanes[j], other);
            }
            lanes.truncate(width);
            width /= 2;
        }
        lanes.first().copied().unwrap_or(start)
    }

    /// `reduce` along rows.
    fn reduce_rows(&mut self, v: Value, x: Value, f: Reduce) -> Result<()> {
        let t = self.tile(x)?;
        let cols = t.cols.clone();
        if t.rows <= SMALL {
            let node = Node::Fold(f, Rc::new(t));
            return self.bind_tile(v, Tile { rows: 1, cols, format: Format::F32, node });
        }
        if t.fixed_cols() || t.fixed_rows() {
            return Err(unsupported("a reduction along many rows of registers"));
        }
        let out = self.temp(1, &cols, Elem::F32)?;
        let n = self.dim(&cols);
        let start = self.start(f, Width::One);
        self.fill(out.ptr, n, start)?;
        self.repeat(Ix::Const(0), Self::size(t.rows), 1, &mut |e, r| {
            let lane = e.lane(&t, r)?;
            e.columns(n, &mut |e, c, w| {
                let x = match w {
                    Width::One => e.one(&lane, c),
                    Width::Four => e.four(&lane, c),
                };
                let (ptr, offset) = e.element(out.ptr, 0, c, Elem::F32);
                let acc = e.load_elem(ptr, offset, Elem::F32, w);
                let acc = e.fold(f, acc, x, w);
                e.store_elem(acc, ptr, offset, Elem::F32, w);
            })
        })?;
        self.bind_tile(v, Tile { rows: 1, cols, format: Format::F32, node: Node::Mem(out) })
    }

    /// `dot`.
    pub(super) fn dot(&mut self, v: Value, a: Value, b: Value) -> Result<()> {
        if self.uses.get(v.index()).copied().unwrap_or(0) == 0 {
            return Ok(());
        }
        let (t, x) = self.tile_in_memory(a, false)?;
        let node = if a == b {
            self.each_row(&t, &x, |e, row, n| e.call(Call::Sumsq, &[row, n]))?
        } else {
            let (_, y) = self.tile_in_memory(b, false)?;
            // Rows of both advance together.
            let same = t.rows == 1 || x.stride == y.stride;
            let y = if same { y } else { self.restride(b, &t, &x)? };
            let (first, base) = (y.ptr, x.ptr);
            self.each_row(&t, &x, move |e, row, n| {
                let by = e.b.ins().isub(row, base);
                let other = e.b.ins().iadd(first, by);
                e.call(Call::Dot, &[row, other, n])
            })?
        };
        self.bind_tile(v, Tile { rows: t.rows, cols: Dim::Fixed(1), format: Format::F32, node })
    }

    /// A copy of tile `b` whose rows are as far apart as those of `like`.
    fn restride(&mut self, b: Value, t: &Tile, like: &Mem) -> Result<Mem> {
        let stride = like.stride.fixed().and_then(|s| usize::try_from(s).ok());
        let Some(stride) = stride else {
            return Err(unsupported("a product of rows whose distance is not known when compiling"));
        };
        let mut m = self.temp(t.rows, &Dim::Fixed(stride / 4), Elem::F32)?;
        m.stride = like.stride;
        let b = self.tile(b)?;
        self.write(&b, super::write::Dst { ptr: m.ptr, stride: m.stride, elem: Elem::F32 })?;
        Ok(m)
    }

    /// `slice`; each pair is the first and the number.
    pub(super) fn slice(
        &mut self,
        v: Value,
        x: Value,
        rows: (usize, usize),
        cols: (usize, usize),
    ) -> Result<()> {
        let t = self.tile(x)?;
        let format = t.format;
        let node = match &t.node {
            Node::Mem(m) => {
                let down = self.mul(Self::size(rows.0), m.stride);
                let right = Self::size(cols.0 << super::lane::shift_of(m.elem));
                let by = self.add(down, right);
                let ptr = self.offset(m.ptr, by);
                Node::Mem(Mem { ptr, at: None, ..m.clone() })
            }
            Node::Const(c) => Node::Const(*c),
            Node::Regs(_)
            | Node::Map(..)
            | Node::Zip(..)
            | Node::Round(_)
            | Node::Part(..)
            | Node::Fold(..) => Node::Part(Rc::new(t.clone()), rows.0, cols.0),
            Node::Quantised(_) => return Err(unsupported("a part of a quantised tile (cast it to f32)")),
        };
        self.bind_tile(v, Tile { rows: rows.1, cols: Dim::Fixed(cols.1), format, node })
    }

    /// `reshape`.
    pub(super) fn reshape(&mut self, v: Value, x: Value, rows: usize, cols: usize) -> Result<()> {
        let t = self.tile(x)?;
        let format = t.format;
        let same = t.rows == rows && t.cols == Dim::Fixed(cols);
        let node = match &t.node {
            _ if same => t.node.clone(),
            Node::Const(c) => Node::Const(*c),
            Node::Regs(regs) => Node::Regs(Rc::clone(regs)),
            Node::Quantised(_) => {
                return Err(unsupported("a quantised tile in another shape (cast it to f32)"));
            }
            Node::Mem(_)
            | Node::Map(..)
            | Node::Zip(..)
            | Node::Round(_)
            | Node::Part(..)
            | Node::Fold(..) => {
                let (_, mut m) = self.tile_in_memory(x, true)?;
                m.stride = Self::size(cols * 4);
                m.at = None;
                Node::Mem(m)
            }
        };
        self.bind_tile(v, Tile { rows, cols: Dim::Fixed(cols), format, node })
    }

    /// `rotate`.
    pub(super) fn rotate(&mut self, v: Value, x: Value, table: Value, inverse: bool) -> Result<()> {
        if self.uses.get(v.index()).copied().unwrap_or(0) == 0 {
            return Ok(());
        }
        let (table, angles) = self.tile_in_memory(table, false)?;
        let t = self.tile(x)?;
        let (Some(cols), Some(turned)) = (t.cols.fixed(), table.cols.fixed()) else {
            return Err(unsupported("rotating rows of a length that is not known when compiling"));
        };
        let mut plain = t.clone();
        plain.format = Format::F32;
        let m = self.materialise(&plain)?;
        let (first, pairs) = (cols - turned, turned / 2);
        self.repeat(Ix::Const(0), Self::size(t.rows), 1, &mut |e, r| {
            let down = e.mul(r, m.stride);
            let down = e.add(down, Self::size(first * 4));
            let row = e.offset(m.ptr, down);
            let two = Self::size(pairs - pairs % 2);
            e.repeat(Ix::Const(0), two, 2, &mut |e, p| {
                e.turn_two(row, angles.ptr, pairs, p, inverse);
                Ok(())
            })?;
            e.repeat(two, Self::size(pairs), 1, &mut |e, p| {
                e.turn_one(row, angles.ptr, pairs, p, inverse);
                Ok(())
            })
        })?;
        self.bind_tile(v, Tile { node: Node::Mem(m), ..plain })
    }

    /// Rotates pair `p` of a row.
    fn turn_one(&mut self, row: Ssa, table: Ssa, pairs: usize, p: Ix, inverse: bool) {
        let (at, near) = self.element(row, 0, p, Elem::I64);
        let even = self.load_elem(at, near, Elem::F32, Width::One);
        let odd = self.load_elem(at, near + 4, Elem::F32, Width::One);
        let (angle, near_angle) = self.element(table, 0, p, Elem::F32);
        let cos = self.load_elem(angle, near_angle, Elem::F32, Width::One);
        let sines = self.offset(angle, Self::size(pairs * 4));
        let mut sin = self.load_elem(sines, near_angle, Elem::F32, Width::One);
        if inverse {
            sin = self.b.ins().fneg(sin);
        }
        let (ec, os) = (self.b.ins().fmul(even, cos), self.b.ins().fmul(odd, sin));
        let (es, oc) = (self.b.ins().fmul(even, sin), self.b.ins().fmul(odd, cos));
        let (a, b) = (self.b.ins().fsub(ec, os), self.b.ins().fadd(es, oc));
        self.store_elem(a, at, near, Elem::F32, Width::One);
        self.store_elem(b, at, near + 4, Elem::F32, Width::One);
    }

    /// Rotates pairs `p` and `p + 1` of a row: `x·(c, c) + swapped x·(−s, s)`.
    fn turn_two(&mut self, row: Ssa, table: Ssa, pairs: usize, p: Ix, inverse: bool) {
        let (at, near) = self.element(row, 0, p, Elem::I64);
        let x = self.load_elem(at, near, Elem::F32, Width::Four);
        let (angle, near_angle) = self.element(table, 0, p, Elem::F32);
        let sines = self.offset(angle, Self::size(pairs * 4));
        let doubled = |e: &mut Self, from: Ssa, offset: i32| {
            let first = e.b.ins().load(F32X4.lane_type(), FLAGS, from, offset);
            let second = e.b.ins().load(F32X4.lane_type(), FLAGS, from, offset + 4);
            (first, second)
        };
        let (c0, c1) = doubled(self, angle, near_angle);
        let (s0, s1) = doubled(self, sines, near_angle);
        let cos = self.pairs_of(c0, c0, c1, c1);
        let (n0, n1) = (self.b.ins().fneg(s0), self.b.ins().fneg(s1));
        let sin = if inverse { self.pairs_of(s0, n0, s1, n1) } else { self.pairs_of(n0, s0, n1, s1) };
        let swapped = self.swap_pairs(x);
        let straight = self.b.ins().fmul(x, cos);
        let crossed = self.b.ins().fmul(swapped, sin);
        let turned = self.b.ins().fadd(straight, crossed);
        self.store_elem(turned, at, near, Elem::F32, Width::Four);
    }

    fn pairs_of(&mut self, a: Ssa, b: Ssa, c: Ssa, d: Ssa) -> Ssa {
        let v = self.b.ins().splat(F32X4, a);
        let v = self.b.ins().insertlane(v, b, 1u8);
        let v = self.b.ins().insertlane(v, c, 2u8);
        self.b.ins().insertlane(v, d, 3u8)
    }

    /// Lanes 1, 0, 3, 2.
    fn swap_pairs(&mut self, x: Ssa) -> Ssa {
        const ORDER: [u8; 16] = [4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11];
        let little = MemFlagsData::new().with_endianness(cranelift_codegen::ir::Endianness::Little);
        let order = self.b.func.dfg.immediates.push(ConstantData::from(&ORDER[..]));
        let bytes = self.b.ins().bitcast(I8X16, little, x);
        let swapped = self.b.ins().shuffle(bytes, bytes, order);
        self.b.ins().bitcast(F32X4, little, swapped)
    }

    /// `angles`.
    pub(super) fn angles(&mut self, v: Value, pos: Value, rope: &Rope) -> Result<()> {
        if self.uses.get(v.index()).copied().unwrap_or(0) == 0 {
            return Ok(());
        }
        let pos = self.index(pos)?;
        let list = rope.frequencies();
        let Some(i) = self.frequencies.iter().position(|(known, _)| *known == list) else {
            return Err(unsupported("frequencies without memory"));
        };
        let spot = self.frequencies[i].1.spot;
        let frequencies = self.spot(spot);
        let half = list.len();
        let out = self.temp(1, &Dim::Fixed(2 * half), Elem::F32)?;
        let word = self.temp(1, &Dim::Fixed(1), Elem::I32)?;
        let pos = self.val(pos);
        let pos = self.b.ins().ireduce(I32, pos);
        self.b.ins().store(FLAGS, pos, word.ptr, 0);
        let (one, m) = (self.val(Ix::Const(1)), self.val(Self::size(half)));
        let sines = self.offset(out.ptr, Self::size(half * 4));
        self.call(Call::Sincos, &[word.ptr, one, frequencies, m, out.ptr, sines]);
        let t = Tile { rows: 1, cols: Dim::Fixed(2 * half), format: Format::F32, node: Node::Mem(out) };
        self.bind_tile(v, t)
    }
}
