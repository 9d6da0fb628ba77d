//! Group formats: every code under every scale against f64, quantisers against a search in f64, record layouts.

use proptest::prelude::*;
use tessera_ir::num::{bf16, e4m3, e8m0, group};

/// f32 nearest to an f64 that is exact, as the formats' products are.
fn product(code: f64, scale: f64) -> f32 {
    (code * scale) as f32
}

fn power(byte: u8) -> f64 {
    if byte == 255 { f64::NAN } else { 2f64.powi(i32::from(byte) - 127) }
}

/// Value of an e4m3 code from its fields.
fn e4m3_value(code: u8) -> f64 {
    let sign = if code >= 0x80 { -1.0 } else { 1.0 };
    match (code >> 3 & 15, code & 7) {
        (15, 7) => f64::NAN,
        (0, fraction) => sign * f64::from(fraction) * 2f64.powi(-9),
        (exponent, fraction) => sign * (1.0 + f64::from(fraction) / 8.0) * 2f64.powi(i32::from(exponent) - 7),
    }
}

fn e2m1_value(code: u8) -> f64 {
    let magnitude = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(code & 7)];
    if code & 8 == 0 { magnitude } else { -magnitude }
}

#[track_caller]
fn assert_same(got: f32, expected: f32, code: u8, scale: u8) {
    assert!(
        got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(),
        "code {code:#x} under scale {scale:#x} gives {got:e}, not {expected:e}"
    );
}

fn repeated_codes() -> Vec<u8> {
    (0..=255).flat_map(|_| 0..=255u8).collect()
}

#[test]
fn mx8_has_the_right_value_for_every_code_under_every_scale() {
    let codes = repeated_codes();
    let scales: Vec<u8> = (0..=255u8).flat_map(|byte| [byte; 8]).collect();
    let mut out = vec![0.0; codes.len()];
    group::dequantize_mx8(&codes, &scales, &mut out);
    let mut row = [0.0; 256];
    let mut record = [0; 264];
    for byte in 0..=255u8 {
        group::mx8_row(&codes[..256], &[byte; 8], &mut row);
        record[..256].copy_from_slice(&codes[..256]);
        record[256..].fill(byte);
        let mut from_record = [0.0; 256];
        group::dequantize_kv8(&record, &mut from_record);
        for code in 0..=255u8 {
            let expected = product(e4m3_value(code), power(byte));
            let at = usize::from(code);
            assert_same(out[usize::from(byte) * 256 + at], expected, code, byte);
            assert_same(row[at], expected, code, byte);
            assert_same(from_record[at], expected, code, byte);
            // Exact in bf16 from byte 3 on.
            if byte >= 3 && expected.is_finite() {
                assert_same(bf16::round(expected), expected, code, byte);
            }
        }
    }
}

#[test]
fn w8_has_the_right_value_for_every_code_under_every_scale() {
    // 32 rows of 8 tiles for each scale byte; row r of a tile row starts at code 8·r, so every tile differs.
    let (n, k) = (256 * 32, 256);
    let codes: Vec<u8> = (0..n).flat_map(|r| (0..k).map(move |c| (c + 8 * (r % 32)) as u8)).collect();
    let scales: Vec<u8> = (0..=255u8).flat_map(|b| (0..8).map(move |t| b.wrapping_add(t))).collect();
    let mut out = vec![0.0; n * k];
    group::dequantize_w8(&codes, &scales, n, k, &mut out);
    for r in 0..n {
        for c in 0..k {
            let (code, byte) = (codes[r * k + c], scales[r / 32 * 8 + c / 32]);
            assert_same(out[r * k + c], product(e4m3_value(code), power(byte)), code, byte);
        }
    }
}

#[test]
fn w8_edge_tiles_are_partial() {
    for (n, k) in [(1, 1), (31, 33), (33, 40), (65, 95), (32, 64), (0, 32), (3, 0)] {
        let columns = usize::div_ceil(k, 32);
        let codes: Vec<u8> = (0..n * k).map(|i| (i % 127) as u8).collect();
        let scales: Vec<u8> = (0..usize::div_ceil(n, 32) * columns).map(|i| 120 + i as u8).collect();
        let mut out = vec![f32::NAN; n * k];
        group::dequantize_w8(&codes, &scales, n, k, &mut out);
        for i in 0..n * k {
            let byte = scales[i / k / 32 * columns + i % k / 32];
            assert_same(out[i], product(e4m3_value(codes[i]), power(byte)), codes[i], byte);
        }
    }
}

#[test]
fn fp4_has_the_right_value_for_every_code_under_every_e8m0_scale() {
    let mut row = [0.0; 32];
    let mut from_record = [0.0; 32];
    for byte in 0..=255u8 {
        for low in 0..16u8 {
            let packed: Vec<u8> = (0..16).map(|high| low | high << 4).collect();
            let record: Vec<u8> = packed.iter().copied().chain([byte]).collect();
            group::mx4_row(&packed, &[byte], &mut row);
            group::dequantize_index4(&record, &mut from_record);
            for high in 0..16u8 {
                for (at, code) in [(2 * usize::from(high), low), (2 * usize::from(high) + 1, high)] {
                    let expected = product(e2m1_value(code), power(byte));
                    assert_same(row[at], expected, code, byte);
                    assert_same(from_record[at], expected, code, byte);
                    if expected.is_finite() {
                        assert_same(bf16::round(expected), expected, code, byte);
                    }
                }
            }
        }
    }
}

#[test]
fn kv4_has_the_right_value_for_every_code_under_every_e4m3_scale() {
    let mut out = [0.0; 16];
    for scale in 0..=255u8 {
        for shift in 0..16u8 {
            let record: Vec<u8> = (0..8).map(|i| i | ((i + shift) & 15) << 4).chain([scale]).collect();
            group::dequantize_kv4(&record, &mut out);
            for i in 0..8u8 {
                for (at, code) in [(2 * usize::from(i), i), (2 * usize::from(i) + 1, (i + shift) & 15)] {
                    let expected = product(e2m1_value(code), e4m3_value(scale));
                    assert_same(out[at], expected, code, scale);
                    if !expected.is_nan() {
                        assert_same(bf16::round(expected), expected, code, scale);
                    }
                }
            }
        }
    }
}

#[test]
fn mx4_rows_keep_their_own_scales() {
    let (n, k) = (3, 64);
    let packed: Vec<u8> = (0..n * k / 2).map(|i| (i * 37) as u8).collect();
    let scales = [127u8, 128, 120, 1, 254, 100];
    let mut out = vec![0.0; n * k];
    group::dequantize_mx4(&packed, &scales, n, k, &mut out);
    for (i, &got) in out.iter().enumerate() {
        let code = packed[i / 2] >> (4 * (i % 2)) & 15;
        let byte = scales[i / k * (k / 32) + i % k / 32];
        assert_same(got, product(e2m1_value(code), power(byte)), code, byte);
    }
}

#[test]
fn kv8_record_has_codes_then_scales() {
    let mut x = vec![0.0f32; 512];
    x[0] = 448.0; // scale 1
    x[1] = -1.0;
    x[511] = 896.0; // scale 2
    let mut record = vec![0xaa; 528];
    group::quantize_kv8(&x, &mut record);
    assert_eq!((record[0], record[1], record[2], record[511]), (0x7e, 0xb8, 0, 0x7e));
    // f32(1/448) is above 1/448, yet 448 times it rounds to 1.
    assert_eq!((record[512], record[527]), (127, 128));
    // max(0, 1e-4)/448 lies between 2^-23 and 2^-22.
    assert_eq!(record[513..527], [127 - 22; 14]);
}

#[test]
fn index4_record_has_low_nibbles_first_then_scales() {
    let mut x = vec![0.0f32; 128];
    x[0] = 6.0;
    x[1] = -0.5;
    x[126] = -3.0;
    x[127] = 1.0;
    let mut record = vec![0xaa; 68];
    group::quantize_index4(&x, &mut record);
    assert_eq!((record[0], record[1]), (0x97, 0));
    assert_eq!(record[63], 0x4f, "3.0 has the scale 1/2: codes −6 and 2");
    assert_eq!(record[64..], [127, 1, 1, 126]);
}

#[test]
fn kv4_record_has_low_nibbles_first_then_scales() {
    let mut x = vec![0.0f32; 512];
    x[0] = 6.0;
    x[1] = -0.5;
    x[510] = -7.5;
    x[511] = 2.5;
    let mut record = vec![0xaa; 288];
    group::quantize_kv4(&x, &mut record);
    assert_eq!((record[0], record[1]), (0x97, 0));
    assert_eq!(record[255], 0x4f, "7.5 has the scale 1.25: codes −6 and 2");
    assert_eq!((record[256], record[257], record[287]), (0x38, 0x01, 0x3a));
}

/// The e2m1 code nearest to `x`, the even one at equal distance, saturated; by trying each.
fn nearest_e2m1(x: f64) -> u8 {
    let distance = |code: u8| (e2m1_value(code) - x.abs().min(6.0)).abs();
    let best = (0..8u8).min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))));
    best.expect("there are codes") | if x.is_sign_negative() { 8 } else { 0 }
}

/// The e4m3 code nearest to `x`, likewise.
fn nearest_e4m3(x: f64) -> u8 {
    let distance = |code: u8| (e4m3_value(code) - x.abs().min(448.0)).abs();
    let best = (0..0x7fu8).min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))));
    best.expect("there are codes") | if x.is_sign_negative() { 0x80 } else { 0 }
}

/// Byte of the smallest power of two that covers max(amax, floor) × factor, the product rounded to f32.
fn covering_byte(x: &[f32], floor: f64, factor: u32) -> u8 {
    let amax = x.iter().fold(floor as f32, |m, v| m.max(v.abs()));
    let v = f64::from((f64::from(amax) * f64::from(f32::from_bits(factor))) as f32);
    (1..=254).find(|&b| power(b) >= v).expect("finite")
}

/// V4.1 §3.2 in f64; f32(1/448) by its bits.
fn stated_mx8(x: &[f32]) -> (Vec<u8>, u8) {
    let byte = covering_byte(x, 1e-4, 0x3b12_4925);
    (x.iter().map(|&v| nearest_e4m3(f64::from(v) / power(byte))).collect(), byte)
}

/// V4.1 §3.3, index keys, in f64; f32(1/6) by its bits.
fn stated_index4(x: &[f32]) -> (Vec<u8>, u8) {
    let byte = covering_byte(x, 6.0 * 2f64.powi(-126), 0x3e2a_aaab);
    (x.iter().map(|&v| nearest_e2m1(f64::from(v) / power(byte))).collect(), byte)
}

/// V4.1 §3.3, compressed KV: quotients rounded to f32, as stated there (a quotient of two f32 rounded through f64
/// is the f32 quotient).
fn stated_kv4(x: &[f32]) -> (Vec<u8>, u8) {
    let amax = x.iter().fold(6.0 * 2f32.powi(-9), |m, v| m.max(v.abs()));
    let scale = nearest_e4m3(f64::from((f64::from(amax) / 6.0) as f32));
    let quotient = |v: f32| f64::from((f64::from(v) / e4m3_value(scale)) as f32);
    (x.iter().map(|&v| nearest_e2m1(quotient(v))).collect(), scale)
}

fn pack(codes: &[u8]) -> Vec<u8> {
    codes.chunks(2).map(|pair| pair[0] | pair[1] << 4).collect()
}

/// All quantisers on `x` (whole groups of 32) against the statements above, and the round trips against both.
fn check_quantisers(x: &[f32]) {
    let (n, groups) = (x.len(), x.len() / 32);
    let (mut codes, mut scales) = (vec![0; n], vec![0; groups]);
    group::quantize_mx8(x, &mut codes, &mut scales);
    let (mut packed, mut fp4_scales) = (vec![0; n / 2], vec![0; groups]);
    group::quantize_mx4(x, &mut packed, &mut fp4_scales);
    let (mut kv8, mut index4, mut kv4) =
        (vec![0; n + groups], vec![0; n / 2 + groups], vec![0; n / 2 + 2 * groups]);
    group::quantize_kv8(x, &mut kv8);
    group::quantize_index4(x, &mut index4);
    group::quantize_kv4(x, &mut kv4);
    for (g, part) in x.chunks(32).enumerate() {
        let (stated, scale) = stated_mx8(part);
        assert_eq!((&codes[32 * g..32 * g + 32], scales[g]), (&stated[..], scale), "mx8 of {part:?}");
        let (stated, scale) = stated_index4(part);
        assert_eq!(
            (&packed[16 * g..16 * g + 16], fp4_scales[g]),
            (&pack(&stated)[..], scale),
            "mx4 of {part:?}"
        );
    }
    assert_eq!(kv8, [codes, scales].concat());
    assert_eq!(index4, [packed, fp4_scales].concat());
    for (g, part) in x.chunks(16).enumerate() {
        let (stated, scale) = stated_kv4(part);
        assert_eq!((&kv4[8 * g..8 * g + 8], kv4[n / 2 + g]), (&pack(&stated)[..], scale), "kv4 of {part:?}");
    }

    let mut decoded = vec![0.0; n];
    let mut tripped = x.to_vec();
    group::dequantize_kv8(&kv8, &mut decoded);
    group::round_trip_mx8(&mut tripped);
    assert_eq!(bits(&decoded), bits(&tripped));
    tripped.copy_from_slice(x);
    group::dequantize_index4(&index4, &mut decoded);
    group::round_trip_index4(&mut tripped);
    assert_eq!(bits(&decoded), bits(&tripped));
    tripped.copy_from_slice(x);
    group::dequantize_kv4(&kv4, &mut decoded);
    group::round_trip_kv4(&mut tripped);
    assert_eq!(bits(&decoded), bits(&tripped));
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn every_bf16_number_quantises_as_stated() {
    // Alone in its group, so that each is once the largest magnitude …
    for upper in (0..=u16::MAX).step_by(7) {
        let x = bf16::from_bits(upper);
        if x.is_finite() {
            let mut part = [0.0; 32];
            part[usize::from(upper % 32)] = x;
            check_quantisers(&part);
        }
    }
    // … and in the company of its neighbours, so that each is once not.
    let finite: Vec<f32> = (0..=u16::MAX).map(bf16::from_bits).filter(|x| x.is_finite()).collect();
    check_quantisers(&finite[..finite.len() / 32 * 32]);
}

#[test]
fn a_scale_covers_exactly_its_largest_code_for_every_mantissa() {
    // Rounding 1/448, 1/6 and the product never moves the scale: it is 2^k from just above 448·2^(k−1) to 448·2^k.
    for mantissa in 0..1u32 << 23 {
        let x = f32::from_bits(127 << 23 | mantissa);
        // 1.75 = 448/256 and 1.5 = 6/4 are the largest codes, scaled into [1, 2).
        let expected = (127 - 8 + u8::from(x > 1.75), 127 - 2 + u8::from(x > 1.5));
        assert_eq!((group::mx8_scale(x), group::mx4_scale(x)), expected, "{x}");
    }
    for exponent in -10..20 {
        let base = 2f32.powi(exponent);
        let expected = (127 + exponent) as u8;
        assert_eq!((group::mx8_scale(448.0 * base), group::mx4_scale(6.0 * base)), (expected, expected));
        let above = (group::mx8_scale((448.0 * base).next_up()), group::mx4_scale((6.0 * base).next_up()));
        assert_eq!(above, (expected + 1, expected + 1));
    }
}

#[test]
fn kv4_scale_is_a_quotient_not_a_product() {
    // The released code divides; multiplying by f32(1/6) gives another code somewhere, so the two can be told apart.
    let product = |amax: f32| e4m3::encode(amax * f32::from_bits(0x3e2a_aaab), e4m3::Overflow::Saturate);
    let mut apart = 0;
    for code in 1..0x7eu8 {
        let tie = (e4m3_value(code) + e4m3_value(code + 1)) / 2.0 * 6.0;
        for amax in [tie as f32, (tie as f32).next_up(), (tie as f32).next_down()] {
            let stated = nearest_e4m3(f64::from((f64::from(amax) / 6.0) as f32));
            assert_eq!(group::kv4_scale(amax), stated, "{amax}");
            apart += usize::from(product(amax) != stated);
        }
    }
    assert!(apart > 0);
}

#[test]
fn a_nan_or_infinity_anywhere_in_a_group_poisons_that_group_only() {
    for fault in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7f80_0001)] {
        for at in 32..64 {
            let mut x = [1.0f32; 96];
            x[at] = fault;

            let (mut codes, mut scales) = ([0; 96], [0; 3]);
            group::quantize_mx8(&x, &mut codes, &mut scales);
            assert_eq!((scales[0], scales[1], scales[2]), (scales[2], 255, group::mx8_scale(1.0)));
            assert_eq!(codes[32..64], [0x7f; 32], "the codes of a poisoned group are fixed");

            let mut record = [0; 51];
            group::quantize_index4(&x, &mut record);
            assert_eq!(record[16..32], [0x77; 16]);
            assert_eq!(record[48..], [group::mx4_scale(1.0), 255, group::mx4_scale(1.0)]);

            let mut record = [0; 54];
            group::quantize_kv4(&x, &mut record);
            let poisoned = at / 16;
            assert_eq!(record[8 * poisoned..8 * poisoned + 8], [0x77; 8]);
            for (g, &scale) in record[48..].iter().enumerate() {
                assert_eq!(scale == 0x7f, g == poisoned);
            }

            for (trip, width) in [
                (group::round_trip_mx8 as fn(&mut [f32]), 32),
                (group::round_trip_index4, 32),
                (group::round_trip_kv4, 16),
            ] {
                let mut y = x;
                trip(&mut y);
                for (i, v) in y.iter().enumerate() {
                    assert_eq!(v.is_nan(), i / width == at / width, "element {i}, fault at {at}");
                }
            }
        }
    }
}

#[test]
fn lengths_that_do_not_fit_panic_before_anything_is_written() {
    let panics = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
    let x = [0.0f32; 64];
    assert!(panics(&|| group::quantize_mx8(&x[..33], &mut [0; 33], &mut [0; 1])));
    assert!(panics(&|| group::quantize_mx8(&x, &mut [0; 63], &mut [0; 2])));
    assert!(panics(&|| group::quantize_mx8(&x, &mut [0; 64], &mut [0; 1])));
    assert!(panics(&|| group::dequantize_mx8(&[0; 64], &[0; 3], &mut [0.0; 64])));
    assert!(panics(&|| group::round_trip_mx8(&mut [0.0; 31])));
    assert!(panics(&|| group::quantize_kv8(&x, &mut [0; 65])));
    assert!(panics(&|| group::quantize_kv8(&x[..48], &mut [0; 49])));
    assert!(panics(&|| group::dequantize_kv8(&[0; 67], &mut [0.0; 64])));
    assert!(panics(&|| group::quantize_index4(&x, &mut [0; 35])));
    assert!(panics(&|| group::quantize_index4(&x[..48], &mut [0; 25])));
    assert!(panics(&|| group::dequantize_index4(&[0; 33], &mut [0.0; 64])));
    assert!(panics(&|| group::round_trip_index4(&mut [0.0; 16])));
    assert!(panics(&|| group::quantize_kv4(&x, &mut [0; 34])));
    assert!(panics(&|| group::quantize_kv4(&x[..8], &mut [0; 4])));
    assert!(panics(&|| group::dequantize_kv4(&[0; 37], &mut [0.0; 64])));
    assert!(panics(&|| group::round_trip_kv4(&mut [0.0; 24])));
    assert!(panics(&|| group::quantize_mx4(&x, &mut [0; 32], &mut [0; 4])));
    assert!(panics(&|| group::mx4_row(&[0; 32], &[0; 1], &mut [0.0; 64])));
    assert!(panics(&|| group::dequantize_mx4(&[0; 32], &[0; 2], 4, 16, &mut [0.0; 64])));
    assert!(panics(&|| group::w8_row(&[0; 33], &[0; 1], &mut [0.0; 33])));
    assert!(panics(&|| group::dequantize_w8(&[0; 64], &[0; 1], 2, 33, &mut [0.0; 66])));
    assert!(panics(&|| group::dequantize_w8(&[0; 64], &[0; 1], 64, 1, &mut [0.0; 64])));
    assert!(!panics(&|| group::dequantize_w8(&[0; 64], &[0; 2], 64, 1, &mut [0.0; 64])));
}

/// Numbers of one magnitude class a group, as activations have, and of all magnitudes.
fn groups() -> impl Strategy<Value = Vec<f32>> {
    let alike = (any::<u32>(), -40..40i32).prop_map(|(r, e)| {
        let unit = f64::from(r) / f64::from(u32::MAX) * 2.0 - 1.0;
        (unit * 2f64.powi(e)) as f32
    });
    let wild = any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |x| x.is_finite());
    let near = (any::<u32>(), 0..6i32).prop_map(|(r, e)| {
        bf16::round((f64::from(r) / f64::from(u32::MAX) * 2.0 - 1.0) as f32 * 2f32.powi(e))
    });
    prop_oneof![
        prop::collection::vec(alike, 64),
        prop::collection::vec(wild, 64),
        prop::collection::vec(near, 64)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn quantisers_agree_with_their_statement_in_f64(x in groups()) {
        check_quantisers(&x);
    }

    #[test]
    fn a_round_trip_is_within_half_a_step_of_its_largest_code(x in groups()) {
        for part in x.chunks(32) {
            let amax = part.iter().fold(0f32, |m, v| m.max(v.abs()));
            let mut y = part.to_vec();
            group::round_trip_mx8(&mut y);
            // Steps are at most 32 scales.
            let scale = f64::from(e8m0::decode(group::mx8_scale(amax)));
            for (a, b) in part.iter().zip(&y) {
                // From 248·2^120 on the nearest product is 2^128, beyond f32.
                prop_assert!(b.is_finite() || f64::from(a.abs()) >= 248.0 * 2f64.powi(120));
                if b.is_infinite() {
                    continue;
                }
                prop_assert!((f64::from(*a) - f64::from(*b)).abs() <= 16.0 * scale);
                prop_assert!(*b == 0.0 || a.is_sign_negative() == b.is_sign_negative());
            }
            let mut y = part.to_vec();
            group::round_trip_index4(&mut y);
            let scale = f64::from(e8m0::decode(group::mx4_scale(amax)));
            for (a, b) in part.iter().zip(&y) {
                // Steps are at most 2 scales.
                prop_assert!(b.is_infinite() || (f64::from(*a) - f64::from(*b)).abs() <= scale);
            }
        }
    }

    #[test]
    fn every_sign_survives_even_on_zeros(x in groups()) {
        let (mut kv8, mut index4, mut kv4) = ([0; 66], [0; 34], [0; 36]);
        group::quantize_kv8(&x, &mut kv8);
        group::quantize_index4(&x, &mut index4);
        group::quantize_kv4(&x, &mut kv4);
        for (i, v) in x.iter().enumerate() {
            let nibble = |record: &[u8]| record[i / 2] >> (4 * (i % 2)) & 15;
            prop_assert_eq!(kv8[i] >= 0x80, v.is_sign_negative(), "kv8 of {}", v);
            prop_assert_eq!(nibble(&index4) >= 8, v.is_sign_negative(), "index4 of {}", v);
            prop_assert_eq!(nibble(&kv4) >= 8, v.is_sign_negative(), "kv4 of {}", v);
        }
    }
}
