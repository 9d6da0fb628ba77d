//! Attention schedules for SM100 on the Tile IR interpreter against the oracle: borders of the window, lists with padding
//! anywhere, draft blocks, heads fewer than the matrix unit's rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use tessera_ir::graph::interp::{self, State, Tensor, round_trip};
use tessera_ir::graph::tolerance::{UNIT, step};
use tessera_ir::graph::{self, Builder, DeclKind, Module, Op, Round};
use tessera_ir::machine::sm100 as machine;
use tessera_ir::{Bindings, Dim, Format, TensorType, Verified, tile};
use tessera_kernels::{Family, sm100};

/// A query row.
#[derive(Clone, Copy, Debug)]
struct Row {
    seq: usize,
    pos: usize,
    lo: usize,
}

/// Keys beside the window.
#[derive(Clone, Debug)]
enum Second {
    None,
    /// Cache entries and the rows' lists, all of one length.
    Lists(usize, Vec<Vec<i32>>),
    /// Rows of a draft block.
    Block(usize),
}

#[derive(Clone, Debug)]
struct Case {
    heads: usize,
    dim: usize,
    slots: usize,
    ring: usize,
    rows: Vec<Row>,
    second: Second,
    /// Half of the rotated channels.
    rope: Option<usize>,
}

/// A number in −1..1 that depends on `seed` and `i` only.
fn noise(seed: u32, i: usize) -> f32 {
    let mut h = (i as u32).wrapping_mul(0x9E37_79B9) ^ seed.wrapping_mul(0x85EB_CA6B);
    h = (h ^ (h >> 16)).wrapping_mul(0x7FEB_352D);
    h = (h ^ (h >> 15)).wrapping_mul(0x846C_A68B);
    ((h >> 16) as f32 - 32768.0) / 32768.0
}

fn noises(seed: u32, n: usize, scale: f32) -> Vec<f32> {
    (0..n).map(|i| noise(seed, i) * scale).collect()
}

/// Rows of `dim` exact in `format`, `gain` times as large in some rows, NaN in rows that nothing may read.
fn entries(
    seed: u32,
    rows: usize,
    dim: usize,
    format: Format,
    gain: impl Fn(usize) -> Option<f32>,
) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows * dim);
    for row in 0..rows {
        match gain(row) {
            Some(gain) => {
                let values: Vec<f32> = (0..dim).map(|i| noise(seed, row * dim + i) * gain).collect();
                out.extend(round_trip(&values, format).expect("whole groups"));
            }
            None => out.extend(std::iter::repeat_n(f32::NAN, dim)),
        }
    }
    out
}

/// A case with its values.
struct Data {
    module: Verified<Module>,
    bindings: Bindings,
    inputs: BTreeMap<String, Tensor>,
    weights: BTreeMap<String, Arc<Tensor>>,
    state: State,
    scale: f32,
}

const SEQ: &str = "seq";

impl Case {
    fn tokens(&self) -> usize {
        self.rows.len()
    }
    /// First row of the draft block of row `t`.
    fn first(&self, t: usize) -> usize {
        match self.second {
            Second::Block(size) => t / size * size,
            Second::None | Second::Lists(..) => t,
        }
    }
    /// Visible window positions of row `t`.
    fn window(&self, t: usize) -> std::ops::Range<usize> {
        let row = self.rows[t];
        match self.second {
            Second::Block(_) => row.lo..self.rows[self.first(t)].pos,
            Second::None | Second::Lists(..) => row.lo..row.pos + 1,
        }
    }
    fn family(&self) -> Family {
        match self.second {
            Second::Block(_) => Family::BlockAttention,
            Second::None | Second::Lists(..) => Family::Attention,
        }
    }

    fn data(&self, seed: u32) -> Data {
        let (t, h, d) = (self.tokens(), self.heads, self.dim);
        let scale = (d as f32).powf(-0.5);
        let mut b = Builder::new("attention_case");
        let mut bindings = Bindings::new();
        let (mut inputs, mut weights, mut state) = (BTreeMap::new(), BTreeMap::new(), State::default());
        let size = if let Second::Block(size) = self.second { size } else { 1 };
        bindings.set("T", t / size).set("S", self.slots).set("R", self.ring);
        let rows = Dim::sym("T").checked_times(size).expect("a small number");
        let mut input = |b: &mut Builder, name: &str, tail: &[usize], format, data: Vec<f32>| {
            let dims = std::iter::once(rows.clone()).chain(tail.iter().map(|n| Dim::Fixed(*n)));
            let shape: Vec<usize> = std::iter::once(t).chain(tail.iter().copied()).collect();
            let tensor = match format {
                Format::I32 => Tensor::i32(shape, data.iter().map(|v| *v as i32).collect()),
                _ => Tensor::f32(shape, data),
            };
            inputs.insert(name.to_owned(), tensor);
            b.declare(DeclKind::Input, name, TensorType::new(dims.collect::<Vec<_>>(), format))
        };
        let q = round_trip(&noises(seed, t * h * d, 2.0), Format::BF16).expect("bf16");
        let q = input(&mut b, "queries", &[h, d], Format::BF16, q);
        // The first and last visible position of a row weigh more, what no row sees is NaN.
        let gain = |slot: usize| {
            let (seq, place) = (slot / self.ring, slot % self.ring);
            let visible = (0..t).filter(|t| self.rows[*t].seq == seq).map(|t| self.window(t));
            let at = |p: usize| p % self.ring == place;
            let edge = |w: &std::ops::Range<usize>| !w.is_empty() && (at(w.start) || at(w.end - 1));
            let windows: Vec<_> = visible.collect();
            if windows.iter().any(edge) {
                Some(4.0)
            } else {
                windows.iter().any(|w| w.clone().any(at)).then_some(1.0)
            }
        };
        let window = entries(seed + 1, self.slots * self.ring, d, Format::KV8, gain);
        state.insert("window", Tensor::f32([self.slots, self.ring, d], window));
        let shape = [Dim::sym("S"), Dim::sym("R"), d.into()];
        let window = b.declare(DeclKind::State, "window", TensorType::new(shape, Format::KV8));
        let mut cache = None;
        let mut draft = None;
        match &self.second {
            Second::None => {}
            Second::Lists(entry_count, lists) => {
                bindings.set("C", *entry_count);
                let gain = |slot: usize| {
                    let (seq, entry) = (slot / entry_count, slot % entry_count);
                    let mut listed = (0..t).filter(|t| self.rows[*t].seq == seq).map(|t| &lists[t]);
                    let last = |l: &Vec<i32>| l.iter().rev().find(|id| **id >= 0) == Some(&(entry as i32));
                    if listed.clone().any(last) {
                        return Some(4.0);
                    }
                    listed.any(|l| l.contains(&(entry as i32))).then_some(1.0)
                };
                let values = entries(seed + 2, self.slots * entry_count, d, Format::KV4, gain);
                state.insert("cache", Tensor::f32([self.slots, *entry_count, d], values));
                let shape = [Dim::sym("S"), Dim::sym("C"), d.into()];
                let entries = b.declare(DeclKind::State, "cache", TensorType::new(shape, Format::KV4));
                let k = lists.first().map_or(8, Vec::len);
                let ids = lists.iter().flatten().map(|id| *id as f32).collect();
                cache = Some((entries, input(&mut b, "selected", &[k], Format::I32, ids)));
            }
            Second::Block(_) => {
                let values = entries(seed + 3, t, d, Format::KV8, |_| Some(1.0));
                draft = Some(input(&mut b, "rows", &[d], Format::KV8, values));
            }
        }
        weights.insert("sink".to_owned(), Arc::new(Tensor::f32([h], noises(seed + 4, h, 2.0))));
        let sink = b.declare(DeclKind::Weight, "sink", TensorType::new([h], Format::F32));
        let column = |f: fn(&Row) -> usize| self.rows.iter().map(|r| f(r) as f32).collect::<Vec<f32>>();
        let seq = input(&mut b, SEQ, &[], Format::I32, column(|r| r.seq));
        let pos = input(&mut b, "pos", &[], Format::I32, column(|r| r.pos));
        let lo = input(&mut b, "lo", &[], Format::I32, column(|r| r.lo));
        let round = Round::Bf16;
        let op = match draft {
            None => {
                let (cache, selected) = cache.unzip();
                Op::Attention { q, window, cache, selected, sink, seq, pos, lo, scale, round }
            }
            Some(rows) => {
                Op::BlockAttention { q, window, rows, sink, seq, pos, lo, block: size, scale, round }
            }
        };
        let mut y = b.emit(op, Format::BF16).expect("well typed");
        if let Some(m) = self.rope {
            let angles: Vec<f32> = (0..t * m).map(|i| noise(seed + 5, i) * 3.0).collect();
            let table =
                angles.chunks(m).flat_map(|a| a.iter().map(|x| x.cos()).chain(a.iter().map(|x| x.sin())));
            let table = input(&mut b, "table", &[2 * m], Format::F32, table.collect());
            y = b.emit(Op::Rope { x: y, table, inverse: true }, Format::BF16).expect("well typed");
        }
        b.output("y", y);
        let module = graph::verify(b.finish()).unwrap_or_else(|e| panic!("{e}"));
        Data { module, bindings, inputs, weights, state, scale }
    }

    /// Keys of row `t` in order.
    fn keys<'d>(&self, data: &'d Data, t: usize) -> Vec<&'d [f32]> {
        let d = self.dim;
        let seq = self.rows[t].seq;
        let part = |tensor: &'d Tensor, row: usize| &tensor.reals().expect("reals")[row * d..(row + 1) * d];
        let window = data.state.get("window").expect("declared");
        let mut keys: Vec<&[f32]> =
            self.window(t).map(|p| part(window, seq * self.ring + p % self.ring)).collect();
        match &self.second {
            Second::None => {}
            Second::Lists(count, lists) => {
                let cache = data.state.get("cache").expect("declared");
                let listed = lists[t].iter().filter(|id| **id >= 0);
                keys.extend(listed.map(|id| part(cache, seq * count + *id as usize)));
            }
            Second::Block(size) => {
                let first = self.first(t);
                keys.extend((first..first + size).map(|row| part(&data.inputs["rows"], row)));
            }
        }
        keys
    }

    /// How far two right results may lie apart: each side rounds every weight to bf16 (half a step of 2⁻⁸), sums in f32
    /// (1000 roundings are more than it has), and rounds the result; the rotation mixes two of them and rounds again.
    fn bounds(&self, data: &Data, t: usize, head: usize) -> Vec<f64> {
        let (h, d) = (self.heads, self.dim);
        let q = &data.inputs["queries"].reals().expect("reals")[(t * h + head) * d..][..d];
        let keys = self.keys(data, t);
        let scores: Vec<f64> = keys
            .iter()
            .map(|k| q.iter().zip(*k).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>())
            .map(|s| s * f64::from(data.scale))
            .collect();
        let sink = f64::from(data.weights["sink"].reals().expect("reals")[head]);
        let top = scores.iter().copied().fold(sink, f64::max);
        let total = scores.iter().map(|s| (s - top).exp()).sum::<f64>() + (sink - top).exp();
        let mut bounds: Vec<f64> = (0..d)
            .map(|c| {
                let terms = scores.iter().zip(&keys).map(|(s, k)| (s - top).exp() * f64::from(k[c].abs()));
                let sum = terms.sum::<f64>() / total;
                sum * (2.0 / 512.0 + 1000.0 * UNIT) + step(Format::BF16, sum)
            })
            .collect();
        if let Some(m) = self.rope {
            let rotated = d - 2 * m;
            for pair in bounds[rotated..].chunks_mut(2) {
                let both = pair[0] + pair[1];
                pair.fill(2.0 * both);
            }
        }
        bounds
    }

    fn schedule(&self, data: &Data) -> Verified<tile::Kernel> {
        let knobs = sm100::Knobs::for_rows(self.tokens());
        let kernel = sm100::schedule(self.family(), &data.module, &knobs).unwrap_or_else(|e| panic!("{e}"));
        tile::verify(kernel).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The kernel's result.
    fn run(&self, data: &Data, seed: u64) -> Vec<f32> {
        let kernel = self.schedule(data);
        let mut params: Vec<Tensor> = data
            .module
            .decls
            .iter()
            .map(|decl| match decl.kind {
                DeclKind::Input => data.inputs[&decl.name].clone(),
                DeclKind::Weight => (*data.weights[&decl.name]).clone(),
                DeclKind::State => data.state.get(&decl.name).expect("declared").clone(),
            })
            .collect();
        let shape = [self.tokens(), self.heads, self.dim];
        params.push(Tensor::f32(shape, vec![f32::NAN; shape.iter().product()]));
        tile::interp::run(&kernel, &data.bindings, &mut params, seed).unwrap_or_else(|e| panic!("{e}"));
        params.pop().and_then(|y| y.reals().map(<[f32]>::to_vec)).expect("reals")
    }

    /// Compares the kernel with the oracle for some seeds of values and interleavings.
    fn check(&self) {
        for seed in [1u32, 20] {
            let data = self.data(seed);
            let mut state = data.state.clone();
            let want = interp::run(&data.module, &data.bindings, &data.inputs, &data.weights, &mut state)
                .unwrap_or_else(|e| panic!("{e}"));
            let want = want["y"].reals().expect("reals").to_vec();
            let got = self.run(&data, u64::from(seed));
            assert_eq!(got, self.run(&data, u64::from(seed) + 100), "the order of roles changes nothing");
            for (i, (got, want)) in got.chunks(self.dim).zip(want.chunks(self.dim)).enumerate() {
                let (t, head) = (i / self.heads, i % self.heads);
                for (c, bound) in self.bounds(&data, t, head).into_iter().enumerate() {
                    let off = f64::from(got[c] - want[c]).abs();
                    assert!(
                        off <= bound,
                        "row {t}, head {head}, channel {c}: {} for {}, off by {off:e}, more than {bound:e}",
                        got[c],
                        want[c]
                    );
                }
            }
        }
    }
}

fn rows(list: &[(usize, usize, usize)]) -> Vec<Row> {
    list.iter().map(|(seq, pos, lo)| Row { seq: *seq, pos: *pos, lo: *lo }).collect()
}

/// Rows that see `counts` positions each, of one sequence each.
fn seeing(counts: &[usize]) -> Vec<Row> {
    counts.iter().enumerate().map(|(seq, n)| Row { seq, pos: 300 + seq, lo: 301 + seq - n }).collect()
}

fn window_only(counts: &[usize]) -> Case {
    Case {
        heads: 4,
        dim: 128,
        slots: counts.len().max(1),
        ring: 136,
        rows: seeing(counts),
        second: Second::None,
        rope: None,
    }
}

#[test]
fn windows_around_the_block_size() {
    window_only(&[1, 2, 63, 64, 65, 127, 128, 129]).check();
}

#[test]
fn windows_at_the_start_of_a_sequence() {
    let case = Case { rows: rows(&[(0, 0, 0), (0, 1, 0), (0, 130, 3)]), ..window_only(&[1]) };
    case.check();
}

#[test]
fn no_row_at_all() {
    let case = window_only(&[]);
    assert_eq!(case.run(&case.data(3), 1), []);
}

#[test]
fn all_rows_of_the_matrix_unit_are_heads() {
    Case { heads: 64, ..window_only(&[129]) }.check();
    Case { heads: 63, ..window_only(&[3]) }.check();
}

#[test]
fn several_pieces_of_the_output_and_their_rotation() {
    for dim in [128, 256, 512] {
        Case { heads: 2, dim, rope: Some(32), ..window_only(&[70]) }.check();
    }
    Case { rope: Some(8), ..window_only(&[5, 128]) }.check();
}

/// A list of `k` with `live` entries, padding before the numbers given in `holes`.
fn list(seed: u32, k: usize, live: usize, entries: usize, holes: &[usize]) -> Vec<i32> {
    let mut ids: Vec<i32> = (0..entries as i32).collect();
    ids.sort_by_key(|id| (noise(seed, *id as usize) * 1e4) as i32);
    ids.truncate(live);
    ids.sort_unstable();
    for hole in holes {
        ids.insert(*hole, -1);
    }
    ids.resize(k, -1);
    ids
}

fn listed(k: usize, entries: usize, lists: Vec<Vec<i32>>) -> Case {
    assert!(lists.iter().all(|l| l.len() == k));
    let counts: Vec<usize> = (0..lists.len()).map(|i| [128, 1, 65][i % 3]).collect();
    Case { second: Second::Lists(entries, lists), ..window_only(&counts) }
}

#[test]
fn lists_with_padding_at_the_end_and_between() {
    let k = 96;
    let lists = vec![
        list(1, k, 96, 200, &[]),
        list(2, k, 63, 200, &[]),
        list(3, k, 64, 200, &[]),
        list(4, k, 65, 200, &[]),
        list(5, k, 0, 200, &[]),
        list(6, k, 1, 200, &[]),
        list(7, k, 40, 200, &[0, 5, 5, 31]),
        list(8, k, 10, 200, &[0; 70]),
    ];
    listed(k, 200, lists).check();
}

#[test]
fn lists_shorter_than_a_block() {
    listed(8, 9, vec![list(1, 8, 8, 9, &[]), list(2, 8, 3, 9, &[1]), list(3, 8, 0, 9, &[])]).check();
}

#[test]
fn a_list_of_the_released_length() {
    let case = listed(512, 600, vec![list(1, 512, 512, 600, &[]), list(2, 512, 300, 600, &[64, 200])]);
    Case { heads: 3, dim: 512, rope: Some(32), ..case }.check();
}

/// Queries 64 KB, two key slots of 64 KB, weights 8 KB, raw slots of 4 × 2176 and of 4 × 1152 bytes, each rounded up to 1 KB;
/// 256 columns of sums and 2 × 32 of scores.
#[test]
fn the_released_shape_fits_the_machine() {
    let case = listed(512, 600, vec![list(1, 512, 512, 600, &[])]);
    let case = Case { heads: 64, dim: 512, rope: Some(32), ..case };
    let kernel = case.schedule(&case.data(1));
    let shared = (64 + 128 + 8) * 1024 + 9 * 1024 + 3 * 5 * 1024;
    assert_eq!(machine::shared_bytes(&kernel), Some(shared));
    assert_eq!(machine::tensor_columns(&kernel), Some(256 + 64));
    assert!(shared + 2048 <= machine::SHARED_BYTES);
    assert_eq!(machine::threads(&kernel), 384);
}

#[test]
fn padding_changes_no_bit() {
    let padded = listed(64, 40, vec![vec![-1; 64]; 3]);
    let bare = Case { second: Second::None, ..padded.clone() };
    let (a, b) = (padded.run(&padded.data(7), 1), bare.run(&bare.data(7), 2));
    assert_eq!(a, b);
}

#[test]
fn rows_do_not_depend_on_their_neighbours() {
    let all =
        listed(64, 90, vec![list(1, 64, 64, 90, &[]), list(2, 64, 20, 90, &[3]), list(3, 64, 0, 90, &[])]);
    let data = all.data(11);
    let together = all.run(&data, 5);
    let width = all.heads * all.dim;
    for (t, want) in together.chunks(width).enumerate() {
        let Second::Lists(entries, lists) = &all.second else { panic!("lists were given") };
        let alone = Case {
            rows: vec![all.rows[t]],
            second: Second::Lists(*entries, vec![lists[t].clone()]),
            ..all.clone()
        };
        let mut part = alone.data(11);
        part.state = data.state.clone();
        let q = data.inputs["queries"].reals().expect("reals")[t * width..(t + 1) * width].to_vec();
        part.inputs.insert("queries".to_owned(), Tensor::f32([1, all.heads, all.dim], q));
        assert_eq!(alone.run(&part, 6), want);
    }
}

#[test]
fn draft_blocks_with_and_without_a_window() {
    let block = |first: usize, lo: usize, seq: usize| (0..5).map(move |i| (seq, first + i, lo));
    let all: Vec<_> = block(0, 0, 0).chain(block(1, 0, 1)).chain(block(200, 72, 2)).collect();
    let case = Case { second: Second::Block(5), slots: 3, rows: rows(&all), ..window_only(&[1]) };
    case.check();
    Case { rope: Some(16), dim: 256, ..case }.check();
}

#[test]
fn a_row_without_keys_is_zero() {
    let case = Case { rows: rows(&[(0, 4, 5)]), ..window_only(&[1]) };
    assert_eq!(case.run(&case.data(2), 1), vec![0.0; case.heads * case.dim]);
}

#[test]
fn what_the_reference_mode_does_not_have_is_refused() {
    let case = window_only(&[3]);
    let refused = |change: &dyn Fn(&mut Case)| {
        let mut case = case.clone();
        change(&mut case);
        let data = case.data(1);
        let found = sm100::schedule(case.family(), &data.module, &sm100::Knobs::for_rows(1));
        found.expect_err("it has no schedule").to_string()
    };
    assert!(refused(&|c| c.heads = 65).ends_with("it has more than 64 heads"));
    assert!(refused(&|c| c.dim = 64).ends_with("its heads are not 128, 256 or 512 wide"));
}
