//! Selection: top-k by position or by rank, block maxima, argmax.
//!
//! One order for all: higher scores first, −0 equal to +0, equal scores by lower index.

use super::lanes::Lanes;

/// Ascending order of the result is: higher score first, then lower index. `score` is not NaN.
#[inline(always)]
fn rank(score: f32, index: usize) -> u64 {
    // Adding +0 turns −0 into +0. Flipping the other bits of negative numbers makes bits ordered like numbers.
    let bits = (score + 0.0).to_bits();
    let ascending = if bits >> 31 == 0 { bits | 0x8000_0000 } else { !bits };
    u64::from(!ascending) << 32 | index as u64
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn topk<V: Lanes>(
    scores: *const f32,
    n: usize,
    k: usize,
    out: *mut i32,
    work: *mut u64,
) -> usize {
    // SAFETY: indices stay below n, the count of candidates too, and results below k.
    unsafe {
        let mut candidates = 0;
        for i in 0..n {
            let score = *scores.add(i);
            // Neither −∞ nor NaN is above −∞.
            if score > f32::NEG_INFINITY {
                *work.add(candidates) = rank(score, i);
                candidates += 1;
            }
        }
        let count = k.min(candidates);
        // The rank of the last one selected. Ranks are distinct, so exactly `count` are at most this.
        let border = if count == 0 {
            0
        } else if count == candidates {
            u64::MAX
        } else {
            let ranks = std::slice::from_raw_parts_mut(work, candidates);
            *ranks.select_nth_unstable(count - 1).1
        };
        let mut found = 0;
        let mut i = 0;
        while found < count {
            let score = *scores.add(i);
            if score > f32::NEG_INFINITY && rank(score, i) <= border {
                *out.add(found) = i as i32;
                found += 1;
            }
            i += 1;
        }
        for slot in count..k {
            *out.add(slot) = -1;
        }
        count
    }
}

/// Whether score `a` comes before score `b` when both are in order of index: NaN after all numbers.
#[inline(always)]
fn before(a: f32, b: f32) -> bool {
    a > b || (b.is_nan() && !a.is_nan())
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn topk_ranked<V: Lanes>(scores: *const f32, n: usize, k: usize, out: *mut i32) {
    // SAFETY: indices stay below n, which the stored ones were, and results below k.
    unsafe {
        let mut found = 0;
        for i in 0..n {
            let score = *scores.add(i);
            // Insertion from the end; an equal score of a lower index stays in front.
            let mut slot = found;
            while slot > 0 && before(score, *scores.add(*out.add(slot - 1) as usize)) {
                slot -= 1;
            }
            if slot >= k {
                continue;
            }
            if found < k {
                found += 1;
            }
            let mut move_to = found - 1;
            while move_to > slot {
                *out.add(move_to) = *out.add(move_to - 1);
                move_to -= 1;
            }
            *out.add(slot) = i as i32;
        }
        for slot in found..k {
            *out.add(slot) = -1;
        }
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn block_max<V: Lanes>(
    scores: *const f32,
    n: usize,
    block: usize,
    forced_block: usize,
    out: *mut f32,
) {
    if block == 0 {
        return;
    }
    for b in 0..n.div_ceil(block) {
        let mut most = f32::NEG_INFINITY;
        for i in b * block..n.min((b + 1) * block) {
            // SAFETY: i < n.
            let score = unsafe { *scores.add(i) };
            if score > most {
                most = score;
            }
        }
        // SAFETY: one result per block.
        unsafe { *out.add(b) = if b == forced_block { f32::INFINITY } else { most } };
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn argmax<V: Lanes>(x: *const f32, n: usize) -> u32 {
    // SAFETY: by the caller's word.
    unsafe {
        // Each lane keeps its first largest element and the step at which it came.
        let mut best = V::splat(f32::NEG_INFINITY);
        let mut at = V::int(0);
        let whole = n / 16;
        for step in 0..whole {
            let v = V::load(x.add(step * 16));
            let above = best.lt(v);
            best = V::select(above, v, best);
            at = V::iselect(above, V::int(step as u32), at);
        }
        let (best, at) = (best.floats(), V::ints(at));
        let mut winner = (f32::NEG_INFINITY, u32::MAX);
        for lane in 0..16 {
            let index = at[lane] * 16 + lane as u32;
            if best[lane] > winner.0 || (best[lane] == winner.0 && index < winner.1 && winner.1 != u32::MAX) {
                winner = (best[lane], index);
            }
        }
        for i in whole * 16..n {
            if *x.add(i) > winner.0 {
                winner = (*x.add(i), i as u32);
            }
        }
        if winner.1 != u32::MAX {
            return winner.1;
        }
        // Nothing above −∞: the first that is not NaN, else the first.
        let mut i = 0;
        while i < n && (*x.add(i)).is_nan() {
            i += 1;
        }
        if i < n { i as u32 } else { 0 }
    }
}
