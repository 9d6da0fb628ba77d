//! What the compiler emits depends on the module, the target and nothing else, and runs the same with any feature set.

mod common;

use common::random;
use std::sync::Arc;
use tessera::Session;
use tessera::codegen::target::cpu::{Cpu, CpuOptions};
use tessera::compile::{self, Build};
use tessera::ir::artifact::Artifact;
use tessera::model::graph::Mode;
use tessera::model::rows::Wanted;
use tessera::runtime::micro::Isa;
use tessera::runtime::{Code, Feed, Loaded, Weights};
use tessera::session::Size;

const EVERYTHING: Build = Build { mode: Mode::Ref, trace: true, teacher: false, replay: true, draft: true };

fn artifact(features: Option<Vec<String>>) -> Artifact {
    let folder = random();
    let plan = compile::plan(&folder.config, &folder.topology, EVERYTHING).unwrap();
    plan.compile(&Cpu::with(&CpuOptions { features, verify: false }).unwrap()).unwrap()
}

#[test]
fn compiling_again_and_on_another_thread_gives_the_same_bytes() {
    let other = std::thread::spawn(|| artifact(None));
    let here = artifact(None);
    let there = other.join().unwrap();
    assert_eq!(here.kernels.len(), there.kernels.len());
    for (a, b) in here.kernels.iter().zip(&there.kernels) {
        assert!(a == b, "kernel {} differs", a.name);
    }
    assert!(here == there, "programs differ");
}

/// Bits of the logits of a prompt and of one draft.
fn bits(artifact: Artifact, isa: Isa) -> Vec<u32> {
    let folder = random();
    let code = Code::load(&artifact, isa).unwrap();
    let map = folder.token_map_weight().unwrap();
    let weights = Weights::load(&artifact, folder.checkpoint.clone(), &map, &mut |_, _| ()).unwrap();
    let loaded = Arc::new(Loaded { artifact, code, weights });
    let zero = std::time::Duration::ZERO;
    let session = Session { folder, build: EVERYTHING, loaded, compile_time: zero, load_time: zero };
    let size = Size { threads: 1, slots: 1, context: 48, rows: 40, all_logits: true };
    let mut engine = session.engine(size).unwrap();
    let tokens: Vec<u32> = (0..37).map(|i| (i * 31 + 5) % 240).collect();
    engine.feed(&[Feed { slot: 0, tokens: &tokens, logits: Wanted::All }]).unwrap();
    engine.logits().unwrap().iter().map(|v| v.to_bits()).collect()
}

#[test]
fn fewer_processor_features_change_no_bit() {
    let expected = bits(artifact(None), Isa::detect());
    assert!(expected.iter().any(|bits| *bits != 0));
    let plain = artifact(Some(Vec::new()));
    assert!(plain.features.is_empty());
    assert!(
        bits(plain.clone(), Isa::detect()) == expected,
        "generated code without extensions gives other bits"
    );
    for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
        assert!(bits(plain.clone(), isa) == expected, "micro-kernels for {isa} give other bits");
    }
}
