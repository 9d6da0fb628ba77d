//! Engram: the hash at the ends of sequences, bad ids, lookups and the gate.

use crate::case::{Case, assert_near, noises};
use tessera_ir::graph::interp::{Fault, Tensor};
use tessera_ir::graph::tolerance::tolerance;
use tessera_ir::graph::{Engram, Op};
use tessera_ir::types::Format;

const VOCABULARY: usize = 10;
/// Compressed ids: 0 and 1 are one, 2 is the pad.
const MAP: [i32; VOCABULARY] = [0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

fn small() -> Engram {
    Engram { multipliers: vec![101, 1009, 10007], primes: vec![vec![11, 13], vec![17, 19]], pad_token: 2 }
}

fn hash(history: Tensor, seq: &[i32], pos: &[i32], engram: Engram) -> Case {
    let mut c = Case::new();
    let history = c.state("history", Format::I32, history);
    let map = c.weight("map", Format::I32, Tensor::i32([VOCABULARY], MAP.to_vec()));
    let (seq, pos) = (c.ints("seq", seq), c.ints("pos", pos));
    c.emit(Op::EngramHash { history, map, seq, pos, engram }, Format::I64);
    c
}

fn rows(c: Case) -> Vec<Vec<i64>> {
    c.run()["y"].longs().unwrap().chunks(4).map(<[i64]>::to_vec).collect()
}

/// The hash of a position of `tokens` in 128-bit arithmetic (V4.1 §2.4).
fn exact(tokens: &[i32], pos: usize, engram: &Engram) -> Vec<i64> {
    let id = |s: usize| if s <= pos { MAP[tokens[pos - s] as usize] } else { MAP[engram.pad_token] };
    let wrap = |v: i128| v as i64;
    let product = |s: usize| wrap(i128::from(id(s)) * i128::from(engram.multipliers[s]));
    let (mut r, mut out, mut offset) = (product(0), Vec::new(), 0);
    for (s, primes) in engram.primes.iter().enumerate() {
        r ^= product(s + 1);
        for p in primes {
            out.push(((i128::from(r) % i128::from(*p) + i128::from(*p)) % i128::from(*p)) as i64 + offset);
            offset += p;
        }
    }
    out
}

#[test]
fn before_a_sequence_only_the_pad_token_counts() {
    let tokens = [7, 3, 9, 4, 4];
    // Slots of other positions hold ids that no vocabulary has.
    let mut ring = vec![-1; 8];
    ring[..5].copy_from_slice(&tokens);
    let got = rows(hash(Tensor::i32([1, 8], ring), &[0; 5], &[0, 1, 2, 3, 4], small()));
    for (pos, row) in got.iter().enumerate() {
        assert_eq!(*row, exact(&tokens, pos, &small()), "position {pos}");
    }
}

#[test]
fn no_n_gram_crosses_from_one_sequence_to_the_next() {
    let (first, second) = ([7, 3, 9], [5, 8, 0]);
    let mut history = vec![-1; 2 * 4];
    history[..3].copy_from_slice(&first);
    history[4..7].copy_from_slice(&second);
    // Packed back to back, in one step.
    let got = rows(hash(Tensor::i32([2, 4], history), &[0, 0, 0, 1, 1, 1], &[0, 1, 2, 0, 1, 2], small()));
    for pos in 0..3 {
        assert_eq!(got[pos], exact(&first, pos, &small()));
        assert_eq!(got[3 + pos], exact(&second, pos, &small()));
    }
}

#[test]
fn ids_outside_the_vocabulary_are_errors() {
    for bad in [-1, VOCABULARY as i32, i32::MIN] {
        let c = hash(Tensor::i32([1, 4], vec![1, bad, 1, 1]), &[0], &[2], small());
        let want = Fault::Range { operand: "history", at: 1, value: bad.into(), low: 0, limit: 10 };
        assert_eq!(c.fault(), want);
    }
    // The first and the last id are fine.
    hash(Tensor::i32([1, 4], vec![0, VOCABULARY as i32 - 1, 1, 1]), &[0], &[2], small()).run();
}

#[test]
fn products_wrap_and_rows_stay_in_the_table() {
    let engram = Engram {
        multipliers: vec![i64::MAX, i64::MAX - 2, i64::MAX - 8],
        primes: vec![vec![16_000_057, 3], vec![2, 9_000_000_000_000_000_011]],
        pad_token: 2,
    };
    let tokens = [9, 8, 7, 9];
    let got = rows(hash(Tensor::i32([1, 4], tokens.to_vec()), &[0; 4], &[0, 1, 2, 3], engram.clone()));
    for (pos, row) in got.iter().enumerate() {
        let want = exact(&tokens, pos, &engram);
        assert_eq!(row[..3], want[..3]);
        let offsets = [0, 16_000_057, 16_000_060];
        for (i, prime) in [16_000_057, 3, 2].into_iter().enumerate() {
            assert!((offsets[i]..offsets[i] + prime).contains(&row[i]));
        }
    }
}

#[test]
fn a_history_ring_that_lost_a_needed_token_is_an_error() {
    // Positions 0..4 of one step in a ring of 4: position 0 needs none before it, position 2 still has 0, 1, 2,
    // but with position 4 written the slot of 0 is gone.
    let c = hash(Tensor::i32([1, 4], vec![1; 4]), &[0, 0], &[2, 4], small());
    assert_eq!(c.fault(), Fault::Ring { operand: "history", row: 0, need: 5, have: 4 });
}

#[test]
fn lookups_lay_rows_side_by_side_and_refuse_others() {
    let run = |ids: Vec<i64>| {
        let mut c = Case::new();
        let rows: Vec<f32> = (0..3 * 32).map(|i| (i / 32) as f32).collect();
        let table = c.weight("table", Format::MX8, Tensor::f32([3, 32], rows));
        let ids = c.input("ids", Format::I64, Tensor::i64([1, 2], ids));
        c.emit(Op::EngramLookup { table, ids }, Format::BF16);
        c
    };
    let y = run(vec![2, 1]).y();
    assert_eq!((&y[..32], &y[32..]), ([2.0; 32].as_slice(), [1.0; 32].as_slice()));
    for bad in [3, -1, i64::MAX] {
        let want = Fault::Range { operand: "ids", at: 1, value: bad, low: 0, limit: 3 };
        assert_eq!(run(vec![0, bad]).fault(), want);
    }
}

struct Gate {
    x: Vec<f32>,
    kv: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
}

fn gate(g: &Gate, n: usize, d: usize) -> (Vec<f32>, Op) {
    let mut c = Case::new();
    let x = c.reals("x", &[1, n, d], g.x.clone());
    let kv = c.reals("kv", &[1, (n + 1) * d], g.kv.clone());
    let q_weight = c.weight("q", Format::F32, Tensor::f32([n, d], g.q.clone()));
    let k_weight = c.weight("k", Format::F32, Tensor::f32([n, d], g.k.clone()));
    let op = Op::EngramGate { x, kv, q_weight, k_weight, eps: 1e-20 };
    c.emit(op.clone(), Format::F32);
    (c.y(), op)
}

#[test]
fn the_gate_is_the_formula_within_its_tolerance() {
    let (n, d) = (3, 40);
    let g =
        Gate { x: noises(1, n * d), kv: noises(2, (n + 1) * d), q: noises(3, n * d), k: noises(4, n * d) };
    let (y, op) = gate(&g, n, d);
    let near = tolerance(&op, &|_| vec![1, n, d])[0];
    for j in 0..n {
        let row = |v: &[f32]| v[j * d..(j + 1) * d].iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
        let (x, key, q, k) = (row(&g.x), row(&g.kv), row(&g.q), row(&g.k));
        let norm = |v: &[f64]| 1.0 / (v.iter().map(|v| v * v).sum::<f64>() / d as f64).sqrt();
        let scale = norm(&x) * norm(&key) / (d as f64).sqrt();
        let terms: Vec<f64> = (0..d).map(|c| x[c] * q[c] * k[c] * key[c] * scale).collect();
        let dot = terms.iter().sum::<f64>();
        let sum = terms.iter().map(|v| v.abs()).sum::<f64>();
        let gate = 1.0 / (1.0 + (-dot.abs().max(1e-6).sqrt().copysign(dot)).exp());
        for c in 0..d {
            let value = f64::from(g.kv[n * d + c]);
            let want = x[c] + gate * value;
            let bound = near.bound(x[c].abs() + value.abs() * (1.0 + sum * 125.0), want, Format::F32);
            assert!(bound < 0.01);
            assert_near(y[j * d + c], want, bound);
        }
    }
}

#[test]
fn a_stream_without_signal_opens_the_gate_by_a_half() {
    // dot = 0 counts as +1e-6: σ(1e-3). All-zero streams and keys are finite.
    let g = Gate {
        x: vec![0.0; 4],
        kv: vec![0.0, 0.0, 0.0, 0.0, 8.0, -8.0, 8.0, 0.0],
        q: vec![1.0; 4],
        k: vec![1.0; 4],
    };
    let (y, _) = gate(&g, 1, 4);
    let half = 1.0 / (1.0 + (-1e-3f64).exp());
    for (got, want) in y.iter().zip([8.0 * half, -8.0 * half, 8.0 * half, 0.0]) {
        assert_near(*got, want, 1e-5);
    }
    assert!(y[0] > 4.0, "above a half");
}

#[test]
fn streams_are_normalised_one_by_one() {
    // Scaling one stream and its key changes no gate.
    let (n, d) = (2, 16);
    let g =
        Gate { x: noises(5, n * d), kv: noises(6, (n + 1) * d), q: vec![1.0; n * d], k: vec![1.0; n * d] };
    let mut h = Gate { x: g.x.clone(), kv: g.kv.clone(), q: g.q.clone(), k: g.k.clone() };
    h.x[..d].iter_mut().for_each(|v| *v *= 1024.0);
    let (a, b) = (gate(&g, n, d).0, gate(&h, n, d).0);
    for c in 0..d {
        let (da, db) = (a[c] - g.x[c], f64::from(b[c]) - f64::from(h.x[c]));
        assert_near(da, db, 1e-3);
    }
    assert_eq!(a[d..], b[d..]);
}
