//! Elementwise functions: exponential, sigmoid, SiLU, √softplus, sines and the bf16 conversions.
//!
//! The exponential goes through f64 and is all but correctly rounded; sigmoid and SiLU are f32 steps on
//! top of it, as their definition has them, so that they agree with the interpreter in all but a few bits. Every
//! implementation gives the same bits on every machine. Largest error found against f64, in units of the last place of
//! the true value (`tests/micro_kernels/math.rs` keeps it below the bound):
//!
//! | function | found | bound | over | specials |
//! |---|---|---|---|---|
//! | `exp` | 0.501 | 0.51 | all of f32 | ∞ above 88.7228, subnormals kept, 0 below −103.98 |
//! | `sigmoid` | 2.3 | 2.4 | −87 and above | 0 from −88.7 down, 1 at ∞ |
//! | `silu` | 2.31 | 2.4 | −87 and above | −0 from −88.7 down, NaN at −∞ |
//! | `softplus_sqrt` | 0.8 | 1 | −87 and above | √x above 20, 0 far below, no overflow in between |
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

/// 1/n!, highest n first: e^r on |r| ≤ ln 2 / 2 with a relative error of 2⁻⁴².
const EXP: [f64; 11] = [
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];
/// 1.5·2⁵², at which doubles are integers.
const SHIFT: f64 = 6_755_399_441_055_744.0;

/// e^x, rounded once but for one case in some hundred thousand: in f64, whose width makes tables and split constants
/// needless, then to f32. Plain code over sixteen lanes, which the compiler turns into the vectors of each instruction
/// set; every step is an IEEE operation, so all give the same bits.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn exp_lanes<V: Lanes>(x: V) -> V {
    let mut y = x.floats();
    for y in &mut y {
        // Beyond these the result is ∞ or 0 anyway; NaN passes.
        let x = f64::from(if *y > 89.0 { 89.0 } else { *y });
        let x = if x < -110.0 { -110.0 } else { x };
        let shifted = x.mul_add(std::f64::consts::LOG2_E, SHIFT);
        let n = shifted - SHIFT;
        let r = n.mul_add(-std::f64::consts::LN_2, x);
        let mut e = EXP[0];
        for c in &EXP[1..] {
            e = e.mul_add(r, *c);
        }
        // 2^n from the integer in the low bits; a double has exponents to spare, so subnormals are rounded here only.
        let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
        *y = (e * power) as f32;
    }
    // SAFETY: sixteen values; the caller vouches for the instructions.
    unsafe { V::load(y.as_ptr()) }
}

struct Exp;
struct Sigmoid;
struct Silu;
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
        unsafe { V::splat(1.0).div(one_plus_exp_minus(x)) }
    }
}

impl Unary for Silu {
    #[inline(always)]
    unsafe fn apply<V: Lanes>(x: V) -> V {
        // SAFETY: by the caller's word.
        unsafe { x.div(one_plus_exp_minus(x)) }
    }
}

/// 1 + e^−x, the exponential and the sum each rounded to f32: the steps of the functions' definition.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn one_plus_exp_minus<V: Lanes>(x: V) -> V {
    // SAFETY: by the caller's word.
    unsafe { V::splat(1.0).add(exp_lanes(V::zero().sub(x))) }
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
    bf16_round = Bf16Round;
}

/// The logarithm goes through f64, as in the definition: a router has few logits and their order matters.
///
/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn softplus_sqrt<V: Lanes>(dst: *mut f32, src: *const f32, n: usize) {
    for i in 0..n {
        // SAFETY: by the caller's word.
        unsafe {
            let x = *src.add(i);
            let softplus = if x > 20.0 { x } else { f64::from(x).exp().ln_1p() as f32 };
            *dst.add(i) = softplus.sqrt();
        }
    }
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
