//! e4m3 with an e8m0 scale per 32: the input quantiser of V4.1 §3.2, and the window record of §3.4 made with it.

use super::{GROUP, amax, at_least};
use crate::num::e4m3::{self, Overflow};
use crate::num::e8m0;

/// Smallest `amax` of a group; keeps the scale of a group of zeros at 2⁻²².
const FLOOR: f32 = 1e-4;
/// The factor of V4.1 §3.2, rounded once to f32: a product, not a division by 448.
const RECIPROCAL: f32 = (1.0f64 / 448.0) as f32;

/// Scale byte of a group whose largest magnitude is `amax`: 2^⌈log2(max(amax, 1e-4) · f32(1/448))⌉, the product
/// in f32. That is the smallest scale under which `amax` does not pass 448. NaN or infinity give the NaN byte.
#[inline]
pub fn mx8_scale(amax: f32) -> u8 {
    e8m0::encode_pow2_ceil(at_least(amax, FLOOR) * RECIPROCAL)
}

#[inline]
fn encode_group(x: &[f32], codes: &mut [u8]) -> u8 {
    let byte = mx8_scale(amax(x));
    if byte == e8m0::NAN {
        // Written out because the sign of a NaN that arithmetic produces is not determined.
        codes.fill(e4m3::NAN);
        return byte;
    }
    let scale = e8m0::decode(byte);
    for (code, &v) in codes.iter_mut().zip(x) {
        // Saturating is the clamp to ±448: rounding reaches 448 from every magnitude that the clamp would change.
        *code = e4m3::encode(v / scale, Overflow::Saturate);
    }
    byte
}

#[inline]
fn decode_group(codes: &[u8], byte: u8, out: &mut [f32]) {
    let scale = e8m0::decode(byte);
    for (v, &code) in out.iter_mut().zip(codes) {
        *v = e4m3::decode(code) * scale;
    }
}

/// Quantises groups of 32 consecutive elements (V4.1 §3.2): `code = e4m3(clamp(x / scale, ±448))`, the scale
/// from [`mx8_scale`]. A `[T, K]` tensor whose K is a multiple of 32 may be passed whole.
///
/// # Panics
/// Unless `x.len()` is a multiple of 32, `codes` has as many bytes and `scales` one per 32.
#[track_caller]
pub fn quantize_mx8(x: &[f32], codes: &mut [u8], scales: &mut [u8]) {
    assert!(
        x.len().is_multiple_of(GROUP) && codes.len() == x.len() && scales.len() == x.len() / GROUP,
        "mx8: {} elements do not fit {} codes and {} scales",
        x.len(),
        codes.len(),
        scales.len()
    );
    for ((x, codes), byte) in x.chunks_exact(GROUP).zip(codes.chunks_exact_mut(GROUP)).zip(scales) {
        *byte = encode_group(x, codes);
    }
}

/// Values of groups written by [`quantize_mx8`].
///
/// # Panics
/// Unless `out.len()` is a multiple of 32, `codes` has as many bytes and `scales` one per 32.
#[track_caller]
pub fn dequantize_mx8(codes: &[u8], scales: &[u8], out: &mut [f32]) {
    assert!(
        out.len().is_multiple_of(GROUP) && codes.len() == out.len() && scales.len() == out.len() / GROUP,
        "mx8: {} codes and {} scales do not fit {} elements",
        codes.len(),
        scales.len(),
        out.len()
    );
    for ((out, codes), &byte) in out.chunks_exact_mut(GROUP).zip(codes.chunks_exact(GROUP)).zip(scales) {
        decode_group(codes, byte, out);
    }
}

/// Values of one row of an Engram table: its slice of the code plane and of the scale plane (256 codes and 8
/// scales in the released model, V4.1 §2.4).
///
/// # Panics
/// Like [`dequantize_mx8`], of which it is the case of one row.
#[inline]
#[track_caller]
pub fn mx8_row(codes: &[u8], scales: &[u8], out: &mut [f32]) {
    dequantize_mx8(codes, scales, out);
}

/// Replaces `x` by what [`quantize_mx8`] and [`dequantize_mx8`] (or the `kv8` pair) make of it.
///
/// # Panics
/// Unless `x.len()` is a multiple of 32.
#[track_caller]
pub fn round_trip_mx8(x: &mut [f32]) {
    assert!(x.len().is_multiple_of(GROUP), "mx8: {} elements are not groups of 32", x.len());
    let mut codes = [0; GROUP];
    for x in x.chunks_exact_mut(GROUP) {
        let byte = encode_group(x, &mut codes);
        decode_group(&codes, byte, x);
    }
}

/// Quantises one token's row of D elements into its record of D codes followed by D/32 scale bytes, by the rule
/// of [`quantize_mx8`] (V4.1 §3.4: 512 elements, 528 bytes).
///
/// # Panics
/// Unless D is a multiple of 32 and `record` has D + D/32 bytes.
#[track_caller]
pub fn quantize_kv8(x: &[f32], record: &mut [u8]) {
    assert!(
        record.len() == x.len() + x.len() / GROUP,
        "kv8: {} elements do not fit a record of {} bytes",
        x.len(),
        record.len()
    );
    let (codes, scales) = record.split_at_mut(x.len());
    quantize_mx8(x, codes, scales);
}

/// Values of a record written by [`quantize_kv8`].
///
/// # Panics
/// Unless `out.len()` is a multiple of 32, D, and `record` has D + D/32 bytes.
#[track_caller]
pub fn dequantize_kv8(record: &[u8], out: &mut [f32]) {
    assert!(
        record.len() == out.len() + out.len() / GROUP,
        "kv8: a record of {} bytes does not fit {} elements",
        record.len(),
        out.len()
    );
    let (codes, scales) = record.split_at(out.len());
    dequantize_mx8(codes, scales, out);
}
