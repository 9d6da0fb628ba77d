//! Index scores, candidate blocks, top-k of a row and of listed blocks, the sort of experts' choices.

use crate::case::{Case, bits, noise, sym};
use tessera_ir::graph::interp::{Tensor, round_trip};
use tessera_ir::graph::{DeclKind, Op, Round};
use tessera_ir::{Dim, Format, TensorType};
use tessera_kernels::Family;

/// Rows of scores with everything that is hard to select from.
fn hard(rows: usize, n: usize) -> Vec<f32> {
    let special = [f32::NEG_INFINITY, f32::NAN, 0.0, -0.0, 1.0, 1.0, f32::INFINITY, -1.0];
    let value = |t: usize, i: usize| match t % 5 {
        0 => noise(7, t * n + i),
        1 => special[(noise(8, t * n + i).abs() * 8.0) as usize % 8],
        2 => 0.5,
        3 => f32::NEG_INFINITY,
        _ if i.is_multiple_of(9) => noise(9, i),
        _ => f32::NEG_INFINITY,
    };
    (0..rows * n).map(|at| value(at / n, at % n)).collect()
}

fn topk(rows: usize, n: usize, k: usize) {
    let mut case = Case::new(&[("T", rows), ("C", n)]);
    let scores = case.reals("scores", &[sym("T"), sym("C")], &hard(rows, n));
    let y = case.b.emit(Op::TopK { scores, k }, Format::I32).expect("well typed");
    case.b.output("y", y);
    case.check(Family::TopK);
}

#[test]
fn topk_of_any_row() {
    topk(5, 100, 8);
    topk(5, 1000, 16);
    topk(5, 7, 16);
    topk(1, 1, 1);
    topk(0, 40, 4);
    topk(5, 0, 4);
}

fn listed(n: usize, block: usize, k: usize, lists: &[&[i32]]) {
    let (rows, keep) = (lists.len(), lists.first().map_or(3, |l| l.len()));
    let mut case = Case::new(&[("T", rows), ("C", n)]);
    let scores = case.reals("scores", &[sym("T"), sym("C")], &hard(rows, n));
    let ids: Vec<i32> = lists.iter().flat_map(|l| l.iter().copied()).collect();
    let blocks = case.ints("blocks", &[sym("T"), keep.into()], &ids);
    let scores = case.b.emit(Op::IndexRestrict { scores, blocks, block }, Format::F32).expect("well typed");
    let y = case.b.emit(Op::TopK { scores, k }, Format::I32).expect("well typed");
    case.b.output("y", y);
    case.check(Family::TopK);
}

#[test]
fn topk_of_listed_blocks() {
    let lists: [&[i32]; 5] =
        [&[0, 3, 11, -1], &[2, 12, -1, -1], &[-1, -1, -1, -1], &[0, 1, 2, 3], &[5, 6, 9, 12]];
    listed(100, 8, 6, &lists);
    listed(100, 8, 64, &lists);
    listed(13, 1, 3, &lists);
    listed(100, 8, 6, &[]);
}

fn blocks(n: usize, ratio: usize, block: usize, keep: usize, pos: &[i32]) {
    let rows = pos.len();
    let mut case = Case::new(&[("T", rows), ("C", n)]);
    let scores = case.reals("scores", &[sym("T"), sym("C")], &hard(rows, n));
    let pos = case.ints("pos", &[sym("T")], pos);
    let op = Op::IndexBlocks { scores, pos, ratio, block, keep };
    let y = case.b.emit(op, Format::I32).expect("well typed");
    case.b.output("y", y);
    case.check(Family::IndexBlocks);
}

#[test]
fn blocks_with_the_newest_among_them() {
    blocks(100, 1, 8, 4, &[99, 70, 8, 7, 0]);
    blocks(100, 2, 8, 4, &[0, 1, 2, 17, 199]);
    blocks(100, 2, 8, 40, &[199, 198, 30, 31, 32]);
    blocks(9, 1, 8, 1, &[8, 7, 8, 8, 8]);
    blocks(9, 1, 8, 1, &[]);
}

#[test]
fn the_newest_block_is_chosen_even_among_infinite_ones() {
    let mut case = Case::new(&[("T", 1), ("C", 64)]);
    let scores = case.reals("scores", &[sym("T"), sym("C")], &[f32::INFINITY; 64]);
    let pos = case.ints("pos", &[sym("T")], &[63]);
    let op = Op::IndexBlocks { scores, pos, ratio: 1, block: 8, keep: 2 };
    let y = case.b.emit(op, Format::I32).expect("well typed");
    case.b.output("y", y);
    let (got, want) = case.run(Family::IndexBlocks);
    assert_eq!(want[0].ints(), Some([0, 7].as_slice()));
    assert_eq!(bits(&got[0]), bits(&want[0]));
}

/// Index scores of rows (sequence, position) over `n` entries. Keys that no row sees are NaN.
fn scores(heads: usize, dim: usize, n: usize, ratio: usize, rows: &[(i32, i32)], round: Round) {
    let (slots, t) = (2, rows.len());
    let mut case = Case::new(&[("T", t), ("S", slots), ("C", n)]);
    let codes = |seed: u32, len: usize| {
        let values: Vec<f32> = (0..len).map(|i| noise(seed, i) * 2.0).collect();
        round_trip(&values, Format::INDEX4).expect("whole groups")
    };
    let q_data = codes(3, t * heads * dim);
    let ty = TensorType::new([sym("T"), heads.into(), dim.into()], Format::INDEX4);
    let q = case.declare(DeclKind::Input, "q", ty, |shape| Tensor::f32(shape, q_data.clone()));
    let w_data: Vec<f32> = (0..t * heads).map(|i| (noise(4, i) * 128.0).round() / 128.0).collect();
    let ty = TensorType::new([sym("T"), heads.into()], Format::BF16);
    let weights = case.declare(DeclKind::Input, "w", ty, |shape| Tensor::f32(shape, w_data.clone()));
    let mut k_data = codes(5, slots * n * dim);
    let seen = |slot: usize| {
        let (s, entry) = (slot / n.max(1), slot % n.max(1));
        rows.iter().any(|(seq, pos)| *seq as usize == s && entry < (*pos as usize + 1) / ratio)
    };
    for slot in (0..slots * n).filter(|slot| !seen(*slot)) {
        k_data[slot * dim..(slot + 1) * dim].fill(f32::NAN);
    }
    let ty = TensorType::new([sym("S"), sym("C"), dim.into()], Format::INDEX4);
    let keys = case.declare(DeclKind::State, "keys", ty, |shape| Tensor::f32(shape, k_data.clone()));
    let (seq_data, pos_data): (Vec<i32>, Vec<i32>) = rows.iter().copied().unzip();
    let seq = case.ints("seq", &[sym("T")], &seq_data);
    let pos = case.ints("pos", &[sym("T")], &pos_data);
    let op = Op::IndexScores { q, weights, keys, seq, pos, ratio, round };
    let y = case.b.push(op, vec![TensorType::new([sym("T"), sym("C")], Format::F32)]);
    case.b.output("y", y[0]);
    // Products of four-bit codes with these scales are added exactly in f32, in any order; heads ascend on both sides.
    case.check(Family::IndexScores);
}

#[test]
fn scores_of_entries_that_a_row_sees() {
    let rows = [(0, 255), (1, 127), (0, 128), (1, 0), (0, 300)];
    scores(32, 128, 301, 1, &rows, Round::Bf16);
    scores(4, 32, 130, 2, &[(1, 0), (0, 1), (1, 259), (0, 255), (0, 257)], Round::Bf16);
    scores(4, 32, 129, 1, &[(0, 128), (0, 127)], Round::None);
    scores(1, 32, 5, 1, &[(0, 4)], Round::Bf16);
    scores(4, 32, 12, 1, &[], Round::Bf16);
    scores(4, 32, 0, 2, &[(0, 0), (1, 0)], Round::Bf16);
}

fn group(count: usize, choices: usize, experts: &[i32]) {
    let rows = experts.len() / choices;
    let mut case = Case::new(&[("T", rows)]);
    let list = case.ints("experts", &[sym("T"), choices.into()], experts);
    let all = sym("T").checked_times(choices).expect("a small number");
    let types = [Dim::Fixed(count + 1), all.clone(), all].map(|d| TensorType::new([d], Format::I32));
    let lists = case.b.push(Op::MoeGroup { experts: list, count }, types.to_vec());
    for (i, v) in lists.into_iter().enumerate() {
        case.b.output(format!("y{i}"), v);
    }
    case.check(Family::MoeGroup);
}

#[test]
fn choices_sorted_by_expert() {
    group(8, 2, &[1, 7, 7, 1, 0, 3, 1, 2]);
    group(8, 3, &[5; 30]);
    group(8, 2, &[]);
    group(1, 1, &[0, 0, 0]);
    let many: Vec<i32> = (0..6 * 70).map(|i| (noise(1, i).abs() * 384.0) as i32 % 384).collect();
    group(384, 6, &many);
}
