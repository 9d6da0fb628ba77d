//! The indexer on SM100: its parts are kernels of their own, restricted scores never reach memory.

use tessera_codegen::pipeline::{fuse_for, pass_names_for};
use tessera_ir::graph::{self, Builder, DeclKind, Op, Round, Value};
use tessera_ir::tile::Target;
use tessera_ir::{Dim, Format, TensorType};
use tessera_kernels::Family;

fn declare(b: &mut Builder, kind: DeclKind, name: &str, shape: &[Dim], format: Format) -> Value {
    b.declare(kind, name, TensorType::new(shape.to_vec(), format))
}

/// An indexer that makes candidates, and one that selects from them; `twice` reads the restricted scores twice.
fn families(twice: bool) -> Vec<(Family, Vec<&'static str>)> {
    let mut b = Builder::new("indexers");
    let (t, s, c) = (Dim::sym("T"), Dim::sym("S"), Dim::sym("C"));
    let q = declare(&mut b, DeclKind::Input, "q", &[t.clone(), 32.into(), 128.into()], Format::INDEX4);
    let weights = declare(&mut b, DeclKind::Input, "w", &[t.clone(), 32.into()], Format::BF16);
    let keys = declare(&mut b, DeclKind::State, "keys", &[s, c.clone(), 128.into()], Format::INDEX4);
    let seq = declare(&mut b, DeclKind::Input, "seq", std::slice::from_ref(&t), Format::I32);
    let pos = declare(&mut b, DeclKind::Input, "pos", std::slice::from_ref(&t), Format::I32);
    let op = Op::IndexScores { q, weights, keys, seq, pos, ratio: 1, round: Round::Bf16 };
    let scores = b.push(op, vec![TensorType::new([t, c], Format::F32)])[0];
    let op = Op::IndexBlocks { scores, pos, ratio: 1, block: 8, keep: 64 };
    let blocks = b.emit(op, Format::I32).expect("well typed");
    let all = b.emit(Op::TopK { scores, k: 16 }, Format::I32).expect("well typed");
    let op = Op::IndexRestrict { scores, blocks, block: 8 };
    let restricted = b.emit(op, Format::F32).expect("well typed");
    let some = b.emit(Op::TopK { scores: restricted, k: 16 }, Format::I32).expect("well typed");
    b.output("all", all);
    b.output("some", some);
    if twice {
        let few = b.emit(Op::TopK { scores: restricted, k: 4 }, Format::I32).expect("well typed");
        b.output("few", few);
    }
    let module = graph::verify(b.finish()).unwrap_or_else(|e| panic!("{e}"));
    let fused = fuse_for(Target::Sm100, module, &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"));
    let ops = |f: &graph::Module| f.nodes.iter().map(|n| n.op.mnemonic()).collect();
    fused.fragments.iter().map(|f| (f.family, ops(&f.module))).collect()
}

#[test]
fn each_part_is_a_kernel_and_restricting_joins_its_selection() {
    let want = vec![
        (Family::IndexScores, vec!["index.scores"]),
        (Family::IndexBlocks, vec!["index.blocks"]),
        (Family::TopK, vec!["topk"]),
        (Family::TopK, vec!["index.restrict", "topk"]),
    ];
    assert_eq!(families(false), want);
}

#[test]
fn restricted_scores_with_two_readers_are_no_part_of_a_selection() {
    let found = families(true);
    assert!(found.contains(&(Family::TopK, vec!["index.restrict"])), "{found:?}");
}

#[test]
fn passes_are_listed_by_machine() {
    let names = pass_names_for(Target::Sm100);
    assert!(names.contains(&"split-index") && !names.contains(&"fuse-index-select"), "{names:?}");
}
