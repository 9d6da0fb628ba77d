//! e4m3 with an e8m0 scale per 32×32 tile: dense weights (V4.1 §3.1).

use super::GROUP;
use crate::num::{e4m3, e8m0};

/// Values of one row of a dense weight: K codes and the ⌈K/32⌉ scales of the row of tiles it lies in (row
/// `r / 32` of the scale matrix for row `r`). The last tile may be narrower than 32.
///
/// # Panics
/// Unless the lengths are K, ⌈K/32⌉ and K.
#[track_caller]
pub fn w8_row(codes: &[u8], scales: &[u8], out: &mut [f32]) {
    assert!(
        codes.len() == out.len() && scales.len() == out.len().div_ceil(GROUP),
        "w8: {} codes and {} scales do not fit {} elements",
        codes.len(),
        scales.len(),
        out.len()
    );
    for ((out, codes), &byte) in out.chunks_mut(GROUP).zip(codes.chunks(GROUP)).zip(scales) {
        let scale = e8m0::decode(byte);
        for (v, &code) in out.iter_mut().zip(codes) {
            *v = e4m3::decode(code) * scale;
        }
    }
}

/// Values of a dense weight `[n, k]` from `codes` `[n, k]` and `scales` `[⌈n/32⌉, ⌈k/32⌉]`; tiles at the lower
/// and right edge may be partial.
///
/// # Panics
/// Unless the slices have those shapes.
#[track_caller]
pub fn dequantize_w8(codes: &[u8], scales: &[u8], n: usize, k: usize, out: &mut [f32]) {
    let columns = k.div_ceil(GROUP);
    assert!(
        codes.len() == n * k && out.len() == n * k && scales.len() == n.div_ceil(GROUP) * columns,
        "w8: {} codes and {} scales do not fit [{n}, {k}] into {} elements",
        codes.len(),
        scales.len(),
        out.len()
    );
    for row in 0..n {
        let cells = row * k..(row + 1) * k;
        let tiles = row / GROUP * columns..(row / GROUP + 1) * columns;
        w8_row(&codes[cells.clone()], &scales[tiles], &mut out[cells]);
    }
}
