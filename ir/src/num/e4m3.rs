//! `float8_e4m3fn`: sign, 4 exponent bits with bias 7, 3 mantissa bits, no infinity (V4.1 §3.1).

use super::narrow::{INFINITY, MAGNITUDE, QUIET_NAN, round_magnitude};

/// Largest finite value.
pub const MAX: f32 = 448.0;
/// Code of [`MAX`].
pub const MAX_CODE: u8 = 0x7e;
/// Code of the positive NaN; `0xff` is the other one.
pub const NAN: u8 = 0x7f;

/// What becomes of a number whose rounded magnitude exceeds 448 (that is, of a magnitude above 464, infinity
/// included). A NaN gives NaN in both modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// ±448, like the `satfinite` conversions of the machines.
    Saturate,
    /// NaN with the sign of the argument, like the `ml_dtypes` and PyTorch conversions.
    Nan,
}

/// Value of a code; exact. The NaN codes give a quiet NaN of their sign.
#[inline]
pub const fn decode(code: u8) -> f32 {
    let sign = (code as u32 & 0x80) << 24;
    let rest = code as u32 & 0x7f;
    let magnitude = if rest == NAN as u32 {
        QUIET_NAN
    } else if rest < 8 {
        (rest as f32 * (1.0 / 512.0)).to_bits()
    } else {
        (rest << 20) + (120 << 23)
    };
    f32::from_bits(sign | magnitude)
}

/// Code nearest to `x`, ties to the even code. −0 and negative numbers that round to zero give `0x80`; a NaN
/// gives the NaN code of its sign.
#[inline]
pub const fn encode(x: f32, overflow: Overflow) -> u8 {
    let bits = x.to_bits();
    let sign = (bits >> 24) as u8 & 0x80;
    let magnitude = bits & MAGNITUDE;
    if magnitude > INFINITY {
        return sign | NAN;
    }
    let code = round_magnitude::<7, 3>(magnitude);
    if code <= MAX_CODE as u32 {
        return sign | code as u8;
    }
    match overflow {
        Overflow::Saturate => sign | MAX_CODE,
        Overflow::Nan => sign | NAN,
    }
}
