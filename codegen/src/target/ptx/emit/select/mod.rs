//! Exact top-k of a row in memory by one crew of threads: radix select, then an ordered compaction.
//!
//! Values become keys: unsigned numbers in the order of the values, 0 for what is never chosen. Rows of more keys than the
//! candidate list holds are narrowed by histograms of their leading digits until what can still be chosen fits; the
//! candidates, with their positions, are listed in order. Three histograms over the list give the k-th key exactly, and
//! how many of its equals are chosen: the lowest positions. Everything is an integer and no result depends on the
//! order in which threads run.

mod compact;
mod crew;
mod keys;
mod radix;
mod sort;

pub(super) use crew::Crew;
pub(super) use keys::{Elements, Kind};
pub(super) use sort::{Choices, groups, scratch as sort_scratch};

use crate::target::ptx::isa::{Asm, Cmp, Reg, Ty};
use compact::Cut;

/// Digits of a key: shift and bits, the leading digit first.
const DIGITS: [(u32, u32); 3] = [(21, 11), (10, 11), (0, 10)];

/// Bytes of the histogram.
const HISTOGRAM: u32 = 4 << 11;

/// Shared memory of a selection, as offsets from its first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scratch {
    /// Numbers of the warps, two sets of 32.
    totals: u32,
    /// Pivot digit, keys above it, keys in it.
    pivot: u32,
    /// Keys of the candidates.
    keys: u32,
    /// Their positions.
    positions: u32,
    /// The `k` positions chosen, i32, ascending, −1 padded: valid for the whole crew when the selection is done.
    pub(crate) result: u32,
    /// Bytes in all.
    pub(crate) bytes: u32,
    /// Candidates that fit.
    candidates: u32,
}

impl Scratch {
    /// The memory of a selection of `k` by `threads` threads: the list holds 24 candidates for each thread.
    pub(crate) fn new(threads: u32, k: u32) -> Self {
        let candidates = (24 * threads).max(k.next_multiple_of(32));
        let totals = HISTOGRAM;
        let pivot = totals + 2 * 32 * 4;
        let result = pivot + 16;
        let keys = result + (4 * k).next_multiple_of(16);
        let positions = keys + 4 * candidates;
        Scratch { totals, pivot, keys, positions, result, bytes: positions + 4 * candidates, candidates }
    }
}

/// A selection under way: what its parts share.
struct Select<'t> {
    crew: &'t Crew,
    scratch: Scratch,
    /// First byte of the scratch memory.
    smem: Reg,
}

/// Selects the `k` best of `row` into `scratch.result`. The crew has met before: nothing is left to read in the scratch memory.
pub(crate) fn topk(a: &mut Asm, crew: &Crew, row: &Elements, k: u32, smem: Reg) -> Scratch {
    let scratch = Scratch::new(crew.threads, k);
    let select = Select { crew, scratch, smem };
    select.clear(a, k);
    let cut = Cut { above: a.mov_b32(0u32), equals: a.mov_b32(0u32) };
    if row.at_most().is_none_or(|n| n > scratch.candidates) {
        a.comment("more keys than candidates fit: leading digits first");
        let long = a.setp(Cmp::Gt, Ty::U32, row.count(), scratch.candidates);
        a.if_then(long, |a| {
            select.narrow(a, k, &cut, Some(scratch.candidates), |a, digit| {
                select.count(a, row, digit);
            })
        });
    }
    a.comment("list the candidates in order");
    let listed = select.list(a, row, &cut);
    crew.sync(a);
    a.mov_to(cut.above, 0u32);
    a.mov_to(cut.equals, 0u32);
    let many = a.setp(Cmp::Gt, Ty::U32, listed, k);
    a.comment("the k-th key among the candidates");
    a.if_then(many, |a| select.narrow(a, k, &cut, None, |a, digit| select.count_listed(a, listed, digit)));
    a.comment("keep the best");
    select.keep(a, listed, &cut);
    crew.sync(a);
    scratch
}
