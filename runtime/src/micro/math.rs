//! Elementwise functions: exponential, sigmoid, SiLU, √softplus, sines and the bf16 conversions.
//!
//! All are polynomials in f32 with `fma`, so every implementation gives the same bits on every machine. Largest error
//! found against f64 over all of f32, in units of the last place of the true value (`tests/micro_kernels/math.rs` keeps
//! it below the bound):
//!
//! | function | found | bound | specials |
//! |---|---|---|---|
//! | `exp` | 0.98 | 1 | ∞ above 88.7228, subnormals kept, 0 below −103.98 |
//! | `sigmoid` | 1.34 | 1.5 | 0 and 1 at ∓∞ |
//! | `silu` | 1.44 | 1.5 | NaN at −∞, as x · sigmoid(x) is |
//! | `softplus_sqrt` | 1.25 | 1.5 | √x above 20, 0 far below, no overflow in between |
//!
//! NaN gives NaN.

use super::codes;
use super::lanes::Lanes;

/// An elementwise function.
trait Unary {
    /// # Safety
    /// The processor has the instructions of `V`.
    unsafe fn apply<V: Lanes>(x: V) -> V;
}

/// `dst[i] = F(src[i])`; the two may be the same row.
///
/// # Safety
/// The processor has the instructions of `V`; `n` values are readable at `src` and writable at `dst`.
#[inline(always)]
unsafe fn map<V: Lanes, F: Unary>(dst: *mut f32, src: *const f32, n: usize) {
    // SAFETY: by the caller's word.
    unsafe {
        let mut i = 0;
        while i + 16 <= n {
            F::apply(V::load(src.add(i))).store(dst.add(i));
            i += 16;
        }
        if i < n {
            F::apply(V::load_part(src.add(i), n - i)).store_part(dst.add(i), n - i);
        }
    }
}

/// Horner's rule, highest coefficient first.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn polynomial<V: Lanes, const N: usize>(x: V, coefficients: [f32; N]) -> V {
    // SAFETY: by the caller's word.
    unsafe {
        let mut y = V::splat(coefficients[0]);
        for i in 1..N {
            y = y.fma(x, V::splat(coefficients[i]));
        }
        y
    }
}

/// The result is 0 below.
const LOWEST: f32 = -110.0;
/// 1.5·2²³, at which floats are integers.
const SHIFT: f32 = 12_582_912.0;
/// The high part of ln 2 has nine bits, so that its product with an exponent is exact.
const LN2_HIGH: f32 = 355.0 / 512.0;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// (e^r − 1 − r) / r² on |r| ≤ ln 2 / 2, absolute error of the whole 1.7e-10.
const EXP: [f32; 6] = [1.989_118e-4, 1.393_382e-3, 8.333_311e-3, 4.166_646_3e-2, 1.666_666_7e-1, 5.0e-1];
/// (ln(1 + f) − f) / f² on −1/4 ≤ f ≤ 1/2, absolute error of the whole 1.1e-10.
const LOG1P: [f32; 11] = [
    -3.310_243_4e-2,
    8.180_372e-2,
    -1.056_920_3e-1,
    1.135_542_1e-1,
    -1.249_252_26e-1,
    1.427_184e-1,
    -1.666_602_4e-1,
    2.000_028_2e-1,
    -2.500_001_4e-1,
    3.333_333e-1,
    -5.0e-1,
];

/// e^x as (1 + e) · 2^a · 2^b: the first factor, what rounding it lost, and the two powers.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn exp_parts<V: Lanes>(x: V) -> (V, V, V, V) {
    // SAFETY: by the caller's word.
    unsafe {
        // Beyond these the result is ∞ or 0 anyway. A NaN passes both comparisons.
        let x = V::select(V::splat(89.0).lt(x), V::splat(89.0), x);
        let x = V::select(x.lt(V::splat(LOWEST)), V::splat(LOWEST), x);
        // n = x / ln 2 rounded, left as an integer in the low bits of a float of this size.
        let shift = V::splat(SHIFT);
        let shifted = x.fma(V::splat(std::f32::consts::LOG2_E), shift);
        let n = shifted.sub(shift);
        let r = n.fma(V::splat(-LN2_HIGH), x);
        let r = n.fma(V::splat(-LN2_LOW), r);
        let tail = r.mul(r).fma(polynomial(r, EXP), r);
        let y = tail.add(V::splat(1.0));
        let lost = tail.sub(y.sub(V::splat(1.0)));
        // 2^n in two factors, because n reaches beyond the exponents of normal numbers on both sides.
        let biased = V::isub(shifted.bits(), V::int(SHIFT.to_bits() - 256));
        let half = V::shr(biased, 1);
        let rest = V::isub(biased, half);
        let first = V::from_bits(V::shl(V::isub(half, V::int(1)), 23));
        let second = V::from_bits(V::shl(V::isub(rest, V::int(1)), 23));
        (y, lost, first, second)
    }
}

/// e^x.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn exp_lanes<V: Lanes>(x: V) -> V {
    // SAFETY: by the caller's word.
    let (y, _, first, second) = unsafe { exp_parts(x) };
    y.mul(first).mul(second)
}

/// −|x|, and where x is negative.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn fall<V: Lanes>(x: V) -> (V, V::Mask) {
    // SAFETY: by the caller's word.
    unsafe { (V::from_bits(V::ior(x.bits(), V::int(0x8000_0000))), x.lt(V::zero())) }
}

/// (x + dx) / (1 + t + dt) for 0 ≤ t ≤ 1 and small dx and dt, but for one rounding of the quotient.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn over_one_plus<V: Lanes>(x: V, dx: V, t: V, dt: V) -> V {
    // SAFETY: by the caller's word.
    unsafe {
        let one = V::splat(1.0);
        let sum = one.add(t);
        let lost = t.sub(sum.sub(one)).add(dt);
        let quotient = x.div(sum);
        // 1 / sum to one part in 17 will do for a correction of the last place.
        let reciprocal = sum.fma(V::splat(-8.0 / 17.0), V::splat(24.0 / 17.0));
        let correction = V::zero().sub(quotient).fma(lost, dx).mul(reciprocal);
        // Zeros keep their sign and infinities stay.
        let magnitude = quotient.abs();
        let corrected = V::select(V::zero().lt(magnitude), quotient.add(correction), quotient);
        V::select(magnitude.lt(V::splat(f32::INFINITY)), corrected, quotient)
    }
}

struct Exp;
struct Sigmoid;
struct Silu;
struct SoftplusSqrt;
struct Bf16Round;

impl Unary for Exp {
    #[inline(always)]
    unsafe fn apply<V: Lanes>(x: V) -> V {
        // SAFETY: by the caller's word.
        unsafe { exp_lanes(x) }
    }
}

impl Unary for Sigmoid {
    #[inline(always)]
    unsafe fn apply<V: Lanes>(x: V) -> V {
        // SAFETY: by the caller's word.
        unsafe {
            // t = e^-|x| cannot overflow, so both tails keep their precision: 1/(1+t), below zero t/(1+t).
            let (minus, negative) = fall(x);
            let (y, lost, first, second) = exp_parts(minus);
            let t = y.mul(first).mul(second);
            let dt = lost.mul(first).mul(second);
            let over = V::select(negative, t, V::splat(1.0));
            over_one_plus(over, V::select(negative, dt, V::zero()), t, dt)
        }
    }
}

impl Unary for Silu {
    #[inline(always)]
    unsafe fn apply<V: Lanes>(x: V) -> V {
        // SAFETY: by the caller's word.
        unsafe {
            let (minus, negative) = fall(x);
            let (y, lost, first, second) = exp_parts(minus);
            let t = y.mul(first).mul(second);
            let dt = lost.mul(first).mul(second);
            // x·t from the parts, because t loses its bits to subnormals before x·t does; 0 where the exponent was cut.
            let scaled = V::select(x.lt(V::splat(LOWEST)), V::zero(), y.mul(first));
            let below = x.mul(scaled);
            let rounded_off = x.fma(scaled, V::zero().sub(below));
            let d_below = x.fma(lost.mul(first), rounded_off).mul(second);
            let over = V::select(negative, below.mul(second), x);
            over_one_plus(over, V::select(negative, d_below, V::zero()), t, dt)
        }
    }
}

impl Unary for SoftplusSqrt {
    #[inline(always)]
    unsafe fn apply<V: Lanes>(x: V) -> V {
        // SAFETY: by the caller's word.
        unsafe {
            // softplus(x) = max(x, 0) + ln(1 + t), t = e^-|x| in (0, 1].
            let (minus, negative) = fall(x);
            let t = exp_lanes(minus);
            // 1 + t = 2(1 + f) above 1/2, which is exact there.
            let halve = V::splat(0.5).lt(t);
            let f = V::select(halve, t.sub(V::splat(1.0)).mul(V::splat(0.5)), t);
            let log = f.mul(f).fma(polynomial(f, LOG1P), f);
            let log = log.add(V::select(halve, V::splat(std::f32::consts::LN_2), V::zero()));
            let softplus = log.add(V::select(negative, V::zero(), x));
            let root = V::select(V::splat(20.0).lt(x), x, softplus).sqrt();
            // Below −17 ln(1 + t) is t to f32 precision, and √t = e^(x/2) stays normal where t no longer is.
            V::select(x.lt(V::splat(-17.0)), exp_lanes(x.mul(V::splat(0.5))), root)
        }
    }
}

impl Unary for Bf16Round {
    #[inline(always)]
    unsafe fn apply<V: Lanes>(x: V) -> V {
        // SAFETY: by the caller's word.
        unsafe { codes::bf16(x) }
    }
}

macro_rules! unary {
    ($($name:ident = $function:ty;)*) => {$(
        /// # Safety
        /// See the entry point of the same name in `symbols.rs`.
        #[inline(always)]
        pub(crate) unsafe fn $name<V: Lanes>(dst: *mut f32, src: *const f32, n: usize) {
            // SAFETY: by the caller's word.
            unsafe { map::<V, $function>(dst, src, n) }
        }
    )*};
}

unary! {
    exp = Exp;
    sigmoid = Sigmoid;
    silu = Silu;
    softplus_sqrt = SoftplusSqrt;
    bf16_round = Bf16Round;
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn load_bf16<V: Lanes>(dst: *mut f32, src: *const u16, n: usize) {
    // SAFETY: by the caller's word.
    unsafe {
        let mut i = 0;
        while i + 16 <= n {
            V::from_bits(V::shl(V::load_u16(src.add(i)), 16)).store(dst.add(i));
            i += 16;
        }
        while i < n {
            *dst.add(i) = f32::from_bits(u32::from(*src.add(i)) << 16);
            i += 1;
        }
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn store_bf16<V: Lanes>(dst: *mut u16, src: *const f32, n: usize) {
    // SAFETY: by the caller's word.
    unsafe {
        let mut i = 0;
        while i + 16 <= n {
            V::store_u16(V::shr(codes::bf16(V::load(src.add(i))).bits(), 16), dst.add(i));
            i += 16;
        }
        while i < n {
            *dst.add(i) = (codes::bf16_scalar(*src.add(i)).to_bits() >> 16) as u16;
            i += 1;
        }
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn sincos<V: Lanes>(
    pos: *const i32,
    n: usize,
    freqs: *const f32,
    m: usize,
    out_cos: *mut f32,
    out_sin: *mut f32,
) {
    for i in 0..n {
        for j in 0..m {
            // SAFETY: by the caller's word.
            unsafe {
                // The angle is an f32 by definition (V4.1 §2.5); only its cosine and sine go through f64.
                let angle = *pos.add(i) as f32 * *freqs.add(j);
                let (sin, cos) = f64::from(angle).sin_cos();
                *out_cos.add(i * m + j) = cos as f32;
                *out_sin.add(i * m + j) = sin as f32;
            }
        }
    }
}
