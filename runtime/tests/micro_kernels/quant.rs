//! Quantisers and dequantisers, bit for bit against `tessera_ir::num::group`.

use crate::support::{Guarded, Random, SPECIALS, all_kernels, assert_same};
use tessera_ir::num::{e4m3, e8m0, group};

/// Rows of 512 that try every branch: random at many scales, ties of both formats, zeros, one large, specials.
fn rows() -> Vec<Vec<f32>> {
    let mut random = Random(31);
    let mut rows = Vec::new();
    for scale in (-140..=126).step_by(7) {
        rows.push(random.vec(512, |r| r.unit() * 2f32.powi(scale)));
        rows.push(random.vec(512, |r| r.unit() * r.unit() * r.unit() * 2f32.powi(scale)));
    }
    // Midpoints of neighbouring codes, under a group maximum that makes the scale a power of two.
    for exponent in [-20, -3, 0, 5] {
        let power = 2f32.powi(exponent);
        let e4m3_ties: Vec<f32> =
            (0..126u8).map(|c| (e4m3::decode(c) + e4m3::decode(c + 1)) / 2.0 * power).collect();
        let e2m1_ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 0.250_000_03, 0.249_999_99, 5.000_000_5, 6.0];
        for (ties, top) in [(e4m3_ties, 448.0), (e2m1_ties.map(|t: f32| t * power).to_vec(), 6.0)] {
            let mut row: Vec<f32> = (0..512).map(|i| ties[i * 7 % ties.len()]).collect();
            for (i, v) in row.iter_mut().enumerate() {
                if i % 16 == 0 {
                    *v = top * power;
                } else if i % 2 == 1 {
                    *v = -*v;
                }
            }
            rows.push(row);
        }
    }
    // Maxima around six times the midpoints of e4m3: the scale of kv4 is a quotient, and a product with 1/6 would
    // round some of them to the other neighbour.
    let mut maxima: Vec<f32> = Vec::new();
    for code in 0..126u8 {
        let midpoint = (e4m3::decode(code) + e4m3::decode(code + 1)) / 2.0 * 6.0;
        maxima.extend((-4i32..=4).map(|off| f32::from_bits(midpoint.to_bits().wrapping_add_signed(off))));
    }
    for maxima in maxima.chunks_exact(32) {
        rows.push((0..512).map(|i| if i % 16 == 5 { maxima[i / 16] } else { 0.0 }).collect());
    }
    rows.push(vec![0.0; 512]);
    rows.push(vec![-0.0; 512]);
    for special in SPECIALS {
        let mut row = random.vec(512, |r| r.unit());
        row[random.below(512)] = special;
        row[random.below(512)] = -special;
        rows.push(row);
    }
    for amax in [1e-4, 448.0, 448.000_03, 6.0 / 512.0, 2688.0, 2784.0, 2785.0, f32::MAX] {
        let mut row = random.vec(512, |r| r.unit() * amax);
        row[100] = amax;
        row[300] = -amax;
        rows.push(row);
    }
    rows
}

#[test]
fn mx8_and_kv8_are_those_of_the_ir() {
    for x in rows() {
        let (mut codes, mut scales) = (vec![0; 512], vec![0; 16]);
        group::quantize_mx8(&x, &mut codes, &mut scales);
        let mut record = vec![0; 528];
        group::quantize_kv8(&x, &mut record);
        for (isa, kernels) in all_kernels() {
            let (mut c, mut s) = (Guarded::new(512, 0xa5u8), Guarded::new(16, 0xa5u8));
            let mut r = Guarded::new(528, 0xa5u8);
            // SAFETY: 512 values, 512 codes, 16 scales, a record of 528 bytes.
            unsafe {
                (kernels.quant_mx8)(x.as_ptr(), 512, c.pointer(), s.pointer());
                (kernels.quant_kv8)(x.as_ptr(), 512, r.pointer());
            }
            assert_eq!(s.checked(), scales, "{isa} scales of {:?}", &x[..4]);
            assert_eq!(c.checked(), codes, "{isa} codes of {:?}", &x[..4]);
            assert_eq!(r.checked(), record, "{isa} record of {:?}", &x[..4]);
        }
    }
}

#[test]
fn kv4_and_index4_are_those_of_the_ir() {
    for x in rows() {
        let (mut kv4, mut index4) = (vec![0; 288], vec![0; 272]);
        group::quantize_kv4(&x, &mut kv4);
        group::quantize_index4(&x, &mut index4);
        for (isa, kernels) in all_kernels() {
            let (mut r, mut s) = (Guarded::new(288, 0xa5u8), Guarded::new(272, 0xa5u8));
            // SAFETY: 512 values, records of 288 and 272 bytes.
            unsafe {
                (kernels.quant_kv4)(x.as_ptr(), 512, r.pointer());
                (kernels.quant_index4)(x.as_ptr(), 512, s.pointer());
            }
            assert_eq!(r.checked(), kv4, "{isa} kv4 of {:?}", &x[..4]);
            assert_eq!(s.checked(), index4, "{isa} index4 of {:?}", &x[..4]);
        }
    }
}

#[test]
fn every_code_under_every_scale_is_read_back() {
    // Row s: all 256 codes (or bytes) under scale byte s.
    let codes: Vec<u8> = (0..=255).collect();
    for scale in 0..=255u8 {
        let scales = [scale; 16];
        let mut mx8 = vec![0.0; 256];
        group::dequantize_mx8(&codes, &scales[..8], &mut mx8);
        let kv8: Vec<u8> = codes.iter().chain(&scales[..8]).copied().collect();
        let index4: Vec<u8> = codes.iter().chain(&scales).copied().collect();
        let kv4: Vec<u8> = codes.iter().copied().chain([scale; 32]).collect();
        let (mut index4_values, mut kv4_values) = (vec![0.0; 512], vec![0.0; 512]);
        group::dequantize_index4(&index4, &mut index4_values);
        group::dequantize_kv4(&kv4, &mut kv4_values);
        for (isa, kernels) in all_kernels() {
            let what = format!("{isa} scale {scale}");
            let mut out = Guarded::new(256, 42.0f32);
            let mut again = Guarded::new(256, 42.0f32);
            let (mut parts, mut part_scales) = (Guarded::new(256, 42.0f32), Guarded::new(8, 42.0f32));
            // SAFETY: 256 codes and 8 scales.
            unsafe {
                (kernels.dequant_mx8)(codes.as_ptr(), scales.as_ptr(), 256, out.pointer());
                (kernels.dequant_kv8)(kv8.as_ptr(), 256, again.pointer());
                (kernels.unpack_mx8)(
                    codes.as_ptr(),
                    scales.as_ptr(),
                    256,
                    parts.pointer(),
                    part_scales.pointer(),
                );
            }
            assert_same(out.checked(), &mx8, &what);
            assert_same(again.checked(), &mx8, &what);
            let expected: Vec<f32> = codes.iter().map(|&c| e4m3::decode(c)).collect();
            assert_same(parts.checked(), &expected, &what);
            assert_same(part_scales.checked(), &[e8m0::decode(scale); 8], &what);

            let (mut index, mut kv) = (Guarded::new(512, 42.0f32), Guarded::new(512, 42.0f32));
            // SAFETY: records of 512 elements.
            unsafe {
                (kernels.dequant_index4)(index4.as_ptr(), 512, index.pointer());
                (kernels.dequant_kv4)(kv4.as_ptr(), 512, kv.pointer());
            }
            assert_same(index.checked(), &index4_values, &what);
            assert_same(kv.checked(), &kv4_values, &what);
        }
    }
}

#[test]
fn nothing_of_nothing() {
    for (_, kernels) in all_kernels() {
        let mut record = Guarded::new(0, 7u8);
        let mut out = Guarded::new(0, 7.0f32);
        let x: [f32; 0] = [];
        // SAFETY: nothing is read or written.
        unsafe {
            (kernels.quant_kv8)(x.as_ptr(), 0, record.pointer());
            (kernels.quant_kv4)(x.as_ptr(), 0, record.pointer());
            (kernels.quant_index4)(x.as_ptr(), 0, record.pointer());
            (kernels.dequant_kv8)(record.pointer(), 0, out.pointer());
            (kernels.dequant_kv4)(record.pointer(), 0, out.pointer());
            (kernels.dequant_index4)(record.pointer(), 0, out.pointer());
        }
        assert!(record.checked().is_empty() && out.checked().is_empty());
    }
}
