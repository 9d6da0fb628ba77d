//! 64-bit index arithmetic that folds constants, and loops.

use super::Emitter;
use super::Result;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value};

/// An index: a number, or a value of the function (i64) plus a number. Sums stay apart as long as they can, so that
/// their constant parts end up in the offsets of loads and stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ix {
    /// Known now.
    Const(i64),
    /// Known when the kernel runs.
    Val(Value, i64),
}

impl From<Value> for Ix {
    fn from(v: Value) -> Self {
        Ix::Val(v, 0)
    }
}

impl Ix {
    /// The number, if known.
    pub(super) fn fixed(self) -> Option<i64> {
        match self {
            Ix::Const(n) => Some(n),
            Ix::Val(..) => None,
        }
    }
}

impl Emitter<'_> {
    /// A constant index. Sizes of memory fit i64.
    pub(super) fn size(n: usize) -> Ix {
        Ix::Const(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// The index as a value.
    pub(super) fn val(&mut self, x: Ix) -> Value {
        match x {
            Ix::Const(n) => self.b.ins().iconst(I64, n),
            Ix::Val(v, 0) => v,
            Ix::Val(v, n) => self.b.ins().iadd_imm_s(v, n),
        }
    }

    /// `a + b`, wrapping.
    pub(super) fn add(&mut self, a: Ix, b: Ix) -> Ix {
        match (a, b) {
            (Ix::Const(a), Ix::Const(b)) => Ix::Const(a.wrapping_add(b)),
            (Ix::Val(v, m), Ix::Const(n)) | (Ix::Const(n), Ix::Val(v, m)) => Ix::Val(v, m.wrapping_add(n)),
            (Ix::Val(v, m), Ix::Val(w, n)) => Ix::Val(self.b.ins().iadd(v, w), m.wrapping_add(n)),
        }
    }

    /// `a − b`, wrapping.
    pub(super) fn sub(&mut self, a: Ix, b: Ix) -> Ix {
        match (a, b) {
            (Ix::Const(a), Ix::Const(b)) => Ix::Const(a.wrapping_sub(b)),
            (Ix::Val(v, m), Ix::Const(n)) => Ix::Val(v, m.wrapping_sub(n)),
            (Ix::Const(_) | Ix::Val(..), Ix::Val(w, n)) => {
                let a = self.val(a);
                Ix::Val(self.b.ins().isub(a, w), n.wrapping_neg())
            }
        }
    }

    /// `a · b`, wrapping.
    pub(super) fn mul(&mut self, a: Ix, b: Ix) -> Ix {
        match (a, b) {
            (Ix::Const(a), Ix::Const(b)) => Ix::Const(a.wrapping_mul(b)),
            (Ix::Const(0), _) | (_, Ix::Const(0)) => Ix::Const(0),
            (Ix::Const(1), x) | (x, Ix::Const(1)) => x,
            (Ix::Val(v, m), Ix::Const(n)) | (Ix::Const(n), Ix::Val(v, m)) => {
                Ix::Val(self.b.ins().imul_imm_s(v, n), m.wrapping_mul(n))
            }
            (Ix::Val(..), Ix::Val(..)) => {
                let (a, b) = (self.val(a), self.val(b));
                self.b.ins().imul(a, b).into()
            }
        }
    }

    /// The smaller of two signed numbers.
    pub(super) fn min(&mut self, a: Ix, b: Ix) -> Ix {
        match (a, b) {
            (Ix::Const(a), Ix::Const(b)) => Ix::Const(a.min(b)),
            _ if a == b => a,
            _ => {
                let (a, b) = (self.val(a), self.val(b));
                self.b.ins().smin(a, b).into()
            }
        }
    }

    /// The larger of two signed numbers.
    pub(super) fn max(&mut self, a: Ix, b: Ix) -> Ix {
        match (a, b) {
            (Ix::Const(a), Ix::Const(b)) => Ix::Const(a.max(b)),
            _ if a == b => a,
            _ => {
                let (a, b) = (self.val(a), self.val(b));
                self.b.ins().smax(a, b).into()
            }
        }
    }

    /// `⌊a / n⌋` of an `a ≥ 0` and a constant `n > 0`.
    pub(super) fn div_const(&mut self, a: Ix, n: i64) -> Ix {
        match a {
            Ix::Const(a) => Ix::Const(a / n),
            Ix::Val(..) if n == 1 => a,
            Ix::Val(..) => {
                let v = self.val(a);
                if n.count_ones() == 1 {
                    return self.b.ins().ushr_imm_u(v, i64::from(n.trailing_zeros())).into();
                }
                let n = self.b.ins().iconst(I64, n);
                self.b.ins().udiv(v, n).into()
            }
        }
    }

    /// `⌈a / n⌉` of an `a ≥ 0` and a constant `n > 0`.
    pub(super) fn div_ceil_const(&mut self, a: Ix, n: i64) -> Ix {
        let up = self.add(a, Ix::Const(n - 1));
        self.div_const(up, n)
    }

    /// `base + offset`, an address.
    pub(super) fn offset(&mut self, base: Value, offset: Ix) -> Value {
        let sum = self.add(base.into(), offset);
        self.val(sum)
    }

    /// Emits `for i = lo, lo + step, … < hi` around `body`. A loop that runs once at most and is known to is emitted
    /// as its body.
    pub(super) fn repeat(
        &mut self,
        lo: Ix,
        hi: Ix,
        step: i64,
        body: &mut dyn FnMut(&mut Self, Ix) -> Result<()>,
    ) -> Result<()> {
        if let (Ix::Const(lo), Ix::Const(hi)) = (lo, hi) {
            if lo >= hi {
                return Ok(());
            }
            if hi - lo <= step {
                return body(self, Ix::Const(lo));
            }
        }
        let inside = self.b.create_block();
        let after = self.b.create_block();
        let i = self.b.append_block_param(inside, I64);
        let (first, end) = (self.val(lo), self.val(hi));
        if lo.fixed().is_some() && hi.fixed().is_some() {
            self.b.ins().jump(inside, &[BlockArg::Value(first)]);
        } else {
            let any = self.b.ins().icmp(IntCC::SignedLessThan, first, end);
            self.b.ins().brif(any, inside, &[BlockArg::Value(first)], after, &[]);
        }
        self.b.switch_to_block(inside);
        let done = body(self, i.into());
        let next = self.b.ins().iadd_imm_s(i, step);
        let end = self.val(hi);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, next, end);
        self.b.ins().brif(more, inside, &[BlockArg::Value(next)], after, &[]);
        self.b.switch_to_block(after);
        done
    }

    /// Emits `body` under the condition that `cond` is not 0.
    pub(super) fn when(&mut self, cond: Value, body: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let inside = self.b.create_block();
        let after = self.b.create_block();
        self.b.ins().brif(cond, inside, &[], after, &[]);
        self.b.switch_to_block(inside);
        let done = body(self);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        done
    }
}
