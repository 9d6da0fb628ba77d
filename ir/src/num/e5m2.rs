//! `float8_e5m2`: sign, 5 exponent bits with bias 15, 2 mantissa bits, IEEE infinities and NaNs.

use super::narrow::{INFINITY, MAGNITUDE, QUIET_NAN, round_magnitude};

/// Largest finite value.
pub const MAX: f32 = 57344.0;
/// Code of [`MAX`].
pub const MAX_CODE: u8 = 0x7b;
/// Code of +∞.
pub const INFINITY_CODE: u8 = 0x7c;
/// Code that [`encode`] gives for a positive NaN; `0x7d` and `0x7e` decode to NaN as well.
pub const NAN: u8 = 0x7f;

/// What becomes of a number whose rounded magnitude exceeds 57344 (that is, of a magnitude of 61440 or more,
/// infinity included). A NaN gives NaN in both modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// ±57344, infinities too, like the `satfinite` conversions of the machines.
    Saturate,
    /// Infinity with the sign of the argument, as IEEE rounding gives.
    Infinity,
}

/// Value of a code; exact. The NaN codes give a quiet NaN of their sign.
#[inline]
pub const fn decode(code: u8) -> f32 {
    let sign = (code as u32 & 0x80) << 24;
    let rest = code as u32 & 0x7f;
    let magnitude = if rest > INFINITY_CODE as u32 {
        QUIET_NAN
    } else if rest == INFINITY_CODE as u32 {
        INFINITY
    } else if rest < 4 {
        (rest as f32 * (1.0 / 65536.0)).to_bits()
    } else {
        (rest << 21) + (112 << 23)
    };
    f32::from_bits(sign | magnitude)
}

/// Code nearest to `x`, ties to the even code. −0 and negative numbers that round to zero give `0x80`; a NaN
/// gives [`NAN`] with its sign.
#[inline]
pub const fn encode(x: f32, overflow: Overflow) -> u8 {
    let bits = x.to_bits();
    let sign = (bits >> 24) as u8 & 0x80;
    let magnitude = bits & MAGNITUDE;
    if magnitude > INFINITY {
        return sign | NAN;
    }
    let code = round_magnitude::<15, 2>(magnitude);
    if code <= MAX_CODE as u32 {
        return sign | code as u8;
    }
    match overflow {
        Overflow::Saturate => sign | MAX_CODE,
        Overflow::Infinity => sign | INFINITY_CODE,
    }
}
