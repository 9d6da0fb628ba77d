//! A whole model cut into kernels: what the module gives, its fragments give on the oracle, their schedules on the Tile IR
//! interpreter, and the compiled code, bit for bit.

use crate::data::Arg;
use crate::{CPU, exact, loader};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tessera_codegen::Plan;
use tessera_codegen::pipeline::Fused;
use tessera_ir::graph::interp::{self, State, Tensor, Weights};
use tessera_ir::graph::{Decl, DeclKind, Value, verify};
use tessera_ir::tile::{self, Access};
use tessera_ir::{Bindings, Verified};
use tessera_model::graph::{BuildOptions, Mode, draft, step};
use tessera_model::rows::{Capacity, Chunk, DraftRows, StepRows, Wanted};
use tessera_model::weights::DecodedWeights;
use tessera_model::{Checkpoint, Config, ConfigOptions, Topology, engram::TokenMap};

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/random-v41");

struct Renamed<'a> {
    inner: &'a dyn Weights,
    names: BTreeMap<String, Decl>,
}

impl Weights for Renamed<'_> {
    fn weight(&self, decl: &Decl) -> Result<Arc<Tensor>, interp::Error> {
        self.inner.weight(&self.names[&decl.name])
    }
}

/// Runs a kernel on `tensors` compiled and interpreted; gives the interpreter's results.
fn run(kernel: &Verified<tile::Kernel>, bindings: &Bindings, tensors: &[Tensor]) -> Vec<Tensor> {
    let mut want = tensors.to_vec();
    for (t, p) in want.iter_mut().zip(&kernel.params) {
        t.shape = p.ty.shape.iter().map(|d| d.eval(bindings).expect("bound")).collect();
    }
    let mut planes: Vec<_> = kernel
        .params
        .iter()
        .zip(&want)
        .map(|(p, t)| match p.access {
            Access::Write => Arg::output(&p.ty, bindings).planes,
            Access::Read | Access::Update => exact::arg(&p.ty, bindings, t).planes,
        })
        .collect();
    tile::interp::run(kernel, bindings, &mut want, 3).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let compiled = CPU.compile("test", kernel).unwrap_or_else(|e| panic!("{e}"));
    let tiles = compiled.tiles(bindings).expect("tiles");
    // In pieces of three, the last ones first.
    for first in (0..tiles).step_by(3).rev() {
        loader::run(&compiled, &mut planes, bindings, first..tiles.min(first + 3));
    }
    for ((p, planes), want) in kernel.params.iter().zip(planes).zip(&want) {
        if p.access == Access::Read {
            continue;
        }
        let got = Arg { tensor: want.clone(), planes }.decoded(&p.ty);
        let what = format!("{}, parameter {}", kernel.name, p.name);
        crate::compare(&what, &got, &want.data, crate::EXACT);
    }
    want
}

fn tensors(inputs: &[(&'static str, &[i32])]) -> BTreeMap<String, Tensor> {
    inputs.iter().map(|(n, v)| ((*n).to_owned(), Tensor::i32([v.len()], v.to_vec()))).collect()
}

fn same(what: &str, got: &Tensor, want: &Tensor) {
    crate::compare(what, &got.data, &want.data, crate::EXACT);
}

/// Runs the calls of a fused module in order on the oracle, and each one's kernel on the same operands. Gives the outputs.
fn walk(
    plan: &Plan,
    module: usize,
    bindings: &Bindings,
    inputs: &[(&'static str, &[i32])],
    weights: &dyn Weights,
    state: &mut State,
    seen: &mut BTreeSet<String>,
) -> BTreeMap<String, Tensor> {
    let (_, fused, of): &(String, Fused, Vec<usize>) = &plan.modules[module];
    let outer_roots = fused.module.states();
    let mut values: BTreeMap<Value, Tensor> = BTreeMap::new();
    for (i, d) in fused.module.decls.iter().enumerate() {
        if let Some((_, v)) = inputs.iter().find(|(n, _)| *n == d.name) {
            values.insert(Value(i as u32), Tensor::i32([v.len()], v.to_vec()));
        }
    }
    let name_of = |v: &Value| fused.module.decls[outer_roots[v].index()].name.clone();
    for call in &fused.calls {
        let fragment = &fused.fragments[call.fragment].module;
        let (mut given, mut inner, mut names) = (BTreeMap::new(), State::default(), BTreeMap::new());
        for (d, outer) in fragment.decls.iter().zip(&call.args) {
            match d.kind {
                DeclKind::Input => drop(given.insert(d.name.clone(), values[outer].clone())),
                DeclKind::Weight => {
                    names.insert(d.name.clone(), fused.module.decls[outer.index()].clone());
                }
                DeclKind::State => {
                    inner.insert(d.name.clone(), state.get(&name_of(outer)).expect("a state").clone());
                }
            }
        }
        let weights = Renamed { inner: weights, names };
        let mut params: Vec<Tensor> = fragment
            .decls
            .iter()
            .map(|d| match d.kind {
                DeclKind::Input => given[&d.name].clone(),
                DeclKind::Weight => (*weights.weight(d).expect("a weight")).clone(),
                DeclKind::State => inner.get(&d.name).expect("a state").clone(),
            })
            .collect();
        let out = interp::run(fragment, bindings, &given, &weights, &mut inner).expect("the oracle runs");
        let inner_roots = fragment.states();
        let plain: Vec<_> = fragment.outputs.iter().filter(|o| !inner_roots.contains_key(&o.value)).collect();
        params.extend(plain.iter().map(|o| out[&o.name].clone()));
        let kernel = &plan.kernels[of[call.fragment]].kernel;
        let results = run(kernel, bindings, &params);
        let (operands, outputs) = results.split_at(fragment.decls.len());
        for (o, result) in plain.iter().zip(outputs) {
            same(&format!("{}, output {}", kernel.name, o.name), result, &out[&o.name]);
        }
        for (d, result) in fragment.decls.iter().zip(operands) {
            if let Some(after) = inner.get(&d.name) {
                same(&format!("{}, state {}", kernel.name, d.name), result, after);
            }
        }
        seen.insert(kernel.name.clone());
        for (outer, o) in call.results.iter().zip(&fragment.outputs) {
            if !outer_roots.contains_key(outer) {
                values.insert(*outer, out[&o.name].clone());
            }
        }
        for (d, outer) in fragment.decls.iter().zip(&call.args) {
            if d.kind == DeclKind::State {
                state.insert(name_of(outer), inner.get(&d.name).expect("a state").clone());
            }
        }
    }
    fused.module.outputs.iter().map(|o| (o.name.clone(), values[&o.value].clone())).collect()
}

fn every_kernel(mode: Mode, trace: bool, knobs: tessera_kernels::Config) {
    let config = Config::from_dir(DIR, &ConfigOptions::default()).expect("config");
    let topology = Topology::derive(&config);
    let checkpoint = Checkpoint::open(DIR).expect("checkpoint");
    let map = TokenMap::of_model(DIR, &config, None).expect("token map");
    let weights = DecodedWeights::new(&config, &checkpoint, &map).expect("weights");
    let options = BuildOptions { mode, trace, teacher: false, replay: false };
    let module = verify(step(&config, &topology, options)).expect("a valid module");
    let drafts = verify(draft(&config, &topology, mode)).expect("a valid module");
    let plan = Plan::new(&[("step", module.clone()), ("draft", drafts.clone())], &knobs).expect("a plan");
    let mut bindings = Bindings::new();
    Capacity { slots: 2, tokens: 64, rows: 16 }.bind(&config, &mut bindings);
    let mut state = State::zeros(&module, &bindings).expect("states");
    let mut whole = state.clone();
    let mut start = [0usize; 2];
    let mut seen = BTreeSet::new();
    let mut rng = crate::data::Rng::new(11);
    for lengths in [[11, 3], [1, 5]] {
        let mut rows = StepRows::default();
        for slot in 0..2 {
            let tokens: Vec<u32> =
                (0..lengths[slot]).map(|_| rng.below(config.text.vocab_size) as u32).collect();
            let chunk = Chunk { slot, start: start[slot], tokens: &tokens, floor: 0, logits: Wanted::All };
            rows.push(config.text.sliding_window, &chunk);
            start[slot] += tokens.len();
        }
        rows.bind(&mut bindings);
        let got = walk(&plan, 0, &bindings, &rows.inputs(), &weights, &mut state, &mut seen);
        let inputs = tensors(&rows.inputs());
        let want = interp::run(&module, &bindings, &inputs, &weights, &mut whole).expect("the oracle runs");
        assert!(want == got && whole == state, "the fused step differs from the whole");
        let mut block = DraftRows::default();
        for (slot, length) in start.iter().enumerate() {
            block.push(&config, slot, *length, 5, 0);
        }
        block.bind(&config, &mut bindings);
        let got = walk(&plan, 1, &bindings, &block.inputs(), &weights, &mut state, &mut seen);
        let inputs = tensors(&block.inputs());
        let want = interp::run(&drafts, &bindings, &inputs, &weights, &mut whole).expect("the oracle runs");
        assert!(want == got, "the fused draft differs from the whole");
    }
    assert_eq!(seen.len(), plan.kernels.len(), "some kernel never ran");
}

#[test]
fn kernels_of_a_model_with_default_knobs() {
    for mode in Mode::ALL {
        every_kernel(mode, false, tessera_kernels::Config::default());
    }
}

#[test]
fn kernels_of_a_model_with_small_tiles() {
    let knobs = tessera_kernels::Config {
        linear_cols: 32,
        linear_rows: 4,
        expert_rows: 2,
        expert_cols: 32,
        mix_rows: 3,
    };
    for mode in Mode::ALL {
        every_kernel(mode, true, knobs);
    }
}
