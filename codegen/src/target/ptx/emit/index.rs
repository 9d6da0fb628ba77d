//! Index arithmetic: 32 bits where a range proves that they suffice, else 64.

use super::{Bound, Emitter, Result, unsupported};
use crate::target::ptx::isa::{Cmp, Operand, Ty};
use tessera_ir::tile::{IndexOp, Value};
use tessera_ir::{Dim, Elem};

/// An index while code is emitted: the same number in every thread of a role.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ix {
    /// The low 32 bits.
    word: Operand,
    /// All 64 bits, where 32 are not known to hold it.
    long: Option<Operand>,
    lo: i64,
    hi: i64,
    /// A power of two that divides the number, for the alignment of addresses.
    by: i64,
}

/// Greatest alignment that is kept.
const ALIGN: i64 = 64;

/// The greatest power of two up to [`ALIGN`] that divides `n`.
pub(super) fn power(n: i64) -> i64 {
    if n == 0 { ALIGN } else { 1 << n.trailing_zeros().min(ALIGN.trailing_zeros()) }
}

const WORD: (i64, i64) = (i32::MIN as i64, i32::MAX as i64);

fn fits((lo, hi): (i64, i64)) -> bool {
    WORD.0 <= lo && hi <= WORD.1
}

impl Ix {
    /// A number known now.
    pub(super) fn constant(n: i64) -> Self {
        if fits((n, n)) {
            return Ix { word: Operand::Int(n), long: None, lo: n, hi: n, by: power(n) };
        }
        Ix {
            word: Operand::Int(i64::from(n as i32)),
            long: Some(Operand::Int(n)),
            lo: n,
            hi: n,
            by: power(n),
        }
    }
    /// A signed 32-bit number in `lo..=hi`.
    pub(super) fn word(word: impl Into<Operand>, lo: i64, hi: i64) -> Self {
        Ix { word: word.into(), long: None, lo: lo.max(WORD.0), hi: hi.min(WORD.1), by: 1 }
    }
    /// The number, if it is known now.
    pub(super) fn known(self) -> Option<i64> {
        (self.lo == self.hi).then_some(self.lo)
    }
    /// The low 32 bits: the number itself for everything that is small by nature (coordinates, counts).
    pub(super) fn low(self) -> Operand {
        self.word
    }
    /// True if the number is 0 or more.
    pub(super) fn natural(self) -> bool {
        self.lo >= 0
    }
    /// Least and greatest possible value.
    pub(super) fn range(self) -> (i64, i64) {
        (self.lo, self.hi)
    }
    /// A power of two that divides the number.
    pub(super) fn divisor(self) -> usize {
        self.by as usize
    }
    /// The same number, known to be a multiple of `by`, a power of two.
    pub(super) fn multiple_of(self, by: i64) -> Self {
        Ix { by: by.clamp(1, ALIGN), ..self }
    }
    /// True if 32 bits hold it.
    pub(super) fn narrow(self) -> bool {
        self.long.is_none()
    }
}

impl Emitter<'_> {
    /// The index a value is.
    pub(super) fn ix(&self, v: Value) -> Result<Ix> {
        match self.values.get(v.index()) {
            Some(Some(Bound::Index(ix))) => Ok(*ix),
            Some(_) | None => Err(unsupported(format!("{v} is no index here"))),
        }
    }
    /// All 64 bits of an index.
    pub(super) fn long(&mut self, ix: Ix) -> Operand {
        match (ix.known(), ix.long) {
            (Some(n), _) => Operand::Int(n),
            (None, Some(long)) => long,
            (None, None) if ix.natural() => self.asm.u64_u32(ix.word).into(),
            (None, None) => self.asm.s64_s32(ix.word).into(),
        }
    }
    /// An index of 64 bits in `range`, narrowed where that is possible.
    fn wide(&mut self, long: impl Into<Operand>, range: (i64, i64)) -> Ix {
        let long = long.into();
        let word = self.asm.u32_u64(long).into();
        Ix { word, long: (!fits(range)).then_some(long), lo: range.0, hi: range.1, by: 1 }
    }

    /// `a + b`.
    pub(super) fn ix_add(&mut self, a: Ix, b: Ix) -> Ix {
        self.ix_binary(IndexOp::Add, a, b)
    }
    /// `a · b`.
    pub(super) fn ix_mul(&mut self, a: Ix, b: Ix) -> Ix {
        self.ix_binary(IndexOp::Mul, a, b)
    }

    /// `f(a, b)`.
    pub(super) fn ix_binary(&mut self, f: IndexOp, a: Ix, b: Ix) -> Ix {
        if let (Some(x), Some(y)) = (a.known(), b.known())
            && let Some(n) = f.apply(x, y)
        {
            return Ix::constant(n);
        }
        let unit = |ix: Ix, n: i64| ix.known() == Some(n);
        match f {
            IndexOp::Add if unit(b, 0) => return a,
            IndexOp::Add if unit(a, 0) => return b,
            IndexOp::Sub if unit(b, 0) => return a,
            IndexOp::Mul | IndexOp::Div if unit(b, 1) => return a,
            IndexOp::Mul if unit(a, 1) => return b,
            IndexOp::Mul if unit(a, 0) || unit(b, 0) => return Ix::constant(0),
            IndexOp::Rem if unit(b, 1) => return Ix::constant(0),
            IndexOp::Add
            | IndexOp::Sub
            | IndexOp::Mul
            | IndexOp::Div
            | IndexOp::Rem
            | IndexOp::Min
            | IndexOp::Max
            | IndexOp::Xor
            | IndexOp::And
            | IndexOp::Lt
            | IndexOp::Le
            | IndexOp::Eq => {}
        }
        let range = range_of(f, a, b);
        let by = match f {
            IndexOp::Mul => a.by * b.by,
            IndexOp::Add | IndexOp::Sub | IndexOp::Min | IndexOp::Max => a.by.min(b.by),
            IndexOp::Div
            | IndexOp::Rem
            | IndexOp::Xor
            | IndexOp::And
            | IndexOp::Lt
            | IndexOp::Le
            | IndexOp::Eq => 1,
        };
        if fits(range) && a.narrow() && b.narrow() {
            let word = self.words(f, a, b);
            return Ix::word(word, range.0, range.1).multiple_of(by);
        }
        let (x, y) = (self.long(a), self.long(b));
        match f {
            IndexOp::Lt | IndexOp::Le | IndexOp::Eq => {
                let x = self.asm.in_reg(Ty::S64, x);
                let p = self.asm.setp(compare(f), Ty::S64, x, y);
                Ix::word(self.asm.pred_u32(p), 0, 1)
            }
            IndexOp::Add
            | IndexOp::Sub
            | IndexOp::Mul
            | IndexOp::Div
            | IndexOp::Rem
            | IndexOp::Min
            | IndexOp::Max
            | IndexOp::Xor
            | IndexOp::And => {
                let long = self.longs(f, x, y, a.natural() && b.natural());
                self.wide(long, range).multiple_of(by)
            }
        }
    }

    /// `f` of two 32-bit numbers whose result 32 bits hold.
    fn words(&mut self, f: IndexOp, a: Ix, b: Ix) -> Operand {
        let (x, y) = (a.word, b.word);
        let natural = a.natural() && b.natural();
        let asm = &mut self.asm;
        let left = |asm: &mut crate::target::ptx::isa::Asm, x: Operand| asm.in_reg(Ty::B32, x);
        match f {
            IndexOp::Add => asm.fold_add(x, y),
            IndexOp::Sub => asm.fold_sub(x, y),
            IndexOp::Mul => asm.fold_mul(x, y),
            IndexOp::Div if natural => asm.fold_div(x, y),
            IndexOp::Rem if natural => asm.fold_rem(x, y),
            IndexOp::Div => {
                let x = left(asm, x);
                asm.div_s32(x, y).into()
            }
            IndexOp::Rem => {
                let x = left(asm, x);
                asm.rem_s32(x, y).into()
            }
            IndexOp::Min => {
                let x = left(asm, x);
                asm.min_s32(x, y).into()
            }
            IndexOp::Max => {
                let x = left(asm, x);
                asm.max_s32(x, y).into()
            }
            IndexOp::Xor => {
                let x = left(asm, x);
                asm.xor_b32(x, y).into()
            }
            IndexOp::And => {
                let x = left(asm, x);
                asm.and_b32(x, y).into()
            }
            IndexOp::Lt | IndexOp::Le | IndexOp::Eq => {
                let x = left(asm, x);
                let p = asm.setp(compare(f), Ty::S32, x, y);
                asm.pred_u32(p).into()
            }
        }
    }

    /// `f` of two 64-bit numbers; comparisons are made elsewhere.
    fn longs(&mut self, f: IndexOp, x: Operand, y: Operand, natural: bool) -> Operand {
        let asm = &mut self.asm;
        let x = asm.in_reg(Ty::B64, x);
        let r = match f {
            IndexOp::Add => asm.add_s64(x, y),
            IndexOp::Sub => asm.sub_s64(x, y),
            IndexOp::Mul => asm.mul_s64(x, y),
            IndexOp::Div if natural => asm.div_u64(x, y),
            IndexOp::Rem if natural => asm.rem_u64(x, y),
            IndexOp::Div => asm.div_s64(x, y),
            IndexOp::Rem => asm.rem_s64(x, y),
            IndexOp::Min => asm.min_s64(x, y),
            IndexOp::Max => asm.max_s64(x, y),
            IndexOp::Xor => asm.xor_b64(x, y),
            IndexOp::And | IndexOp::Lt | IndexOp::Le | IndexOp::Eq => asm.and_b64(x, y),
        };
        r.into()
    }

    /// Where the index is not 0.
    pub(super) fn truth(&mut self, cond: Ix) -> crate::target::ptx::isa::Reg {
        if cond.narrow() {
            let word = self.asm.in_reg(Ty::B32, cond.word);
            return self.asm.setp(Cmp::Ne, Ty::S32, word, 0);
        }
        let long = self.long(cond);
        let long = self.asm.in_reg(Ty::B64, long);
        self.asm.setp(Cmp::Ne, Ty::S64, long, 0)
    }

    /// `index.dim`.
    pub(super) fn index_dim(&mut self, v: Value, dim: &Dim) -> Result<()> {
        let ix = self.dim(dim);
        self.bind(v, Bound::Index(ix));
        Ok(())
    }
    /// `index.read`.
    pub(super) fn index_read(&mut self, v: Value, view: Value, at: &[Value]) -> Result<()> {
        let (elem, address) = self.element_at(view, at)?;
        let ix = match elem {
            Elem::I32 => Ix::word(self.asm.ld_global(Ty::S32, address), WORD.0, WORD.1),
            Elem::I64 => {
                let long = self.asm.ld_global(Ty::S64, address);
                self.wide(long, (i64::MIN, i64::MAX))
            }
            Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 => {
                return Err(unsupported("reading a real as an index"));
            }
        };
        self.bind(v, Bound::Index(ix));
        Ok(())
    }
    /// `index.write`; one thread writes, and the others of the role may read it after.
    pub(super) fn index_write(&mut self, value: Value, view: Value, at: &[Value]) -> Result<()> {
        let (elem, address) = self.element_at(view, at)?;
        let value = self.ix(value)?;
        let again = self.is_read(view);
        if again {
            self.meet();
        }
        let first = self.first_thread();
        match elem {
            Elem::I32 => {
                let word = self.asm.in_reg(Ty::B32, value.low());
                self.asm.guard(first, |asm| asm.st_global(Ty::S32, address, word));
            }
            Elem::I64 => {
                let long = self.long(value);
                let long = self.asm.in_reg(Ty::B64, long);
                self.asm.guard(first, |asm| asm.st_global(Ty::S64, address, long));
            }
            Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 => {
                return Err(unsupported("writing an index as a real"));
            }
        }
        if again {
            self.meet();
        }
        Ok(())
    }
    /// True in the role's first thread.
    pub(super) fn first_thread(&mut self) -> crate::target::ptx::isa::Reg {
        let thread = self.team.thread;
        self.asm.setp(Cmp::Eq, Ty::U32, thread, 0u32)
    }
}

fn compare(f: IndexOp) -> Cmp {
    match f {
        IndexOp::Lt => Cmp::Lt,
        IndexOp::Le => Cmp::Le,
        IndexOp::Eq
        | IndexOp::Add
        | IndexOp::Sub
        | IndexOp::Mul
        | IndexOp::Div
        | IndexOp::Rem
        | IndexOp::Min
        | IndexOp::Max
        | IndexOp::Xor
        | IndexOp::And => Cmp::Eq,
    }
}

/// Range of `f(a, b)`; the whole of 64 bits where it might wrap.
fn range_of(f: IndexOp, a: Ix, b: Ix) -> (i64, i64) {
    const ALL: (i64, i64) = (i64::MIN, i64::MAX);
    let corners = |g: fn(i64, i64) -> Option<i64>| {
        let all = [(a.lo, b.lo), (a.lo, b.hi), (a.hi, b.lo), (a.hi, b.hi)].map(|(x, y)| g(x, y));
        let all: Option<Vec<i64>> = all.into_iter().collect();
        all.and_then(|all| Some((*all.iter().min()?, *all.iter().max()?))).unwrap_or(ALL)
    };
    match f {
        IndexOp::Add => corners(i64::checked_add),
        IndexOp::Sub => corners(i64::checked_sub),
        IndexOp::Mul => corners(i64::checked_mul),
        // The divisor is at least 1.
        IndexOp::Div if b.lo > 0 => corners(i64::checked_div),
        IndexOp::Div => (a.lo.min(0), a.hi.max(0)),
        IndexOp::Rem => {
            let most = b.hi.max(1) - 1;
            let lo = if a.lo >= 0 { 0 } else { a.lo.max(-most) };
            (lo, most.min(a.hi.max(0)))
        }
        IndexOp::Min => (a.lo.min(b.lo), a.hi.min(b.hi)),
        IndexOp::Max => (a.lo.max(b.lo), a.hi.max(b.hi)),
        IndexOp::And if a.natural() && b.natural() => (0, a.hi.min(b.hi)),
        IndexOp::And | IndexOp::Xor if fits((a.lo, a.hi)) && fits((b.lo, b.hi)) => WORD,
        IndexOp::And | IndexOp::Xor => ALL,
        IndexOp::Lt | IndexOp::Le | IndexOp::Eq => (0, 1),
    }
}
