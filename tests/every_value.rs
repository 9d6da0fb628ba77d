//! Every value of a step, not only its outputs: the compiled model against the oracle, bit for bit, so that a wrong
//! kernel is named. Both follow the canonical order of every reduction, and functions that are rounded once.

mod common;

use common::golden::Golden;
use common::random;
use std::sync::Arc;
use tessera::codegen::Plan;
use tessera::codegen::target::cpu::Cpu;
use tessera::compile::{Build, STEP};
use tessera::ir::Verified;
use tessera::ir::graph::interp::{Data, Tensor};
use tessera::ir::graph::{Effect, Module, Op, Output, verify};
use tessera::model::graph::Mode;
use tessera::model::oracle::{Oracle, Outputs};
use tessera::model::rows::{Capacity, Wanted};
use tessera::runtime::micro::Isa;
use tessera::runtime::{Code, Engine, EngineOptions, Feed, Loaded, OutputValues, Weights};
use tessera::{compile, kernels};

/// The module with every result that can be read back as an output, named by op and number.
fn open(module: &Module) -> Verified<Module> {
    let mut open = module.clone();
    for node in &module.nodes {
        let readable = node.types.iter().all(|ty| ty.format.group.is_none());
        // Scores and sorted rows never leave their kernels.
        let inner =
            matches!(node.op, Op::MoeGroup { .. } | Op::IndexScores { .. } | Op::IndexRestrict { .. });
        if node.op.effect() == Effect::Pure && readable && !inner {
            let named = |value| module.outputs.iter().any(|output| output.value == value);
            for value in node.results().filter(|value| !named(*value)) {
                let name = format!("{}.{}", node.op.mnemonic(), value.index());
                open.outputs.push(Output { name, value });
            }
        }
    }
    verify(open).unwrap()
}

fn differs(name: &str, ours: &tessera::runtime::Output<'_>, oracle: &Tensor) -> Option<String> {
    if ours.shape != oracle.shape {
        return Some(format!("{name}: shape {:?}, the oracle's {:?}", ours.shape, oracle.shape));
    }
    let reals = |a: &[f32], b: &[f32]| {
        // Of zeros and NaN only that they are such is determined.
        let far = |(a, b): (&f32, &f32)| a != b && !(a.is_nan() && b.is_nan());
        let at = a.iter().zip(b).position(far)?;
        let count = a.iter().zip(b).filter(|pair| far(*pair)).count();
        let of = a.len();
        Some(format!("{name} {:?}: {count} of {of} differ, first [{at}] {} {}", ours.shape, a[at], b[at]))
    };
    match (&ours.values, &oracle.data) {
        (OutputValues::F32(a), Data::F32(b)) => reals(a, b),
        (OutputValues::Bf16(a), Data::F32(b)) => {
            let a: Vec<f32> = a.iter().map(|word| f32::from_bits(u32::from(*word) << 16)).collect();
            reals(&a, b)
        }
        (OutputValues::I32(a), Data::I32(b)) => (a != b).then(|| format!("{name}: integers differ")),
        (OutputValues::I64(a), Data::I64(b)) => (a != b).then(|| format!("{name}: integers differ")),
        _ => Some(format!("{name}: the kind differs")),
    }
}

#[test]
fn every_value_is_the_oracles() {
    let golden = Golden::open("random-v41");
    let prompt = golden.list("prompt");
    let folder = random();
    for mode in Mode::ALL {
        let modules = compile::modules(&folder.config, &folder.topology, Build::plain(mode)).unwrap();
        let module = open(&modules[0].1);
        let plan = Plan::new(&[(STEP, module.clone())], &kernels::Config::default()).unwrap();
        let artifact = plan.compile(&Cpu::host().unwrap()).unwrap();
        let code = Code::load(&artifact, Isa::detect()).unwrap();
        let token_map = folder.token_map_weight().unwrap();
        let weights =
            Weights::load(&artifact, folder.checkpoint.clone(), &token_map, &mut |_, _| ()).unwrap();
        let loaded = Arc::new(Loaded { artifact, code, weights });
        let decoded = folder.decoded_weights().unwrap();
        // One row, some, and all at once.
        for rows in [1, 3, 40] {
            let options = EngineOptions {
                threads: 1,
                slots: 1,
                context: prompt.len(),
                rows,
                logit_rows: rows,
                draft: false,
            };
            let mut engine = Engine::new(loaded.clone(), folder.config.clone(), options).unwrap();
            let capacity = Capacity { slots: 1, tokens: prompt.len(), rows };
            let mut oracle = Oracle::new(&folder.config, &decoded, &module, capacity).unwrap();
            for (at, piece) in prompt.chunks(rows).enumerate() {
                engine.feed(&[Feed { slot: 0, tokens: piece, logits: Wanted::All }]).unwrap();
                let outputs = oracle.feed(&module, piece, Wanted::All, Outputs::new()).unwrap();
                // In the module's order, so that the first is the cause.
                let found: Vec<String> = module
                    .outputs
                    .iter()
                    .filter_map(|o| differs(&o.name, &engine.output(&o.name).unwrap(), &outputs[&o.name]))
                    .collect();
                let first: Vec<&String> = found.iter().take(10).collect();
                assert!(found.is_empty(), "{} {rows} rows a step, step {at}: {first:#?}", mode.name());
            }
        }
    }
}
