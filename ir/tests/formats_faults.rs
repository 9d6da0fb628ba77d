//! Faults that others shipped in number formats, each with its inputs and the right values.

use tessera_ir::num::e4m3::Overflow;
use tessera_ir::num::{bf16, e2m1, e4m3, e8m0, group};

#[test]
fn scale_byte_0_does_not_become_zero_nor_255_infinity() {
    let one = 0x38;
    let mut out = [0.0; 5];
    for (v, byte) in out.iter_mut().zip([0, 1, 127, 254, 255]) {
        group::w8_row(&[one], &[byte], std::slice::from_mut(v));
    }
    assert_eq!(out[0].to_bits(), 0x0040_0000);
    assert_eq!(out[1], f32::MIN_POSITIVE);
    assert_eq!(out[2], 1.0);
    assert_eq!(out[3], 2f32.powi(127));
    assert!(out[4].is_nan());
}

#[test]
fn exponents_do_not_run_into_the_sign() {
    // Code 1 is 0.5, code 7 is 6.
    let mut out = [0.0; 32];
    group::mx4_row(&[0x11; 16], &[0], &mut out);
    assert_eq!(out.map(f32::to_bits), [0x0020_0000; 32]);
    assert_eq!(bf16::to_bits(out[0]), 0x0020);
    group::mx4_row(&[0x77; 16], &[254], &mut out);
    assert_eq!(out, [f32::INFINITY; 32]);
}

#[test]
fn scale_128_is_not_taken_for_the_nan_sentinel() {
    for byte in 0..=255u8 {
        let mut out = [0.0];
        group::w8_row(&[0x38], &[byte], &mut out);
        assert_eq!(out[0].is_nan(), byte == 255, "byte {byte}");
        if byte == 134 {
            assert_eq!(out[0], 128.0);
        }
    }
}

#[test]
fn fp4_scales_are_written_with_bias_127() {
    for (amax, byte) in [(6.0, 127), (3.0, 126)] {
        let mut x = [0.25 * amax; 32];
        x[5] = -amax;
        let (mut packed, mut scales) = ([0; 16], [0]);
        group::quantize_mx4(&x, &mut packed, &mut scales);
        assert_eq!(scales, [byte]);
        let mut back = [0.0; 32];
        group::dequantize_mx4(&packed, &scales, 1, 32, &mut back);
        assert_eq!(back, x, "1.5 and 6 are codes: nothing is lost");
    }
}

#[test]
fn e4m3_saturates_at_448_not_256_and_does_not_round_halves_up() {
    for (x, value) in [
        (256.0, 256.0),
        (260.0, 256.0),
        (272.0, 256.0),
        (288.0, 288.0),
        (300.0, 288.0),
        (432.0, 448.0),
        (448.0, 448.0),
        (464.0, 448.0),
        (17.0, 16.0),
        (19.0, 20.0),
        (21.0, 20.0),
    ] {
        for overflow in [Overflow::Saturate, Overflow::Nan] {
            assert_eq!(e4m3::decode(e4m3::encode(x, overflow)), value, "{x}");
            assert_eq!(e4m3::decode(e4m3::encode(-x, overflow)), -value, "-{x}");
        }
    }
}

#[test]
fn e4m3_subnormals_are_not_read_as_normal_numbers_nor_rounded_twice() {
    assert_eq!(e4m3::decode(0x01), 2f32.powi(-9));
    assert_eq!(e4m3::decode(0x07), 7.0 * 2f32.powi(-9));
    assert_eq!(e4m3::decode(0x08), 2f32.powi(-6));
    let half_step = 2f32.powi(-10);
    for (x, code) in [
        (2.0 * half_step, 0x01),
        (half_step, 0x00),
        (1.5 * half_step, 0x01),
        (3.0 * half_step, 0x02),
        (0.5 * half_step, 0x00),
        (-1e-9, 0x80),
    ] {
        assert_eq!(e4m3::encode(x, Overflow::Saturate), code, "{x:e}");
    }
}

#[test]
fn saturation_is_monotone_and_never_nan_for_a_number() {
    let mut last = (0.0, 0.0);
    for bits in (0..0x7f80_0000u32).step_by(0x0040_0000).chain([1]).chain([0x7f7f_ffff]) {
        let x = f32::from_bits(bits);
        let (code, negative) = (e4m3::encode(x, Overflow::Saturate), e4m3::encode(-x, Overflow::Saturate));
        assert_eq!(negative, code | 0x80, "{x:e}");
        let now = (e4m3::decode(code), e2m1::decode(e2m1::encode(x)));
        assert!(!now.0.is_nan() && !now.1.is_nan(), "{x:e}");
        if bits > 1 {
            assert!(now.0 >= last.0 && now.1 >= last.1, "{x:e}");
            last = now;
        }
    }
    assert_eq!(last, (448.0, 6.0));
    for x in [672.0, 448_512.0] {
        assert_eq!(e4m3::encode(x, Overflow::Saturate), 0x7e);
    }
}

#[test]
fn power_of_two_ceiling_is_right_next_to_powers_of_two() {
    for k in -20..20 {
        let power = 2f32.powi(k);
        assert_eq!(i32::from(e8m0::encode_pow2_ceil(power)) - 127, k);
        assert_eq!(i32::from(e8m0::encode_pow2_ceil(power.next_up())) - 127, k + 1);
    }
    assert_eq!(e8m0::encode_pow2_ceil(f32::from_bits(1)), 1);
    assert_eq!(e8m0::encode_pow2_ceil(f32::MAX), 254);
}

#[test]
fn zero_tiny_and_huge_groups_keep_a_finite_power_of_two_scale() {
    let alone = |v: f32| {
        let mut x = [0.0f32; 32];
        x[3] = v;
        x
    };
    for x in [[0.0; 32], [-0.0; 32], alone(1e-40), alone(1e-38), alone(f32::MAX), alone(-f32::MAX)] {
        let (mut codes, mut scale) = ([0u8; 32], [0u8]);
        group::quantize_mx8(&x, &mut codes, &mut scale);
        let mut index4 = [0u8; 17];
        group::quantize_index4(&x, &mut index4);
        assert!((1..=254).contains(&scale[0]) && (1..=254).contains(&index4[16]), "{:e}", x[3]);
        let scales = [scale[0], index4[16]].map(|b| 2f64.powi(i32::from(b) - 127));
        for (i, &v) in x.iter().enumerate() {
            let fp4 = index4[i / 2] >> (4 * (i % 2)) & 15;
            for (code, scale, widest) in
                [(e4m3::decode(codes[i]), scales[0], 32.0), (e2m1::decode(fp4), scales[1], 2.0)]
            {
                assert!(code.is_finite());
                assert!(v != 0.0 || code.to_bits() == v.to_bits(), "zero and its sign stay");
                // In f64, because f32::MAX rounds to 2^128, which f32 cannot hold.
                let error = (f64::from(code) * scale - f64::from(v)).abs();
                assert!(error <= widest / 2.0 * scale, "{v:e} is off by {error:e}");
            }
        }

        let mut kv4 = [0u8; 18];
        group::quantize_kv4(&x, &mut kv4);
        let mut back = [0.0; 32];
        group::dequantize_kv4(&kv4, &mut back);
        for (&v, &b) in x.iter().zip(&back) {
            let saturated = v.abs() > 2688.0 && b == 2688f32.copysign(v);
            assert!(saturated || v.abs() < 1e-3 && b == 0.0 && b.is_sign_negative() == v.is_sign_negative());
        }
    }
}

#[test]
fn a_scale_that_is_no_power_of_two_does_not_leak_into_its_packed_neighbours() {
    let bytes = [1.5, 1.0, 1.0, 1.0].map(e8m0::encode_pow2_ceil);
    assert_eq!(u32::from_le_bytes(bytes), 0x7f7f_7f80);
}

#[test]
fn every_count_of_blocks_keeps_each_scale_with_its_block() {
    for k in [32usize, 96, 128, 160, 480, 512, 544, 1152, 2304, 5120] {
        // Three rows; block b of row r holds ±6·2^e with its own e, and 6·2^e is exact in every format.
        let exponent = |row: usize, block: usize| ((row * 7 + block * 3) % 11) as i32 - 5;
        let x: Vec<f32> = (0..3 * k)
            .map(|i| 6.0 * 2f32.powi(exponent(i / k, i % k / 32)) * if i % 3 == 0 { -1.0 } else { 1.0 })
            .collect();
        let (mut codes, mut scales) = (vec![0; 3 * k], vec![0; 3 * k / 32]);
        group::quantize_mx8(&x, &mut codes, &mut scales);
        let (mut packed, mut fp4_scales) = (vec![0; 3 * k / 2], vec![0; 3 * k / 32]);
        group::quantize_mx4(&x, &mut packed, &mut fp4_scales);
        for row in 0..3 {
            for block in 0..k / 32 {
                let at = row * (k / 32) + block;
                assert_eq!(i32::from(fp4_scales[at]) - 127, exponent(row, block), "K = {k}");
                // 6/448 lies between 2^-7 and 2^-6.
                assert_eq!(i32::from(scales[at]) - 127, exponent(row, block) - 6, "K = {k}");
            }
            let (mut a, mut b) = (vec![0.0; k], vec![0.0; k]);
            group::mx8_row(&codes[row * k..][..k], &scales[row * (k / 32)..][..k / 32], &mut a);
            group::mx4_row(&packed[row * k / 2..][..k / 2], &fp4_scales[row * (k / 32)..][..k / 32], &mut b);
            assert_eq!(a, x[row * k..][..k], "K = {k}, row {row}");
            assert_eq!(b, x[row * k..][..k], "K = {k}, row {row}");
        }
        let (mut kv8, mut kv4) = (vec![0; k + k / 32], vec![0; k / 2 + k / 16]);
        group::quantize_kv8(&x[..k], &mut kv8);
        group::quantize_kv4(&x[..k], &mut kv4);
        let mut back = vec![0.0; k];
        group::dequantize_kv8(&kv8, &mut back);
        assert_eq!(back, x[..k], "K = {k}");
        group::dequantize_kv4(&kv4, &mut back);
        assert_eq!(back, x[..k], "K = {k}");
    }
}

#[test]
fn bf16_ties_go_to_even_not_away_from_zero() {
    assert_eq!(bf16::round(1.0 + 2f32.powi(-8)), 1.0);
    assert_eq!(bf16::round(1.0 + 3.0 * 2f32.powi(-8)), 1.015625);
    assert_eq!(bf16::round(-1.0 - 2f32.powi(-8)), -1.0);
}
