//! Compaction in order: what passes a cut is written side by side, by ascending position.

use super::Select;
use super::keys::{Element, Elements};
use crate::target::ptx::isa::{Asm, Class, Cmp, Logic, Operand, Reg, Space, Ty};

/// Which keys pass: those above, and the first so many of those equal.
pub(super) struct Cut {
    pub(super) above: Reg,
    pub(super) equals: Reg,
}

/// Candidates that a thread takes at a time.
const LISTED: u32 = 4;

impl Select<'_> {
    /// Lists the keys of `row` that pass `cut`, and their positions; gives their number. The crew has met before.
    pub(super) fn list(&self, a: &mut Asm, row: &Elements, cut: &Cut) -> Reg {
        let unroll = row.unroll();
        self.compact(
            a,
            row.count(),
            unroll,
            cut,
            |a, first| row.take(a, first, 32),
            |a, slot, element| {
                let at = a.mad_u32(slot, 4u32, self.smem);
                move |a: &mut Asm| {
                    a.st_shared(Ty::U32, at.at(self.scratch.keys.into()), element.key);
                    a.st_shared(Ty::U32, at.at(self.scratch.positions.into()), element.position);
                }
            },
        )
    }
    /// Writes the positions of the first `listed` candidates that pass `cut` to the result.
    pub(super) fn keep(&self, a: &mut Asm, listed: Reg, cut: &Cut) {
        let take = |a: &mut Asm, first: Reg| {
            let at = a.mad_u32(first, 4u32, self.smem);
            (0..LISTED)
                .map(|j| {
                    let number = a.add_u32(first, 32 * j);
                    let there = a.setp(Cmp::Lt, Ty::U32, number, listed);
                    let element = Element { key: a.mov_b32(0u32), position: a.mov_b32(0u32) };
                    a.guard(there, |a| {
                        let at = |offset: u32| at.at((offset + 128 * j).into());
                        a.ld_to(&[element.key], Space::Shared, Ty::U32, at(self.scratch.keys));
                        a.ld_to(&[element.position], Space::Shared, Ty::U32, at(self.scratch.positions));
                    });
                    element
                })
                .collect()
        };
        self.compact(a, listed.into(), LISTED, cut, take, |a, slot, element| {
            let at = a.mad_u32(slot, 4u32, self.smem);
            move |a: &mut Asm| a.st_shared(Ty::U32, at.at(self.scratch.result.into()), element.position)
        });
    }
    /// Walks `count` elements in strips of `32·unroll` for each warp; `take` gives a lane's elements from its first one on,
    /// in steps of 32; `put` prepares and then does the writing of an element to a place. Gives how many passed.
    fn compact<P: FnOnce(&mut Asm)>(
        &self,
        a: &mut Asm,
        count: Operand,
        unroll: u32,
        cut: &Cut,
        take: impl FnOnce(&mut Asm, Reg) -> Vec<Element>,
        put: impl Fn(&mut Asm, Reg, Element) -> P,
    ) -> Reg {
        let crew = self.crew;
        // Passed so far: above the cut, and equal to it.
        let (over, same) = (a.mov_b32(0u32), a.mov_b32(0u32));
        // The warps' numbers alternate between two places, so that one meeting a round is enough.
        let (totals, turn) = (a.add_u32(self.smem, self.scratch.totals), a.mov_b32(0u32));
        let begin = a.mov_b32(0u32);
        let in_round = a.mad_u32(crew.warp(), 32 * unroll, crew.lane());
        let (top, end) = (a.label("strip"), a.label("stripped"));
        a.place(top);
        let done = a.setp(Cmp::Ge, Ty::U32, begin, count);
        a.bra_if(done, end);
        let first = a.add_u32(begin, in_round);
        let elements = take(a, first);
        let marks: Vec<[Reg; 4]> = elements
            .iter()
            .map(|e| {
                let higher = a.setp(Cmp::Gt, Ty::U32, e.key, cut.above);
                let equal = a.setp(Cmp::Eq, Ty::U32, e.key, cut.above);
                [higher, equal, a.ballot(higher), a.ballot(equal)]
            })
            .collect();
        let (high, low) = (a.mov_b32(0u32), a.mov_b32(0u32));
        for [_, _, higher, equal] in &marks {
            let n = a.popc_b32(*higher);
            a.add_u32_to(high, high, n);
            let n = a.popc_b32(*equal);
            a.add_u32_to(low, low, n);
        }
        // Both numbers in one: a round has fewer than 65,536 elements.
        let own = a.mad_u32(low, 0x1_0000u32, high);
        let place = a.add_u32(totals, turn);
        a.xor_b32_to(turn, turn, 128u32);
        let (before, all) = crew.sum_before(a, own, place);
        let some = a.setp(Cmp::Ne, Ty::U32, own, 0u32);
        a.if_then(some, |a| {
            let high = a.and_b32(before, 0xffffu32);
            a.add_u32_to(high, high, over);
            let low = a.shr_u32(before, 16u32);
            a.add_u32_to(low, low, same);
            for (element, [higher, equal, highs, equals]) in elements.into_iter().zip(marks) {
                let mask = a.and_b32(highs, crew.below());
                let place = a.popc_b32(mask);
                a.add_u32_to(place, place, high);
                let mask = a.and_b32(equals, crew.below());
                let rank = a.popc_b32(mask);
                a.add_u32_to(rank, rank, low);
                let early = [rank.into(), cut.equals.into()];
                let admitted = a.setp_with(Cmp::Lt, Ty::U32, early, Logic::And, (equal, true));
                let passes = a.or_pred(higher, admitted);
                let admitted = a.min_u32(rank, cut.equals);
                let slot = a.add_u32(place, admitted);
                let write = put(a, slot, element);
                a.guard(passes, write);
                let n = a.popc_b32(highs);
                a.add_u32_to(high, high, n);
                let n = a.popc_b32(equals);
                a.add_u32_to(low, low, n);
            }
        });
        let n = a.and_b32(all, 0xffffu32);
        a.add_u32_to(over, over, n);
        let n = a.shr_u32(all, 16u32);
        a.add_u32_to(same, same, n);
        a.add_u32_to(begin, begin, unroll * crew.threads);
        a.bra(top);
        a.place(end);
        let admitted = a.min_u32(same, cut.equals);
        let passed = a.reg(Class::B32);
        a.add_u32_to(passed, over, admitted);
        passed
    }
}
