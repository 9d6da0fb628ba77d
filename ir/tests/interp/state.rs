//! Rings, caches and pooling: group borders, chunks, and states after errors.

use crate::case::{Case, assert_near, bits, noise};
use tessera_ir::graph::interp::{Error, Fault, State, Tensor};
use tessera_ir::graph::tolerance::UNIT;
use tessera_ir::graph::{Op, Round};
use tessera_ir::types::Format;

const D: usize = 4;

/// Value of channel c of the token at `pos`.
fn token(seed: u32, pos: usize, c: usize) -> f32 {
    noise(seed, pos * D + c)
}

fn rows(seed: u32, positions: std::ops::Range<usize>) -> Tensor {
    let n = positions.len();
    Tensor::f32([n, D], positions.flat_map(|p| (0..D).map(move |c| token(seed, p, c))).collect())
}

/// Stores the tokens of `positions` in rings of `ring`, pools and appends groups of `ratio` to a cache of 8; gives
/// the run's outcome and the state after it.
fn compress(
    state: Option<State>,
    positions: std::ops::Range<usize>,
    ratio: usize,
    ring: usize,
) -> (Result<Vec<f32>, Error>, State) {
    let mut c = Case::new();
    let nan = |n: usize| Tensor::f32([1, n, D], vec![f32::NAN; n * D]);
    let values = c.state("values", Format::F32, nan(ring));
    let gates = c.state("gates", Format::F32, nan(ring));
    let cache = c.state("cache", Format::F32, nan(8));
    if let Some(state) = state {
        c.state = state;
    }
    let v = c.input("v", Format::F32, rows(1, positions.clone()));
    let g = c.input("g", Format::F32, rows(2, positions.clone()));
    let seq = c.ints("seq", &vec![0; positions.len()]);
    let pos = c.ints("pos", &positions.map(|p| p as i32).collect::<Vec<_>>());
    let values = c.inner(Op::RingStore { ring: values, rows: v, seq, pos }, Format::F32);
    let gates = c.inner(Op::RingStore { ring: gates, rows: g, seq, pos }, Format::F32);
    let pooled = c.emit(Op::CompressPool { values, gates, seq, pos, ratio }, Format::F32)[0];
    c.inner(Op::CacheAppend { cache, rows: pooled, seq, pos, ratio }, Format::F32);
    let (out, state) = c.run_with_state();
    (out.map(|o| o["y"].reals().unwrap().to_vec()), state)
}

fn cache(state: &State) -> Vec<f32> {
    state.get("cache").unwrap().reals().unwrap().to_vec()
}

/// Softmax over the gates of a group, in f64.
fn pooled(first: usize, ratio: usize, c: usize) -> f64 {
    let e: Vec<f64> = (first..first + ratio).map(|p| f64::from(token(2, p, c)).exp()).collect();
    let sum = e.iter().sum::<f64>();
    (0..ratio).map(|i| e[i] / sum * f64::from(token(1, first + i, c))).sum()
}

#[test]
fn a_group_is_complete_with_its_last_token_and_not_before() {
    for ratio in [1, 2, 3] {
        for len in [0, 1, ratio - 1, ratio, ratio + 1, 2 * ratio, 7] {
            let (out, state) = compress(None, 0..len, ratio, 16);
            let out = out.unwrap();
            let cache = cache(&state);
            let complete = len / ratio;
            assert_eq!(cache.iter().filter(|v| !v.is_nan()).count(), complete * D, "ratio {ratio}, {len}");
            for (c, got) in cache[..complete * D].iter().enumerate() {
                assert_near(*got, pooled(c / D * ratio, ratio, c % D), 16.0 * UNIT);
            }
            for (t, row) in out.chunks(D).enumerate() {
                assert!((t + 1) % ratio == 0 || bits(row) == bits(&[0.0; D]), "row {t} ends no group");
            }
        }
    }
}

#[test]
fn chunks_give_the_same_bits_as_the_whole() {
    for ratio in [1, 2, 3] {
        let (_, whole) = compress(None, 0..8, ratio, 16);
        for cuts in [vec![0, 1, 8], vec![0, 3, 4, 5, 8], (0..=8).collect()] {
            let mut state = None;
            for pair in cuts.windows(2) {
                let (out, next) = compress(state, pair[0]..pair[1], ratio, 16);
                out.unwrap();
                state = Some(next);
            }
            let state = state.unwrap();
            assert_eq!(bits(&cache(&state)), bits(&cache(&whole)), "ratio {ratio}, cuts {cuts:?}");
            let ring = |s: &State| bits(s.get("values").unwrap().reals().unwrap());
            assert_eq!(ring(&state), ring(&whole));
        }
    }
}

#[test]
fn pooling_from_a_ring_that_lost_the_group_is_an_error() {
    let (out, _) = compress(None, 0..8, 2, 3);
    let Err(Error::Node { op: "compress.pool", fault, .. }) = out else { panic!("{out:?}") };
    assert_eq!(fault, Fault::Ring { operand: "values", row: 1, need: 8, have: 3 });
}

#[test]
fn a_full_cache_is_an_error_and_leaves_the_state_alone() {
    let (_, before) = compress(None, 0..7, 1, 16);
    let (out, after) = compress(Some(before.clone()), 7..10, 1, 16);
    let Err(Error::Node { op, fault, .. }) = out else { panic!("{out:?}") };
    assert_eq!(op, "cache.append");
    assert_eq!(fault, Fault::Range { operand: "pos", at: 1, value: 8, low: 0, limit: 8 });
    for ((name, a), (_, b)) in after.iter().zip(before.iter()) {
        assert_eq!(bits(a.reals().unwrap()), bits(b.reals().unwrap()), "{name}");
    }
}

fn store(ring: Tensor, rows: Tensor, seq: &[i32], pos: &[i32]) -> Case {
    let mut c = Case::new();
    let ring = c.state("ring", Format::I32, ring);
    let rows = c.input("rows", Format::I32, rows);
    let (seq, pos) = (c.ints("seq", seq), c.ints("pos", pos));
    c.emit(Op::RingStore { ring, rows, seq, pos }, Format::I32);
    c
}

#[test]
fn rows_go_to_their_slot_of_their_ring() {
    let c = store(
        Tensor::i32([2, 3], vec![0; 6]),
        Tensor::i32([4], vec![1, 2, 3, 4]),
        &[1, 0, 1, 1],
        &[2, 4, 3, 6],
    );
    // In row order: position 6 follows position 3 into slot 0.
    assert_eq!(c.y_ints(), [0, 2, 0, 4, 0, 1]);
}

#[test]
fn slots_and_positions_out_of_range_are_errors() {
    let run =
        |seq, pos| store(Tensor::i32([2, 3], vec![0; 6]), Tensor::i32([1], vec![1]), &[seq], &[pos]).fault();
    assert_eq!(run(2, 0), Fault::Range { operand: "seq", at: 0, value: 2, low: 0, limit: 2 });
    assert_eq!(run(-1, 0), Fault::Range { operand: "seq", at: 0, value: -1, low: 0, limit: 2 });
    assert_eq!(run(0, -1), Fault::Range { operand: "pos", at: 0, value: -1, low: 0, limit: i32::MAX.into() });
    let c = store(Tensor::i32([1, 0], vec![]), Tensor::i32([1], vec![1]), &[0], &[0]);
    assert_eq!(c.fault(), Fault::Ring { operand: "ring", row: 0, need: 1, have: 0 });
}

/// Window attention over one sequence, fed in pieces.
fn decode(cuts: &[usize], ring: usize) -> Vec<u32> {
    let (window, mut state, mut out) = (4, None, Vec::new());
    for pair in cuts.windows(2) {
        let positions = pair[0]..pair[1];
        let mut c = Case::new();
        let states = c.state("window", Format::F32, Tensor::f32([1, ring, D], vec![f32::NAN; ring * D]));
        if let Some(state) = state {
            c.state = state;
        }
        let k = c.input("k", Format::F32, rows(3, positions.clone()));
        let q: Vec<f32> = rows(4, positions.clone()).reals().unwrap().to_vec();
        let q = c.reals("q", &[positions.len(), 1, D], q);
        let sink = c.weight("sink", Format::F32, Tensor::f32([1], vec![0.25]));
        let seq = c.ints("seq", &vec![0; positions.len()]);
        let pos: Vec<i32> = positions.map(|p| p as i32).collect();
        let lo = c.ints("lo", &pos.iter().map(|p| (p - window + 1).max(0)).collect::<Vec<_>>());
        let pos = c.ints("pos", &pos);
        let ring = c.inner(Op::RingStore { ring: states, rows: k, seq, pos }, Format::F32);
        let op = Op::Attention {
            q,
            window: ring,
            cache: None,
            selected: None,
            sink,
            seq,
            pos,
            lo,
            scale: 0.5,
            round: Round::None,
        };
        c.emit(op, Format::F32);
        let (run, next) = c.run_with_state();
        out.extend(bits(run.unwrap()["y"].reals().unwrap()));
        state = Some(next);
    }
    out
}

#[test]
fn attention_in_chunks_gives_the_same_bits_as_the_whole() {
    let whole = decode(&[0, 12], 16);
    for (cuts, ring) in
        [(vec![0, 12], 15), (vec![0, 1, 5, 12], 12), ((0..=12).collect(), 4), (vec![0, 6, 12], 9)]
    {
        assert_eq!(decode(&cuts, ring), whole, "{cuts:?} in a ring of {ring}");
    }
}
