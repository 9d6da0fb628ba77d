//! Elements of a tile: first what a row needs once, then single elements or four neighbours at a time.

use super::ix::Ix;
use super::tile::{Mem, Node, Tile};
use super::{Emitter, FLAGS, Result, unsupported};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F32X4, I8, I16X8, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value};
use std::rc::Rc;
use tessera_ir::tile::{Binary, Reduce, Unary};
use tessera_ir::{Dim, Elem};

/// The bits that a bf16 keeps.
const HIGH_HALF: i64 = 0xffff_0000;
/// The sign bit of an f32.
const SIGN: i64 = 0x8000_0000;

/// One row of a tile, ready to be evaluated at any column.
pub(super) enum Lane {
    /// The same value in every column.
    Uniform(Value),
    /// The same constant in every column.
    Number(f32),
    /// Memory: column 0 lies at the address.
    Row {
        ptr: Value,
        offset: i64,
        elem: Elem,
    },
    /// Registers, column by column.
    Regs(Rc<[Value]>, usize),
    Map(Unary, Box<Lane>),
    Zip(Binary, Box<Lane>, Box<Lane>),
    Round(Box<Lane>),
    /// Column c is column c + n of the inner lane.
    Shift(usize, Box<Lane>),
    /// Rows reduced in order.
    Fold(Reduce, Vec<Lane>),
}

/// How many columns at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// One: f32 or i32.
    One,
    /// Four: f32x4 or i32x4.
    Four,
}

impl Width {
    fn float(self) -> Type {
        match self {
            Width::One => F32,
            Width::Four => F32X4,
        }
    }
    fn int(self) -> Type {
        match self {
            Width::One => I32,
            Width::Four => I32X4,
        }
    }
}

/// Bytes of an element, as a power of two.
pub(super) fn shift_of(elem: Elem) -> i64 {
    match elem {
        Elem::E4m3 | Elem::E2m1 => 0,
        Elem::Bf16 => 1,
        Elem::F32 | Elem::I32 => 2,
        Elem::I64 => 3,
    }
}

/// Moves an address's constant part into the instruction where it fits.
fn split(offset: i64) -> (i64, i32) {
    match i32::try_from(offset) {
        Ok(near) => (0, near),
        Err(_) => (offset, 0),
    }
}

impl Emitter<'_> {
    /// Emits what row `r` of `t` needs, whatever the column.
    pub(super) fn lane(&mut self, t: &Tile, r: Ix) -> Result<Lane> {
        Ok(match &t.node {
            Node::Const(x) => Lane::Number(*x),
            Node::Regs(regs) => {
                let cols = t.cols.fixed().unwrap_or(1);
                let row = match (t.rows, r.fixed()) {
                    (1, _) => 0,
                    (_, Some(r)) => r as usize,
                    (_, None) => return Err(unsupported("a register tile in a loop over rows")),
                };
                if cols == 1 { Lane::Uniform(regs[row]) } else { Lane::Regs(Rc::clone(regs), row * cols) }
            }
            Node::Mem(m) => self.row_of(m, r),
            Node::Quantised(_) => return Err(unsupported("arithmetic on a quantised tile (cast it to f32)")),
            Node::Map(f, x) => Lane::Map(*f, Box::new(self.lane(x, r)?)),
            Node::Round(x) => Lane::Round(Box::new(self.lane(x, r)?)),
            Node::Part(x, row, col) => {
                let r = self.add(r, Emitter::size(*row));
                Lane::Shift(*col, Box::new(self.lane(x, r)?))
            }
            Node::Fold(f, x) => {
                let rows: Result<Vec<Lane>> = (0..x.rows).map(|r| self.lane(x, Emitter::size(r))).collect();
                Lane::Fold(*f, rows?)
            }
            Node::Zip(f, a, b) => {
                let a = self.repeated(a, t, r)?;
                let b = self.repeated(b, t, r)?;
                Lane::Zip(*f, Box::new(a), Box::new(b))
            }
        })
    }

    /// A lane of an operand of `t`, repeated where it is shorter.
    fn repeated(&mut self, x: &Tile, t: &Tile, r: Ix) -> Result<Lane> {
        let r = if x.rows == 1 { Ix::Const(0) } else { r };
        let lane = self.lane(x, r)?;
        if x.cols == Dim::Fixed(1)
            && t.cols != Dim::Fixed(1)
            && !matches!(lane, Lane::Uniform(_) | Lane::Number(_))
        {
            return Ok(Lane::Uniform(self.one(&lane, Ix::Const(0))));
        }
        Ok(lane)
    }

    fn row_of(&mut self, m: &Mem, r: Ix) -> Lane {
        match self.mul(r, m.stride) {
            Ix::Const(offset) => Lane::Row { ptr: m.ptr, offset, elem: m.elem },
            Ix::Val(v, offset) => Lane::Row { ptr: self.b.ins().iadd(m.ptr, v), offset, elem: m.elem },
        }
    }

    /// Column `c` of a lane, f32 or i32.
    pub(super) fn one(&mut self, lane: &Lane, c: Ix) -> Value {
        self.at(lane, c, Width::One)
    }

    /// Columns `c .. c + 4` of a lane.
    pub(super) fn four(&mut self, lane: &Lane, c: Ix) -> Value {
        self.at(lane, c, Width::Four)
    }

    fn at(&mut self, lane: &Lane, c: Ix, w: Width) -> Value {
        match lane {
            Lane::Uniform(v) => self.spread(*v, w),
            Lane::Number(x) => self.constant(*x, w),
            Lane::Row { ptr, offset, elem } => {
                let (ptr, offset) = self.element(*ptr, *offset, c, *elem);
                self.load_elem(ptr, offset, *elem, w)
            }
            Lane::Regs(regs, first) => {
                let c = first + c.fixed().unwrap_or(0) as usize;
                match w {
                    Width::One => regs[c],
                    Width::Four => self.gather4(&regs[c..c + 4]),
                }
            }
            Lane::Shift(n, x) => {
                let c = self.add(c, Emitter::size(*n));
                self.at(x, c, w)
            }
            Lane::Map(f, x) => {
                let x = self.at(x, c, w);
                self.unary(*f, x, w)
            }
            Lane::Round(x) => {
                let x = self.at(x, c, w);
                self.round(x, w)
            }
            Lane::Zip(f, a, b) => {
                // The comparisons of min and max are fewer where an operand is known to be a number.
                let number = |x: &Lane| matches!(x, Lane::Number(x) if !x.is_nan());
                let numbers = (number(a), number(b));
                let (a, b) = (self.at(a, c, w), self.at(b, c, w));
                self.binary(*f, a, b, numbers, w)
            }
            Lane::Fold(f, rows) => {
                let mut acc = self.start(*f, w);
                for row in rows {
                    let x = self.at(row, c, w);
                    acc = self.fold(*f, acc, x, w);
                }
                acc
            }
        }
    }

    /// Address of element `c` behind `ptr + offset`, as an address and a near offset.
    pub(super) fn element(&mut self, ptr: Value, offset: i64, c: Ix, elem: Elem) -> (Value, i32) {
        let shift = shift_of(elem);
        match c {
            Ix::Const(c) => {
                let (far, near) = split(offset.wrapping_add(c << shift));
                (self.offset(ptr, Ix::Const(far)), near)
            }
            Ix::Val(c, more) => {
                let (far, near) = split(offset.wrapping_add(more << shift));
                let ptr = self.offset(ptr, Ix::Const(far));
                let c = if shift == 0 { c } else { self.b.ins().ishl_imm_u(c, shift) };
                (self.b.ins().iadd(ptr, c), near)
            }
        }
    }

    /// Loads plain elements; bf16 comes as f32.
    pub(super) fn load_elem(&mut self, ptr: Value, offset: i32, elem: Elem, w: Width) -> Value {
        match (elem, w) {
            (Elem::Bf16, Width::One) => {
                let half = self.b.ins().uload16(I32, FLAGS, ptr, offset);
                let bits = self.b.ins().ishl_imm_u(half, 16);
                self.as_float(bits, w)
            }
            (Elem::Bf16, Width::Four) => {
                let half = self.b.ins().uload16x4(FLAGS, ptr, offset);
                let bits = self.b.ins().ishl_imm_u(half, 16);
                self.as_float(bits, w)
            }
            (Elem::I32, _) => self.b.ins().load(w.int(), FLAGS, ptr, offset),
            (Elem::F32 | Elem::I64 | Elem::E4m3 | Elem::E2m1, _) => {
                self.b.ins().load(w.float(), FLAGS, ptr, offset)
            }
        }
    }

    /// Stores plain elements; a bf16 is cut off from an f32 that is one already.
    pub(super) fn store_elem(&mut self, x: Value, ptr: Value, offset: i32, elem: Elem, w: Width) {
        match (elem, w) {
            (Elem::Bf16, Width::One) => {
                let bits = self.as_bits(x, w);
                let half = self.b.ins().ushr_imm_u(bits, 16);
                self.b.ins().istore16(FLAGS, half, ptr, offset);
            }
            (Elem::Bf16, Width::Four) => {
                let bits = self.as_bits(x, w);
                let half = self.b.ins().ushr_imm_u(bits, 16);
                let packed: Value = self.b.ins().unarrow(half, half);
                debug_assert_eq!(self.b.func.dfg.value_type(packed), I16X8);
                let pairs = self.b.ins().bitcast(I64X2, LANE_ORDER, packed);
                let low = self.b.ins().extractlane(pairs, 0);
                self.b.ins().store(FLAGS, low, ptr, offset);
            }
            (Elem::F32 | Elem::I32 | Elem::I64 | Elem::E4m3 | Elem::E2m1, _) => {
                self.b.ins().store(FLAGS, x, ptr, offset);
            }
        }
    }

    fn spread(&mut self, v: Value, w: Width) -> Value {
        match w {
            Width::One => v,
            Width::Four => {
                let ty = if self.b.func.dfg.value_type(v) == F32 { F32X4 } else { I32X4 };
                self.b.ins().splat(ty, v)
            }
        }
    }

    fn gather4(&mut self, regs: &[Value]) -> Value {
        let mut v = self.spread(regs[0], Width::Four);
        for (i, x) in regs.iter().enumerate().skip(1) {
            v = self.b.ins().insertlane(v, *x, i as u8);
        }
        v
    }

    fn as_bits(&mut self, x: Value, w: Width) -> Value {
        self.b.ins().bitcast(w.int(), LANE_ORDER, x)
    }

    fn as_float(&mut self, bits: Value, w: Width) -> Value {
        self.b.ins().bitcast(w.float(), LANE_ORDER, bits)
    }

    fn constant(&mut self, x: f32, w: Width) -> Value {
        let one = self.b.ins().f32const(x);
        self.spread(one, w)
    }

    fn word(&mut self, x: i64, w: Width) -> Value {
        let one = self.b.ins().iconst(I32, x);
        self.spread(one, w)
    }

    /// A one-operand function that needs no call.
    pub(super) fn unary(&mut self, f: Unary, x: Value, w: Width) -> Value {
        match f {
            Unary::Neg => self.b.ins().fneg(x),
            Unary::Abs => self.b.ins().fabs(x),
            Unary::Sqrt => self.b.ins().sqrt(x),
            Unary::Rsqrt => {
                let root = self.b.ins().sqrt(x);
                let one = self.constant(1.0, w);
                self.b.ins().fdiv(one, root)
            }
            Unary::Relu => {
                // −0 and NaN stay.
                let zero = self.constant(0.0, w);
                let below = self.b.ins().fcmp(FloatCC::LessThan, x, zero);
                self.choose(below, zero, x, w)
            }
            // Calls; `map` never makes a node of them.
            Unary::Exp | Unary::Sigmoid | Unary::Silu | Unary::SqrtSoftplus => x,
        }
    }

    /// A two-operand function, each rounded once; `numbers` says which operands are certainly no NaN.
    fn binary(&mut self, f: Binary, a: Value, b: Value, numbers: (bool, bool), w: Width) -> Value {
        match f {
            Binary::Add => self.b.ins().fadd(a, b),
            Binary::Sub => self.b.ins().fsub(a, b),
            Binary::Mul => self.b.ins().fmul(a, b),
            Binary::Div => self.b.ins().fdiv(a, b),
            Binary::Min => self.extreme((FloatCC::LessThan, FloatCC::UnorderedOrLessThan), a, b, numbers, w),
            Binary::Max => {
                self.extreme((FloatCC::GreaterThan, FloatCC::UnorderedOrGreaterThan), a, b, numbers, w)
            }
            Binary::CopySign => self.copy_sign(a, b, w),
        }
    }

    /// `|a|` with the sign of `b`, by their bits: Cranelift has no such instruction for vectors.
    fn copy_sign(&mut self, a: Value, b: Value, w: Width) -> Value {
        let sign = self.word(SIGN, w);
        let (a, b) = (self.as_bits(a, w), self.as_bits(b, w));
        let taken = self.b.ins().band(b, sign);
        let rest = self.b.ins().band_not(a, sign);
        let bits = self.b.ins().bor(taken, rest);
        self.as_float(bits, w)
    }

    /// `b` where it comes before `a` or is NaN, else `a`: the first of two equals, NaN if either is.
    fn extreme(
        &mut self,
        (before, before_or_nan): (FloatCC, FloatCC),
        a: Value,
        b: Value,
        numbers: (bool, bool),
        w: Width,
    ) -> Value {
        let take_b = match numbers {
            (_, true) => self.b.ins().fcmp(before, b, a),
            (true, false) => self.b.ins().fcmp(before_or_nan, b, a),
            (false, false) => {
                let first = self.b.ins().fcmp(before, b, a);
                let nan = self.b.ins().fcmp(FloatCC::Unordered, b, b);
                self.b.ins().bor(first, nan)
            }
        };
        self.choose(take_b, b, a, w)
    }

    /// `a` where the comparison `c` holds, else `b`.
    fn choose(&mut self, c: Value, a: Value, b: Value, w: Width) -> Value {
        match w {
            Width::One => self.b.ins().select(c, a, b),
            Width::Four => {
                let mask = self.as_float(c, w);
                self.b.ins().bitselect(mask, a, b)
            }
        }
    }

    /// What a reduction along rows starts from.
    pub(super) fn start(&mut self, f: Reduce, w: Width) -> Value {
        match f {
            Reduce::Sum | Reduce::AbsMax => self.constant(0.0, w),
            Reduce::Max => self.constant(f32::NEG_INFINITY, w),
        }
    }

    /// One step of a reduction.
    pub(super) fn fold(&mut self, f: Reduce, acc: Value, x: Value, w: Width) -> Value {
        match f {
            Reduce::Sum => self.b.ins().fadd(acc, x),
            Reduce::Max => self.binary(Binary::Max, acc, x, (false, false), w),
            Reduce::AbsMax => {
                let x = self.b.ins().fabs(x);
                self.binary(Binary::Max, acc, x, (false, false), w)
            }
        }
    }

    /// Two lanes of a reduction.
    pub(super) fn join(&mut self, f: Reduce, a: Value, b: Value) -> Value {
        match f {
            Reduce::Sum => self.b.ins().fadd(a, b),
            Reduce::Max | Reduce::AbsMax => self.binary(Binary::Max, a, b, (false, false), Width::One),
        }
    }

    /// Rounded to bf16, ties to even; a NaN becomes a quiet one.
    pub(super) fn round(&mut self, x: Value, w: Width) -> Value {
        let bits = self.as_bits(x, w);
        let top = self.b.ins().ushr_imm_u(bits, 16);
        let one = self.word(1, w);
        let odd = self.b.ins().band(top, one);
        let half = self.word(0x7fff, w);
        let up = self.b.ins().iadd(odd, half);
        let rounded = self.b.ins().iadd(bits, up);
        let quiet_bit = self.word(0x0040_0000, w);
        let quiet = self.b.ins().bor(bits, quiet_bit);
        let nan = self.b.ins().fcmp(FloatCC::Unordered, x, x);
        let chosen = match w {
            Width::One => self.b.ins().select(nan, quiet, rounded),
            Width::Four => self.b.ins().bitselect(nan, quiet, rounded),
        };
        let mask = self.word(HIGH_HALF, w);
        let kept = self.b.ins().band(chosen, mask);
        self.as_float(kept, w)
    }

    /// 1 or 0 as an index of a comparison of indices.
    pub(super) fn compare(&mut self, cc: IntCC, a: Value, b: Value) -> Value {
        let bit = self.b.ins().icmp(cc, a, b);
        debug_assert_eq!(self.b.func.dfg.value_type(bit), I8);
        self.b.ins().uextend(I64, bit)
    }
}

/// Lane order of casts between vectors, the same on every host.
const LANE_ORDER: MemFlagsData =
    MemFlagsData::new().with_endianness(cranelift_codegen::ir::Endianness::Little);
