//! Window and selected attention: borders, sinks, what is never read.

use crate::case::{Case, assert_near, bits, noises, wide};
use tessera_ir::graph::interp::{Fault, Tensor, round_trip};
use tessera_ir::graph::tolerance::{UNIT, tolerance};
use tessera_ir::graph::{Op, Round};
use tessera_ir::types::Format;

struct Setup<'a> {
    heads: usize,
    d: usize,
    q: Vec<f32>,
    window: Tensor,
    cache: Option<(Tensor, Tensor)>,
    sink: f32,
    seq: &'a [i32],
    pos: &'a [i32],
    lo: &'a [i32],
    scale: f32,
    round: Round,
}

fn case(s: Setup<'_>) -> (Case, Op) {
    let mut c = Case::new();
    let q = c.reals("q", &[s.seq.len(), s.heads, s.d], s.q);
    let window = c.state("window", Format::F32, s.window);
    let (cache, selected) = match s.cache {
        Some((cache, list)) => {
            (Some(c.state("cache", Format::F32, cache)), Some(c.input("selected", Format::I32, list)))
        }
        None => (None, None),
    };
    let sink = c.weight("sink", Format::F32, Tensor::f32([s.heads], vec![s.sink; s.heads]));
    let (seq, pos, lo) = (c.ints("seq", s.seq), c.ints("pos", s.pos), c.ints("lo", s.lo));
    let op = Op::Attention { q, window, cache, selected, sink, seq, pos, lo, scale: s.scale, round: s.round };
    c.emit(op.clone(), Format::F32);
    (c, op)
}

/// Row p of the ring is one-hot at p; slots that hold no position are NaN.
fn one_hot_ring(ring: usize, positions: std::ops::Range<usize>, d: usize) -> Tensor {
    let mut data = vec![f32::NAN; ring * d];
    for p in positions {
        let row = &mut data[p % ring * d..(p % ring + 1) * d];
        row.fill(0.0);
        row[p] = 1.0;
    }
    Tensor::f32([1, ring, d], data)
}

#[test]
fn the_window_counts_the_row_itself_and_nothing_before() {
    for (pos, visible) in [(3, 0..4), (4, 1..5), (5, 2..6)] {
        let lo = [(pos - 3).max(0)];
        let (c, _) = case(Setup {
            heads: 1,
            d: 8,
            q: vec![0.0; 8],
            window: one_hot_ring(8, 0..6, 8),
            cache: None,
            sink: f32::NEG_INFINITY,
            seq: &[0],
            pos: &[pos],
            lo: &lo,
            scale: 1.0,
            round: Round::None,
        });
        let want: Vec<f32> = (0..8).map(|i| if visible.contains(&i) { 0.25 } else { 0.0 }).collect();
        assert_eq!(c.y(), want, "position {pos}");
    }
}

#[test]
fn a_ring_no_longer_than_the_window_wraps() {
    let (c, _) = case(Setup {
        heads: 1,
        d: 8,
        q: vec![0.0; 8],
        window: one_hot_ring(4, 2..6, 8),
        cache: None,
        sink: f32::NEG_INFINITY,
        seq: &[0],
        pos: &[5],
        lo: &[2],
        scale: 1.0,
        round: Round::None,
    });
    assert_eq!(c.y(), [0.0, 0.0, 0.25, 0.25, 0.25, 0.25, 0.0, 0.0]);
}

#[test]
fn positions_that_left_the_ring_are_an_error_and_not_read() {
    let setup = |pos: &'static [i32], lo: &'static [i32]| Setup {
        heads: 1,
        d: 8,
        q: vec![0.0; 8 * pos.len()],
        window: one_hot_ring(4, 2..6, 8),
        cache: None,
        sink: 0.0,
        seq: &[0, 0][..pos.len()],
        pos,
        lo,
        scale: 1.0,
        round: Round::None,
    };
    let fault = case(setup(&[5], &[1])).0.fault();
    assert_eq!(fault, Fault::Ring { operand: "window", row: 0, need: 5, have: 4 });
    // A later row of the step has overwritten what the first one needs.
    let fault = case(setup(&[4, 5], &[1, 2])).0.fault();
    assert_eq!(fault, Fault::Ring { operand: "window", row: 0, need: 5, have: 4 });
}

#[test]
fn without_keys_the_result_is_zero() {
    let (c, _) = case(Setup {
        heads: 2,
        d: 8,
        q: vec![1.0; 16],
        window: Tensor::f32([1, 4, 8], vec![f32::NAN; 32]),
        cache: Some((Tensor::f32([1, 3, 8], vec![f32::NAN; 24]), Tensor::i32([1, 2], vec![-1, -1]))),
        sink: 0.0,
        seq: &[0],
        pos: &[2],
        lo: &[3],
        scale: 1.0,
        round: Round::None,
    });
    assert_eq!(bits(&c.y()), bits(&[0.0; 16]));
}

#[test]
fn only_listed_entries_of_the_own_sequence_are_read() {
    let mut cache = vec![f32::NAN; 2 * 4 * 2];
    cache[(4 + 1) * 2..(4 + 2) * 2].copy_from_slice(&[3.0, 0.0]);
    cache[(4 + 3) * 2..(4 + 4) * 2].copy_from_slice(&[0.0, 6.0]);
    let mut window = vec![f32::NAN; 2 * 4 * 2];
    window[4 * 2..5 * 2].copy_from_slice(&[9.0, 9.0]);
    let (c, _) = case(Setup {
        heads: 1,
        d: 2,
        q: vec![0.0; 2],
        window: Tensor::f32([2, 4, 2], window),
        cache: Some((Tensor::f32([2, 4, 2], cache), Tensor::i32([1, 4], vec![-1, 1, -1, 3]))),
        sink: f32::NEG_INFINITY,
        seq: &[1],
        pos: &[0],
        lo: &[0],
        scale: 1.0,
        round: Round::None,
    });
    assert_eq!(c.y(), [4.0, 5.0]);
}

#[test]
fn selected_indices_past_the_cache_are_errors() {
    for index in [4, 9, i32::MAX, -2, i32::MIN] {
        let (c, _) = case(Setup {
            heads: 1,
            d: 2,
            q: vec![0.0; 2],
            window: Tensor::f32([1, 4, 2], vec![0.0; 8]),
            cache: Some((Tensor::f32([1, 4, 2], vec![0.0; 8]), Tensor::i32([1, 2], vec![0, index]))),
            sink: 0.0,
            seq: &[0],
            pos: &[0],
            lo: &[0],
            scale: 1.0,
            round: Round::None,
        });
        let want = Fault::Range { operand: "selected", at: 1, value: index.into(), low: -1, limit: 4 };
        assert_eq!(c.fault(), want);
    }
}

/// Attention of one row in f64, e rounded to bf16 for the values if asked.
fn exact(q: &[f64], keys: &[Vec<f64>], sink: f64, scale: f64) -> Vec<f64> {
    let scores: Vec<f64> =
        keys.iter().map(|k| q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>() * scale).collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
    let den = e.iter().sum::<f64>() + (sink - max).exp();
    (0..q.len()).map(|c| e.iter().zip(keys).map(|(e, k)| e * k[c]).sum::<f64>() / den).collect()
}

#[test]
fn attention_is_the_formula_within_its_tolerance() {
    let (heads, d, ring, len, k) = (3, 32, 80, 70, 66);
    let (q, window, cache) = (noises(1, heads * d), noises(2, ring * d), noises(3, len * d));
    let list: Vec<i32> = (0..k as i32).map(|i| if i < 60 { i + 4 } else { -1 }).collect();
    for round in [Round::None, Round::Bf16] {
        let (c, op) = case(Setup {
            heads,
            d,
            q: q.clone(),
            window: Tensor::f32([1, ring, d], window.clone()),
            cache: Some((Tensor::f32([1, len, d], cache.clone()), Tensor::i32([1, k], list.clone()))),
            sink: 0.3,
            seq: &[0],
            pos: &[130],
            lo: &[61],
            scale: 0.5,
            round,
        });
        let y = c.y();
        let row = |data: &[f32], i: usize| wide(&data[i * d..(i + 1) * d]);
        let mut keys: Vec<Vec<f64>> = (61..=130).map(|p| row(&window, p % ring)).collect();
        keys.extend((4..64).map(|i| row(&cache, i)));
        let shapes = |v: tessera_ir::graph::Value| match v.index() {
            0 => vec![1, heads, d],
            1 => vec![1, ring, d],
            _ => vec![1, k],
        };
        let tolerance = tolerance(&op, &shapes)[0];
        for h in 0..heads {
            let q = row(&q, h);
            let want = exact(&q, &keys, f64::from(0.3f32), 0.5);
            let dots = keys.iter().map(|k| q.iter().zip(k).map(|(a, b)| (a * b).abs()).sum::<f64>() * 0.5);
            let dots = dots.fold(0.0, f64::max);
            for c in 0..d {
                let largest = keys.iter().map(|k| k[c].abs()).fold(0.0, f64::max);
                let bound = tolerance.bound(largest * (1.0 + dots), want[c], Format::F32);
                assert!(round == Round::Bf16 || bound < 1e-3, "the bound says something: {bound:e}");
                assert_near(y[h * d + c], want[c], bound);
            }
        }
    }
}

#[test]
fn bf16_weights_round_the_value_sum_but_not_the_denominator() {
    // Two keys: weights 1 and e = exp(−1/3); only the second key has a value.
    let (c, _) = case(Setup {
        heads: 1,
        d: 2,
        q: vec![1.0, 0.0],
        window: Tensor::f32([1, 2, 2], vec![0.0, 0.0, -1.0 / 3.0, 1.0]),
        cache: None,
        sink: f32::NEG_INFINITY,
        seq: &[0],
        pos: &[1],
        lo: &[0],
        scale: 1.0,
        round: Round::Bf16,
    });
    let e = f64::from(-1.0f32 / 3.0).exp();
    let rounded = f64::from(round_trip(&[e as f32], Format::BF16).unwrap()[0]);
    assert_near(c.y()[1], rounded / (1.0 + e), 4.0 * UNIT);
    assert!((rounded / e - 1.0).abs() > 1e-4, "the two are told apart");
}

/// One row over 128 keys of a score channel (q = 1) and a value channel.
fn scored(keys: &[[f32; 2]]) -> f32 {
    let (c, _) = case(Setup {
        heads: 1,
        d: 2,
        q: vec![1.0, 0.0],
        window: Tensor::f32([1, 128, 2], keys.concat()),
        cache: None,
        sink: f32::NEG_INFINITY,
        seq: &[0],
        pos: &[127],
        lo: &[0],
        scale: 1.0,
        round: Round::None,
    });
    c.y()[1]
}

#[test]
fn values_and_weights_are_summed_in_blocks_of_64_keys() {
    // Two ones that share a block without 2²⁴ are kept, others are lost one by one.
    let big = 16_777_216.0;
    let sum = |first: usize| {
        let mut keys = [[0.0; 2]; 128];
        (keys[0][1], keys[first][1], keys[first + 1][1]) = (big, 1.0, 1.0);
        scored(&keys) * 128.0
    };
    assert_eq!([sum(62), sum(63), sum(64)], [big, big, big + 2.0]);
    // The same for weights: of 8 of 2⁻²⁵ beside a 1 in lane 0, those whose lanes meet lane 0 early vanish one by one, the
    // four of lanes 1, 3, 5 and 7 count together; in a block of their own all 8 count.
    let total = |first: usize| {
        let mut keys = [[-200.0, 0.0]; 128];
        keys[0] = [0.0, 1.0];
        keys[first..first + 8].fill([-25.0 * std::f32::consts::LN_2, 0.0]);
        scored(&keys)
    };
    assert_eq!([total(1), total(64)], [1.0 / (1.0 + 2f32.powi(-23)), 1.0 / (1.0 + 2f32.powi(-22))]);
}

#[test]
fn a_nan_key_that_is_visible_shows() {
    let mut keys = [[0.0, 1.0]; 128];
    for at in [0, 5, 127] {
        keys[at][0] = f32::NAN;
        assert!(scored(&keys).is_nan(), "key {at}");
        keys[at][0] = 0.0;
    }
}

#[test]
fn heads_are_independent_of_each_other() {
    let (heads, d) = (5, 16);
    let q = noises(7, heads * d);
    let run = |order: &[usize]| {
        let q = order.iter().flat_map(|h| q[h * d..(h + 1) * d].to_vec()).collect();
        case(Setup {
            heads,
            d,
            q,
            window: Tensor::f32([1, 16, d], noises(8, 16 * d)),
            cache: None,
            sink: 0.1,
            seq: &[0],
            pos: &[9],
            lo: &[0],
            scale: 0.25,
            round: Round::None,
        })
        .0
        .y()
    };
    let (plain, permuted) = (run(&[0, 1, 2, 3, 4]), run(&[3, 0, 4, 1, 2]));
    for (to, from) in [3, 0, 4, 1, 2].into_iter().enumerate() {
        assert_eq!(bits(&permuted[to * d..(to + 1) * d]), bits(&plain[from * d..(from + 1) * d]));
    }
}

fn block_case(seq: &[i32], pos: &[i32], lo: &[i32], rows: Vec<f32>, window: Tensor) -> Case {
    let (mut c, d) = (Case::new(), window.shape[2]);
    let window = c.state("window", Format::F32, window);
    let sink = c.weight("sink", Format::F32, Tensor::f32([1], vec![f32::NEG_INFINITY]));
    let sym = |c: &mut Case, name: &str, format, tensor: Tensor| {
        // Rows come as 2·Q, so that whole blocks are typed.
        c.input_blocks("Q", 2, name, format, tensor)
    };
    let n = seq.len();
    let q = sym(&mut c, "q", Format::F32, Tensor::f32([n, 1, d], vec![0.0; n * d]));
    let rows = sym(&mut c, "rows", Format::F32, Tensor::f32([n, d], rows));
    let ints = |c: &mut Case, name: &str, v: &[i32]| sym(c, name, Format::I32, Tensor::i32([n], v.to_vec()));
    let (seq, pos, lo) = (ints(&mut c, "seq", seq), ints(&mut c, "pos", pos), ints(&mut c, "lo", lo));
    let op =
        Op::BlockAttention { q, window, rows, sink, seq, pos, lo, block: 2, scale: 1.0, round: Round::None };
    c.emit(op, Format::F32);
    c
}

#[test]
fn a_draft_row_sees_the_window_before_its_block_and_its_whole_block() {
    // Block of sequence 0 at positions 4, 5 with window positions 2, 3; block of sequence 1 at 0, 1 without window.
    let mut window = vec![f32::NAN; 2 * 4 * 8];
    for p in [2, 3] {
        window[p * 8..(p + 1) * 8].fill(0.0);
        window[p * 8 + p] = 1.0;
    }
    let mut rows = vec![0.0; 4 * 8];
    for (r, hot) in [4, 5, 6, 7].into_iter().enumerate() {
        rows[r * 8 + hot] = 1.0;
    }
    let c = block_case(&[0, 0, 1, 1], &[4, 5, 0, 1], &[2, 2, 0, 0], rows, Tensor::f32([2, 4, 8], window));
    let y = c.y();
    let first = [0.0, 0.0, 0.25, 0.25, 0.25, 0.25, 0.0, 0.0];
    assert_eq!(y[..8], first, "a row sees the one after it");
    assert_eq!(y[8..16], first);
    assert_eq!(y[16..24], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5]);
    assert_eq!(y[24..], y[16..24]);
}

#[test]
fn draft_rows_out_of_line_are_errors() {
    let run = |seq: &[i32], pos: &[i32]| {
        block_case(seq, pos, &[0, 0], vec![0.0; 8], Tensor::f32([2, 4, 4], vec![0.0; 32])).fault()
    };
    assert_eq!(run(&[0, 0], &[1, 3]), Fault::Block { row: 1, block: 2, seq: 0, pos: 3 });
    assert_eq!(run(&[0, 1], &[1, 2]), Fault::Block { row: 1, block: 2, seq: 1, pos: 2 });
}
