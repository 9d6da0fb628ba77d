//! Row kernels for SM100: their schedules on the Tile IR interpreter against their fragments on the oracle, in a whole step
//! of a model; and the text of one.

use std::collections::BTreeMap;
use std::sync::Arc;
use tessera_codegen::pipeline::{Fused, fuse_for};
use tessera_codegen::target::ptx;
use tessera_ir::graph::interp::{self, Data, State, Tensor, Weights};
use tessera_ir::graph::tolerance::step as step_of;
use tessera_ir::graph::{self, Decl, DeclKind, Value, verify};
use tessera_ir::tile::{self, Target};
use tessera_ir::{Bindings, Dim, Format, TensorType, Verified};
use tessera_kernels::Family;
use tessera_kernels::sm100::{Knobs, schedule};
use tessera_model::graph::{BuildOptions, Mode, step};
use tessera_model::rows::{Capacity, Chunk, StepRows, Wanted};
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

/// Distance that values of a format may have: rounded differently by at most one step, after f32 sums in another order.
/// Steps of scaled formats are those of the row's largest element, whose group has the largest scale.
fn allowed(format: Format, value: f32, largest: f32) -> f64 {
    let sums = 1e-5 * f64::from(largest);
    match format.group {
        None => sums + step_of(format, value.into()),
        Some(_) => sums + step_of(format, largest.into()),
    }
}

fn near(what: &str, got: &Tensor, want: &Tensor, format: Format) {
    let (Data::F32(got), Data::F32(want)) = (&got.data, &want.data) else {
        assert_eq!(got.data, want.data, "{what}");
        return;
    };
    let largest = want.iter().filter(|v| v.is_finite()).fold(0f32, |m, v| m.max(v.abs()));
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let off = f64::from((g - w).abs());
        let same = g == w || (g.is_nan() && w.is_nan()) || off <= allowed(format, *w, largest);
        assert!(same, "{what}, element {i}: {g}, not {w}");
    }
}

/// Runs every fragment on the oracle, in order, and the row kernels on the interpreter too.
fn walk(
    fused: &Fused,
    kernels: &[Option<Verified<tile::Kernel>>],
    bindings: &Bindings,
    inputs: &[(&'static str, &[i32])],
    weights: &dyn Weights,
    state: &mut State,
) {
    let roots = fused.module.states();
    let mut values: BTreeMap<Value, Tensor> = BTreeMap::new();
    for (i, d) in fused.module.decls.iter().enumerate() {
        if let Some((_, v)) = inputs.iter().find(|(n, _)| *n == d.name) {
            values.insert(Value(i as u32), Tensor::i32([v.len()], v.to_vec()));
        }
    }
    let name_of = |v: &Value| fused.module.decls[roots[v].index()].name.clone();
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
        if let Some(kernel) = &kernels[call.fragment] {
            let inner_roots = fragment.states();
            let plain: Vec<_> =
                fragment.outputs.iter().filter(|o| !inner_roots.contains_key(&o.value)).collect();
            params.extend(plain.iter().map(|o| out[&o.name].clone()));
            for (t, p) in params.iter_mut().zip(&kernel.params) {
                t.shape = p.ty.shape.iter().map(|d| d.eval(bindings).expect("bound")).collect();
            }
            tile::interp::run(kernel, bindings, &mut params, 5)
                .unwrap_or_else(|e| panic!("{}: {e}\n{}", kernel.name, tile::print(kernel)));
            let formats = kernel.params.iter().map(|p| p.ty.format);
            let (operands, outputs) = params.split_at(fragment.decls.len());
            let formats: Vec<Format> = formats.collect();
            for ((o, result), format) in plain.iter().zip(outputs).zip(&formats[fragment.decls.len()..]) {
                near(&format!("{}, output {}", kernel.name, o.name), result, &out[&o.name], *format);
            }
            for ((d, result), format) in fragment.decls.iter().zip(operands).zip(&formats) {
                if let Some(after) = inner.get(&d.name) {
                    near(&format!("{}, state {}", kernel.name, d.name), result, after, *format);
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
                state.insert(name_of(outer), inner.get(&d.name).expect("a state").clone());
            }
        }
    }
}

/// The row kernels of a fused module, by fragment.
fn row_kernels(fused: &Fused) -> Vec<Option<Verified<tile::Kernel>>> {
    let one = |(i, f): (usize, &tessera_codegen::pipeline::Fragment)| {
        (f.family == Family::Rows).then(|| {
            let mut fragment: graph::Module = (*f.module).clone();
            fragment.name = format!("rows_{i}");
            let fragment = verify(fragment).expect("a fragment");
            let kernel = schedule(f.family, &fragment, &Knobs::for_rows(1)).unwrap_or_else(|e| panic!("{e}"));
            tile::verify(kernel).unwrap_or_else(|e| panic!("{e}"))
        })
    };
    fused.fragments.iter().enumerate().map(one).collect()
}

#[test]
fn rows_of_a_step_are_the_oracles_and_have_code() {
    let config = Config::from_dir(DIR, &ConfigOptions::default()).expect("config");
    let topology = Topology::derive(&config);
    let checkpoint = Checkpoint::open(DIR).expect("checkpoint");
    let map = TokenMap::of_model(DIR, &config, None).expect("token map");
    let weights = DecodedWeights::new(&config, &checkpoint, &map).expect("weights");
    for mode in Mode::ALL {
        let options = BuildOptions { mode, ..BuildOptions::default() };
        let module = verify(step(&config, &topology, options)).expect("a valid module");
        let mut bindings = Bindings::new();
        Capacity { slots: 2, tokens: 64, rows: 16 }.bind(&config, &mut bindings);
        let mut state = State::zeros(&module, &bindings).expect("states");
        let fused = fuse_for(Target::Sm100, module, &mut |_, _| {}).expect("fused");
        let kernels = row_kernels(&fused);
        for kernel in kernels.iter().flatten() {
            let first = ptx::emit(kernel, "rows").unwrap_or_else(|e| panic!("{e}\n{}", tile::print(kernel)));
            assert!(first == ptx::emit(kernel, "rows").expect("again"), "{}: text differs", kernel.name);
        }
        let mut start = [0usize; 2];
        // Three rows, none, one, and more than the window's ring has place for at once.
        for lengths in [[2, 1], [0, 0], [1, 0], [3, 9]] {
            let mut rows = StepRows::default();
            for slot in 0..2 {
                let tokens: Vec<u32> = (0..lengths[slot])
                    .map(|i| ((start[slot] + i) * 7919 + slot * 31) as u32 % config.text.vocab_size as u32)
                    .collect();
                if tokens.is_empty() {
                    continue;
                }
                let chunk =
                    Chunk { slot, start: start[slot], tokens: &tokens, floor: 0, logits: Wanted::All };
                rows.push(config.text.sliding_window, &chunk);
                start[slot] += tokens.len();
            }
            rows.bind(&mut bindings);
            walk(&fused, &kernels, &bindings, &rows.inputs(), &weights, &mut state);
        }
    }
}

#[test]
fn a_row_kernel_has_a_stable_text() {
    let mut b = graph::Builder::new("norm");
    let ty = |shape: &[Dim], format| TensorType::new(shape.to_vec(), format);
    let t = Dim::sym("T");
    let x = b.declare(DeclKind::Input, "x", ty(&[t, 1280.into()], Format::BF16));
    let w = b.declare(DeclKind::Weight, "w", ty(&[1280.into()], Format::BF16));
    let y = b.emit(graph::Op::RmsNorm { x, weight: w, eps: 1e-6 }, Format::BF16).expect("well typed");
    let q = b.emit(graph::Op::Quantize { x: y }, Format::MX8).expect("well typed");
    b.output("q", q);
    let fragment = verify(b.finish()).expect("a fragment");
    let kernel = schedule(Family::Rows, &fragment, &Knobs::for_rows(1)).expect("a schedule");
    let kernel = tile::verify(kernel).unwrap_or_else(|e| panic!("{e}"));
    insta::assert_snapshot!("rows_norm_tile", tile::print(&kernel));
    insta::assert_snapshot!("rows_norm_ptx", ptx::emit(&kernel, "rows").expect("code").text);
}
