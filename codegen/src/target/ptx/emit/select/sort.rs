//! The stable counting sort of choices by expert: one crew of threads, integers only, no order of threads matters.
//!
//! Each warp takes a run of consecutive choices. It counts them by expert; a sum over warps and experts gives each warp its
//! first place in each group; then the warp walks its run once more, 32 choices at a time, equal ones ranked by lane.

use super::crew::Crew;
use crate::target::ptx::isa::{Asm, AtomOp, Cmp, Logic, Reg, Shuffle, Space, Ty};

/// The choices and what the sort writes. Addresses are of device memory, elements i32.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    /// Experts of the choices.
    pub(crate) experts: Reg,
    /// Number of choices, 32 bits.
    pub(crate) total: Reg,
    /// Choices of a row.
    pub(crate) per_row: u32,
    /// Number of experts.
    pub(crate) count: u32,
    /// Gets the borders of the groups, `count + 1` of them.
    pub(crate) offsets: Reg,
    /// Gets the choice numbers.
    pub(crate) pairs: Option<Reg>,
    /// Gets their rows.
    pub(crate) rows: Option<Reg>,
}

/// Bytes of shared memory for the sort: a number for each warp and expert, and one for each warp.
pub(crate) fn scratch(threads: u32, count: u32) -> u32 {
    threads / 32 * count * 4 + 128
}

/// Sorts. The crew has met before; when the sort is done nothing is left to read in the scratch memory at `smem`.
pub(crate) fn groups(a: &mut Asm, crew: &Crew, choices: &Choices, smem: Reg) {
    let (threads, warps, count) = (crew.threads, crew.warps(), choices.count);
    let totals = a.add_u32(smem, warps * count * 4);
    a.comment("clear the counts");
    let zero = a.mov_b32(0u32);
    let cells = warps * count;
    let i = a.mov_b32(crew.thread);
    let (top, end) = (a.label("clear"), a.label("cleared"));
    a.place(top);
    let there = a.setp(Cmp::Lt, Ty::U32, i, cells);
    a.bra_unless(there, end);
    let at = a.mad_u32(i, 4u32, smem);
    a.st_shared(Ty::U32, at, zero);
    a.add_u32_to(i, i, threads);
    a.bra(top);
    a.place(end);
    crew.sync(a);

    // The warp's run: the same whole number of rounds for each.
    let rounded = a.add_u32(choices.total, threads - 1);
    let rounds = a.div_u32(rounded, threads);
    let run = a.mul_u32(rounds, 32u32);
    let begin = a.mul_u32(run, crew.warp());
    let first = a.add_u32(begin, crew.lane());
    let counts = a.mad_u32(crew.warp(), count * 4, smem);

    a.comment("count by warp and expert");
    a.for_range("count", 0u32, rounds, 1u32, |a, round| {
        let (_, expert, there) = choice(a, choices, first, round);
        let at = a.mad_u32(expert, 4u32, counts);
        a.guard(there, |a| a.red(Space::Shared, AtomOp::Add, Ty::U32, at, 1u32));
    });
    crew.sync(a);

    a.comment("first places by warp and expert");
    let base = a.mov_b32(0u32);
    for part in 0..count.div_ceil(threads) {
        let expert = a.add_u32(crew.thread, part * threads);
        let is_expert = a.setp(Cmp::Lt, Ty::U32, expert, count);
        let column = a.mad_u32(expert, 4u32, smem);
        let own = a.mov_b32(0u32);
        a.if_then(is_expert, |a| {
            for warp in 0..warps {
                let n = a.ld_shared(Ty::U32, column.at((4 * warp * count).into()));
                a.add_u32_to(own, own, n);
            }
        });
        let upto = a.mov_b32(own);
        for step in [1u32, 2, 4, 8, 16] {
            let (other, valid) = a.shfl_valid(Shuffle::Up, upto, step);
            a.guard(valid, |a| a.add_u32_to(upto, upto, other));
        }
        let of_warp = a.shfl_idx(upto, 31u32);
        let (before, all) = crew.sum_before(a, of_warp, totals);
        let place = a.sub_u32(upto, own);
        a.add_u32_to(place, place, before);
        a.add_u32_to(place, place, base);
        a.add_u32_to(base, base, all);
        a.if_then(is_expert, |a| {
            let at = a.element(choices.offsets, expert, 4);
            a.st_global(Ty::U32, at, place);
            for warp in 0..warps {
                let cell = column.at((4 * warp * count).into());
                let n = a.ld_shared(Ty::U32, cell);
                a.st_shared(Ty::U32, cell, place);
                a.add_u32_to(place, place, n);
            }
        });
        crew.sync(a);
    }
    let first_thread = a.setp(Cmp::Eq, Ty::U32, crew.thread, 0u32);
    let end_of_all = a.add_s64(choices.offsets, i64::from(count) * 4);
    a.guard(first_thread, |a| a.st_global(Ty::U32, end_of_all, choices.total));

    if choices.pairs.is_none() && choices.rows.is_none() {
        return;
    }
    a.comment("place the choices");
    a.for_range("place", 0u32, rounds, 1u32, |a, round| {
        let (number, expert, there) = choice(a, choices, first, round);
        let equal = a.match_any(Ty::B32, expert);
        let earlier = a.and_b32(equal, crew.below());
        let rank = a.popc_b32(earlier);
        let at = a.mad_u32(expert, 4u32, counts);
        let place = a.mov_b32(0u32);
        a.guard(there, |a| a.ld_to(&[place], Space::Shared, Ty::U32, at));
        a.warp_sync();
        let many = a.popc_b32(equal);
        let next = a.add_u32(place, many);
        let join = (there, true);
        let leads = a.setp_with(Cmp::Eq, Ty::U32, [rank.into(), 0u32.into()], Logic::And, join);
        a.guard(leads, |a| a.st_shared(Ty::U32, at, next));
        a.warp_sync();
        a.add_u32_to(place, place, rank);
        if let Some(pairs) = choices.pairs {
            let at = a.element(pairs, place, 4);
            a.guard(there, |a| a.st_global(Ty::U32, at, number));
        }
        if let Some(rows) = choices.rows {
            let (at, row) = (a.element(rows, place, 4), a.fold_div(number, choices.per_row));
            a.guard(there, |a| a.st_global(Ty::U32, at, row));
        }
    });
    crew.sync(a);
}

/// Number and expert of this lane's choice in a round of its warp, and whether there is one; if not, the expert is a number that
/// no other lane has for a choice. Experts beyond the last count as the last, so that nothing outside is written.
fn choice(a: &mut Asm, choices: &Choices, first: Reg, round: Reg) -> (Reg, Reg, Reg) {
    let number = a.mad_u32(round, 32u32, first);
    let there = a.setp(Cmp::Lt, Ty::U32, number, choices.total);
    let at = a.element(choices.experts, number, 4);
    let expert = a.mov_b32(choices.count);
    a.guard(there, |a| {
        a.ld_to(&[expert], Space::Global, Ty::U32, at);
        a.min_u32_to(expert, expert, choices.count - 1);
    });
    (number, expert, there)
}
