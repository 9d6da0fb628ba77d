//! e2m1 with an e8m0 scale per 32: expert weights, and the index records of V4.1 §3.3.

use super::{GROUP, POISON, amax, at_least, pack_e2m1, unpack_e2m1};
use crate::num::e8m0;

/// Bytes of 32 packed codes.
const PACKED: usize = GROUP / 2;
/// 6·2⁻¹²⁶, the smallest `amax` of a group: its scale is the smallest normal number.
const FLOOR: f32 = 6.0 * f32::MIN_POSITIVE;
/// The factor of V4.1 §3.3, rounded once to f32: a product, not a division by 6.
const RECIPROCAL: f32 = (1.0f64 / 6.0) as f32;

/// Scale byte of a group whose largest magnitude is `amax`: 2^⌈log2(max(amax, 6·2⁻¹²⁶) · f32(1/6))⌉, the
/// product in f32. That is the smallest scale under which `amax` does not pass 6. NaN or infinity give the NaN
/// byte.
#[inline]
pub fn mx4_scale(amax: f32) -> u8 {
    e8m0::encode_pow2_ceil(at_least(amax, FLOOR) * RECIPROCAL)
}

#[inline]
fn encode_group(x: &[f32], packed: &mut [u8]) -> u8 {
    let byte = mx4_scale(amax(x));
    if byte == e8m0::NAN {
        packed.fill(POISON);
    } else {
        pack_e2m1(x, e8m0::decode(byte), packed);
    }
    byte
}

fn encode_groups(x: &[f32], packed: &mut [u8], scales: &mut [u8]) {
    for ((x, packed), byte) in x.chunks_exact(GROUP).zip(packed.chunks_exact_mut(PACKED)).zip(scales) {
        *byte = encode_group(x, packed);
    }
}

fn decode_groups(packed: &[u8], scales: &[u8], out: &mut [f32]) {
    for ((out, packed), &byte) in out.chunks_exact_mut(GROUP).zip(packed.chunks_exact(PACKED)).zip(scales) {
        unpack_e2m1(packed, e8m0::decode(byte), out);
    }
}

/// Quantises groups of 32 consecutive weights: `code = e2m1(clamp(x / scale, ±6))`, the scale from
/// [`mx4_scale`]. An `[N, K]` matrix whose K is a multiple of 32 may be passed whole. A group whose largest
/// magnitude is 6·2ⁿ gets the scale 2ⁿ.
///
/// # Panics
/// Unless `x.len()` is a multiple of 32, `packed` has half as many bytes and `scales` one per 32.
#[track_caller]
pub fn quantize_mx4(x: &[f32], packed: &mut [u8], scales: &mut [u8]) {
    assert!(
        x.len().is_multiple_of(GROUP) && packed.len() == x.len() / 2 && scales.len() == x.len() / GROUP,
        "mx4: {} elements do not fit {} bytes of codes and {} scales",
        x.len(),
        packed.len(),
        scales.len()
    );
    encode_groups(x, packed, scales);
}

/// Values of one row of an expert weight: K/2 bytes of codes, K/32 scales, K elements (V4.1 §3.1).
///
/// # Panics
/// Unless K = `out.len()` is a multiple of 32 and the other two fit it.
#[track_caller]
pub fn mx4_row(packed: &[u8], scales: &[u8], out: &mut [f32]) {
    assert!(
        out.len().is_multiple_of(GROUP) && packed.len() == out.len() / 2 && scales.len() == out.len() / GROUP,
        "mx4: {} bytes of codes and {} scales do not fit {} elements",
        packed.len(),
        scales.len(),
        out.len()
    );
    decode_groups(packed, scales, out);
}

/// Values of an expert weight `[n, k]` from `packed` `[n, k/2]` and `scales` `[n, k/32]` (V4.1 §3.1).
///
/// # Panics
/// Unless `k` is a multiple of 32 and the slices have those shapes.
#[track_caller]
pub fn dequantize_mx4(packed: &[u8], scales: &[u8], n: usize, k: usize, out: &mut [f32]) {
    assert!(
        k.is_multiple_of(GROUP) && out.len() == n * k,
        "mx4: {} elements are not [{n}, {k}] with groups of 32",
        out.len()
    );
    // Rows are whole groups, so the rows of every plane simply follow each other.
    mx4_row(packed, scales, out);
}

/// Quantises one index key or query of D elements into its record of D/2 bytes of codes followed by D/32 scale
/// bytes (V4.1 §3.3, §3.4: 128 elements, 68 bytes), by the rule of [`quantize_mx4`].
///
/// # Panics
/// Unless D is a multiple of 32 and `record` has D/2 + D/32 bytes.
#[track_caller]
pub fn quantize_index4(x: &[f32], record: &mut [u8]) {
    assert!(
        x.len().is_multiple_of(GROUP) && record.len() == x.len() / 2 + x.len() / GROUP,
        "index4: {} elements do not fit a record of {} bytes",
        x.len(),
        record.len()
    );
    let (packed, scales) = record.split_at_mut(x.len() / 2);
    encode_groups(x, packed, scales);
}

/// Values of a record written by [`quantize_index4`].
///
/// # Panics
/// Unless `out.len()` is a multiple of 32, D, and `record` has D/2 + D/32 bytes.
#[track_caller]
pub fn dequantize_index4(record: &[u8], out: &mut [f32]) {
    assert!(
        out.len().is_multiple_of(GROUP) && record.len() == out.len() / 2 + out.len() / GROUP,
        "index4: a record of {} bytes does not fit {} elements",
        record.len(),
        out.len()
    );
    let (packed, scales) = record.split_at(out.len() / 2);
    decode_groups(packed, scales, out);
}

/// Replaces `x` by what [`quantize_index4`] and [`dequantize_index4`] make of it.
///
/// # Panics
/// Unless `x.len()` is a multiple of 32.
#[track_caller]
pub fn round_trip_index4(x: &mut [f32]) {
    assert!(x.len().is_multiple_of(GROUP), "index4: {} elements are not groups of 32", x.len());
    let mut packed = [0; PACKED];
    for x in x.chunks_exact_mut(GROUP) {
        let byte = encode_group(x, &mut packed);
        unpack_e2m1(&packed, e8m0::decode(byte), x);
    }
}
