//! Matrix products `out[m][n] (+)= Σ_k a[m][k] · w[n][k]` over packed weight panels (`pack.rs`).
//!
//! **Canonical order.** Lanes run over n. For every block of K, ascending, a partial sum `p` starts at +0 and takes
//! the block's products one `fma` at a time; then
//!
//! | weights | block | products of a block | end of a block |
//! |---|---|---|---|
//! | w4, w8 | 32 | pairs (k, k+1) ascending, in a pair the odd element first | `acc = fma(p · a_scale, w_scale, acc)` |
//! | bf16, f32 | 64 | k ascending | `acc = acc + p` |
//!
//! `acc` starts at +0, or at `out` when accumulating. The order depends on K only: a row comes out the same for any
//! number of rows, and K may be cut at block borders into accumulating calls.
//!
//! Few rows (decode, verify) decode weights in registers as they stream by; many rows decode a chunk of a panel once
//! into a buffer that stays in the first-level cache and sweep the rows over it. Both run the same order.

use super::codes;
use super::lanes::{Lanes, prefetch};
use std::mem::MaybeUninit;

/// Columns of a panel.
const LANES: usize = 16;
/// K of the chunk that is decoded at once: 16 KiB of f32, half of a first-level cache.
const CHUNK: usize = 256;
/// Rows swept over a chunk before the next one: 128 KiB of activations, a quarter of a second-level cache.
const SWEEP: usize = 128;

/// How far ahead of their use weights are fetched from memory, in bytes. The processors' own prefetchers follow a panel
/// too late when there is much to decode per byte.
const AHEAD: usize = 4096;

/// How one block of a panel is stored.
trait Panel {
    /// K of a block.
    const BLOCK: usize;
    /// Whether a block ends with 16 e8m0 scales, and its odd elements come first.
    const SCALED: bool;
    /// Bytes of one pair of k.
    const PAIR: usize;
    /// Bytes of a block.
    const BYTES: usize = Self::BLOCK / 2 * Self::PAIR + if Self::SCALED { LANES } else { 0 };

    /// Weights of k = 4j to 4j + 3 of a block.
    ///
    /// # Safety
    /// The processor has the instructions of `V`; the elements are readable.
    #[inline(always)]
    unsafe fn quad<V: Lanes>(block: *const u8, j: usize) -> [V; 4] {
        let k = 4 * j;
        // SAFETY: the caller vouches for the elements.
        unsafe {
            [Self::one(block, k), Self::one(block, k + 1), Self::one(block, k + 2), Self::one(block, k + 3)]
        }
    }

    /// Weights of one k of a block.
    ///
    /// # Safety
    /// The processor has the instructions of `V`; the element is readable.
    unsafe fn one<V: Lanes>(block: *const u8, k: usize) -> V;
}

struct W4;
struct W8;
struct Bf16;
struct F32;

impl Panel for W4 {
    const BLOCK: usize = 32;
    const SCALED: bool = true;
    const PAIR: usize = 16;

    #[inline(always)]
    unsafe fn quad<V: Lanes>(block: *const u8, j: usize) -> [V; 4] {
        // SAFETY: the caller vouches for the elements.
        unsafe { V::load_e2m1(block.add(j * 32)) }
    }
    #[inline(always)]
    unsafe fn one<V: Lanes>(block: *const u8, k: usize) -> V {
        // SAFETY: the caller vouches for the element, and blocks are whole.
        let quad = unsafe { Self::quad(block, k / 4) };
        quad[k % 4]
    }
}

impl Panel for W8 {
    const BLOCK: usize = 32;
    const SCALED: bool = true;
    const PAIR: usize = 32;

    #[inline(always)]
    unsafe fn one<V: Lanes>(block: *const u8, k: usize) -> V {
        // SAFETY: the caller vouches for the element. A block with a NaN code has a NaN scale.
        unsafe { V::load_e4m3(block.add(k * LANES)) }
    }
}

impl Panel for Bf16 {
    const BLOCK: usize = 64;
    const SCALED: bool = false;
    const PAIR: usize = 64;

    #[inline(always)]
    unsafe fn one<V: Lanes>(block: *const u8, k: usize) -> V {
        // SAFETY: the caller vouches for the element.
        unsafe { V::from_bits(V::shl(V::load_u16(block.cast::<u16>().add(k * LANES)), 16)) }
    }
}

impl Panel for F32 {
    const BLOCK: usize = 64;
    const SCALED: bool = false;
    const PAIR: usize = 128;

    #[inline(always)]
    unsafe fn one<V: Lanes>(block: *const u8, k: usize) -> V {
        // SAFETY: the caller vouches for the element.
        unsafe { V::load(block.cast::<f32>().add(k * LANES)) }
    }
}

/// One call: the operands of the entry points.
#[derive(Clone, Copy)]
struct Call {
    m: usize,
    panels: usize,
    k: usize,
    a: *const f32,
    lda: usize,
    a_scale: *const f32,
    lds: usize,
    w: *const u8,
    panel_stride: usize,
    out: *mut f32,
    ldo: usize,
    accumulate: bool,
}

impl Call {
    /// Activations of a row from `k` on.
    ///
    /// # Safety
    /// `row < m` and `k` within K.
    #[inline(always)]
    unsafe fn a(&self, row: usize, k: usize) -> *const f32 {
        // SAFETY: inside the matrix by the caller's word.
        unsafe { self.a.add(row * self.lda + k) }
    }

    /// Where a row's 16 results of a panel go.
    ///
    /// # Safety
    /// `row < m`, `panel < panels`.
    #[inline(always)]
    unsafe fn out(&self, row: usize, panel: usize) -> *mut f32 {
        // SAFETY: inside the matrix by the caller's word.
        unsafe { self.out.add(row * self.ldo + panel * LANES) }
    }

    /// Ends a block: folds the partial sum of a row into its accumulator.
    ///
    /// # Safety
    /// `row < m`; `block` counts the blocks of K that the row has scales for.
    #[inline(always)]
    unsafe fn fold<V: Lanes, P: Panel>(&self, acc: V, p: V, scale: V, row: usize, block: usize) -> V {
        if !P::SCALED {
            return acc.add(p);
        }
        // A missing scale is 1, by which a product changes nothing.
        let scaled = if self.a_scale.is_null() {
            p
        } else {
            // SAFETY: the row has a scale for every block of K.
            p.mul(unsafe { V::splat(*self.a_scale.add(row * self.lds + block)) })
        };
        scaled.fma(scale, acc)
    }
}

/// The scales that end a block.
///
/// # Safety
/// The processor has the instructions of `V`; the block is readable.
#[inline(always)]
unsafe fn scales<V: Lanes, P: Panel>(block: *const u8) -> V {
    // SAFETY: a scaled block ends with 16 scale bytes.
    unsafe { if P::SCALED { codes::e8m0::<V>(V::load_u8(block.add(P::BYTES - LANES))) } else { V::zero() } }
}

/// One step of R partial sums: element `k` of the rows at `a`.
///
/// # Safety
/// The processor has the instructions of `V`; the R elements are readable.
#[inline(always)]
unsafe fn step<V: Lanes, const R: usize>(p: &mut [V; R], a: *const f32, lda: usize, k: usize, w: V) {
    for r in 0..R {
        // SAFETY: by the caller's word.
        p[r] = unsafe { V::splat(*a.add(r * lda + k)) }.fma(w, p[r]);
    }
}

/// Partial sums of R rows over U whole blocks that follow each other. U independent chains hide the latency of `fma`
/// where the rows alone would not.
///
/// # Safety
/// The processor has the instructions of `V`; blocks and elements are readable.
#[inline(always)]
unsafe fn partials<V: Lanes, P: Panel, const R: usize, const U: usize>(
    a: *const f32,
    lda: usize,
    block: *const u8,
) -> [[V; R]; U] {
    // SAFETY: by the caller's word.
    unsafe {
        let mut p = [[V::zero(); R]; U];
        for j in 0..P::BLOCK / 4 {
            for u in 0..U {
                // Spread over the work, and only to hint: beyond the weights it does nothing.
                for line in (0..2 * P::PAIR).step_by(64) {
                    prefetch(block.wrapping_add(u * P::BYTES + j * 2 * P::PAIR + line + AHEAD));
                }
                let quad = P::quad::<V>(block.add(u * P::BYTES), j);
                let order = if P::SCALED { [1, 0, 3, 2] } else { [0, 1, 2, 3] };
                for i in order {
                    step(&mut p[u], a, lda, u * P::BLOCK + 4 * j + i, quad[i]);
                }
            }
        }
        p
    }
}

/// R rows from `row` on, all panels, decoding in registers.
///
/// # Safety
/// The processor has the instructions of `V`; the call's operands are readable and writable.
#[inline(always)]
unsafe fn stream<V: Lanes, P: Panel, const R: usize, const U: usize>(c: &Call, row: usize) {
    // SAFETY: every index stays inside the operands of the call: rows below m, k below K, panels below `panels`.
    unsafe {
        let whole = c.k / P::BLOCK;
        for panel in 0..c.panels {
            let weights = c.w.add(panel * c.panel_stride);
            let mut acc = [V::zero(); R];
            if c.accumulate {
                for r in 0..R {
                    acc[r] = V::load(c.out(row + r, panel));
                }
            }
            let mut b = 0;
            while b + U <= whole {
                let block = weights.add(b * P::BYTES);
                let p = partials::<V, P, R, U>(c.a(row, b * P::BLOCK), c.lda, block);
                for u in 0..U {
                    let scale = scales::<V, P>(block.add(u * P::BYTES));
                    for r in 0..R {
                        acc[r] = c.fold::<V, P>(acc[r], p[u][r], scale, row + r, b + u);
                    }
                }
                b += U;
            }
            while b < whole {
                let block = weights.add(b * P::BYTES);
                let p = partials::<V, P, R, 1>(c.a(row, b * P::BLOCK), c.lda, block);
                let scale = scales::<V, P>(block);
                for r in 0..R {
                    acc[r] = c.fold::<V, P>(acc[r], p[0][r], scale, row + r, b);
                }
                b += 1;
            }
            // Only unscaled weights may end in a short block.
            if !P::SCALED && b * P::BLOCK < c.k {
                let mut p = [V::zero(); R];
                let block = weights.add(b * P::BYTES);
                for k in 0..c.k - b * P::BLOCK {
                    step(&mut p, c.a(row, b * P::BLOCK), c.lda, k, P::one::<V>(block, k));
                }
                for r in 0..R {
                    acc[r] = acc[r].add(p[r]);
                }
            }
            for r in 0..R {
                acc[r].store(c.out(row + r, panel));
            }
        }
    }
}

/// A decoded chunk of one panel: weights `[k][16]` and scales `[block][16]`.
struct Decoded {
    weights: [MaybeUninit<f32>; CHUNK * LANES],
    scales: [MaybeUninit<f32>; CHUNK / 32 * LANES],
}

/// Decodes `len` ≤ [`CHUNK`] k of a panel.
///
/// # Safety
/// The processor has the instructions of `V`; `len` k are readable at `w`, whole blocks of them if scaled.
#[inline(always)]
unsafe fn decode<V: Lanes, P: Panel>(into: &mut Decoded, w: *const u8, len: usize) {
    let weights = into.weights.as_mut_ptr().cast::<f32>();
    let scale = into.scales.as_mut_ptr().cast::<f32>();
    // SAFETY: `len` is at most `CHUNK`, so everything lands inside the buffers.
    unsafe {
        for b in 0..len.div_ceil(P::BLOCK) {
            let block = w.add(b * P::BYTES);
            let at = weights.add(b * P::BLOCK * LANES);
            let k = P::BLOCK.min(len - b * P::BLOCK);
            for j in 0..k / 4 {
                let quad = P::quad::<V>(block, j);
                for i in 0..4 {
                    quad[i].store(at.add((4 * j + i) * LANES));
                }
            }
            // Only unscaled weights may end in a short block.
            if !P::SCALED {
                for k in k / 4 * 4..k {
                    P::one::<V>(block, k).store(at.add(k * LANES));
                }
            }
            if P::SCALED {
                scales::<V, P>(block).store(scale.add(b * LANES));
            }
        }
    }
}

/// R rows from `row` on over one decoded chunk of one panel.
///
/// # Safety
/// The processor has the instructions of `V`; the chunk `from..from + len` of K is decoded in `d`.
#[inline(always)]
unsafe fn sweep<V: Lanes, P: Panel, const R: usize>(
    c: &Call,
    row: usize,
    panel: usize,
    d: &Decoded,
    from: usize,
    len: usize,
) {
    let weights = d.weights.as_ptr().cast::<f32>();
    let scale = d.scales.as_ptr().cast::<f32>();
    // SAFETY: every index stays inside the operands of the call and the decoded chunk.
    unsafe {
        let mut acc = [V::zero(); R];
        if c.accumulate || from > 0 {
            for r in 0..R {
                acc[r] = V::load(c.out(row + r, panel));
            }
        }
        for b in 0..len.div_ceil(P::BLOCK) {
            let a = c.a(row, from + b * P::BLOCK);
            let w = weights.add(b * P::BLOCK * LANES);
            let mut p = [V::zero(); R];
            if P::SCALED {
                for j in 0..P::BLOCK / 2 {
                    step(&mut p, a, c.lda, 2 * j + 1, V::load(w.add((2 * j + 1) * LANES)));
                    step(&mut p, a, c.lda, 2 * j, V::load(w.add(2 * j * LANES)));
                }
            } else {
                for k in 0..P::BLOCK.min(len - b * P::BLOCK) {
                    step(&mut p, a, c.lda, k, V::load(w.add(k * LANES)));
                }
            }
            let s = if P::SCALED { V::load(scale.add(b * LANES)) } else { V::zero() };
            for r in 0..R {
                acc[r] = c.fold::<V, P>(acc[r], p[r], s, row + r, from / P::BLOCK + b);
            }
        }
        for r in 0..R {
            acc[r].store(c.out(row + r, panel));
        }
    }
}

/// Many rows: chunk by chunk, every panel decoded once for up to [`SWEEP`] rows.
///
/// # Safety
/// The processor has the instructions of `V`; the call's operands are readable and writable.
#[inline(always)]
unsafe fn sweeps<V: Lanes, P: Panel>(c: &Call) {
    let mut decoded = Decoded {
        weights: [const { MaybeUninit::uninit() }; CHUNK * LANES],
        scales: [const { MaybeUninit::uninit() }; CHUNK / 32 * LANES],
    };
    let mut first = 0;
    while first < c.m {
        let end = c.m.min(first + SWEEP);
        let mut from = 0;
        while from < c.k {
            let len = CHUNK.min(c.k - from);
            for panel in 0..c.panels {
                // SAFETY: chunks, panels and rows stay inside the operands of the call.
                unsafe {
                    let w = c.w.add(panel * c.panel_stride + from / P::BLOCK * P::BYTES);
                    decode::<V, P>(&mut decoded, w, len);
                    let mut row = first;
                    while row + 8 <= end && V::ROWS >= 8 {
                        sweep::<V, P, 8>(c, row, panel, &decoded, from, len);
                        row += 8;
                    }
                    while row + 6 <= end {
                        sweep::<V, P, 6>(c, row, panel, &decoded, from, len);
                        row += 6;
                    }
                    while row + 4 <= end {
                        sweep::<V, P, 4>(c, row, panel, &decoded, from, len);
                        row += 4;
                    }
                    while row + 2 <= end {
                        sweep::<V, P, 2>(c, row, panel, &decoded, from, len);
                        row += 2;
                    }
                    if row < end {
                        sweep::<V, P, 1>(c, row, panel, &decoded, from, len);
                    }
                }
            }
            from += len;
        }
        first = end;
    }
}

/// # Safety
/// The processor has the instructions of `V`; the call's operands are readable and writable.
#[inline(always)]
unsafe fn mma<V: Lanes, P: Panel>(c: &Call) {
    // SAFETY: by the caller's word.
    unsafe {
        match c.m {
            0 => {}
            1 => stream::<V, P, 1, 4>(c, 0),
            2 => stream::<V, P, 2, 2>(c, 0),
            3 => stream::<V, P, 3, 1>(c, 0),
            4 => stream::<V, P, 4, 1>(c, 0),
            5 => stream::<V, P, 5, 1>(c, 0),
            6 => stream::<V, P, 6, 1>(c, 0),
            _ if c.k == 0 => {
                for row in 0..c.m {
                    stream::<V, P, 1, 1>(c, row);
                }
            }
            _ => sweeps::<V, P>(c),
        }
    }
}

macro_rules! scaled {
    ($name:ident, $panel:ty) => {
        /// # Safety
        /// See the entry point of the same name in `symbols.rs`.
        #[inline(always)]
        #[expect(clippy::too_many_arguments, reason = "the calling convention of generated code")]
        pub(crate) unsafe fn $name<V: Lanes>(
            m: usize,
            panels: usize,
            k: usize,
            a: *const f32,
            lda: usize,
            a_scale: *const f32,
            lds: usize,
            w: *const u8,
            panel_stride: usize,
            out: *mut f32,
            ldo: usize,
            accumulate: u32,
        ) {
            let accumulate = accumulate != 0;
            let c = Call { m, panels, k, a, lda, a_scale, lds, w, panel_stride, out, ldo, accumulate };
            // SAFETY: by the caller's word.
            unsafe { mma::<V, $panel>(&c) }
        }
    };
}

macro_rules! unscaled {
    ($name:ident, $panel:ty) => {
        /// # Safety
        /// See the entry point of the same name in `symbols.rs`.
        #[inline(always)]
        #[expect(clippy::too_many_arguments, reason = "the calling convention of generated code")]
        pub(crate) unsafe fn $name<V: Lanes>(
            m: usize,
            panels: usize,
            k: usize,
            a: *const f32,
            lda: usize,
            w: *const u8,
            panel_stride: usize,
            out: *mut f32,
            ldo: usize,
            accumulate: u32,
        ) {
            let accumulate = accumulate != 0;
            let (a_scale, lds) = (std::ptr::null(), 0);
            let c = Call { m, panels, k, a, lda, a_scale, lds, w, panel_stride, out, ldo, accumulate };
            // SAFETY: by the caller's word.
            unsafe { mma::<V, $panel>(&c) }
        }
    };
}

scaled!(mma_w4, W4);
scaled!(mma_w8, W8);
unscaled!(mma_bf16, Bf16);
unscaled!(mma_f32, F32);
