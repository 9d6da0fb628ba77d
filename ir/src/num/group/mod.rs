//! Group formats: codes that share a scale, their quantisers and the exact values they stand for (V4.1 §3).
//!
//! | format | codes | scale | layout | used for |
//! |---|---|---|---|---|
//! | `mx8` | e4m3 | e8m0 per 32 | two planes | inputs of FP8 and FP4 linears, Engram rows |
//! | `kv8` | e4m3 | e8m0 per 32 | record: D codes, D/32 scales (512 → 528 bytes) | window KV |
//! | `kv4` | e2m1 | e4m3 per 16 | record: D/2 bytes of codes, D/16 scales (512 → 288) | compressed KV |
//! | `index4` | e2m1 | e8m0 per 32 | record: D/2 bytes of codes, D/32 scales (128 → 68) | index keys and queries |
//! | `mx4` | e2m1 | e8m0 per 32 | two planes | expert weights `[N, K]` |
//! | `w8` | e4m3 | e8m0 per 32×32 tile | two planes | dense weights `[N, K]` |
//!
//! Packed e2m1 has its even element in the low four bits of a byte.
//!
//! **Values.** Dequantisers give code × scale in f32, which is exact except that a product of 2¹²⁸ or more is
//! infinite. Finite values are exact in bf16 too, but for small e4m3 codes under the e8m0 bytes 0, 1 and 2 (bf16
//! ends at 2⁻¹³³), which no quantiser here writes. Nothing is flushed to zero.
//!
//! **NaN and infinity.** A group in which any element is NaN or infinite gets the NaN scale, and with it every
//! element of the group reads back as NaN (of unspecified sign and payload). The formats have no infinity and
//! e2m1 has no NaN, so only the scale can carry the fault, and it must not vanish. From finite input a quantiser
//! writes neither NaN codes nor NaN scales.
//!
//! **Preconditions.** Slice lengths that do not fit together are the caller's programming error and panic; no
//! value does.

mod kv4;
mod mx4;
mod mx8;
mod w8;

pub use kv4::{dequantize_kv4, kv4_scale, quantize_kv4, round_trip_kv4};
pub use mx4::{
    dequantize_index4, dequantize_mx4, mx4_row, mx4_scale, quantize_index4, quantize_mx4, round_trip_index4,
};
pub use mx8::{
    dequantize_kv8, dequantize_mx8, mx8_row, mx8_scale, quantize_kv8, quantize_mx8, round_trip_mx8,
};
pub use w8::{dequantize_w8, w8_row};

use super::e2m1;
use super::narrow::MAGNITUDE;

/// Elements that share an e8m0 scale along a row, and the side of a `w8` tile.
pub const GROUP: usize = 32;
/// Elements of `kv4` that share an e4m3 scale.
pub const KV4_GROUP: usize = 16;

/// Two codes of the largest value, as they stand under a NaN scale.
const POISON: u8 = e2m1::MAX_CODE | e2m1::MAX_CODE << 4;

/// Largest magnitude of a group, infinity above all numbers and NaN above infinity: the order of the bits.
/// `f32::max` would drop a NaN.
#[inline]
fn amax(x: &[f32]) -> f32 {
    f32::from_bits(x.iter().fold(0, |largest, v| largest.max(v.to_bits() & MAGNITUDE)))
}

/// The larger of `amax` and `floor`, NaN kept.
#[inline]
fn at_least(amax: f32, floor: f32) -> f32 {
    if amax < floor { floor } else { amax }
}

/// Writes the e2m1 codes of `x / scale`, two a byte.
#[inline]
fn pack_e2m1(x: &[f32], scale: f32, packed: &mut [u8]) {
    for (byte, pair) in packed.iter_mut().zip(x.chunks_exact(2)) {
        *byte = e2m1::encode(pair[0] / scale) | e2m1::encode(pair[1] / scale) << 4;
    }
}

/// Writes code × scale of packed e2m1 codes.
#[inline]
fn unpack_e2m1(packed: &[u8], scale: f32, out: &mut [f32]) {
    for (pair, &byte) in out.chunks_exact_mut(2).zip(packed) {
        pair[0] = e2m1::decode(byte) * scale;
        pair[1] = e2m1::decode(byte >> 4) * scale;
    }
}
