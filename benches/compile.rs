//! Compile time: each stage from a configuration to machine code, for the tiny model and for the released one.

mod common;

use common::{Medians, clock, criterion, median, seconds, table};
use criterion::Criterion;
use std::time::Duration;
use tessera::codegen::Plan;
use tessera::codegen::pipeline::fuse;
use tessera::codegen::target::cpu::Cpu;
use tessera::compile::{self, Build};
use tessera::ir::graph::{parse, print, verify};
use tessera::ir::tile;
use tessera::load::default_model;
use tessera::model::graph::{BuildOptions, step};
use tessera::model::{Config, ConfigOptions, Topology};
use tessera::runtime::Code;
use tessera::runtime::micro::Isa;

const SAMPLES: usize = 15;

/// Every stage of a decode and prefill step's way to code.
fn stages(c: &mut Criterion, model: &str, config: &Config) {
    let topology = Topology::derive(config);
    let build = Build::default();
    let knobs = tessera::kernels::Config::default();
    let graph = || step(config, &topology, BuildOptions { mode: build.mode, ..BuildOptions::default() });
    let module = graph();
    let text = print(&module);
    let verified = verify(module.clone()).expect("the builder makes valid modules");
    let plan = Plan::new(&[(compile::STEP, verified.clone())], &knobs).expect("the model has a plan");
    let cpu = Cpu::host().expect("the code generator knows this processor");
    let artifact = plan.compile(&cpu).expect("every kernel has code");

    let mut medians = Medians::new(SAMPLES);
    let mut group = c.benchmark_group(format!("compile/{model}"));
    medians.of(&mut group, "graph", graph);
    medians.of(&mut group, "print", || print(&module));
    medians.of(&mut group, "parse", || parse(&text));
    medians.on(&mut group, "verify", || module.clone(), verify);
    medians.on(&mut group, "fuse", || verified.clone(), |module| fuse(module, &mut |_, _| {}));
    medians.of(&mut group, "schedule", || {
        let kernels = plan.kernels.iter().map(|k| {
            let kernel = tessera::kernels::schedule(k.family, &k.fragment, &knobs);
            tile::verify(kernel.expect("it had a schedule before")).is_ok()
        });
        kernels.filter(|ok| *ok).count()
    });
    medians.of(&mut group, "emit", || plan.compile(&cpu));
    medians.of(&mut group, "load code", || Code::load(&artifact, Isa::detect()));
    medians.of(&mut group, "whole", || {
        let artifact = compile::artifact(config, &topology, build).expect("it compiled before");
        Code::load(&artifact, Isa::detect())
    });
    group.finish();

    let mut passes: Vec<(&str, Vec<f64>)> = Vec::new();
    for _ in 0..SAMPLES / 3 {
        let (module, mut last) = (verified.clone(), clock::ran());
        let observed = fuse(module, &mut |pass, _| {
            let now = clock::ran();
            let time = (now - last).as_secs_f64();
            match passes.iter_mut().find(|(name, _)| *name == pass) {
                Some((_, times)) => times.push(time),
                None => passes.push((pass, vec![time])),
            }
            last = now;
        });
        assert!(observed.is_ok(), "it was fused before");
    }

    let calls: usize = plan.modules.iter().map(|(_, fused, _)| fused.calls.len()).sum();
    let code: usize = artifact.kernels.iter().map(|k| k.code.len()).sum();
    let mut rows = Vec::new();
    for (name, time) in medians.rows() {
        rows.push(vec![name.clone(), seconds(*time)]);
        if name == "fuse" {
            let time = |times: &mut [f64]| seconds(median(times).unwrap_or(0.0));
            rows.extend(passes.iter_mut().map(|(pass, times)| vec![format!("  {pass}"), time(times)]));
        }
    }
    let title = format!(
        "{model} model, one step: {} graph nodes, {calls} calls of {} kernels, {code} bytes of code; medians of {SAMPLES}",
        module.nodes.len(),
        plan.kernels.len()
    );
    table(&title, &["stage", "time"], 1, &rows);
}

fn main() {
    let mut c = criterion(SAMPLES, Duration::from_millis(600));
    let tiny = default_model().expect("the tiny model is in the repository");
    let tiny = Config::from_dir(tiny, &ConfigOptions::default()).expect("its configuration is valid");
    stages(&mut c, "tiny", &tiny);
    let released = Config::released().expect("the released configuration is valid");
    stages(&mut c, "released", &released);
    c.final_summary();
}
