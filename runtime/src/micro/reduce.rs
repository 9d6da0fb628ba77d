//! Reductions of one row, in the canonical order of rows.
//!
//! Element i goes to lane i mod 16; a lane takes its elements in ascending order (`fma` for products, `+` for sums),
//! starting at +0, with +0 for elements beyond the end; then lane j += lane j+8, j+4, j+2, j+1.

use super::lanes::Lanes;

/// What a reduction does with one more element per lane.
trait Fold {
    /// # Safety
    /// The processor has the instructions of `V`.
    unsafe fn fold<V: Lanes>(acc: V, x: V) -> V;
}

struct Sum;
struct Squares;

impl Fold for Sum {
    #[inline(always)]
    unsafe fn fold<V: Lanes>(acc: V, x: V) -> V {
        acc.add(x)
    }
}

impl Fold for Squares {
    #[inline(always)]
    unsafe fn fold<V: Lanes>(acc: V, x: V) -> V {
        x.fma(x, acc)
    }
}

/// # Safety
/// The processor has the instructions of `V`; `n` values are readable at `x`.
#[inline(always)]
unsafe fn row<V: Lanes, F: Fold>(x: *const f32, n: usize) -> f32 {
    // SAFETY: by the caller's word.
    unsafe {
        let mut acc = V::zero();
        let mut i = 0;
        while i + 16 <= n {
            acc = F::fold(acc, V::load(x.add(i)));
            i += 16;
        }
        if i < n {
            acc = F::fold(acc, V::load_part(x.add(i), n - i));
        }
        acc.tree()
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn sum<V: Lanes>(x: *const f32, n: usize) -> f32 {
    // SAFETY: by the caller's word.
    unsafe { row::<V, Sum>(x, n) }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn sumsq<V: Lanes>(x: *const f32, n: usize) -> f32 {
    // SAFETY: by the caller's word.
    unsafe { row::<V, Squares>(x, n) }
}

/// Lane sums of the dot products of H rows of `x` with N rows of `y`, before the tree.
///
/// # Safety
/// The processor has the instructions of `V`; H rows of `n` values, `ldx` apart, are readable at `x`, N at `y`.
#[inline(always)]
pub(crate) unsafe fn dots<V: Lanes, const H: usize, const N: usize>(
    x: *const f32,
    ldx: usize,
    y: *const f32,
    ldy: usize,
    n: usize,
) -> [[V; N]; H] {
    // SAFETY: by the caller's word.
    unsafe {
        let mut acc = [[V::zero(); N]; H];
        let mut i = 0;
        while i + 16 <= n {
            let mut ys = [V::zero(); N];
            for c in 0..N {
                ys[c] = V::load(y.add(c * ldy + i));
            }
            for h in 0..H {
                let xs = V::load(x.add(h * ldx + i));
                for c in 0..N {
                    acc[h][c] = xs.fma(ys[c], acc[h][c]);
                }
            }
            i += 16;
        }
        if i < n {
            for h in 0..H {
                let xs = V::load_part(x.add(h * ldx + i), n - i);
                for c in 0..N {
                    acc[h][c] = xs.fma(V::load_part(y.add(c * ldy + i), n - i), acc[h][c]);
                }
            }
        }
        acc
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn dot<V: Lanes>(x: *const f32, y: *const f32, n: usize) -> f32 {
    // SAFETY: by the caller's word.
    unsafe { dots::<V, 1, 1>(x, n, y, n, n)[0][0].tree() }
}

/// The larger of two numbers by lane; NaN if either is, the first of two equals.
#[inline(always)]
fn larger<V: Lanes>(a: V, b: V) -> V {
    let most = V::select(a.lt(b), b, a);
    V::select(b.is_nan(), b, most)
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn max<V: Lanes>(x: *const f32, n: usize) -> f32 {
    // SAFETY: by the caller's word.
    unsafe {
        let mut acc = V::splat(f32::NEG_INFINITY);
        let mut i = 0;
        while i + 16 <= n {
            acc = larger(acc, V::load(x.add(i)));
            i += 16;
        }
        if i < n {
            let mut tail = [f32::NEG_INFINITY; 16];
            std::ptr::copy_nonoverlapping(x.add(i), tail.as_mut_ptr(), n - i);
            acc = larger(acc, V::load(tail.as_ptr()));
        }
        tree_max(acc.floats())
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn absmax<V: Lanes>(x: *const f32, n: usize) -> f32 {
    // SAFETY: by the caller's word.
    unsafe {
        let mut acc = V::zero();
        let mut i = 0;
        while i + 16 <= n {
            acc = larger(acc, V::load(x.add(i)).abs());
            i += 16;
        }
        if i < n {
            acc = larger(acc, V::load_part(x.add(i), n - i).abs());
        }
        tree_max(acc.floats())
    }
}

/// The tree of [`Lanes::tree`] with [`larger`] for a sum.
#[inline(always)]
fn tree_max(mut v: [f32; 16]) -> f32 {
    for width in [8, 4, 2, 1] {
        for j in 0..width {
            let (a, b) = (v[j], v[j + width]);
            v[j] = if a < b || b.is_nan() { b } else { a };
        }
    }
    v[0]
}
