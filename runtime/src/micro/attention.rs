//! Attention and indexer products over f32 rows (V4.1 §2.6, §2.8).

use super::codes;
use super::lanes::Lanes;
use super::reduce::dots;

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the calling convention of generated code")]
pub(crate) unsafe fn attn_scores<V: Lanes>(
    q: *const f32,
    h: usize,
    d: usize,
    keys: *const f32,
    n: usize,
    scale: f32,
    out: *mut f32,
    ldo: usize,
) {
    // SAFETY: heads stay below h, keys below n, elements below d.
    unsafe {
        let mut key = 0;
        while key + 2 <= n {
            let k = keys.add(key * d);
            let mut head = 0;
            while head + 2 <= h {
                let [[a, b], [c, e]] = dots::<V, 2, 2>(q.add(head * d), d, k, d, d);
                let s = V::tree4(a, b, c, e);
                let at = out.add(head * ldo + key);
                *at = s[0] * scale;
                *at.add(1) = s[1] * scale;
                *at.add(ldo) = s[2] * scale;
                *at.add(ldo + 1) = s[3] * scale;
                head += 2;
            }
            if head < h {
                let [[a, b]] = dots::<V, 1, 2>(q.add(head * d), d, k, d, d);
                let at = out.add(head * ldo + key);
                *at = a.tree() * scale;
                *at.add(1) = b.tree() * scale;
            }
            key += 2;
        }
        if key < n {
            for head in 0..h {
                let [[a]] = dots::<V, 1, 1>(q.add(head * d), d, keys.add(key * d), d, d);
                *out.add(head * ldo + key) = a.tree() * scale;
            }
        }
    }
}

/// R heads of [`attn_values`] from `e` and `out` on, 16 columns from `v` on.
///
/// # Safety
/// The processor has the instructions of `V`; R rows of `n` weights, `n` rows of `width` values and R rows of `width`
/// results are there.
#[inline(always)]
unsafe fn values_tile<V: Lanes, const R: usize>(
    e: *const f32,
    lde: usize,
    n: usize,
    v: *const f32,
    d: usize,
    out: *mut f32,
    width: usize,
) {
    // SAFETY: by the caller's word.
    unsafe {
        let mut p = [V::zero(); R];
        for i in 0..n {
            let row = v.add(i * d);
            let value = if width == 16 { V::load(row) } else { V::load_part(row, width) };
            for r in 0..R {
                p[r] = V::splat(*e.add(r * lde + i)).fma(value, p[r]);
            }
        }
        for r in 0..R {
            let at = out.add(r * d);
            if width == 16 {
                V::load(at).add(p[r]).store(at);
            } else {
                V::load_part(at, width).add(p[r]).store_part(at, width);
            }
        }
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn attn_values<V: Lanes>(
    e: *const f32,
    lde: usize,
    h: usize,
    n: usize,
    v: *const f32,
    d: usize,
    out: *mut f32,
) {
    // SAFETY: heads stay below h, keys below n, columns below d.
    unsafe {
        let mut col = 0;
        while col < d {
            let width = 16.min(d - col);
            let v = v.add(col);
            let out = out.add(col);
            let mut head = 0;
            while head + 6 <= h {
                values_tile::<V, 6>(e.add(head * lde), lde, n, v, d, out.add(head * d), width);
                head += 6;
            }
            while head + 2 <= h {
                values_tile::<V, 2>(e.add(head * lde), lde, n, v, d, out.add(head * d), width);
                head += 2;
            }
            if head < h {
                values_tile::<V, 1>(e.add(head * lde), lde, n, v, d, out.add(head * d), width);
            }
            col += width;
        }
    }
}

/// One head's term of an index score.
#[inline(always)]
fn index_term(dot: f32, w: f32, round: bool) -> f32 {
    let s = if round { codes::bf16_scalar(dot) } else { dot };
    // A NaN is not below zero and stays.
    let s = if s < 0.0 { 0.0 } else { s };
    let t = s * w;
    if round { codes::bf16_scalar(t) } else { t }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the calling convention of generated code")]
pub(crate) unsafe fn index_scores<V: Lanes>(
    q: *const f32,
    w: *const f32,
    h: usize,
    d: usize,
    keys: *const f32,
    n: usize,
    round: u32,
    out: *mut f32,
) {
    let round = round != 0;
    let finish = |acc: f32| if round { codes::bf16_scalar(acc) } else { acc };
    // SAFETY: heads stay below h, keys below n, elements below d.
    unsafe {
        let mut key = 0;
        while key + 2 <= n {
            let k = keys.add(key * d);
            let mut acc = [0.0f32; 2];
            let mut head = 0;
            while head + 2 <= h {
                let [[a, b], [c, e]] = dots::<V, 2, 2>(q.add(head * d), d, k, d, d);
                let s = V::tree4(a, b, c, e);
                let (w0, w1) = (*w.add(head), *w.add(head + 1));
                acc[0] = acc[0] + index_term(s[0], w0, round) + index_term(s[2], w1, round);
                acc[1] = acc[1] + index_term(s[1], w0, round) + index_term(s[3], w1, round);
                head += 2;
            }
            if head < h {
                let [[a, b]] = dots::<V, 1, 2>(q.add(head * d), d, k, d, d);
                acc[0] += index_term(a.tree(), *w.add(head), round);
                acc[1] += index_term(b.tree(), *w.add(head), round);
            }
            *out.add(key) = finish(acc[0]);
            *out.add(key + 1) = finish(acc[1]);
            key += 2;
        }
        if key < n {
            let mut acc = 0.0f32;
            for head in 0..h {
                let [[a]] = dots::<V, 1, 1>(q.add(head * d), d, keys.add(key * d), d, d);
                acc += index_term(a.tree(), *w.add(head), round);
            }
            *out.add(key) = finish(acc);
        }
    }
}
