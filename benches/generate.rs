//! Generating kernels for SM100: every kernel of a model, from its configuration to PTX text.

mod common;

use common::{Medians, criterion, seconds, table};
use criterion::Criterion;
use std::time::{Duration, Instant};
use tessera::compile::{self, Build};
use tessera::generate::{Planned, Request, Target, generate};
use tessera::load::default_model;
use tessera::model::{Config, ConfigOptions, Topology};

const SAMPLES: usize = 15;
/// Threads of the whole, as on the machine that the bar is for.
const THREADS: usize = 2;
/// Most seconds that every kernel of the released model may take.
const BAR: f64 = 2.0;

/// Seconds that the whole takes.
fn model(c: &mut Criterion, name: &str, config: &Config) -> Option<f64> {
    let topology = Topology::derive(config);
    let request = Request { threads: THREADS, ..Request::all(Target::Sm100a) };
    let build = Build { replay: true, draft: true, ..Build::default() };
    let modules = || compile::modules(config, &topology, build).expect("the builder makes valid modules");
    let made = modules();
    let kernels = generate(config, &topology, &request).expect("every kernel has code");
    let bytes: usize = kernels.iter().map(|kernel| kernel.code.text.len()).sum();

    let mut medians = Medians::new(SAMPLES);
    let mut group = c.benchmark_group(format!("generate/{name}"));
    medians.of(&mut group, "graphs", modules);
    medians.of(&mut group, "fuse, schedule, verify", || {
        Planned::of(&made, Target::Sm100a, &request.rows, &[], &[]).expect("it was planned before")
    });
    // Emission is shared by threads, so this is time of the day.
    medians.custom(&mut group, "whole", |iters| {
        let start = Instant::now();
        for _ in 0..iters {
            std::hint::black_box(generate(config, &topology, &request).expect("every kernel has code"));
        }
        start.elapsed()
    });
    group.finish();
    let rows: Vec<Vec<String>> =
        medians.rows().iter().map(|(stage, time)| vec![stage.clone(), seconds(*time)]).collect();
    let title = format!(
        "{name} model, {} kernels at {:?} rows, {bytes} bytes of PTX; medians of {SAMPLES}, {THREADS} threads",
        kernels.len(),
        request.rows
    );
    table(&title, &["stage", "time"], 1, &rows);
    medians.rows().iter().find(|(stage, _)| stage == "whole").map(|(_, time)| *time)
}

fn main() {
    let mut c = criterion(SAMPLES, Duration::from_secs(4));
    let tiny = default_model().expect("the tiny model is in the repository");
    let tiny = Config::from_dir(tiny, &ConfigOptions::default()).expect("its configuration is valid");
    model(&mut c, "tiny", &tiny);
    let released = Config::released().expect("the released configuration is valid");
    let whole = model(&mut c, "released", &released);
    c.final_summary();
    if let Some(time) = whole {
        assert!(time < BAR, "every kernel of the released model takes {time:.2} s, the bar is {BAR} s");
    }
}
