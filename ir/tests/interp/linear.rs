//! Matrix products: canonical order, odd sizes, groups, scales.

use crate::case::{Case, assert_near, noises};
use tessera_ir::graph::Op;
use tessera_ir::graph::interp::{Tensor, round_trip};
use tessera_ir::graph::tolerance::tolerance;
use tessera_ir::num::{e8m0, group};
use tessera_ir::types::Format;

struct Product {
    x: Vec<f32>,
    x_format: Format,
    weight: Vec<f32>,
    format: Format,
    n: usize,
    groups: usize,
    out: Format,
}

fn product(p: Product) -> (Case, Op) {
    let k = p.weight.len() / p.n;
    let width = k * p.groups;
    let mut c = Case::new();
    let x = c.input("x", p.x_format, Tensor::f32([p.x.len() / width, width], p.x));
    let weight = c.weight("weight", p.format, Tensor::f32([p.n, k], p.weight));
    let op = Op::Linear { x, weight, groups: p.groups };
    c.emit(op.clone(), p.out);
    (c, op)
}

fn plain(x: Vec<f32>, weight: Vec<f32>, format: Format) -> Vec<f32> {
    product(Product { x, x_format: Format::F32, weight, format, n: 1, groups: 1, out: Format::F32 }).0.y()
}

const BIG: f32 = 16_777_216.0;

#[test]
fn plain_weights_ascend_and_scaled_weights_go_by_pairs() {
    // 2²⁴ + 1 loses the 1; after 2²⁴ − 2²⁴ it stays. Column 3 comes before column 2 with scaled weights only.
    let mut x = vec![0.0; 32];
    (x[0], x[2], x[3]) = (BIG, 1.0, -BIG);
    assert_eq!(plain(x.clone(), vec![1.0; 32], Format::F32), [0.0]);
    assert_eq!(plain(x.clone(), vec![1.0; 32], Format::BF16), [0.0]);
    assert_eq!(plain(x.clone(), vec![1.0; 32], Format::W8), [1.0]);
    assert_eq!(plain(x, vec![1.0; 32], Format::MX4), [1.0]);
}

#[test]
fn blocks_of_k_are_summed_on_their_own() {
    // Two ones in the second block give 2, which 2²⁴ keeps; one by one they would be lost.
    for (format, block) in [(Format::F32, 64), (Format::BF16, 64), (Format::W8, 32), (Format::MX4, 32)] {
        let run = |first: usize| {
            let mut x = vec![0.0; 128];
            (x[0], x[first], x[first + 1]) = (BIG, 1.0, 1.0);
            plain(x, vec![1.0; 128], format)
        };
        assert_eq!(run(block), [BIG + 2.0], "{format}");
        assert_eq!(run(block - 2), [BIG], "{format}");
    }
}

#[test]
fn products_with_f32_are_fused() {
    // (1 + 2⁻¹²)² = 1 + 2⁻¹¹ + 2⁻²⁴: a rounded product loses the last term.
    let v = 1.0 + 2f32.powi(-12);
    assert_eq!(plain(vec![-1.0 - 2f32.powi(-11), v], vec![1.0, v], Format::F32), [2f32.powi(-24)]);
}

#[test]
fn decoded_values_give_what_codes_and_scales_give() {
    // Codes are multiplied and summed exactly as in the order of the op, each block then scaled by both scales.
    let (rows, n, k) = (3, 40, 96);
    let x: Vec<f32> =
        noises(1, rows * k).iter().enumerate().map(|(i, v)| v * 2f32.powi(i as i32 % 19)).collect();
    let raw: Vec<f32> =
        noises(2, n * k).iter().enumerate().map(|(i, v)| v * 2f32.powi(i as i32 / 32 % 7)).collect();
    let (mut xc, mut xs) = (vec![0; rows * k], vec![0; rows * k / 32]);
    group::quantize_mx8(&x, &mut xc, &mut xs);
    let mut decoded = vec![0.0; rows * k];
    group::dequantize_mx8(&xc, &xs, &mut decoded);
    // mx4 weights: codes packed by two.
    let (mut wc, mut ws) = (vec![0; n * k / 2], vec![0; n * k / 32]);
    group::quantize_mx4(&raw, &mut wc, &mut ws);
    let mut weight = vec![0.0; n * k];
    group::dequantize_mx4(&wc, &ws, n, k, &mut weight);
    let case = product(Product {
        x: decoded.clone(),
        x_format: Format::MX8,
        weight: weight.clone(),
        format: Format::MX4,
        n,
        groups: 1,
        out: Format::F32,
    });
    let got = case.0.y();
    for r in 0..rows {
        for c in 0..n {
            let mut total = 0f32;
            for b in 0..k / 32 {
                let (xs, ws) = (e8m0::decode(xs[r * k / 32 + b]), e8m0::decode(ws[c * k / 32 + b]));
                let mut p = 0f32;
                for i in [1, 0].into_iter().cycle().zip((0..16).flat_map(|i| [i, i])).map(|(o, i)| 2 * i + o)
                {
                    let (x, w) = (decoded[r * k + b * 32 + i] / xs, weight[c * k + b * 32 + i] / ws);
                    p = x.mul_add(w, p);
                }
                total += p * xs * ws;
            }
            assert_eq!(got[r * n + c].to_bits(), total.to_bits(), "row {r}, column {c}");
        }
    }
}

#[test]
fn odd_sizes_are_right_within_the_tolerance() {
    let sizes = [1, 3, 15, 16, 17, 31, 33, 133];
    for (case, &k) in sizes.iter().enumerate() {
        for &n in &sizes {
            let rows = sizes[(case + n) % sizes.len()];
            let (x, weight) = (noises(3, rows * k), noises(4, n * k));
            let (c, op) = product(Product {
                x: x.clone(),
                x_format: Format::F32,
                weight: weight.clone(),
                format: Format::F32,
                n,
                groups: 1,
                out: Format::F32,
            });
            let got = c.y();
            let tolerance = tolerance(&op, &|_| vec![n, k])[0];
            for r in 0..rows {
                for c in 0..n {
                    let terms = (0..k).map(|i| f64::from(x[r * k + i]) * f64::from(weight[c * k + i]));
                    let (want, sum) = (terms.clone().sum::<f64>(), terms.map(f64::abs).sum::<f64>());
                    assert_near(got[r * n + c], want, tolerance.bound(sum, want, Format::F32));
                }
            }
        }
    }
}

#[test]
fn scaled_sizes_of_any_number_of_blocks_are_right() {
    for k in [32, 96, 160, 480, 544, 1152] {
        let x = round_trip(&noises(5, k), Format::MX8).unwrap();
        let weight = round_trip(&noises(6, 3 * k), Format::MX4).unwrap();
        let (c, op) = product(Product {
            x: x.clone(),
            x_format: Format::MX8,
            weight: weight.clone(),
            format: Format::MX4,
            n: 3,
            groups: 1,
            out: Format::BF16,
        });
        let tolerance = tolerance(&op, &|_| vec![3, k])[0];
        for (i, got) in c.y().into_iter().enumerate() {
            let terms = x.iter().zip(&weight[i * k..]).map(|(a, b)| f64::from(*a) * f64::from(*b));
            let (want, sum) = (terms.clone().sum::<f64>(), terms.map(f64::abs).sum::<f64>());
            assert_near(got, want, tolerance.bound(sum, want, Format::BF16));
        }
    }
}

#[test]
fn groups_meet_their_own_rows_of_the_weight() {
    // x in two pieces [1, 2 | 3, 4], four rows of the weight: the first two see the first piece.
    let (c, _) = product(Product {
        x: vec![1.0, 2.0, 3.0, 4.0],
        x_format: Format::F32,
        weight: vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 10.0, 100.0],
        format: Format::F32,
        n: 4,
        groups: 2,
        out: Format::F32,
    });
    assert_eq!(c.y(), [1.0, 2.0, 3.0, 430.0]);
}

#[test]
fn trailing_dimensions_of_x_are_flattened_and_columns_split() {
    let mut c = Case::new();
    let x = c.reals("x", &[1, 2, 2], vec![1.0, 2.0, 3.0, 4.0]);
    let rows = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let weight = c.weight("weight", Format::F32, Tensor::f32([2, 4], rows.to_vec()));
    c.emit_split(Op::Linear { x, weight, groups: 1 }, &[2, 1], Format::F32);
    let y = &c.run()["y"];
    assert_eq!((y.shape.as_slice(), y.reals()), ([1, 2, 1].as_slice(), Some([10.0, 4.0].as_slice())));
}

#[test]
fn results_are_rounded_once_to_nearest_even() {
    // 1 + 2⁻⁸ is a tie that goes down, 1 + 3·2⁻⁸ one that goes up.
    let (c, _) = product(Product {
        x: vec![1.0, 2f32.powi(-8)],
        x_format: Format::F32,
        weight: vec![1.0, 1.0, 1.0, 3.0],
        format: Format::F32,
        n: 2,
        groups: 1,
        out: Format::BF16,
    });
    assert_eq!(c.y(), [1.0, 1.015625]);
}

#[test]
fn a_nan_in_one_row_stays_in_that_row() {
    let mut x = vec![1.0; 2 * 32];
    x[3] = f32::NAN;
    let (c, _) = product(Product {
        x,
        x_format: Format::F32,
        weight: vec![1.0; 32],
        format: Format::W8,
        n: 1,
        groups: 1,
        out: Format::F32,
    });
    let y = c.y();
    assert!(y[0].is_nan());
    assert_eq!(y[1], 32.0);
}
