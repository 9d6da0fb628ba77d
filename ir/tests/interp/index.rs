//! Index scores, candidate blocks and top-k: visibility, ties, infinities.

use crate::case::{Case, assert_near, noises, wide};
use tessera_ir::graph::interp::{Fault, Tensor, round_trip};
use tessera_ir::graph::tolerance::tolerance;
use tessera_ir::graph::{Op, Round};
use tessera_ir::types::Format;

const NONE: f32 = f32::NEG_INFINITY;

fn top_k(scores: &[f32], k: usize) -> Vec<i32> {
    let mut c = Case::new();
    let scores = c.reals("scores", &[1, scores.len()], scores.to_vec());
    c.emit(Op::TopK { scores, k }, Format::F32);
    c.y_ints()
}

#[test]
fn many_equal_scores_give_the_lowest_positions_and_no_padding() {
    let mut scores = vec![0.0; 8320];
    let winners: Vec<usize> = (0..100).map(|i| 8319 - i * 83).collect();
    for (rank, i) in winners.iter().enumerate() {
        scores[*i] = 1.0 + rank as f32;
    }
    let got = top_k(&scores, 2048);
    let mut want: Vec<i32> = winners.iter().map(|i| *i as i32).collect();
    want.extend((0..8320).filter(|i| scores[*i as usize] == 0.0).take(2048 - 100));
    want.sort_unstable();
    assert_eq!(got, want);
}

#[test]
fn masked_scores_are_padded_and_never_selected() {
    let mut scores = vec![NONE; 51];
    (scores[50], scores[7], scores[30]) = (-70000.0, 1.0, f32::MIN);
    let mut want = vec![7, 30, 50];
    want.resize(16, -1);
    assert_eq!(top_k(&scores, 16), want);
    let deep: Vec<f32> = (0..51).map(|i| -70000.0 - 10.0 * i as f32).collect();
    assert_eq!(top_k(&deep, 16), (0..16).collect::<Vec<i32>>());
}

#[test]
fn zeros_of_both_signs_tie_and_nan_never_wins() {
    assert_eq!(top_k(&[1.0, -0.0, 0.0, 0.0], 2), [0, 1]);
    assert_eq!(top_k(&[-0.0, 0.0, 1.0, 0.0], 3), [0, 1, 2]);
    assert_eq!(top_k(&[5.0; 6], 4), [0, 1, 2, 3]);
    assert_eq!(top_k(&[f32::NAN, 2.0, -f32::NAN, 1.0], 3), [1, 3, -1]);
    assert_eq!(top_k(&[1.0, f32::INFINITY, f32::INFINITY], 1), [1]);
}

#[test]
fn top_k_over_an_empty_cache_is_padding() {
    assert_eq!(top_k(&[NONE], 3), [-1, -1, -1]);
}

fn blocks(scores: &[f32], pos: i32, ratio: usize, block: usize, keep: usize) -> Case {
    let mut c = Case::new();
    let scores = c.reals("scores", &[1, scores.len()], scores.to_vec());
    let pos = c.ints("pos", &[pos]);
    c.emit(Op::IndexBlocks { scores, pos, ratio, block, keep }, Format::F32);
    c
}

/// Scores of `visible` entries, the rest masked.
fn seen(visible: &[f32], len: usize) -> Vec<f32> {
    let mut all = visible.to_vec();
    all.resize(len, NONE);
    all
}

#[test]
fn the_newest_block_is_kept_whatever_its_score() {
    // 13 visible entries in blocks of 4: block 3 has one entry, the lowest score.
    let mut scores: Vec<f32> = (0..13).map(|i| 13.0 - i as f32).collect();
    scores[5] = 50.0;
    assert_eq!(blocks(&seen(&scores, 20), 12, 1, 4, 3).y_ints(), [0, 1, 3]);
    assert_eq!(blocks(&seen(&scores, 20), 12, 1, 4, 1).y_ints(), [3]);
    // Also against infinities elsewhere.
    (scores[0], scores[4], scores[8]) = (f32::INFINITY, f32::INFINITY, f32::INFINITY);
    assert_eq!(blocks(&seen(&scores, 20), 12, 1, 4, 2).y_ints(), [0, 3]);
}

#[test]
fn up_to_the_candidate_limit_nothing_is_pruned() {
    for visible in [11, 12] {
        let scores = seen(&noises(3, visible), 16);
        assert_eq!(blocks(&scores, visible as i32 - 1, 1, 4, 3).y_ints(), [0, 1, 2]);
    }
    let scores = seen(&[1.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0], 16);
    assert_eq!(blocks(&scores, 12, 1, 4, 3).y_ints(), [1, 2, 3]);
}

#[test]
fn equal_blocks_keep_the_lower_and_hidden_blocks_never() {
    let scores = seen(&[1.0; 12], 40);
    assert_eq!(blocks(&scores, 11, 1, 4, 2).y_ints(), [0, 2]);
    assert_eq!(blocks(&scores, 11, 1, 4, 9).y_ints(), [0, 1, 2, -1, -1, -1, -1, -1, -1]);
    // A row that sees nothing keeps nothing: the first token of a pair.
    assert_eq!(blocks(&scores, 0, 2, 4, 3).y_ints(), [-1, -1, -1]);
    // Entries past the visible ones do not count even where their scores are numbers.
    assert_eq!(blocks(&[0.0, 0.0, 9.0, 9.0], 1, 1, 1, 3).y_ints(), [0, 1, -1]);
}

#[test]
fn a_nan_does_not_lift_its_block() {
    let scores = seen(&[f32::NAN, NONE, 1.0, f32::NAN, 0.5, 0.0], 8);
    assert_eq!(blocks(&scores, 5, 1, 2, 3).y_ints(), [1, 2, -1]);
}

#[test]
fn a_cache_shorter_than_what_is_visible_is_an_error() {
    let fault = blocks(&[0.0; 4], 4, 1, 2, 2).fault();
    assert_eq!(fault, Fault::Range { operand: "pos", at: 0, value: 4, low: 0, limit: 4 });
}

#[test]
fn restriction_keeps_listed_blocks_only() {
    let run = |list: Vec<i32>| {
        let mut c = Case::new();
        let scores = c.reals("scores", &[1, 5], vec![1.0, 2.0, 3.0, 4.0, 5.0]);
        let blocks = c.input("blocks", Format::I32, Tensor::i32([1, list.len()], list));
        c.emit(Op::IndexRestrict { scores, blocks, block: 2 }, Format::F32);
        c
    };
    assert_eq!(run(vec![0, 2, -1]).y(), [1.0, 2.0, NONE, NONE, 5.0]);
    assert_eq!(run(vec![-1]).y(), [NONE; 5]);
    let fault = run(vec![0, 3]).fault();
    assert_eq!(fault, Fault::Range { operand: "blocks", at: 1, value: 3, low: -1, limit: 3 });
}

struct Scores<'a> {
    q: &'a [f32],
    weights: &'a [f32],
    keys: Tensor,
    seq: i32,
    pos: i32,
    ratio: usize,
    round: Round,
}

fn scores(s: Scores<'_>) -> (Case, Op) {
    let (h, d) = (s.weights.len(), s.keys.shape[2]);
    let mut c = Case::new();
    let q = c.reals("q", &[1, h, d], s.q.to_vec());
    let weights = c.reals("weights", &[1, h], s.weights.to_vec());
    let keys = c.state("keys", Format::F32, s.keys);
    let (seq, pos) = (c.ints("seq", &[s.seq]), c.ints("pos", &[s.pos]));
    let op = Op::IndexScores { q, weights, keys, seq, pos, ratio: s.ratio, round: s.round };
    c.emit(op.clone(), Format::F32);
    (c, op)
}

#[test]
fn an_entry_is_visible_once_its_group_is_complete() {
    for (ratio, pos, visible) in [(1, 0, 1), (1, 3, 4), (2, 0, 0), (2, 1, 1), (2, 2, 1), (2, 3, 2), (3, 2, 1)]
    {
        // Keys of entries that are not visible hold NaN, and so does the other sequence.
        let mut keys = vec![f32::NAN; 2 * 5];
        keys[5..5 + visible].fill(2.0);
        let keys = Tensor::f32([2, 5, 1], keys);
        let s = Scores { q: &[3.0], weights: &[0.5], keys, seq: 1, pos, ratio, round: Round::None };
        let want: Vec<f32> = (0..5).map(|n| if n < visible { 3.0 } else { NONE }).collect();
        assert_eq!(scores(s).0.y(), want, "ratio {ratio}, position {pos}");
    }
}

#[test]
fn negative_dots_count_nothing_and_negative_weights_count() {
    let keys = Tensor::f32([1, 2, 2], vec![1.0, 0.0, 0.0, 1.0]);
    let q = [-4.0, 2.0, 3.0, -1.0];
    let s = Scores { q: &q, weights: &[2.0, -1.0], keys, seq: 0, pos: 1, ratio: 1, round: Round::None };
    // Head 0 dots −4 and 2, head 1 dots 3 and −1.
    assert_eq!(scores(s).0.y(), [-3.0, 4.0]);
}

#[test]
fn bf16_scores_are_rounded_at_the_dot_the_product_and_the_sum() {
    let r = |v: f64| f64::from(round_trip(&[v as f32], Format::BF16).unwrap()[0]);
    let (q, w) = ([1.2890625f32, 1.0703125, 1.3203125, 1.890625], [237.0 / 512.0, 0.359375]);
    let key = [1.8984375f32, 1.4453125];
    let keys = Tensor::f32([1, 1, 2], key.to_vec());
    let s = Scores { q: &q, weights: &w, keys, seq: 0, pos: 0, ratio: 1, round: Round::Bf16 };
    let (q, w, key) = (wide(&q), wide(&w), wide(&key));
    let products: Vec<f64> = (0..2).map(|h| r(r(q[2 * h] * key[0] + q[2 * h + 1] * key[1]) * w[h])).collect();
    let want = r(products[0] + products[1]);
    assert_eq!(f64::from(scores(s).0.y()[0]), want);
    let dots: Vec<f64> = (0..2).map(|h| q[2 * h] * key[0] + q[2 * h + 1] * key[1]).collect();
    assert_ne!(r(r(dots[0] * w[0]) + r(dots[1] * w[1])), want, "a dot that is not rounded is told apart");
    assert_ne!(r(r(dots[0]) * w[0] + r(dots[1]) * w[1]), want, "and so is a product");
}

#[test]
fn scores_are_the_formula_within_their_tolerance() {
    let (h, d, n) = (8, 48, 20);
    let (q, weights, keys) = (noises(1, h * d), noises(2, h), noises(3, n * d));
    let s = Scores {
        q: &q,
        weights: &weights,
        keys: Tensor::f32([1, n, d], keys.clone()),
        seq: 0,
        pos: n as i32 - 1,
        ratio: 1,
        round: Round::None,
    };
    let (c, op) = scores(s);
    let tolerance = tolerance(&op, &|v| if v.index() == 0 { vec![1, h, d] } else { vec![1] })[0];
    for (i, got) in c.y().into_iter().enumerate() {
        let (mut want, mut magnitude) = (0.0, 0.0);
        for j in 0..h {
            let terms = (0..d).map(|c| f64::from(q[j * d + c]) * f64::from(keys[i * d + c]));
            let weight = f64::from(weights[j]);
            want += terms.clone().sum::<f64>().max(0.0) * weight;
            magnitude += terms.map(f64::abs).sum::<f64>() * weight.abs();
        }
        let bound = tolerance.bound(magnitude, want, Format::F32);
        assert!(bound < 1e-3);
        assert_near(got, want, bound);
    }
}

#[test]
fn argmax_takes_the_first_of_equals_and_no_nan() {
    let mut c = Case::new();
    let rows =
        [[1.0, 3.0, 3.0], [f32::NAN, NONE, NONE], [f32::NAN; 3], [2.0, f32::NAN, 1.0], [-0.0, 0.0, -1.0]];
    let x = c.reals("x", &[5, 3], rows.concat());
    c.emit(Op::Argmax { x }, Format::F32);
    assert_eq!(c.y_ints(), [1, 1, 0, 0, 0]);
}
