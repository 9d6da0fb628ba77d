//! Scales of matrix instructions: blocks in memory and their place in tensor memory (PTX ISA 9.7.16.2.5).

use super::accumulator::Place;
use super::fault::EncodeFault;
use super::shared::SmemDesc;
use super::swizzle::Swizzle;

/// Bytes of the scales of 128 rows and 4 blocks of K: 128 of K with a scale per 32.
pub const SCALE_BLOCK_BYTES: u32 = 512;

/// Byte of the scale of row `row` (below 128) and block `k` (below 4) in a block of [`SCALE_BLOCK_BYTES`].
pub fn scale_byte(row: u32, k: u32) -> u32 {
    (row % 32) * 16 + (row / 32) * 4 + k
}

/// The 4 words of a lane when a warp turns a block around: 128 words, word `i` with the 4 scales of row `i`, are read
/// as `words[i][lane] = word 32·i + lane` and written as 16 bytes at `16·lane`.
pub fn scale_words(lane: u32) -> [u32; 4] {
    [lane, lane + 32, lane + 64, lane + 96]
}

/// Columns of tensor memory for the scales of `rows` rows: one per 32 rows, whole blocks of 128.
pub fn scale_columns(rows: u32) -> u32 {
    rows.div_ceil(128) * 4
}

/// Lane, column from the scales' begin, and byte of the column in which the scale of row `row`, block `k` (below 4)
/// lies. Lanes 32, 64 and 96 further on hold copies.
pub fn scale_place(row: u32, k: u32) -> (Place, u32) {
    (Place { cta: 0, lane: row % 32, column: row / 32 }, k)
}

/// The descriptor of a block for the copy `32x128b.warpx4`, but for the address.
///
/// # Errors
/// None; the signature is that of descriptors.
pub fn scale_desc() -> Result<u64, EncodeFault> {
    SmemDesc { swizzle: Swizzle::None, leading: 0, stride: 128 }.constant()
}
