//! One case of every op, for rules that hold for all of them.
//!
//! A row's data depend on its number only, so that a case of some rows can be compared with a case of others.

use crate::case::{Case, noise};
use tessera_ir::graph::interp::{Tensor, round_trip};
use tessera_ir::graph::{Engram, Op, Rope, Round, Value};
use tessera_ir::types::Format;

/// What a case's output has for each row of the case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Output rows in proportion to the case's rows.
    Rows,
    /// A state of 8 slots, row r having written to slot r.
    Slots,
}

pub(crate) struct Animal {
    pub(crate) op: &'static str,
    pub(crate) shape: Shape,
    pub(crate) case: Case,
}

const SLOTS: usize = 8;

struct Keeper<'a> {
    rows: &'a [usize],
    animals: Vec<Animal>,
}

impl Keeper<'_> {
    /// Reals `[rows, tail…]` in `format`.
    fn reals(&self, c: &mut Case, name: &str, tail: &[usize], format: Format) -> Value {
        let width: usize = tail.iter().product();
        let seed = name.bytes().map(u32::from).sum();
        let row = |r: &usize| {
            let row: Vec<f32> = (0..width).map(|i| noise(seed, r * 1000 + i)).collect();
            let last = tail.last().copied().unwrap_or(1);
            row.chunks(last).flat_map(|x| round_trip(x, format).expect("whole groups")).collect::<Vec<f32>>()
        };
        let shape: Vec<usize> = std::iter::once(self.rows.len()).chain(tail.iter().copied()).collect();
        c.input(name, format, Tensor::f32(shape, self.rows.iter().flat_map(row).collect()))
    }
    fn f32(&self, c: &mut Case, name: &str, tail: &[usize]) -> Value {
        self.reals(c, name, tail, Format::F32)
    }
    /// Integers `[rows, tail]`, `f(row, i)`.
    fn ints(&self, c: &mut Case, name: &str, tail: Option<usize>, f: impl Fn(usize, usize) -> i32) -> Value {
        let data =
            self.rows.iter().flat_map(|r| (0..tail.unwrap_or(1)).map(|i| f(*r, i)).collect::<Vec<_>>());
        let shape: Vec<usize> = std::iter::once(self.rows.len()).chain(tail).collect();
        c.input(name, Format::I32, Tensor::i32(shape, data.collect()))
    }
    /// Slot r and a position of its own for row r.
    fn places(&self, c: &mut Case) -> (Value, Value) {
        (self.ints(c, "seq", None, |r, _| r as i32), self.ints(c, "pos", None, |r, _| (2 * r + 1) as i32))
    }
    fn weight(c: &mut Case, name: &str, shape: &[usize], format: Format) -> Value {
        let seed = name.bytes().map(u32::from).sum();
        let data: Vec<f32> = (0..shape.iter().product()).map(|i| noise(seed, i)).collect();
        // Tiles of w8 span rows; the rule of a row quantiser gives values that some tile scale could give.
        let row = if format == Format::W8 { Format::MX8 } else { format };
        let last = shape[shape.len() - 1];
        let data = data.chunks(last).flat_map(|x| round_trip(x, row).expect("whole groups")).collect();
        c.weight(name, format, Tensor::f32(shape, data))
    }
    fn state(c: &mut Case, name: &str, tail: &[usize]) -> Value {
        let seed = name.bytes().map(u32::from).sum();
        let shape: Vec<usize> = std::iter::once(SLOTS).chain(tail.iter().copied()).collect();
        let data = (0..shape.iter().product()).map(|i| noise(seed, i)).collect();
        c.state(name, Format::F32, Tensor::f32(shape, data))
    }
    fn keep(&mut self, mut case: Case, op: Op, shape: Shape, format: Format) {
        let name = op.mnemonic();
        case.emit(op, format);
        self.animals.push(Animal { op: name, shape, case });
    }
    fn add(&mut self, case: Case, op: Op, format: Format) {
        self.keep(case, op, Shape::Rows, format);
    }
}

/// A case of every op on the rows with these numbers, each below 8.
pub(crate) fn zoo(rows: &[usize]) -> Vec<Animal> {
    let mut k = Keeper { rows, animals: Vec::new() };
    moves(&mut k);
    sums(&mut k);
    products(&mut k);
    engram(&mut k);
    caches(&mut k);
    attention(&mut k);
    experts(&mut k);
    k.animals
}

fn moves(k: &mut Keeper<'_>) {
    let mut c = Case::new();
    let table = Keeper::weight(&mut c, "table", &[9, 5], Format::F32);
    let tokens = k.ints(&mut c, "tokens", None, |r, _| (r * 7 % 9) as i32);
    k.add(c, Op::Embed { table, tokens }, Format::BF16);

    let mut c = Case::new();
    let x = k.f32(&mut c, "x", &[5]);
    k.add(c, Op::Cast { x }, Format::BF16);
    for format in [Format::MX8, Format::KV8, Format::KV4, Format::INDEX4] {
        let mut c = Case::new();
        let x = k.f32(&mut c, "x", &[2, 64]);
        k.add(c, Op::Quantize { x }, format);
    }
    let mut c = Case::new();
    let parts = vec![k.f32(&mut c, "a", &[2]), k.f32(&mut c, "b", &[3])];
    k.add(c, Op::Concat { parts }, Format::F32);

    // Rows of the case choose among eight fixed rows.
    let mut c = Case::new();
    let x: Vec<f32> = (0..16).map(|i| noise(1, i)).collect();
    let x = c.input_rows("X", "x", Format::F32, Tensor::f32([8, 2], x));
    let rows = k.ints(&mut c, "rows", None, |r, _| (r * 5 % 8) as i32);
    k.add(c, Op::SelectRows { x, rows }, Format::F32);

    let mut c = Case::new();
    let data = k.rows.iter().flat_map(|r| (0..6).map(move |i| noise(2, r * 6 + i)));
    let x = Tensor::f32([3 * k.rows.len(), 2], data.collect());
    let x = c.input_blocks("T", 3, "x", Format::F32, x);
    k.add(c, Op::EveryRow { x, step: 3, offset: 1 }, Format::F32);

    let mut c = Case::new();
    let parts = vec![k.f32(&mut c, "a", &[3]), k.f32(&mut c, "b", &[3])];
    k.add(c, Op::InterleaveRows { parts }, Format::F32);

    let mut c = Case::new();
    let x = k.f32(&mut c, "x", &[7]);
    k.add(c, Op::Argmax { x }, Format::F32);
}

fn sums(k: &mut Keeper<'_>) {
    let mut c = Case::new();
    let x = k.f32(&mut c, "x", &[5]);
    k.add(c, Op::Scale { x, factor: 0.3 }, Format::BF16);
    let mut c = Case::new();
    let (a, b) = (k.f32(&mut c, "a", &[5]), k.f32(&mut c, "b", &[5]));
    k.add(c, Op::Add { a, b }, Format::F32);
    let mut c = Case::new();
    let x = k.f32(&mut c, "x", &[2, 37]);
    let weight = Keeper::weight(&mut c, "weight", &[37], Format::F32);
    k.add(c, Op::RmsNorm { x, weight, eps: 1e-20 }, Format::F32);

    let rope = Rope { dim: 4, theta: 10000.0, yarn: None };
    let mut c = Case::new();
    let (_, pos) = k.places(&mut c);
    k.add(c, Op::RopeTable { pos, rope, stride: 2 }, Format::F32);
    let mut c = Case::new();
    let (x, table) = (k.f32(&mut c, "x", &[2, 6]), k.f32(&mut c, "table", &[4]));
    k.add(c, Op::Rope { x, table, inverse: false }, Format::BF16);

    let mut c = Case::new();
    let x = k.f32(&mut c, "x", &[5]);
    k.add(c, Op::HcOpen { x, streams: 3 }, Format::F32);
    let mut c = Case::new();
    let x = k.f32(&mut c, "x", &[2, 40]);
    let function = Keeper::weight(&mut c, "function", &[8, 80], Format::F32);
    let base = Keeper::weight(&mut c, "base", &[8], Format::F32);
    let scale = Keeper::weight(&mut c, "scale", &[3], Format::F32);
    k.add(c, Op::HcMix { x, function, base, scale, iters: 20, eps: 1e-6, norm_eps: 1e-20 }, Format::F32);
    let mut c = Case::new();
    let (x, pre) = (k.f32(&mut c, "x", &[3, 5]), k.f32(&mut c, "pre", &[3]));
    k.add(c, Op::HcCollapse { x, pre }, Format::F32);
    let mut c = Case::new();
    let (y, x) = (k.f32(&mut c, "y", &[5]), k.f32(&mut c, "x", &[3, 5]));
    let (post, comb) = (k.f32(&mut c, "post", &[3]), k.f32(&mut c, "comb", &[3, 3]));
    k.add(c, Op::HcExpand { y, x, post, comb }, Format::F32);
    let mut c = Case::new();
    let x = k.f32(&mut c, "x", &[3, 5]);
    k.add(c, Op::HcMean { x }, Format::F32);
}

fn products(k: &mut Keeper<'_>) {
    for (x_format, format) in [
        (Format::F32, Format::F32),
        (Format::BF16, Format::BF16),
        (Format::MX8, Format::W8),
        (Format::MX8, Format::MX4),
        (Format::F32, Format::W8),
    ] {
        let mut c = Case::new();
        let x = k.reals(&mut c, "x", &[192], x_format);
        let weight = Keeper::weight(&mut c, "weight", &[34, 96], format);
        k.add(c, Op::Linear { x, weight, groups: 2 }, Format::F32);
    }
}

fn engram(k: &mut Keeper<'_>) {
    let mut c = Case::new();
    let ids = (0..SLOTS * 20).map(|i| ((noise(4, i) + 1.0) * 4.9) as i32).collect();
    let history = c.state("history", Format::I32, Tensor::i32([SLOTS, 20], ids));
    let map = c.weight("map", Format::I32, Tensor::i32([10], (0..10).map(|i| i / 2).collect()));
    let (seq, pos) = k.places(&mut c);
    let engram = Engram {
        multipliers: vec![76632096046245, 4839876093313, 35959672319349],
        primes: vec![vec![16000057, 16000079], vec![16000081, 16000097]],
        pad_token: 2,
    };
    k.add(c, Op::EngramHash { history, map, seq, pos, engram }, Format::I64);
    let mut c = Case::new();
    let table = Keeper::weight(&mut c, "table", &[9, 32], Format::MX8);
    let ids: Vec<i64> = k.rows.iter().flat_map(|r| [(r * 4 % 9) as i64, (r * 2 % 9) as i64]).collect();
    let ids = c.input("ids", Format::I64, Tensor::i64([k.rows.len(), 2], ids));
    k.add(c, Op::EngramLookup { table, ids }, Format::BF16);
    let mut c = Case::new();
    let (x, kv) = (k.f32(&mut c, "x", &[2, 20]), k.f32(&mut c, "kv", &[60]));
    let q_weight = Keeper::weight(&mut c, "q", &[2, 20], Format::F32);
    let k_weight = Keeper::weight(&mut c, "k", &[2, 20], Format::F32);
    k.add(c, Op::EngramGate { x, kv, q_weight, k_weight, eps: 1e-20 }, Format::F32);
}

fn caches(k: &mut Keeper<'_>) {
    let mut c = Case::new();
    let ring = Keeper::state(&mut c, "ring", &[6, 3]);
    let rows = k.f32(&mut c, "rows", &[3]);
    let (seq, pos) = k.places(&mut c);
    k.keep(c, Op::RingStore { ring, rows, seq, pos }, Shape::Slots, Format::F32);
    let mut c = Case::new();
    let cache = Keeper::state(&mut c, "cache", &[20, 3]);
    let rows = k.f32(&mut c, "rows", &[3]);
    let (seq, pos) = k.places(&mut c);
    k.keep(c, Op::CacheAppend { cache, rows, seq, pos, ratio: 2 }, Shape::Slots, Format::F32);
    let mut c = Case::new();
    let values = Keeper::state(&mut c, "values", &[4, 5]);
    let gates = Keeper::state(&mut c, "gates", &[4, 5]);
    let (seq, pos) = k.places(&mut c);
    k.add(c, Op::CompressPool { values, gates, seq, pos, ratio: 2 }, Format::F32);
    for round in [Round::None, Round::Bf16] {
        let mut c = Case::new();
        let (q, weights) = (k.f32(&mut c, "q", &[3, 20]), k.f32(&mut c, "weights", &[3]));
        let keys = Keeper::state(&mut c, "keys", &[16, 20]);
        let (seq, pos) = k.places(&mut c);
        k.add(c, Op::IndexScores { q, weights, keys, seq, pos, ratio: 2, round }, Format::F32);
    }
    let mut c = Case::new();
    let scores = k.f32(&mut c, "scores", &[16]);
    let (_, pos) = k.places(&mut c);
    k.add(c, Op::IndexBlocks { scores, pos, ratio: 1, block: 4, keep: 2 }, Format::I32);
    let mut c = Case::new();
    let scores = k.f32(&mut c, "scores", &[16]);
    let blocks = k.ints(&mut c, "blocks", Some(2), |r, i| if i == 1 { -1 } else { (r % 4) as i32 });
    k.add(c, Op::IndexRestrict { scores, blocks, block: 4 }, Format::F32);
    let mut c = Case::new();
    let scores = k.f32(&mut c, "scores", &[16]);
    k.add(c, Op::TopK { scores, k: 5 }, Format::I32);
}

fn attention(k: &mut Keeper<'_>) {
    for round in [Round::None, Round::Bf16] {
        let mut c = Case::new();
        let q = k.f32(&mut c, "q", &[2, 20]);
        let window = Keeper::state(&mut c, "window", &[16, 20]);
        let cache = Some(Keeper::state(&mut c, "cache", &[9, 20]));
        let selected =
            Some(k.ints(&mut c, "selected", Some(3), |r, i| if i == 2 { -1 } else { (r + i) as i32 % 9 }));
        let sink = Keeper::weight(&mut c, "sink", &[2], Format::F32);
        let (seq, pos) = k.places(&mut c);
        let lo = k.ints(&mut c, "lo", None, |r, _| (r / 2) as i32);
        let op = Op::Attention { q, window, cache, selected, sink, seq, pos, lo, scale: 0.2, round };
        k.add(c, op, Format::F32);
    }
    // A row of the case is a block of two.
    let mut c = Case::new();
    let n = 2 * k.rows.len();
    let twice = |c: &mut Case, name: &str, tail: &[usize]| {
        let width: usize = tail.iter().product();
        let seed = name.bytes().map(u32::from).sum();
        let data = k.rows.iter().flat_map(|r| (0..2 * width).map(move |i| noise(seed, r * 1000 + i)));
        let shape: Vec<usize> = std::iter::once(n).chain(tail.iter().copied()).collect();
        c.input_blocks("T", 2, name, Format::F32, Tensor::f32(shape, data.collect()))
    };
    let (q, rows) = (twice(&mut c, "q", &[2, 20]), twice(&mut c, "rows", &[20]));
    let ints = |c: &mut Case, name: &str, f: &dyn Fn(usize, usize) -> usize| {
        let data = k.rows.iter().flat_map(|r| [f(*r, 0) as i32, f(*r, 1) as i32]).collect();
        c.input_blocks("T", 2, name, Format::I32, Tensor::i32([n], data))
    };
    let (seq, pos) = (ints(&mut c, "seq", &|r, _| r), ints(&mut c, "pos", &|r, i| 2 * r + i));
    let lo = ints(&mut c, "lo", &|r, _| r);
    let window = Keeper::state(&mut c, "window", &[16, 20]);
    let sink = Keeper::weight(&mut c, "sink", &[2], Format::F32);
    let round = Round::Bf16;
    let op = Op::BlockAttention { q, window, rows, sink, seq, pos, lo, block: 2, scale: 0.2, round };
    k.add(c, op, Format::F32);
}

fn experts(k: &mut Keeper<'_>) {
    let mut c = Case::new();
    let logits = k.f32(&mut c, "logits", &[6]);
    let bias = Keeper::weight(&mut c, "bias", &[6], Format::F32);
    k.add(c, Op::Router { logits, bias, k: 3, scale: 1.5 }, Format::F32);
    // The results of `moe.group` are no outputs: only `moe.linear` may take them.
    let mut c = Case::new();
    let experts = k.ints(&mut c, "experts", Some(2), |r, i| ((r + 3 * i) % 5) as i32);
    c.inner_many(Op::MoeGroup { experts, count: 5 }, Format::I32);
    k.animals.push(Animal { op: "moe.group", shape: Shape::Rows, case: c });
    for shared in [true, false] {
        let mut c = Case::new();
        let experts = k.ints(&mut c, "experts", Some(2), |r, i| ((r + 3 * i) % 5) as i32);
        let group = c.inner_many(Op::MoeGroup { experts, count: 5 }, Format::I32);
        let x = k.reals(&mut c, "x", if shared { &[64] } else { &[2, 64] }, Format::MX8);
        let weight = Keeper::weight(&mut c, "weight", &[5, 18, 64], Format::MX4);
        let [offsets, pairs, rows] = [0, 1, 2].map(|i| Some(group[i]));
        k.add(c, Op::MoeLinear { x, experts, weight, offsets, pairs, rows }, Format::F32);
    }
    let mut c = Case::new();
    let (gate, up) = (k.f32(&mut c, "gate", &[2, 5]), k.f32(&mut c, "up", &[2, 5]));
    let weight = Some(k.f32(&mut c, "weight", &[2]));
    k.add(c, Op::SwiGlu { gate, up, weight, limit: 0.5 }, Format::BF16);
    let mut c = Case::new();
    let (parts, shared) = (k.f32(&mut c, "parts", &[3, 5]), k.f32(&mut c, "shared", &[5]));
    k.add(c, Op::MoeCombine { parts, shared }, Format::F32);
}
