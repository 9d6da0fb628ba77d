//! Packed weight panels: the layout that the matrix products read, and how checkpoints are packed into it.
//!
//! A panel holds 16 rows of a weight `[n, k]` (the last one padded with rows of zeros), lane by lane, for all of K:
//!
//! | format | block of k | bytes of a block |
//! |---|---|---|
//! | w4 | 32 | for j in 0..16, lane in 0..16: `code(2j) \| code(2j+1) << 4` (e2m1); then 16 e8m0 scales: 272 |
//! | w8 | 32 | for k in 0..32, lane in 0..16: e4m3 code; then 16 e8m0 scales: 528 |
//! | bf16 | – | for every k, lane in 0..16: little-endian half-word |
//! | f32 | – | for every k, lane in 0..16: little-endian word |
//!
//! A lane of a w8 block with a NaN code gets the NaN scale, so that kernels need not look for NaN codes: every product
//! sum over that block would be NaN either way.

/// Rows of a panel.
pub const LANES: usize = 16;
/// K of a scaled block.
pub const BLOCK: usize = 32;

/// Weight formats that have panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PanelFormat {
    /// e2m1 with an e8m0 scale per row and 32 of K.
    W4,
    /// e4m3 with an e8m0 scale per row (or 32 rows) and 32 of K.
    W8,
    /// bf16.
    Bf16,
    /// f32.
    F32,
}

impl PanelFormat {
    /// Bytes of one panel of K elements per row: the stride between panels. K of scaled formats is a multiple of 32.
    pub const fn panel_bytes(self, k: usize) -> usize {
        match self {
            Self::W4 => k.div_ceil(BLOCK) * (BLOCK / 2 * LANES + LANES),
            Self::W8 => k.div_ceil(BLOCK) * (BLOCK * LANES + LANES),
            Self::Bf16 => k * 2 * LANES,
            Self::F32 => k * 4 * LANES,
        }
    }

    /// Bytes of the packed weight `[n, k]`.
    pub const fn bytes(self, n: usize, k: usize) -> usize {
        panels(n) * self.panel_bytes(k)
    }
}

/// Panels of a weight of `n` rows.
pub const fn panels(n: usize) -> usize {
    n.div_ceil(LANES)
}

/// What a scale of a w8 weight covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleTile {
    /// 32 rows × 32 of K: scales are `[ceil(n/32), ceil(k/32)]` (dense weights, V4.1 §3.1).
    Tile32x32,
    /// One row × 32 of K: scales are `[n, ceil(k/32)]`.
    Row1x32,
}

/// A weight that cannot be packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// K of a scaled format is not whole blocks.
    #[error("k = {k} is not a multiple of 32: pad the weight and its scales with zeros first")]
    Depth {
        /// The offending K.
        k: usize,
    },
    /// A buffer has the wrong length for the shape.
    #[error("{what} of [{n}, {k}] should be {expected} bytes, not {found}")]
    Length {
        /// Which buffer.
        what: &'static str,
        /// Rows.
        n: usize,
        /// Columns.
        k: usize,
        /// Bytes that the shape needs.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
}

fn check(what: &'static str, n: usize, k: usize, expected: usize, found: usize) -> Result<(), PackError> {
    if expected == found { Ok(()) } else { Err(PackError::Length { what, n, k, expected, found }) }
}

fn whole_blocks(k: usize) -> Result<(), PackError> {
    if k.is_multiple_of(BLOCK) { Ok(()) } else { Err(PackError::Depth { k }) }
}

/// Packs a w4 weight: `codes` `[n, k/2]` bytes, the even element low; `scales` `[n, k/32]`; `out` of
/// [`PanelFormat::bytes`] bytes.
///
/// # Errors
/// K is not a multiple of 32, or a length does not fit the shape.
pub fn pack_w4(codes: &[u8], scales: &[u8], n: usize, k: usize, out: &mut [u8]) -> Result<(), PackError> {
    whole_blocks(k)?;
    check("codes", n, k, n * k / 2, codes.len())?;
    check("scales", n, k, n * k / BLOCK, scales.len())?;
    check("panels", n, k, PanelFormat::W4.bytes(n, k), out.len())?;
    out.fill(0);
    const BYTES: usize = BLOCK / 2 * LANES + LANES;
    for row in 0..n {
        let (panel, lane) = (row / LANES, row % LANES);
        for b in 0..k / BLOCK {
            let at = panel * PanelFormat::W4.panel_bytes(k) + b * BYTES;
            let block = &mut out[at..at + BYTES];
            let from = row * k / 2 + b * BLOCK / 2;
            for (j, &byte) in codes[from..from + BLOCK / 2].iter().enumerate() {
                block[j * LANES + lane] = byte;
            }
            block[BYTES - LANES + lane] = scales[row * (k / BLOCK) + b];
        }
    }
    Ok(())
}

/// Packs a w8 weight: `codes` `[n, k]`; `scales` as `tile` says; `out` of [`PanelFormat::bytes`] bytes.
///
/// # Errors
/// K is not a multiple of 32, or a length does not fit the shape.
pub fn pack_w8(
    codes: &[u8],
    scales: &[u8],
    tile: ScaleTile,
    n: usize,
    k: usize,
    out: &mut [u8],
) -> Result<(), PackError> {
    whole_blocks(k)?;
    check("codes", n, k, n * k, codes.len())?;
    let scale_rows = match tile {
        ScaleTile::Tile32x32 => n.div_ceil(32),
        ScaleTile::Row1x32 => n,
    };
    check("scales", n, k, scale_rows * (k / BLOCK), scales.len())?;
    check("panels", n, k, PanelFormat::W8.bytes(n, k), out.len())?;
    out.fill(0);
    const BYTES: usize = BLOCK * LANES + LANES;
    for row in 0..n {
        let (panel, lane) = (row / LANES, row % LANES);
        let scale_row = match tile {
            ScaleTile::Tile32x32 => row / 32,
            ScaleTile::Row1x32 => row,
        };
        for b in 0..k / BLOCK {
            let at = panel * PanelFormat::W8.panel_bytes(k) + b * BYTES;
            let block = &mut out[at..at + BYTES];
            let from = row * k + b * BLOCK;
            let source = &codes[from..from + BLOCK];
            for (k, &code) in source.iter().enumerate() {
                block[k * LANES + lane] = code;
            }
            let nan = source.iter().any(|code| code & 0x7f == 0x7f);
            block[BYTES - LANES + lane] = if nan { 255 } else { scales[scale_row * (k / BLOCK) + b] };
        }
    }
    Ok(())
}

/// Packs a bf16 weight of `n`·`k` little-endian half-words into `out` of [`PanelFormat::bytes`] bytes.
///
/// # Errors
/// A length does not fit the shape.
pub fn pack_bf16(words: &[u8], n: usize, k: usize, out: &mut [u8]) -> Result<(), PackError> {
    pack_words::<2>(PanelFormat::Bf16, words, n, k, out)
}

/// Packs an f32 weight of `n`·`k` little-endian words into `out` of [`PanelFormat::bytes`] bytes.
///
/// # Errors
/// A length does not fit the shape.
pub fn pack_f32(words: &[u8], n: usize, k: usize, out: &mut [u8]) -> Result<(), PackError> {
    pack_words::<4>(PanelFormat::F32, words, n, k, out)
}

fn pack_words<const SIZE: usize>(
    format: PanelFormat,
    words: &[u8],
    n: usize,
    k: usize,
    out: &mut [u8],
) -> Result<(), PackError> {
    check("words", n, k, n * k * SIZE, words.len())?;
    check("panels", n, k, format.bytes(n, k), out.len())?;
    out.fill(0);
    if k == 0 {
        return Ok(());
    }
    for (row, words) in words.chunks_exact(k * SIZE).enumerate() {
        let panel = row / LANES * format.panel_bytes(k);
        for (i, word) in words.chunks_exact(SIZE).enumerate() {
            let at = panel + (i * LANES + row % LANES) * SIZE;
            out[at..at + SIZE].copy_from_slice(word);
        }
    }
    Ok(())
}
