//! Canonical orders of sums, and functions of f32 that do not depend on the platform's f32 library.

/// Lanes of a row reduction, and output columns of a product computed side by side.
pub(super) const LANES: usize = 16;

/// `sum[i] = a[i] · b[i] + sum[i]` with one rounding, like `f32::mul_add`, which is a slow library call where the
/// target's base instruction set has no fused multiply-add; this form becomes vector code.
#[inline(always)]
pub(crate) fn fused(sum: &mut [f32; LANES], a: &[f32; LANES], b: &[f32; LANES]) {
    for i in 0..LANES {
        sum[i] = fused_one(a[i], b[i], sum[i]);
    }
}

/// `a · b + c` with one rounding.
///
/// The product is exact in f64. The sum is rounded to f64 *to odd*: where it is not exact, to that neighbour whose
/// last bit is set. Such a value never lies in the middle between two f32, so that rounding it to f32 gives what
/// rounding the exact sum would (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums").
#[inline(always)]
fn fused_one(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    // Knuth's exact error of the addition; NaN where the sum is not finite, which then stays as it is.
    let part = sum - product;
    let error = (product - (sum - part)) + (c - part);
    let inexact = u64::from(error.abs() > 0.0);
    let too_large = (error.to_bits() ^ sum.to_bits()) >> 63;
    f64::from_bits((sum.to_bits() - (too_large & inexact)) | inexact) as f32
}

/// Adds lane j + 8 to lane j, then + 4, + 2, + 1.
fn tree(mut lanes: [f32; LANES]) -> f32 {
    for half in [8, 4, 2, 1] {
        for j in 0..half {
            lanes[j] += lanes[j + half];
        }
    }
    lanes[0]
}

/// `Σ a[i]·b[i]`: element i goes to lane i mod 16 with one fused multiply-add, then the lanes are added as a tree.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        fused(&mut lanes, a, b);
    }
    for ((lane, a), b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane = fused_one(*a, *b, *lane);
    }
    tree(lanes)
}

/// `Σ x[i]`: element i goes to lane i mod 16, then the lanes are added as a tree.
pub(crate) fn in_lanes(x: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    for (i, x) in x.iter().enumerate() {
        lanes[i % LANES] += x;
    }
    tree(lanes)
}

/// `sum[i] += scale · x[i]`, each with one rounding.
pub(crate) fn add_scaled(sum: &mut [f32], scale: f32, x: &[f32]) {
    for (s, x) in sum.iter_mut().zip(x) {
        *s = fused_one(scale, *x, *s);
    }
}

/// Mean of the squares of `x`, summed as in [`dot`].
pub(crate) fn mean_square(x: &[f32]) -> f32 {
    dot(x, x) / x.len() as f32
}

/// `1 / sqrt(x)`, both correctly rounded.
pub(crate) fn rsqrt(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// `eˣ`, rounded from f64.
pub(crate) fn exp(x: f32) -> f32 {
    f64::from(x).exp() as f32
}

/// `1 / (1 + e⁻ˣ)` in f32 steps.
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `ln(1 + eˣ)`, and x itself above 20, as the released code has it (V4.1 §2.9). The f64 in between overflows for
/// no f32 below 20 and keeps what is left of `eˣ` down to −103.
pub(crate) fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { f64::from(x).exp().ln_1p() as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fused_multiply_add_rounds_once() {
        let mut bits = 1u32;
        let mut next = || {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bits ^ (bits >> 15)
        };
        let check = |a: f32, b: f32, c: f32| {
            let (want, got) = (a.mul_add(b, c), fused_one(a, b, c));
            assert!(want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan(), "{a:e} {b:e} {c:e}");
        };
        for _ in 0..200_000 {
            // Every exponent, then operands near enough in size for ties and cancellation.
            check(f32::from_bits(next()), f32::from_bits(next()), f32::from_bits(next()));
            let near = |b: u32| f32::from_bits((b & 0x807f_ff00) | 0x3f00_0000 | (b & 3) << 23);
            check(near(next()), near(next()), near(next()));
        }
        // 1 + 2⁻²⁴ + 2⁻⁸⁰: to f64 first would lose the last term and round the tie to even.
        let (half, tiny) = (2f32.powi(-24), 2f32.powi(-80));
        check(1.0, tiny, 1.0 + half * 2.0);
        assert_eq!(fused_one(half, 1.0 + 2f32.powi(-23), 1.0), 1.0 + 2f32.powi(-23));
        check(f32::MAX, 2.0, f32::NEG_INFINITY);
        check(f32::MAX, f32::MAX, -f32::MAX);
        check(2f32.powi(-100), 2f32.powi(-50), 2f32.powi(-149));
        check(0.0, -1.0, -0.0);
    }

    #[test]
    fn lanes_are_filled_in_turn_and_added_as_a_tree() {
        // Lanes 0 and 8 meet first: 1e8 − 1e8 leaves the 1 of lane 1 intact; ascending order would lose it.
        let mut x = [0.0; 16];
        (x[0], x[1], x[8]) = (1e8, 1.0, -1e8);
        assert_eq!(dot(&x, &[1.0; 16]), 1.0);
        // Elements 16 apart share a lane.
        let mut x = [0.0; 20];
        (x[3], x[19], x[2]) = (1e8, -1e8, 1.0);
        assert_eq!(dot(&x, &[1.0; 20]), 1.0);
    }

    #[test]
    fn softplus_of_large_and_small_numbers_is_stable() {
        assert_eq!(softplus(1e4), 1e4);
        assert_eq!(softplus(88.0), 88.0);
        assert_eq!(softplus(-1e4), 0.0);
        assert!((f64::from(softplus(-88.0)) / (-88f64).exp() - 1.0).abs() < 1e-6);
        assert!(softplus(f32::NAN).is_nan());
    }
}
