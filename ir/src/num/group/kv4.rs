//! e2m1 with an e4m3 scale per 16: the record of the compressed KV (V4.1 §3.3, §3.4).

use super::{KV4_GROUP, POISON, amax, at_least, pack_e2m1, unpack_e2m1};
use crate::num::e2m1;
use crate::num::e4m3::{self, Overflow};

/// Bytes of 16 packed codes.
const PACKED: usize = KV4_GROUP / 2;
/// 6·2⁻⁹, the smallest `amax` of a group: its scale is the smallest positive e4m3 number, never zero.
const FLOOR: f32 = 6.0 / 512.0;

/// Scale code of a group whose largest magnitude is `amax`: e4m3(max(amax, 6·2⁻⁹) / 6), the quotient in f32 as in
/// the released code. (A product with f32(1/6) differs by one code at some ties.)
///
/// Above 448·6 the scale saturates, and so will the codes; the released code would write NaN from 464·6 on.
/// NaN or infinity give the NaN code.
#[inline]
pub fn kv4_scale(amax: f32) -> u8 {
    let scale = at_least(amax, FLOOR) / e2m1::MAX;
    if scale.is_finite() { e4m3::encode(scale, Overflow::Saturate) } else { e4m3::NAN }
}

#[inline]
fn encode_group(x: &[f32], packed: &mut [u8]) -> u8 {
    let code = kv4_scale(amax(x));
    if code == e4m3::NAN {
        packed.fill(POISON);
    } else {
        pack_e2m1(x, e4m3::decode(code), packed);
    }
    code
}

/// Quantises one compressed entry of D elements into its record of D/2 bytes of codes followed by D/16 scale
/// codes (512 elements, 288 bytes): `code = e2m1(clamp(x / scale, ±6))`, the scale from [`kv4_scale`].
///
/// # Panics
/// Unless D is a multiple of 16 and `record` has D/2 + D/16 bytes.
#[track_caller]
pub fn quantize_kv4(x: &[f32], record: &mut [u8]) {
    assert!(
        x.len().is_multiple_of(KV4_GROUP) && record.len() == x.len() / 2 + x.len() / KV4_GROUP,
        "kv4: {} elements do not fit a record of {} bytes",
        x.len(),
        record.len()
    );
    let (packed, scales) = record.split_at_mut(x.len() / 2);
    for ((x, packed), code) in x.chunks_exact(KV4_GROUP).zip(packed.chunks_exact_mut(PACKED)).zip(scales) {
        *code = encode_group(x, packed);
    }
}

/// Values of a record written by [`quantize_kv4`].
///
/// # Panics
/// Unless `out.len()` is a multiple of 16, D, and `record` has D/2 + D/16 bytes.
#[track_caller]
pub fn dequantize_kv4(record: &[u8], out: &mut [f32]) {
    assert!(
        out.len().is_multiple_of(KV4_GROUP) && record.len() == out.len() / 2 + out.len() / KV4_GROUP,
        "kv4: a record of {} bytes does not fit {} elements",
        record.len(),
        out.len()
    );
    let (packed, scales) = record.split_at(out.len() / 2);
    for ((out, packed), &code) in out.chunks_exact_mut(KV4_GROUP).zip(packed.chunks_exact(PACKED)).zip(scales)
    {
        unpack_e2m1(packed, e4m3::decode(code), out);
    }
}

/// Replaces `x` by what [`quantize_kv4`] and [`dequantize_kv4`] make of it.
///
/// # Panics
/// Unless `x.len()` is a multiple of 16.
#[track_caller]
pub fn round_trip_kv4(x: &mut [f32]) {
    assert!(x.len().is_multiple_of(KV4_GROUP), "kv4: {} elements are not groups of 16", x.len());
    let mut packed = [0; PACKED];
    for x in x.chunks_exact_mut(KV4_GROUP) {
        let code = encode_group(x, &mut packed);
        unpack_e2m1(&packed, e4m3::decode(code), x);
    }
}
