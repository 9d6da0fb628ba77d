//! Number formats in lanes: decoding and rounding e4m3, e2m1, e8m0 and bf16 (V4.1 §3.1).

use super::lanes::Lanes;

/// Bits of the quiet NaN that decoders give.
const NAN_BITS: u32 = 0x7fc0_0000;

/// Values of e8m0 bytes: 2^(b−127), NaN for 255.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn e8m0<V: Lanes>(bytes: V::Int) -> V {
    // SAFETY: the caller has the instructions.
    unsafe {
        // 2^-127 is subnormal and NaN is not the infinity of its exponent: both want the top mantissa bit.
        let zero = V::int(0);
        let end = V::ieq(V::iand(V::iadd(bytes, V::int(1)), V::int(0xfe)), zero);
        V::from_bits(V::ior(V::shl(bytes, 23), V::iselect(end, V::int(0x0040_0000), zero)))
    }
}

/// Values of 16 e4m3 codes.
///
/// # Safety
/// The processor has the instructions of `V`; 16 bytes are readable at `p`.
#[inline(always)]
pub(crate) unsafe fn load_e4m3<V: Lanes>(p: *const u8) -> V {
    // SAFETY: by the caller's word.
    unsafe {
        let nan = V::ieq(V::iand(V::load_u8(p), V::int(0x7f)), V::int(0x7f));
        V::select(nan, V::from_bits(V::int(NAN_BITS)), V::load_e4m3(p))
    }
}

/// Value of one e4m3 code.
#[inline(always)]
pub(crate) fn e4m3_scalar(code: u8) -> f32 {
    let (sign, rest) = (u32::from(code & 0x80) << 24, u32::from(code & 0x7f));
    if rest == 0x7f {
        return f32::from_bits(NAN_BITS);
    }
    f32::from_bits(sign | rest << 20) * f32::from_bits(247 << 23)
}

/// Codes nearest to `x` clamped to ±448, ties to the even code; `x` is not NaN.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn to_e4m3<V: Lanes>(x: V) -> V::Int {
    // SAFETY: the caller has the instructions.
    unsafe { to_code::<V, 3, 7>(x, 448.0, 0x80) }
}

/// Codes nearest to `x` clamped to ±6, ties to the even code; `x` is not NaN.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn to_e2m1<V: Lanes>(x: V) -> V::Int {
    // SAFETY: the caller has the instructions.
    unsafe { to_code::<V, 1, 1>(x, 6.0, 8) }
}

/// Codes of a format with `MANTISSA` bits and a bias, whose largest value is `max`.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn to_code<V: Lanes, const MANTISSA: u32, const BIAS: u32>(x: V, max: f32, sign_bit: u32) -> V::Int {
    // SAFETY: the caller has the instructions.
    unsafe {
        let drop = 23 - MANTISSA;
        let magnitude = x.abs();
        let clamped = V::select(magnitude.lt(V::splat(max)), magnitude, V::splat(max));
        let bits = clamped.bits();
        // Normal results: round the bits to nearest even, then move the bias.
        let odd = V::iand(V::shr(bits, drop), V::int(1));
        let rounded = V::shr(V::iadd(bits, V::iadd(odd, V::int((1 << (drop - 1)) - 1))), drop);
        let normal = V::isub(rounded, V::int((127 - BIAS) << MANTISSA));
        // Subnormal results: a power of two whose last place is the format's smallest step does the rounding.
        let anchor = f32::from_bits((127 + 24 - BIAS - MANTISSA) << 23);
        let small = V::isub(clamped.add(V::splat(anchor)).bits(), V::int(anchor.to_bits()));
        let smallest_normal = f32::from_bits((128 - BIAS) << 23);
        let code = V::iselect(clamped.lt(V::splat(smallest_normal)), small, normal);
        let negative = V::ilt(x.bits(), V::int(0));
        V::ior(code, V::iselect(negative, V::int(sign_bit), V::int(0)))
    }
}

/// `x` rounded to bf16, ties to even; a NaN stays one.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn bf16<V: Lanes>(x: V) -> V {
    // SAFETY: the caller has the instructions.
    unsafe {
        let bits = x.bits();
        let odd = V::iand(V::shr(bits, 16), V::int(1));
        let rounded = V::iadd(bits, V::iadd(odd, V::int(0x7fff)));
        let quiet = V::ior(bits, V::int(0x0040_0000));
        V::from_bits(V::iand(V::iselect(x.is_nan(), quiet, rounded), V::int(0xffff_0000)))
    }
}

/// Scalar twin of [`bf16`].
#[inline(always)]
pub(crate) fn bf16_scalar(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded =
        if x.is_nan() { bits | 0x0040_0000 } else { bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) };
    f32::from_bits(rounded & 0xffff_0000)
}

/// Value of one e8m0 byte.
#[inline(always)]
pub(crate) fn e8m0_scalar(byte: u8) -> f32 {
    f32::from_bits(match byte {
        0 => 0x0040_0000,
        255 => NAN_BITS,
        byte => u32::from(byte) << 23,
    })
}
