//! The kernels of a fused module, run one by one, give what the whole module gives, bit for bit: fragments on the oracle,
//! and their schedules on the Tile IR interpreter.

use std::collections::BTreeMap;
use std::sync::Arc;
use tessera_codegen::Plan;
use tessera_codegen::pipeline::Fused;
use tessera_ir::graph::interp::{self, Data, State, Tensor, Weights};
use tessera_ir::graph::{Decl, DeclKind, Effect, Module, Value, verify};
use tessera_ir::{Bindings, tile};
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

fn tensors(inputs: &[(&'static str, &[i32])]) -> BTreeMap<String, Tensor> {
    inputs.iter().map(|(n, v)| ((*n).to_owned(), Tensor::i32([v.len()], v.to_vec()))).collect()
}

/// State declaration that each value is a version of.
fn roots(module: &Module) -> BTreeMap<Value, Value> {
    let mut roots = BTreeMap::new();
    for (i, d) in module.decls.iter().enumerate() {
        if d.kind == DeclKind::State {
            roots.insert(Value(i as u32), Value(i as u32));
        }
    }
    for n in &module.nodes {
        if n.op.effect() == Effect::State {
            let mut first = None;
            n.op.for_each_operand(|_, o| {
                first.get_or_insert(o.values()[0]);
            });
            roots.insert(n.first, roots[&first.unwrap()]);
        }
    }
    roots
}

/// Accepts equal integers and equal reals.
fn same(a: &Tensor, b: &Tensor) -> Result<(), String> {
    match (&a.data, &b.data) {
        (Data::F32(a), Data::F32(b)) => {
            let differs = |(x, y): (&f32, &f32)| x != y && !(x.is_nan() && y.is_nan());
            match a.iter().zip(b).position(differs) {
                None => Ok(()),
                Some(i) => Err(format!("element {i}: {} against {}", a[i], b[i])),
            }
        }
        (a, b) if a == b => Ok(()),
        (a, b) => Err(format!("integers differ: {a:?} against {b:?}").chars().take(400).collect()),
    }
}

/// Runs the calls in order; `kernels` also runs each schedule on the same operands and compares.
fn run_fused(
    fused: &Fused,
    kernels: Option<(&Plan, &[usize])>,
    bindings: &Bindings,
    inputs: &BTreeMap<String, Tensor>,
    weights: &dyn Weights,
    state: &mut State,
) -> BTreeMap<String, Tensor> {
    let module = &fused.module;
    let roots = roots(module);
    let mut values: BTreeMap<Value, Tensor> = BTreeMap::new();
    for (i, d) in module.decls.iter().enumerate() {
        if d.kind == DeclKind::Input {
            values.insert(Value(i as u32), inputs[&d.name].clone());
        }
    }
    let name_of = |v: &Value| module.decls[roots[v].index()].name.clone();
    for call in &fused.calls {
        let fragment = &fused.fragments[call.fragment].module;
        let (mut given, mut inner_state, mut names) = (BTreeMap::new(), State::default(), BTreeMap::new());
        for (d, outer) in fragment.decls.iter().zip(&call.args) {
            match d.kind {
                DeclKind::Input => {
                    given.insert(d.name.clone(), values[outer].clone());
                }
                DeclKind::Weight => {
                    names.insert(d.name.clone(), module.decls[outer.index()].clone());
                }
                DeclKind::State => {
                    inner_state.insert(d.name.clone(), state.get(&name_of(outer)).unwrap().clone())
                }
            }
        }
        let renamed = Renamed { inner: weights, names };
        let before = inner_state.clone();
        let out = interp::run(fragment, bindings, &given, &renamed, &mut inner_state).unwrap();
        if let Some((plan, of)) = kernels {
            let scheduled = &plan.kernels[of[call.fragment]];
            let fragment_roots = crate::roots(fragment);
            let mut params = Vec::new();
            for d in &fragment.decls {
                params.push(match d.kind {
                    DeclKind::Input => given[&d.name].clone(),
                    DeclKind::Weight => (*renamed.weight(d).unwrap()).clone(),
                    DeclKind::State => before.get(&d.name).unwrap().clone(),
                });
            }
            let plain: Vec<_> =
                fragment.outputs.iter().filter(|o| !fragment_roots.contains_key(&o.value)).collect();
            params.extend(plain.iter().map(|o| {
                let mut t = out[&o.name].clone();
                match &mut t.data {
                    Data::F32(v) => v.fill(f32::NAN),
                    Data::I32(v) => v.fill(i32::MIN),
                    Data::I64(v) => v.fill(i64::MIN),
                }
                t
            }));
            for (t, p) in params.iter_mut().zip(&scheduled.kernel.params) {
                t.shape = p.ty.shape.iter().map(|d| d.eval(bindings).unwrap()).collect();
            }
            if let Err(e) = tile::interp::run(&scheduled.kernel, bindings, &mut params, 7) {
                panic!("{}: {e}\n{}", scheduled.kernel.name, tile::print(&scheduled.kernel));
            }
            let got = &params[fragment.decls.len()..];
            for (o, t) in plain.iter().zip(got) {
                if let Err(e) = same(t, &out[&o.name]) {
                    panic!(
                        "{} output {}: {e}\n{}",
                        scheduled.kernel.name,
                        o.name,
                        tessera_ir::graph::print(fragment)
                    );
                }
            }
            for (d, t) in fragment.decls.iter().zip(&params) {
                if d.kind == DeclKind::State
                    && let Err(e) = same(t, inner_state.get(&d.name).unwrap())
                {
                    panic!(
                        "{} state {}: {e}\n{}",
                        scheduled.kernel.name,
                        d.name,
                        tessera_ir::graph::print(fragment)
                    );
                }
            }
        }
        for (outer, o) in call.results.iter().zip(&fragment.outputs) {
            if !roots.contains_key(outer) {
                values.insert(*outer, out[&o.name].clone());
            }
        }
        for (d, outer) in fragment.decls.iter().zip(&call.args) {
            if d.kind == DeclKind::State {
                state.insert(name_of(outer), inner_state.get(&d.name).unwrap().clone());
            }
        }
    }
    module.outputs.iter().map(|o| (o.name.clone(), values[&o.value].clone())).collect()
}

fn compare(mode: Mode, trace: bool, with_kernels: bool) {
    let config = Config::from_dir(DIR, &ConfigOptions::default()).unwrap();
    let topology = Topology::derive(&config);
    let checkpoint = Checkpoint::open(DIR).unwrap();
    let map = TokenMap::of_model(DIR, &config, None).unwrap();
    let weights = DecodedWeights::new(&config, &checkpoint, &map).unwrap();
    let options = BuildOptions { mode, trace, teacher: false, replay: false };
    let module = verify(step(&config, &topology, options)).unwrap();
    let drafts = verify(draft(&config, &topology, mode)).unwrap();
    let plan = Plan::new(
        &[("step", module.clone()), ("draft", drafts.clone())],
        &tessera_kernels::Config {
            linear_cols: 32,
            linear_rows: 4,
            expert_rows: 2,
            expert_cols: 32,
            mix_rows: 3,
        },
    )
    .unwrap();
    let mut bindings = Bindings::new();
    Capacity { slots: 2, tokens: 64, rows: 16 }.bind(&config, &mut bindings);
    let mut whole = State::zeros(&module, &bindings).unwrap();
    let mut parts = whole.clone();
    let mut rng = 1u32;
    let mut start = [0usize; 2];
    for lengths in [[11, 3], [1, 5], [6, 1]] {
        let mut rows = StepRows::default();
        for slot in 0..2 {
            let tokens: Vec<u32> = (0..lengths[slot])
                .map(|_| {
                    rng = rng.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (rng >> 16) % config.text.vocab_size as u32
                })
                .collect();
            let chunk = Chunk { slot, start: start[slot], tokens: &tokens, floor: 0, logits: Wanted::All };
            rows.push(config.text.sliding_window, &chunk);
            start[slot] += tokens.len();
        }
        rows.bind(&mut bindings);
        let inputs = tensors(&rows.inputs());
        let want = interp::run(&module, &bindings, &inputs, &weights, &mut whole).unwrap();
        let (_, fused, of) = &plan.modules[0];
        let kernels = with_kernels.then_some((&plan, of.as_slice()));
        let got = run_fused(fused, kernels, &bindings, &inputs, &weights, &mut parts);
        assert_eq!(want, got, "outputs of step");
        assert_eq!(whole, parts, "states after step");
        let mut block = DraftRows::default();
        for (slot, length) in start.iter().enumerate() {
            block.push(&config, slot, *length, 5, 0);
        }
        block.bind(&config, &mut bindings);
        let inputs = tensors(&block.inputs());
        let want = interp::run(&drafts, &bindings, &inputs, &weights, &mut whole).unwrap();
        let (_, fused, of) = &plan.modules[1];
        let kernels = with_kernels.then_some((&plan, of.as_slice()));
        let got = run_fused(fused, kernels, &bindings, &inputs, &weights, &mut parts);
        assert_eq!(want, got, "outputs of draft");
    }
}

#[test]
fn fragments_on_the_oracle_equal_the_whole_module() {
    for mode in Mode::ALL {
        for trace in [false, true] {
            compare(mode, trace, false);
        }
    }
}

#[test]
fn schedules_on_the_tile_interpreter_equal_their_fragments() {
    for mode in Mode::ALL {
        compare(mode, false, true);
    }
}
