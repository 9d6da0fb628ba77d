//! One rounding from the magnitude of an f32 to the code of a narrow format.

/// Bits of an f32 other than its sign.
pub(super) const MAGNITUDE: u32 = 0x7fff_ffff;
/// Bits of +∞; a larger magnitude is a NaN.
pub(super) const INFINITY: u32 = 0x7f80_0000;
/// Bits of the positive quiet NaN that decoders give.
pub(super) const QUIET_NAN: u32 = 0x7fc0_0000;

/// Rounds a magnitude (f32 bits without the sign, not a NaN) to the code of a format with exponent bias
/// `BIAS` and `MANT` mantissa bits, to nearest with ties to even.
///
/// Codes of one sign are ordered like their values, so a result above the format's largest finite code
/// means overflow, and what then happens is the caller's choice.
#[inline]
pub(super) const fn round_magnitude<const BIAS: u32, const MANT: u32>(magnitude: u32) -> u32 {
    let dropped = 23 - MANT;
    if magnitude < (128 - BIAS) << 23 {
        // Below the smallest normal number codes count steps of 2^(1 − BIAS − MANT). The f32 of which that is
        // the last place makes the addition itself round to a whole number of steps.
        let aligner = (151 - BIAS - MANT) << 23;
        (f32::from_bits(magnitude) + f32::from_bits(aligner)).to_bits() - aligner
    } else {
        let rebased = magnitude - ((127 - BIAS) << 23);
        let odd = (rebased >> dropped) & 1;
        (rebased + odd + (1 << (dropped - 1)) - 1) >> dropped
    }
}
