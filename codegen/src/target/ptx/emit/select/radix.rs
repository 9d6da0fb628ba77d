//! Histograms of one digit of the keys, and the digit in which the k-th key lies.

use super::compact::Cut;
use super::keys::Elements;
use super::{DIGITS, HISTOGRAM, Select};
use crate::target::ptx::isa::{Asm, AtomOp, Cmp, Logic, Reg, Shuffle, Space, Ty};

/// The digit that is counted: only keys that begin with `prefix` have it counted.
pub(super) struct Digit {
    shift: Reg,
    /// Ones as many as the digit has bits.
    mask: Reg,
    prefix: Reg,
    /// The bits of the prefix that are known.
    known: Reg,
}

impl Select<'_> {
    /// Clears the histogram and pads the result. The crew meets.
    pub(super) fn clear(&self, a: &mut Asm, k: u32) {
        let at = a.mad_u32(self.crew.thread, 4u32, self.smem);
        let zero = a.mov_b32(0u32);
        let bins = HISTOGRAM / 4;
        for i in 0..bins.div_ceil(self.crew.threads) {
            let first = i * self.crew.threads;
            self.below(a, first, bins, |a| a.st_shared(Ty::U32, at.at((4 * first).into()), zero));
        }
        let padding = a.mov_b32(u32::MAX);
        for i in 0..k.div_ceil(self.crew.threads) {
            let first = i * self.crew.threads;
            let to = at.at((self.scratch.result + 4 * first).into());
            self.below(a, first, k, |a| a.st_shared(Ty::U32, to, padding));
        }
        self.crew.sync(a);
    }
    /// `body`, guarded, in the threads for which `first + thread < end`.
    pub(super) fn below(&self, a: &mut Asm, first: u32, end: u32, body: impl FnOnce(&mut Asm)) {
        if first + self.crew.threads <= end {
            return body(a);
        }
        let there = a.setp(Cmp::Lt, Ty::U32, self.crew.thread, end - first);
        a.guard(there, body);
    }
    /// Counts the digits of a row's keys.
    pub(super) fn count(&self, a: &mut Asm, row: &Elements, digit: &Digit) {
        let (unroll, threads) = (row.unroll(), self.crew.threads);
        let count = row.count();
        let i = a.mov_b32(self.crew.thread);
        let (top, end) = (a.label("count"), a.label("counted"));
        a.place(top);
        let done = a.setp(Cmp::Ge, Ty::U32, i, count);
        a.bra_if(done, end);
        for element in row.take(a, i, threads) {
            let chosen = a.setp(Cmp::Ne, Ty::U32, element.key, 0u32);
            self.add(a, element.key, chosen, digit);
        }
        a.add_u32_to(i, i, unroll * threads);
        a.bra(top);
        a.place(end);
    }
    /// Counts the digits of the first `listed` candidates.
    pub(super) fn count_listed(&self, a: &mut Asm, listed: Reg, digit: &Digit) {
        let i = a.mov_b32(self.crew.thread);
        let (top, end) = (a.label("count_listed"), a.label("counted_listed"));
        a.place(top);
        let there = a.setp(Cmp::Lt, Ty::U32, i, listed);
        a.bra_unless(there, end);
        let at = a.mad_u32(i, 4u32, self.smem);
        let key = a.ld_shared(Ty::U32, at.at(self.scratch.keys.into()));
        self.add(a, key, there, digit);
        a.add_u32_to(i, i, self.crew.threads);
        a.bra(top);
        a.place(end);
    }
    /// Counts the digit of `key` where `counts` holds and the key begins with the prefix.
    fn add(&self, a: &mut Asm, key: Reg, counts: Reg, digit: &Digit) {
        // (key ^ prefix) & known
        let differs = a.lop3(key, digit.prefix, digit.known, 0x28);
        let join = (counts, true);
        let same = a.setp_with(Cmp::Eq, Ty::U32, [differs.into(), 0u32.into()], Logic::And, join);
        let shifted = a.shr_u32(key, digit.shift);
        let bin = a.and_b32(shifted, digit.mask);
        let at = a.mad_u32(bin, 4u32, self.smem);
        a.guard(same, |a| a.red(Space::Shared, AtomOp::Add, Ty::U32, at, 1u32));
    }
    /// Finds which keys are chosen, digit after digit: `k` of those that `count` counts, all if they are no more. With
    /// `enough`, ends as soon as at most so many keys can still be chosen, and cuts below those. The histogram is
    /// zero before and after. The crew has met before.
    pub(super) fn narrow(
        &self,
        a: &mut Asm,
        k: u32,
        cut: &Cut,
        enough: Option<u32>,
        count: impl FnOnce(&mut Asm, &Digit),
    ) {
        let [first, second, third] = DIGITS;
        let digit = Digit {
            shift: a.mov_b32(first.0),
            mask: a.mov_b32((1u32 << first.1) - 1),
            prefix: a.mov_b32(0u32),
            known: a.mov_b32(0u32),
        };
        let need = a.mov_b32(k);
        let (top, end) = (a.label("digit"), a.label("narrowed"));
        a.place(top);
        count(a, &digit);
        self.crew.sync(a);
        let few = self.pivot(a, need);
        // No more than k in all: every key is chosen, as the cut says from the beginning.
        a.bra_if(few, end);
        let state = self.smem.at(self.scratch.pivot.into());
        let found = a.ld_shared_vec(Ty::U32, 4, state);
        let (bin, above, inside) = (found[0], found[1], found[2]);
        a.sub_u32_to(need, need, above);
        let placed = a.shl_b32(bin, digit.shift);
        a.or_b32_to(digit.prefix, digit.prefix, placed);
        a.mov_to(cut.above, digit.prefix);
        a.mov_to(cut.equals, need);
        let last = a.setp(Cmp::Eq, Ty::U32, digit.shift, third.0);
        a.bra_if(last, end);
        // Keys that begin with the prefix are no numbers to cut at yet: cut just below them. No prefix is 0.
        a.sub_u32_to(cut.above, digit.prefix, 1u32);
        a.mov_to(cut.equals, 0u32);
        let fits = match enough {
            Some(enough) => {
                let chosen = a.mov_b32(k);
                a.sub_u32_to(chosen, chosen, need);
                let open = a.add_u32(chosen, inside);
                a.setp(Cmp::Le, Ty::U32, open, enough)
            }
            None => a.setp(Cmp::Eq, Ty::U32, inside, need),
        };
        a.bra_if(fits, end);
        let known = a.shl_b32(digit.mask, digit.shift);
        a.or_b32_to(digit.known, digit.known, known);
        let second_next = a.setp(Cmp::Eq, Ty::U32, digit.shift, first.0);
        a.selp_to(digit.shift, Ty::U32, second.0, third.0, second_next);
        a.selp_to(digit.mask, Ty::U32, (1u32 << second.1) - 1, (1u32 << third.1) - 1, second_next);
        a.bra(top);
        a.place(end);
    }
    /// Finds the digit of the `need`-th key from above and writes it down, with the keys above and in it; clears the histogram.
    /// True if there are fewer keys than that. The crew meets.
    fn pivot(&self, a: &mut Asm, need: Reg) -> Reg {
        let crew = self.crew;
        // Thread t has the t-th share of the bins from above.
        let share = (HISTOGRAM / 4 / crew.threads).max(1);
        let owners = HISTOGRAM / 4 / share;
        let reversed = a.mov_b32(owners - 1);
        a.sub_u32_to(reversed, reversed, crew.thread);
        let at = a.mad_u32(reversed, 4 * share, self.smem);
        let zero = a.mov_b32(0u32);
        let counts: Vec<Reg> = (0..share)
            .map(|i| {
                let at = at.at((4 * (share - 1 - i)).into());
                let n = a.ld_shared(Ty::U32, at);
                a.st_shared(Ty::U32, at, zero);
                n
            })
            .collect();
        let own = a.mov_b32(counts[0]);
        counts[1..].iter().for_each(|n| a.add_u32_to(own, own, *n));
        // Sum over the lanes up to this one.
        let upto = a.mov_b32(own);
        for step in [1u32, 2, 4, 8, 16] {
            let (other, there) = a.shfl_valid(Shuffle::Up, upto, step);
            a.guard(there, |a| a.add_u32_to(upto, upto, other));
        }
        let of_warp = a.shfl_idx(upto, 31u32);
        let totals = a.add_u32(self.smem, self.scratch.totals);
        let (before, all) = crew.sum_before(a, of_warp, totals);
        let upto = a.add_u32(before, upto);
        let above = a.sub_u32(upto, own);
        let first = a.mad_u32(reversed, share, share - 1);
        let here = self.smem.at(self.scratch.pivot.into());
        let sum = a.mov_b32(above);
        for (i, n) in counts.iter().enumerate() {
            let over = a.mov_b32(sum);
            a.add_u32_to(sum, sum, *n);
            let short = a.setp(Cmp::Lt, Ty::U32, over, need);
            let join = (short, true);
            let hit = a.setp_with(Cmp::Ge, Ty::U32, [sum.into(), need.into()], Logic::And, join);
            let bin = a.sub_u32(first, i);
            a.guard(hit, |a| a.st_shared_vec(Ty::U32, here, &[bin, over, *n, over]));
        }
        crew.sync(a);
        a.setp(Cmp::Lt, Ty::U32, all, need)
    }
}
