//! Router, experts and their combination: special logits, ties, empty and repeated experts.

use crate::case::{Case, assert_near, bits};
use tessera_ir::graph::Op;
use tessera_ir::graph::interp::{Fault, Tensor};
use tessera_ir::graph::tolerance::UNIT;
use tessera_ir::types::Format;

fn route(logits: &[f32], bias: &[f32], k: usize) -> (Vec<i32>, Vec<f32>) {
    let mut c = Case::new();
    let e = bias.len();
    let logits = c.reals("logits", &[logits.len() / e, e], logits.to_vec());
    let bias = c.weight("bias", Format::F32, Tensor::f32([e], bias.to_vec()));
    c.emit(Op::Router { logits, bias, k, scale: 1.5 }, Format::F32);
    let out = c.run();
    (out["y"].ints().unwrap().to_vec(), out["y1"].reals().unwrap().to_vec())
}

#[test]
fn router_scores_of_extreme_logits_are_finite_and_right() {
    // With all experts chosen the weights are the scores over their sum, times 1.5.
    let logits = [0.0, 88.0, -88.0, 1e4, -1e4];
    let (ids, weights) = route(&logits, &[0.0; 5], 5);
    assert_eq!(ids, [3, 1, 0, 2, 4]);
    let scores = [100.0, 88f64.sqrt(), 2f64.ln().sqrt(), (-88f64).exp().sqrt(), 0.0];
    let sum: f64 = scores.iter().sum();
    for (got, want) in weights.iter().zip(scores) {
        let want = want / sum * 1.5;
        // Below e⁻⁸⁷ the softplus is a subnormal f32 with fewer bits.
        assert_near(*got, want, if want < 1e-15 { want * 1e-6 } else { want * 8.0 * UNIT });
    }
    assert!((f64::from(weights[3]) * sum / 1.5 - 7.8e-20).abs() < 0.05e-20);
}

#[test]
fn a_nan_logit_ranks_last_and_shows_when_it_must_be_chosen() {
    let (ids, weights) = route(&[f32::NAN, -5.0, 3.0], &[0.0; 3], 2);
    assert_eq!(ids, [2, 1]);
    assert!(weights.iter().all(|w| w.is_finite()));
    let (ids, weights) = route(&[f32::NAN, -5.0, f32::NAN], &[0.0; 3], 3);
    assert_eq!(ids, [1, 0, 2]);
    assert!(weights.iter().all(|w| w.is_nan()));
}

#[test]
fn the_bias_chooses_and_does_not_weigh() {
    // Expert 2 has the lowest score and wins by its bias.
    let (ids, weights) = route(&[2.0, 1.0, -1.0], &[0.0, 0.0, 10.0], 2);
    assert_eq!(ids, [2, 0]);
    let score = |v: f64| v.exp().ln_1p().sqrt();
    let sum = score(-1.0) + score(2.0);
    assert_near(weights[0], score(-1.0) / sum * 1.5, 8.0 * UNIT);
    assert_near(weights[1], score(2.0) / sum * 1.5, 8.0 * UNIT);
}

#[test]
fn equal_ranks_take_the_lower_expert() {
    assert_eq!(route(&[1.0; 6], &[0.0; 6], 3).0, [0, 1, 2]);
    assert_eq!(route(&[0.0, 1.0, 0.0, 1.0, 2.0, 1.0], &[0.0; 6], 3).0, [4, 1, 3]);
}

/// Two rows of 2 columns, `experts` of `[3, 1, 2]`.
fn experts(x: Tensor, ids: &[i32], choices: usize, weight: Vec<f32>) -> Case {
    let mut c = Case::new();
    let x = c.input("x", Format::F32, x);
    let rows = ids.len() / choices;
    let experts = c.input("experts", Format::I32, Tensor::i32([rows, choices], ids.to_vec()));
    let weight = c.weight("weight", Format::F32, Tensor::f32([3, 1, 2], weight));
    c.emit(Op::MoeLinear { x, experts, weight, offsets: None, pairs: None, rows: None }, Format::F32);
    c
}

const POISON: f32 = f32::NAN;

#[test]
fn experts_without_rows_are_not_read() {
    let x = || Tensor::f32([2, 2], vec![1.0, 2.0, 3.0, 4.0]);
    let c = experts(x(), &[1, 1], 1, vec![POISON, POISON, 10.0, 1.0, POISON, POISON]);
    assert_eq!(c.y(), [12.0, 34.0]);
    let c = experts(x(), &[2, 0], 1, vec![1.0, 0.0, POISON, POISON, 0.0, 1.0]);
    assert_eq!(c.y(), [2.0, 3.0]);
}

#[test]
fn an_expert_chosen_twice_counts_twice() {
    let weight = vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    let c = experts(Tensor::f32([2, 2], vec![1.0, 2.0, 3.0, 4.0]), &[2, 2, 0, 1], 2, weight.clone());
    assert_eq!(c.y(), [3.0, 3.0, 3.0, 4.0]);
    // With a row for each choice.
    let c = experts(Tensor::f32([1, 2, 2], vec![1.0, 2.0, 5.0, 7.0]), &[1, 0], 2, weight);
    assert_eq!(c.y(), [2.0, 5.0]);
}

#[test]
fn experts_out_of_range_are_errors() {
    for (bad, at) in [(3, 1), (-1, 1)] {
        let c = experts(Tensor::f32([2, 2], vec![0.0; 4]), &[0, bad], 1, vec![0.0; 6]);
        let want = Fault::Range { operand: "experts", at, value: bad.into(), low: 0, limit: 3 };
        assert_eq!(c.fault(), want);
    }
}

fn swiglu(gate: &[f32], up: &[f32], weight: Option<&[f32]>, n: usize) -> Vec<f32> {
    let rows = gate.len() / n;
    let mut c = Case::new();
    let gate = c.reals("gate", &[rows, n], gate.to_vec());
    let up = c.reals("up", &[rows, n], up.to_vec());
    let weight = weight.map(|w| c.reals("w", &[rows], w.to_vec()));
    c.emit(Op::SwiGlu { gate, up, weight, limit: 2.0 }, Format::F32);
    c.y()
}

#[test]
fn the_gate_is_clamped_above_only_and_up_on_both_sides() {
    let silu = |g: f64| g / (1.0 + (-g).exp());
    let y = swiglu(&[5.0, -5.0, 1.0, 1.0], &[1.0, 1.0, 9.0, -9.0], None, 4);
    for (got, want) in y.iter().zip([silu(2.0), silu(-5.0), silu(1.0) * 2.0, silu(1.0) * -2.0]) {
        assert_near(*got, want, want.abs() * 8.0 * UNIT);
    }
    let y = swiglu(&[f32::NAN, 1.0], &[1.0, f32::NAN], None, 2);
    assert!(y.iter().all(|v| v.is_nan()), "a clamp hides no NaN");
}

#[test]
fn the_weight_of_a_row_multiplies_all_of_it() {
    let plain = swiglu(&[1.0, 0.5, -1.0, 1.5], &[1.0; 4], None, 2);
    let weighed = swiglu(&[1.0, 0.5, -1.0, 1.5], &[1.0; 4], Some(&[2.0, -4.0]), 2);
    let want: Vec<f32> = plain.iter().zip([2.0, 2.0, -4.0, -4.0]).map(|(v, w)| v * w).collect();
    assert_eq!(bits(&weighed), bits(&want));
}

#[test]
fn parts_are_added_in_order_of_choice_then_the_shared_one() {
    let mut c = Case::new();
    let big = 16_777_216.0;
    let parts = c.reals("parts", &[1, 3, 2], vec![1.0, big, big, -big, -big, 1.0]);
    let shared = c.reals("shared", &[1, 2], vec![0.5, 0.5]);
    c.emit(Op::MoeCombine { parts, shared }, Format::F32);
    // Column 0: 1 + 2²⁴ loses the 1. Column 1: 2²⁴ − 2²⁴ + 1.
    assert_eq!(c.y(), [0.5, 1.5]);
}
