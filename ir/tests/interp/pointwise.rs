//! Norms, rotations and element-wise ops.

use crate::case::{Case, assert_near, bits, noises, wide};
use tessera_ir::graph::interp::{Fault, Tensor, round_trip};
use tessera_ir::graph::tolerance::{UNIT, tolerance};
use tessera_ir::graph::{Op, Rope, Yarn};
use tessera_ir::types::Format;

fn rmsnorm(x: &[f32], weight: &[f32], eps: f32, out: Format) -> Vec<f32> {
    let d = weight.len();
    let mut c = Case::new();
    let x = c.reals("x", &[x.len() / d, d], x.to_vec());
    let weight = c.weight("weight", Format::F32, Tensor::f32([d], weight.to_vec()));
    c.emit(Op::RmsNorm { x, weight, eps }, out);
    c.y()
}

#[test]
fn a_row_of_zeros_has_a_norm_of_zeros() {
    assert_eq!(bits(&rmsnorm(&[0.0; 40], &[2.0; 40], 1e-20, Format::BF16)), bits(&[0.0; 40]));
}

#[test]
fn norms_of_any_width_are_within_the_tolerance() {
    for d in [1, 3, 15, 16, 17, 133, 512] {
        let (x, weight) = (noises(1, d), noises(2, d));
        let y = rmsnorm(&x, &weight, 1e-6, Format::F32);
        let mean = wide(&x).iter().map(|v| v * v).sum::<f64>() / d as f64;
        let mut c = Case::new();
        let (xv, wv) = (c.reals("x", &[1, d], x.clone()), c.reals("w", &[d], weight.clone()));
        let near = tolerance(&Op::RmsNorm { x: xv, weight: wv, eps: 1e-6 }, &|_| vec![d])[0];
        for i in 0..d {
            let want = f64::from(weight[i]) * f64::from(x[i]) / (mean + f64::from(1e-6f32)).sqrt();
            assert_near(y[i], want, near.bound(want.abs(), want, Format::F32));
        }
    }
}

#[test]
fn the_weight_multiplies_before_the_one_rounding() {
    // The row is ±1, its norm exactly itself; 1 + 2⁻⁸ as weight is a tie, and rounds to even.
    let y = rmsnorm(&[1.0, -1.0], &[1.0 + 2f32.powi(-8), 1.0 + 3.0 * 2f32.powi(-8)], 0.0, Format::BF16);
    assert_eq!(y, [1.0, -1.015625]);
}

fn table(pos: &[i32], rope: Rope, stride: usize) -> Case {
    let mut c = Case::new();
    let pos = c.ints("pos", pos);
    c.emit(Op::RopeTable { pos, rope, stride }, Format::F32);
    c
}

fn rotated(x: &[f32], shape: &[usize], pos: &[i32], rope: Rope, inverse: bool) -> Vec<f32> {
    let mut c = Case::new();
    let x = c.reals("x", shape, x.to_vec());
    let pos = c.ints("pos", pos);
    let table = c.inner(Op::RopeTable { pos, rope, stride: 1 }, Format::F32);
    c.emit(Op::Rope { x, table, inverse }, Format::F32);
    c.y()
}

const PLAIN: Rope = Rope { dim: 4, theta: 10000.0, yarn: None };

#[test]
fn rotary_pairs_are_adjacent_and_not_half_a_row_apart() {
    let y = rotated(&[1.0, 0.0, 0.0, 0.0], &[1, 4], &[1], PLAIN, false);
    assert_eq!(y, [1f64.cos() as f32, 1f64.sin() as f32, 0.0, 0.0]);
    let y = rotated(&[0.0, 0.0, 1.0, 0.0], &[1, 4], &[100], PLAIN, false);
    let angle = f64::from(100.0 * 0.01f32);
    assert_eq!(y, [0.0, 0.0, angle.cos() as f32, angle.sin() as f32]);
}

#[test]
fn only_the_last_channels_of_every_head_turn() {
    let x = noises(5, 2 * 3 * 6);
    let y = rotated(&x, &[2, 3, 6], &[7, 0], PLAIN, false);
    for row in 0..6 {
        assert_eq!(bits(&y[row * 6..row * 6 + 2]), bits(&x[row * 6..row * 6 + 2]));
    }
    assert_eq!(bits(&y[18..]), bits(&x[18..]), "position 0 turns nothing");
    assert!(bits(&y[..18]) != bits(&x[..18]));
    let angle = 7f64;
    let (a, b) = (f64::from(x[8]), f64::from(x[9]));
    assert_near(y[8], a * angle.cos() - b * angle.sin(), 4.0 * UNIT);
    assert_near(y[9], a * angle.sin() + b * angle.cos(), 4.0 * UNIT);
}

#[test]
fn the_inverse_undoes_the_rotation() {
    let x = noises(6, 8);
    let turned = rotated(&x, &[1, 8], &[12345], PLAIN, false);
    let back = rotated(&turned, &[1, 8], &[12345], PLAIN, true);
    for (a, b) in back.iter().zip(&x) {
        assert_near(*a, f64::from(*b), 8.0 * UNIT);
    }
    // Not by turning twice: a quarter turn back is not a quarter turn on.
    assert!((turned[4] - rotated(&x, &[1, 8], &[12345], PLAIN, true)[4]).abs() > 1e-2);
}

#[test]
fn a_pooled_row_turns_by_the_first_position_of_its_group() {
    for (stride, first) in [(2, [4, 4, 6]), (1, [4, 5, 6]), (4, [4, 4, 4])] {
        let got = table(&[4, 5, 6], PLAIN, stride).y();
        let want = table(&first, PLAIN, 1).y();
        assert_eq!(bits(&got), bits(&want), "stride {stride}");
    }
    let fault = table(&[0, -1], PLAIN, 1).fault();
    assert_eq!(fault, Fault::Range { operand: "pos", at: 1, value: -1, low: 0, limit: i32::MAX.into() });
}

#[test]
fn far_positions_keep_the_f32_product_of_the_angle() {
    // The angle is an f32 product; its cosine is that of the rounded product, exactly rounded.
    let rope = Rope { dim: 64, theta: 10000.0, yarn: None };
    let pos = 1_048_575;
    let y = table(&[pos], rope, 1).y();
    for m in 0..32 {
        let theta = (1.0 / 10000f64.powf(m as f64 / 32.0)) as f32;
        // The reciprocal may be rounded twice; both neighbours are admitted.
        let near = [-1i32, 0, 1].map(|o| f32::from_bits((theta.to_bits() as i32 + o) as u32));
        let angles = near.map(|t| f64::from(pos as f32 * t));
        assert!(angles.iter().any(|a| a.cos() as f32 == y[m] && a.sin() as f32 == y[32 + m]), "m = {m}");
    }
}

#[test]
fn yarn_keeps_fast_frequencies_and_divides_slow_ones() {
    let yarn = Yarn { factor: 16.0, beta_fast: 32.0, beta_slow: 1.0, original: 65536 };
    let y = table(&[1], Rope { dim: 64, theta: 160000.0, yarn: Some(yarn) }, 1).y();
    for m in 0..32 {
        let theta = 160000f64.powf(-(m as f64) / 32.0);
        // The ramp of the released model goes from 15 to 25.
        let ramp = ((m as f64 - 15.0) / 10.0).clamp(0.0, 1.0);
        let want = theta / 16.0 * ramp + theta * (1.0 - ramp);
        assert!((f64::from(y[32 + m]) / want.sin() - 1.0).abs() < 1e-6, "m = {m}");
    }
}

#[test]
fn quantised_values_are_those_of_the_format() {
    let x = noises(9, 2 * 64);
    for format in [Format::MX8, Format::KV8, Format::KV4, Format::INDEX4] {
        let mut c = Case::new();
        let v = c.reals("x", &[2, 64], x.clone());
        c.emit(Op::Quantize { x: v }, format);
        let y = c.y();
        let want: Vec<f32> = x.chunks(64).flat_map(|row| round_trip(row, format).unwrap()).collect();
        assert_eq!(bits(&y), bits(&want));
        // Close to the input, and not the input.
        let worst = x.iter().zip(&y).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst > 1e-3 && worst < 0.25, "{format}: {worst}");
        assert_eq!(
            bits(&round_trip(&y[..64], format).unwrap()),
            bits(&y[..64]),
            "{format} keeps its own values"
        );
    }
    assert!(round_trip(&x[..40], Format::MX8).is_err(), "half a group");
    assert!(round_trip(&x[..64], Format::W8).is_err(), "tiles are no rows");
    assert!(round_trip(&x[..64], Format::I32).is_err());
}

#[test]
fn casts_sums_and_products_round_once() {
    let tie = [1.0 + 2f32.powi(-8), 1.0 + 3.0 * 2f32.powi(-8)];
    let mut c = Case::new();
    let x = c.reals("x", &[1, 2], tie.to_vec());
    c.emit(Op::Cast { x }, Format::BF16);
    assert_eq!(c.y(), [1.0, 1.015625]);
    let mut c = Case::new();
    let (a, b) = (c.reals("a", &[1, 1], vec![1.0]), c.reals("b", &[1, 1], vec![3.0 * 2f32.powi(-8)]));
    c.emit(Op::Add { a, b }, Format::BF16);
    assert_eq!(c.y(), [1.015625]);
    let mut c = Case::new();
    let x = c.reals("x", &[1, 2], tie.to_vec());
    c.emit(Op::Scale { x, factor: -2.0 }, Format::BF16);
    assert_eq!(c.y(), [-2.0, -2.03125]);
}

#[test]
fn a_long_chain_of_sums_and_norms_has_no_bias() {
    // Truncating instead of rounding would shrink the stream by several percent.
    let (d, steps) = (64, 72);
    let weight = vec![1.0; d];
    let mut stream = round_trip(&noises(11, d), Format::BF16).unwrap();
    let mut exact = wide(&stream);
    for step in 0..steps {
        let delta = rmsnorm(&stream, &weight, 1e-20, Format::BF16);
        let mean = exact.iter().map(|v| v * v).sum::<f64>() / d as f64;
        let sign = if step % 2 == 0 { 0.5 } else { -0.25 };
        exact.iter_mut().for_each(|v| *v += sign * *v / mean.sqrt());
        let mut c = Case::new();
        let a = c.input("a", Format::BF16, Tensor::f32([1, d], stream.clone()));
        let x = c.input("x", Format::BF16, Tensor::f32([1, d], delta));
        let b = c.inner(Op::Scale { x, factor: sign as f32 }, Format::BF16);
        c.emit(Op::Add { a, b }, Format::BF16);
        stream = c.y();
    }
    let bias: f64 = stream.iter().zip(&exact).map(|(a, b)| f64::from(*a) / b - 1.0).sum::<f64>() / d as f64;
    // Each rounding is within 2⁻⁹ either way; a random walk of 2·72 of them over 64 elements has this spread.
    assert!(bias.abs() < 4.0 * 2f64.powi(-9) * (2.0 * steps as f64 / d as f64).sqrt(), "{bias:e}");
}
