//! `float4_e2m1fn`: sign, 2 exponent bits with bias 1, 1 mantissa bit, finite numbers only (V4.1 §3.1).

use super::narrow::{INFINITY, MAGNITUDE, round_magnitude};

/// Largest value.
pub const MAX: f32 = 6.0;
/// Code of [`MAX`].
pub const MAX_CODE: u8 = 7;
/// Value of every code; bit 3 is the sign, code 8 is −0.
pub const VALUES: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Value of the code in the low four bits; the high four are ignored, so a packed byte gives its first element.
#[inline]
pub const fn decode(code: u8) -> f32 {
    VALUES[(code & 15) as usize]
}

/// Code (0 to 15) nearest to `x`, ties to the even code, magnitudes beyond 6 saturated. −0 and negative numbers
/// that round to zero give code 8.
///
/// The format has no NaN: a NaN of either sign gives +6 (code 7), as the machines' `satfinite` conversions do.
/// Code that must not lose a NaN puts it in the scale of the group, as every quantiser of
/// [`group`](super::group) does.
#[inline]
pub const fn encode(x: f32) -> u8 {
    let bits = x.to_bits();
    let sign = (bits >> 28) as u8 & 8;
    let magnitude = bits & MAGNITUDE;
    if magnitude > INFINITY {
        return MAX_CODE;
    }
    let code = round_magnitude::<1, 1>(magnitude);
    sign | if code < MAX_CODE as u32 { code as u8 } else { MAX_CODE }
}
