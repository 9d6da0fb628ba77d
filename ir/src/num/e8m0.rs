//! `float8_e8m0fnu`, the power-of-two scale: byte b is 2^(b − 127), 255 is NaN (V4.1 §3.1).

use super::narrow::{INFINITY, MAGNITUDE, QUIET_NAN};

/// Byte of the NaN. A test for it is made on the byte, never on the decoded value: byte 134 is the number 128.
pub const NAN: u8 = 255;

/// Value of a byte; exact. Byte 0 is 2⁻¹²⁷, a subnormal f32, and 255 a quiet NaN.
#[inline]
pub const fn decode(byte: u8) -> f32 {
    f32::from_bits(match byte {
        0 => 0x0040_0000,
        NAN => QUIET_NAN,
        exponent => (exponent as u32) << 23,
    })
}

/// Byte of the smallest power of two that is not below `x`, which should be positive (its sign is ignored).
///
/// Decided on the bits, biased exponent plus one if the mantissa is not zero, because a logarithm in floats
/// errs next to powers of two. At the ends:
///
/// - zero and subnormal numbers give 1 (2⁻¹²⁶): byte 0 is never written, so the reciprocal of a scale is finite;
/// - finite numbers above 2¹²⁷ give 254 (2¹²⁷), the largest scale;
/// - infinity and NaN give 255 (NaN), since no scale covers them.
#[inline]
pub const fn encode_pow2_ceil(x: f32) -> u8 {
    let magnitude = x.to_bits() & MAGNITUDE;
    if magnitude >= INFINITY {
        return NAN;
    }
    match (magnitude + 0x007f_ffff) >> 23 {
        0 => 1,
        255 => 254,
        exponent => exponent as u8,
    }
}
