//! Matrix products: the canonical order, its invariances, and the accuracy it gives.

use crate::support::{Guarded, HALF_ULP, Random, all_kernels, assert_same};
use tessera_ir::num::{e2m1, e4m3, e8m0};
use tessera_runtime::micro::Kernels;
use tessera_runtime::micro::pack::{
    PackError, PanelFormat, ScaleTile, pack_bf16, pack_f32, pack_w4, pack_w8, panels,
};

const FORMATS: [PanelFormat; 4] = [PanelFormat::W4, PanelFormat::W8, PanelFormat::Bf16, PanelFormat::F32];

/// A weight, packed and as the values it stands for.
struct Weight {
    format: PanelFormat,
    n: usize,
    k: usize,
    packed: Vec<u8>,
    /// `[n, k]` codes as numbers, without their scales.
    values: Vec<f32>,
    /// `[n, k/32]`, or empty.
    scales: Vec<f32>,
}

impl Weight {
    fn random(format: PanelFormat, n: usize, k: usize, random: &mut Random) -> Self {
        let mut packed = vec![0xaa; format.bytes(n, k)];
        let blocks = k / 32;
        let scale_bytes: Vec<u8> = (0..n * blocks).map(|_| 120 + random.below(12) as u8).collect();
        let mut scales: Vec<f32> = scale_bytes.iter().map(|&b| e8m0::decode(b)).collect();
        let values: Vec<f32> = match format {
            PanelFormat::W4 => {
                let codes: Vec<u8> = (0..n * k / 2).map(|_| random.word() as u8).collect();
                pack_w4(&codes, &scale_bytes, n, k, &mut packed).expect("shapes fit");
                codes.iter().flat_map(|&b| [e2m1::decode(b & 15), e2m1::decode(b >> 4)]).collect()
            }
            PanelFormat::W8 => {
                let codes: Vec<u8> =
                    (0..n * k).map(|_| (random.below(127) + 128 * random.below(2)) as u8).collect();
                pack_w8(&codes, &scale_bytes, ScaleTile::Row1x32, n, k, &mut packed).expect("shapes fit");
                codes.iter().map(|&c| e4m3::decode(c)).collect()
            }
            PanelFormat::Bf16 => {
                let words: Vec<u16> =
                    (0..n * k).map(|_| (random.wide(-6, 3).to_bits() >> 16) as u16).collect();
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                pack_bf16(&bytes, n, k, &mut packed).expect("shapes fit");
                words.iter().map(|&w| f32::from_bits(u32::from(w) << 16)).collect()
            }
            PanelFormat::F32 => {
                let values = random.vec(n * k, |r| r.wide(-6, 3));
                let bytes: Vec<u8> = values.iter().flat_map(|w| w.to_le_bytes()).collect();
                pack_f32(&bytes, n, k, &mut packed).expect("shapes fit");
                values
            }
        };
        if matches!(format, PanelFormat::Bf16 | PanelFormat::F32) {
            scales.clear();
        }
        Self { format, n, k, packed, values, scales }
    }

    fn scaled(&self) -> bool {
        !self.scales.is_empty() || self.k == 0 && matches!(self.format, PanelFormat::W4 | PanelFormat::W8)
    }

    /// The canonical order, one element at a time.
    fn element(&self, a: &[f32], a_scale: Option<&[f32]>, row: usize, start: f32) -> f32 {
        let mut acc = start;
        let w = &self.values[row * self.k..(row + 1) * self.k];
        if self.scaled() {
            let blocks = self.k / 32;
            for b in 0..blocks {
                let mut p = 0.0f32;
                for k in (b * 32..b * 32 + 32).step_by(2) {
                    p = a[k + 1].mul_add(w[k + 1], p);
                    p = a[k].mul_add(w[k], p);
                }
                let s = a_scale.map_or(1.0, |s| s[b]);
                acc = (p * s).mul_add(self.scales[row * blocks + b], acc);
            }
        } else {
            for (a, w) in a.chunks(64).zip(w.chunks(64)) {
                let p = a.iter().zip(w).fold(0.0f32, |p, (a, w)| a.mul_add(*w, p));
                acc += p;
            }
        }
        acc
    }
}

/// One call of the kernel of a format.
#[expect(clippy::too_many_arguments, reason = "the kernel's own arguments")]
fn call(
    kernels: &Kernels,
    format: PanelFormat,
    m: usize,
    panels: usize,
    k: usize,
    a: *const f32,
    lda: usize,
    a_scale: *const f32,
    lds: usize,
    w: *const u8,
    stride: usize,
    out: *mut f32,
    ldo: usize,
    accumulate: u32,
) {
    // SAFETY: the callers below pass operands of these shapes.
    unsafe {
        match format {
            PanelFormat::W4 => {
                (kernels.mma_w4)(m, panels, k, a, lda, a_scale, lds, w, stride, out, ldo, accumulate)
            }
            PanelFormat::W8 => {
                (kernels.mma_w8)(m, panels, k, a, lda, a_scale, lds, w, stride, out, ldo, accumulate)
            }
            PanelFormat::Bf16 => (kernels.mma_bf16)(m, panels, k, a, lda, w, stride, out, ldo, accumulate),
            PanelFormat::F32 => (kernels.mma_f32)(m, panels, k, a, lda, w, stride, out, ldo, accumulate),
        }
    }
}

/// `[m][n]` by a kernel, from rows of `a` that are `k` apart.
fn product(kernels: &Kernels, w: &Weight, a: &[f32], a_scale: Option<&[f32]>, m: usize) -> Vec<f32> {
    let columns = panels(w.n) * 16;
    let ldo = columns + 5;
    let mut out = Guarded::new(m * ldo, -77.0f32);
    let scale = a_scale.map_or(std::ptr::null(), <[f32]>::as_ptr);
    let stride = w.format.panel_bytes(w.k);
    call(
        kernels,
        w.format,
        m,
        panels(w.n),
        w.k,
        a.as_ptr(),
        w.k,
        scale,
        w.k / 32,
        w.packed.as_ptr(),
        stride,
        out.pointer(),
        ldo,
        0,
    );
    let rows: Vec<&[f32]> = out.checked().chunks(ldo).collect();
    assert!(rows.iter().all(|row| row[columns..].iter().all(|&v| v == -77.0)), "wrote between rows");
    rows.iter().flat_map(|row| row[..w.n].to_vec()).collect()
}

/// Values of K that end in whole, short and single blocks.
fn depths(format: PanelFormat) -> &'static [usize] {
    match format {
        PanelFormat::W4 | PanelFormat::W8 => &[32, 3 * 32, 5 * 32, 17 * 32, 36 * 32],
        PanelFormat::Bf16 | PanelFormat::F32 => &[1, 31, 64, 65, 255, 321, 1024, 1153],
    }
}

#[test]
fn every_isa_follows_the_canonical_order_for_any_shape() {
    let mut random = Random(1);
    for format in FORMATS {
        for (i, &k) in depths(format).iter().enumerate() {
            let n = [1, 15, 16, 17, 40, 33, 48, 2][i];
            let w = Weight::random(format, n, k, &mut random);
            let m = 17;
            let a = random.vec(m * k, |r| r.wide(-4, 6));
            let scales = random.vec(m * (k / 32), |r| 2f32.powi(r.below(9) as i32 - 4));
            for a_scale in [None, Some(&scales[..])] {
                let expected: Vec<f32> = (0..m * n)
                    .map(|at| {
                        let row = at / n;
                        let s = a_scale.map(|s| &s[row * (k / 32)..(row + 1) * (k / 32)]);
                        w.element(&a[row * k..(row + 1) * k], s, at % n, 0.0)
                    })
                    .collect();
                for (isa, kernels) in all_kernels() {
                    // Any number of rows gives the same rows.
                    for rows in 1..=m {
                        let found = product(kernels, &w, &a, a_scale, rows);
                        let what = format!("{isa} {format:?} m={rows} n={n} k={k}");
                        assert_same(&found, &expected[..rows * n], &what);
                    }
                }
            }
        }
    }
}

#[test]
fn many_rows_are_swept_like_few() {
    // More rows than one sweep holds and more K than one chunk, cut unevenly.
    let mut random = Random(2);
    for format in FORMATS {
        let (m, n, k) = (150, 20, 9 * 32 + if format == PanelFormat::F32 { 7 } else { 0 });
        let w = Weight::random(format, n, k, &mut random);
        let a = random.vec(m * k, |r| r.unit());
        for (isa, kernels) in all_kernels() {
            let all = product(kernels, &w, &a, None, m);
            for row in 0..m {
                let alone = product(kernels, &w, &a[row * k..(row + 1) * k], None, 1);
                assert_same(&all[row * n..(row + 1) * n], &alone, &format!("{isa} {format:?} row {row}"));
            }
        }
    }
}

#[test]
fn cutting_k_at_block_borders_and_panels_anywhere_changes_nothing() {
    let mut random = Random(3);
    for format in FORMATS {
        let block = if matches!(format, PanelFormat::W4 | PanelFormat::W8) { 32 } else { 64 };
        let (n, k) = (48, 10 * block);
        let w = Weight::random(format, n, k, &mut random);
        let block_bytes = format.panel_bytes(block);
        let stride = format.panel_bytes(k);
        for m in [1, 3, 9] {
            let a = random.vec(m * k, |r| r.wide(-4, 6));
            let scales = random.vec(m * (k / 32), |r| 2f32.powi(r.below(9) as i32 - 4));
            for (isa, kernels) in all_kernels() {
                let whole = product(kernels, &w, &a, Some(&scales), m);
                for cut in [1, 4, 9] {
                    let mut out = vec![5.0f32; m * n];
                    for (from, to, accumulate) in [(0, cut, 0), (cut, 10, 1)] {
                        for panel in 0..n / 16 {
                            call(
                                kernels,
                                format,
                                m,
                                1,
                                (to - from) * block,
                                a[from * block..].as_ptr(),
                                k,
                                scales[from * block / 32..].as_ptr(),
                                k / 32,
                                w.packed[panel * stride + from * block_bytes..].as_ptr(),
                                stride,
                                out[panel * 16..].as_mut_ptr(),
                                n,
                                accumulate,
                            );
                        }
                    }
                    assert_same(&out, &whole, &format!("{isa} {format:?} m={m} cut at block {cut}"));
                }
            }
        }
    }
}

#[test]
fn error_stays_within_the_bound_of_the_order() {
    let mut random = Random(4);
    for format in FORMATS {
        let (m, n, k) = (3, 32, 1024);
        let w = Weight::random(format, n, k, &mut random);
        let a = random.vec(m * k, |r| r.unit());
        for (isa, kernels) in all_kernels() {
            let found = product(kernels, &w, &a, None, m);
            for (at, &y) in found.iter().enumerate() {
                let (row, col) = (at / n, at % n);
                let (mut exact, mut terms) = (0.0f64, 0.0f64);
                for i in 0..k {
                    let scale = if w.scaled() { w.scales[col * (k / 32) + i / 32] } else { 1.0 };
                    let term =
                        f64::from(a[row * k + i]) * f64::from(w.values[col * k + i]) * f64::from(scale);
                    exact += term;
                    terms += term.abs();
                }
                // A product passes at most one rounding per element of its block and one per block.
                let bound = (64 + k / 32 + 2) as f64 * HALF_ULP * terms;
                let error = (f64::from(y) - exact).abs();
                assert!(error <= bound, "{isa} {format:?} [{row}][{col}]: error {error:e} above {bound:e}");
            }
        }
    }
}

#[test]
fn scale_bytes_at_both_ends_are_not_shifted_into_nonsense() {
    // e4m3 1.0 (0x38) under 0, 1, 127, 254, 255; e2m1 0.5 under 0 and 6.0 under 254, each in a lane of its own.
    let cases: [(u8, u8, f32); 5] = [
        (0x38, 0, f32::from_bits(0x0040_0000)),
        (0x38, 1, f32::MIN_POSITIVE),
        (0x38, 127, 1.0),
        (0x38, 254, 2f32.powi(127)),
        (0x38, 255, f32::NAN),
    ];
    let mut codes = vec![0u8; 5 * 32];
    let mut scales = vec![0u8; 5];
    for (row, &(code, scale, _)) in cases.iter().enumerate() {
        codes[row * 32 + 7] = code;
        scales[row] = scale;
    }
    let mut packed = vec![0; PanelFormat::W8.bytes(5, 32)];
    pack_w8(&codes, &scales, ScaleTile::Row1x32, 5, 32, &mut packed).expect("shapes fit");
    let mut a = [0.0f32; 32];
    a[7] = 1.0;
    for (isa, kernels) in all_kernels() {
        let mut out = [9.0f32; 16];
        call(
            kernels,
            PanelFormat::W8,
            1,
            1,
            32,
            a.as_ptr(),
            32,
            std::ptr::null(),
            0,
            packed.as_ptr(),
            packed.len(),
            out.as_mut_ptr(),
            16,
            0,
        );
        let expected: Vec<f32> = cases.iter().map(|&(.., value)| value).collect();
        assert_same(&out[..5], &expected, isa.name());
    }

    let mut codes = vec![0u8; 2 * 16];
    codes[3] = 0x01;
    codes[16 + 3] = 0x07;
    let mut packed = vec![0; PanelFormat::W4.bytes(2, 32)];
    pack_w4(&codes, &[0, 254], 2, 32, &mut packed).expect("shapes fit");
    a = [0.0; 32];
    a[6] = 1.0;
    for (isa, kernels) in all_kernels() {
        let mut out = [9.0f32; 16];
        call(
            kernels,
            PanelFormat::W4,
            1,
            1,
            32,
            a.as_ptr(),
            32,
            std::ptr::null(),
            0,
            packed.as_ptr(),
            packed.len(),
            out.as_mut_ptr(),
            16,
            0,
        );
        assert_same(&out[..2], &[f32::from_bits(0x0020_0000), f32::INFINITY], isa.name());
    }
}

#[test]
fn every_code_of_both_small_formats_is_decoded() {
    for (isa, kernels) in all_kernels() {
        // Row r of the weight holds code r at k = 0 (then at k = 1): the product is its value.
        for at in [0, 1, 30, 31] {
            let mut a = [0.0f32; 32];
            a[at] = 1.0;
            let mut codes = vec![0u8; 256 * 32];
            for code in 0..=255u8 {
                codes[usize::from(code) * 32 + at] = code;
            }
            let mut packed = vec![0; PanelFormat::W8.bytes(256, 32)];
            pack_w8(&codes, &[127; 8], ScaleTile::Tile32x32, 256, 32, &mut packed).expect("shapes fit");
            let mut out = [0.0f32; 256];
            for m in [1, 7] {
                let rows = a.repeat(m);
                let mut all = vec![0.0f32; m * 256];
                call(
                    kernels,
                    PanelFormat::W8,
                    m,
                    16,
                    32,
                    rows.as_ptr(),
                    32,
                    std::ptr::null(),
                    0,
                    packed.as_ptr(),
                    PanelFormat::W8.panel_bytes(32),
                    all.as_mut_ptr(),
                    256,
                    0,
                );
                out.copy_from_slice(&all[(m - 1) * 256..]);
                for code in 0..=255u8 {
                    let (found, value) = (out[usize::from(code)], e4m3::decode(code));
                    assert!(
                        found == value || (found.is_nan() && value.is_nan()),
                        "{isa} m={m} {code:02x}: {found}"
                    );
                }
            }
            let mut codes = vec![0u8; 16 * 16];
            for code in 0..16u8 {
                codes[usize::from(code) * 16 + at / 2] = code << (4 * (at % 2));
            }
            let mut packed = vec![0; PanelFormat::W4.bytes(16, 32)];
            pack_w4(&codes, &[127; 16], 16, 32, &mut packed).expect("shapes fit");
            let mut out = [0.0f32; 16];
            call(
                kernels,
                PanelFormat::W4,
                1,
                1,
                32,
                a.as_ptr(),
                32,
                std::ptr::null(),
                0,
                packed.as_ptr(),
                packed.len(),
                out.as_mut_ptr(),
                16,
                0,
            );
            for code in 0..16u8 {
                assert_eq!(out[usize::from(code)], e2m1::decode(code), "{isa} e2m1 {code:x} at {at}");
            }
        }
    }
}

#[test]
fn a_nan_code_spoils_its_row_and_no_other() {
    let mut random = Random(5);
    let (n, k) = (40, 96);
    let mut codes: Vec<u8> = (0..n * k).map(|_| random.below(127) as u8).collect();
    codes[21 * k + 50] = 0xff;
    let mut packed = vec![0; PanelFormat::W8.bytes(n, k)];
    pack_w8(&codes, &[127; 2 * 3], ScaleTile::Tile32x32, n, k, &mut packed).expect("shapes fit");
    for (isa, kernels) in all_kernels() {
        for m in [1, 8] {
            let a = vec![0.5f32; m * k];
            let mut out = vec![0.0f32; m * 48];
            call(
                kernels,
                PanelFormat::W8,
                m,
                3,
                k,
                a.as_ptr(),
                k,
                std::ptr::null(),
                0,
                packed.as_ptr(),
                PanelFormat::W8.panel_bytes(k),
                out.as_mut_ptr(),
                48,
                0,
            );
            for (at, y) in out.iter().enumerate() {
                assert_eq!(y.is_nan(), at % 48 == 21, "{isa} m={m} column {}", at % 48);
            }
        }
    }
}

#[test]
fn specials_of_the_activations_reach_their_rows_only() {
    let mut random = Random(6);
    for format in FORMATS {
        let (m, n, k) = (7, 16, 64);
        let w = Weight::random(format, n, k, &mut random);
        let mut a = random.vec(m * k, |r| r.unit());
        a[k + 3] = f32::NAN;
        a[3 * k + 5] = f32::INFINITY;
        a[5 * k..6 * k].fill(1e-42);
        for (isa, kernels) in all_kernels() {
            let found = product(kernels, &w, &a, None, m);
            for row in 0..m {
                let expected: Vec<f32> =
                    (0..n).map(|col| w.element(&a[row * k..(row + 1) * k], None, col, 0.0)).collect();
                assert_same(
                    &found[row * n..(row + 1) * n],
                    &expected,
                    &format!("{isa} {format:?} row {row}"),
                );
            }
            assert!(found[n..2 * n].iter().all(|y| y.is_nan()) && found[..n].iter().all(|y| y.is_finite()));
            assert!(found[5 * n..6 * n].iter().any(|&y| y != 0.0), "subnormals were flushed");
        }
    }
}

#[test]
fn nothing_of_nothing() {
    for (isa, kernels) in all_kernels() {
        for format in FORMATS {
            for m in [0, 1, 9] {
                for accumulate in [0, 1] {
                    let mut out = Guarded::new(m * 16, 3.0f32);
                    call(
                        kernels,
                        format,
                        m,
                        1,
                        0,
                        std::ptr::dangling(),
                        0,
                        std::ptr::null(),
                        0,
                        std::ptr::dangling(),
                        0,
                        out.pointer(),
                        16,
                        accumulate,
                    );
                    let value = if accumulate == 0 { 0.0 } else { 3.0 };
                    assert!(out.checked().iter().all(|&y| y == value), "{isa} {format:?} k=0");
                    call(
                        kernels,
                        format,
                        m,
                        0,
                        32,
                        std::ptr::dangling(),
                        0,
                        std::ptr::null(),
                        0,
                        std::ptr::dangling(),
                        0,
                        out.pointer(),
                        16,
                        accumulate,
                    );
                    assert!(out.checked().iter().all(|&y| y == value), "{isa} {format:?} no panels");
                }
            }
        }
    }
}

#[test]
fn panels_are_laid_out_as_documented() {
    let (n, k) = (17, 64);
    let codes: Vec<u8> = (0..n * k / 2).map(|i| (i * 37 % 251) as u8).collect();
    let scales: Vec<u8> = (0..n * k / 32).map(|i| 100 + i as u8).collect();
    let mut packed = vec![0xee; PanelFormat::W4.bytes(n, k)];
    pack_w4(&codes, &scales, n, k, &mut packed).expect("shapes fit");
    assert_eq!(packed.len(), 2 * 2 * 272);
    for row in 0..32 {
        for b in 0..2 {
            let block = &packed[(row / 16 * 2 + b) * 272..][..272];
            for j in 0..16 {
                let expected = if row < n { codes[row * 32 + b * 16 + j] } else { 0 };
                assert_eq!(block[j * 16 + row % 16], expected, "row {row} block {b} pair {j}");
            }
            assert_eq!(block[256 + row % 16], if row < n { scales[row * 2 + b] } else { 0 });
        }
    }
    let codes: Vec<u8> = (0..n * k).map(|i| (i * 37 % 127) as u8).collect();
    let mut packed = vec![0xee; PanelFormat::W8.bytes(n, k)];
    pack_w8(&codes, &[101, 102], ScaleTile::Tile32x32, n, k, &mut packed).expect("shapes fit");
    for row in 0..32 {
        for b in 0..2 {
            let block = &packed[(row / 16 * 2 + b) * 528..][..528];
            for i in 0..32 {
                let expected = if row < n { codes[row * 64 + b * 32 + i] } else { 0 };
                assert_eq!(block[i * 16 + row % 16], expected, "row {row} block {b} k {i}");
            }
            assert_eq!(block[512 + row % 16], if row < n { 101 + b as u8 } else { 0 });
        }
    }
}

#[test]
fn what_cannot_be_packed_is_refused() {
    assert_eq!(pack_w4(&[0; 24], &[], 1, 48, &mut []), Err(PackError::Depth { k: 48 }));
    let short = pack_w8(&[0; 64], &[127], ScaleTile::Row1x32, 2, 32, &mut [0; 528]);
    assert_eq!(short, Err(PackError::Length { what: "scales", n: 2, k: 32, expected: 2, found: 1 }));
    assert!(matches!(pack_bf16(&[0; 3], 1, 2, &mut [0; 64]), Err(PackError::Length { what: "words", .. })));
    assert!(matches!(pack_f32(&[0; 8], 1, 2, &mut [0; 64]), Err(PackError::Length { what: "panels", .. })));
}
