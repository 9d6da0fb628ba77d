//! `bfloat16`: the upper half of an f32, rounded to nearest even.

use super::narrow::{INFINITY, MAGNITUDE};

/// Bits of the bf16 nearest to `x`, ties to even; magnitudes from 2¹²⁸ − 2¹¹⁹ on give infinity.
///
/// A NaN stays a NaN of its sign: its upper payload bits are kept and it is made quiet, so that a payload in the
/// lower half cannot turn into an infinity.
#[inline]
pub const fn to_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let upper = (bits >> 16) as u16;
    if bits & MAGNITUDE > INFINITY {
        return upper | 0x0040;
    }
    // 0x7fff plus the lowest kept bit carries exactly when the dropped half is above the tie, or at it with an
    // odd upper half. A finite number cannot carry out of the sign bit.
    ((bits + 0x7fff + (upper as u32 & 1)) >> 16) as u16
}

/// Value of bf16 bits; exact, NaN payloads included.
#[inline]
pub const fn from_bits(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// `x` rounded to bf16 and widened again: the rounding point between two operators of the released arithmetic.
#[inline]
pub const fn round(x: f32) -> f32 {
    from_bits(to_bits(x))
}
