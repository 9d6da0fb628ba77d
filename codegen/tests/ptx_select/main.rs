//! Selections on SM100 from fragment to PTX: snapshots of Tile IR and text at a released and a tiny shape, and what the
//! assembler says of both.

#[path = "../ptx/assembler.rs"]
mod assembler;

use tessera_codegen::target::ptx::{self, PtxKernel};
use tessera_ir::graph::{self, Builder, DeclKind, Op, Round, Value};
use tessera_ir::{Dim, Format, TensorType, Verified, tile};
use tessera_kernels::{Family, sm100};

/// An indexer's numbers.
struct Indexer {
    name: &'static str,
    heads: usize,
    dim: usize,
    /// Selected entries.
    k: usize,
    /// Candidate blocks.
    keep: usize,
    /// Entries of a block.
    block: usize,
    /// Positions of an entry.
    ratio: usize,
}

const RELEASED: Indexer =
    Indexer { name: "released", heads: 32, dim: 128, k: 512, keep: 2048, block: 8, ratio: 1 };
const TINY: Indexer = Indexer { name: "tiny", heads: 4, dim: 32, k: 16, keep: 8, block: 4, ratio: 2 };

fn input(b: &mut Builder, name: &str, shape: &[Dim], format: Format) -> Value {
    b.declare(DeclKind::Input, name, TensorType::new(shape.to_vec(), format))
}

fn scores_of(b: &mut Builder) -> Value {
    input(b, "x0", &[Dim::sym("T"), Dim::sym("C")], Format::F32)
}

/// The kernel of a fragment whose only result is `y`.
fn schedule(family: Family, mut b: Builder, y: Value, rows: usize) -> Verified<tile::Kernel> {
    b.output("y0", y);
    let module = graph::verify(b.finish()).unwrap_or_else(|e| panic!("{e}"));
    let kernel = sm100::schedule(family, &module, &sm100::Knobs::for_rows(rows));
    tile::verify(kernel.unwrap_or_else(|e| panic!("{e}"))).unwrap_or_else(|e| panic!("{e}"))
}

fn topk(i: &Indexer, rows: usize) -> Verified<tile::Kernel> {
    let mut b = Builder::new(&format!("topk_{}", i.name));
    let scores = scores_of(&mut b);
    let y = b.emit(Op::TopK { scores, k: i.k }, Format::I32).expect("well typed");
    schedule(Family::TopK, b, y, rows)
}

fn topk_listed(i: &Indexer, rows: usize) -> Verified<tile::Kernel> {
    let mut b = Builder::new(&format!("topk_listed_{}", i.name));
    let scores = scores_of(&mut b);
    let blocks = input(&mut b, "x1", &[Dim::sym("T"), i.keep.into()], Format::I32);
    let op = Op::IndexRestrict { scores, blocks, block: i.block };
    let scores = b.emit(op, Format::F32).expect("well typed");
    let y = b.emit(Op::TopK { scores, k: i.k }, Format::I32).expect("well typed");
    schedule(Family::TopK, b, y, rows)
}

fn index_blocks(i: &Indexer, rows: usize) -> Verified<tile::Kernel> {
    let mut b = Builder::new(&format!("index_blocks_{}", i.name));
    let scores = scores_of(&mut b);
    let pos = input(&mut b, "x1", &[Dim::sym("T")], Format::I32);
    let op = Op::IndexBlocks { scores, pos, ratio: i.ratio, block: i.block, keep: i.keep };
    let y = b.emit(op, Format::I32).expect("well typed");
    schedule(Family::IndexBlocks, b, y, rows)
}

fn index_scores(i: &Indexer, rows: usize) -> Verified<tile::Kernel> {
    let mut b = Builder::new(&format!("index_scores_{}", i.name));
    let (t, c) = (Dim::sym("T"), Dim::sym("C"));
    let q = input(&mut b, "x0", &[t.clone(), i.heads.into(), i.dim.into()], Format::INDEX4);
    let weights = input(&mut b, "x1", &[t.clone(), i.heads.into()], Format::BF16);
    let shape = [Dim::sym("S"), c.clone(), i.dim.into()];
    let keys = b.declare(DeclKind::State, "s0", TensorType::new(shape, Format::INDEX4));
    let seq = input(&mut b, "x2", std::slice::from_ref(&t), Format::I32);
    let pos = input(&mut b, "x3", std::slice::from_ref(&t), Format::I32);
    let op = Op::IndexScores { q, weights, keys, seq, pos, ratio: i.ratio, round: Round::Bf16 };
    let y = b.push(op, vec![TensorType::new([t, c], Format::F32)])[0];
    schedule(Family::IndexScores, b, y, rows)
}

/// The sum of every second of twice as many rows and others, and where its largest element lies.
fn largest(name: &str, cols: usize, rows: usize) -> Verified<tile::Kernel> {
    let mut b = Builder::new(&format!("largest_{name}"));
    let twice = Dim::sym("Q").checked_times(2).expect("a small number");
    let x = input(&mut b, "x0", &[twice, cols.into()], Format::F32);
    let y = input(&mut b, "x1", &[Dim::sym("Q"), cols.into()], Format::F32);
    let x = b.emit(Op::EveryRow { x, step: 2, offset: 1 }, Format::F32).expect("well typed");
    let sum = b.emit(Op::Add { a: x, b: y }, Format::F32).expect("well typed");
    let best = b.emit(Op::Argmax { x: sum }, Format::I32).expect("well typed");
    b.output("y1", sum);
    schedule(Family::Rows, b, best, rows)
}

/// Long rows of three parts dealt in turn.
fn dealt(name: &str, cols: usize, rows: usize) -> Verified<tile::Kernel> {
    let mut b = Builder::new(&format!("dealt_{name}"));
    let part = |b: &mut Builder, i| input(b, &format!("x{i}"), &[Dim::sym("Q"), cols.into()], Format::F32);
    let parts = (0..3).map(|i| part(&mut b, i)).collect();
    let y = b.emit(Op::InterleaveRows { parts }, Format::F32).expect("well typed");
    schedule(Family::Rows, b, y, rows)
}

fn moe_group(name: &str, choices: usize, count: usize) -> Verified<tile::Kernel> {
    let mut b = Builder::new(&format!("moe_group_{name}"));
    let experts = input(&mut b, "x0", &[Dim::sym("T"), choices.into()], Format::I32);
    let all = Dim::sym("T").checked_times(choices).expect("a small number");
    let types = [Dim::Fixed(count + 1), all.clone(), all].map(|d| TensorType::new([d], Format::I32));
    let lists = b.push(Op::MoeGroup { experts, count }, types.to_vec());
    b.output("y1", lists[1]);
    b.output("y2", lists[2]);
    schedule(Family::MoeGroup, b, lists[0], 64)
}

fn emit(kernel: &Verified<tile::Kernel>) -> PtxKernel {
    ptx::emit(kernel, "").unwrap_or_else(|e| panic!("{e}"))
}

/// Assembles kernels; each must give no message and use no stack.
fn assemble(kernels: &[PtxKernel]) {
    let Some(ptxas) = assembler::installed() else { return };
    for kernel in kernels {
        let said = assembler::messages(&ptxas, &kernel.text, "sm_100a");
        assert!(said.is_empty(), "{}: {said:?}", kernel.name);
        let done = ptxas.assemble(&kernel.text, "sm_100a").unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        for f in &done.functions {
            let local = (f.stack, f.spill_stores, f.spill_loads);
            assert_eq!(local, (0, 0, 0), "{}: {f:?}", kernel.name);
        }
    }
}

/// Keeps texts of kernels under snapshot and assembles them; `names` are the kernels' names, which the snapshots bear.
fn check(names: &[&str], kernels: &[Verified<tile::Kernel>]) {
    assert_eq!(kernels.iter().map(|k| k.name.as_str()).collect::<Vec<_>>(), names);
    let mut emitted = Vec::new();
    for kernel in kernels {
        let ptx = emit(kernel);
        insta::assert_snapshot!(format!("{}.tile", kernel.name), tile::print(kernel));
        insta::assert_snapshot!(format!("{}.ptx", kernel.name), ptx.text);
        emitted.push(ptx);
    }
    assemble(&emitted);
}

#[test]
fn selections() {
    let names = ["topk_released", "topk_tiny", "topk_listed_released", "topk_listed_tiny"];
    check(&names, &[topk(&RELEASED, 6), topk(&TINY, 6), topk_listed(&RELEASED, 6), topk_listed(&TINY, 6)]);
}

#[test]
fn scores() {
    check(
        &["index_scores_released", "index_scores_tiny"],
        &[index_scores(&RELEASED, 6), index_scores(&TINY, 6)],
    );
}

#[test]
fn candidate_blocks() {
    check(
        &["index_blocks_released", "index_blocks_tiny"],
        &[index_blocks(&RELEASED, 6), index_blocks(&TINY, 6)],
    );
}

#[test]
fn choices_by_expert() {
    check(
        &["moe_group_released", "moe_group_tiny"],
        &[moe_group("released", 6, 384), moe_group("tiny", 3, 8)],
    );
}

#[test]
fn rows_as_long_as_the_vocabulary() {
    check(
        &["largest_released", "dealt_released"],
        &[largest("released", 129_280, 6), dealt("released", 129_280, 6)],
    );
    assemble(&[emit(&largest("released_r4096", 129_280, 4096))]);
}

#[test]
fn rows_enough_for_two_on_a_multiprocessor() {
    let kernels = [topk(&RELEASED, 4096), topk_listed(&RELEASED, 4096), index_blocks(&RELEASED, 4096)];
    let emitted: Vec<PtxKernel> = kernels.iter().map(emit).collect();
    for kernel in &emitted[..2] {
        assert_eq!(kernel.block[0], 512);
        assert!(2 * (kernel.smem + 1024) <= 228 << 10, "{} bytes", kernel.smem);
    }
    assemble(&emitted);
}
