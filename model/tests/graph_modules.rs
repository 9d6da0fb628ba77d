//! Every module that the builder makes is accepted by the verifier and means what the configuration says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tessera_ir::graph::{DeclKind, Module, verify};
use tessera_ir::{Format, TensorType};
use tessera_model::checkpoint::{Need, expected_tensors};
use tessera_model::graph::{self, BuildOptions, Mode};
use tessera_model::{Config, ConfigOptions, Topology};

fn configs() -> Vec<Config> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |dir: &str| Config::from_dir(root.join(dir), &ConfigOptions::default()).unwrap();
    vec![read("tests/data/random-v41"), read("models/tiny-v41"), Config::released().unwrap()]
}

fn all_options() -> Vec<BuildOptions> {
    let mut all = Vec::new();
    for mode in Mode::ALL {
        for bits in 0..8 {
            let [trace, teacher, replay] = [1, 2, 4].map(|bit| bits & bit != 0);
            all.push(BuildOptions { mode, trace, teacher, replay });
        }
    }
    all
}

#[test]
fn all_modules_pass_the_verifier() {
    for config in configs() {
        let topology = Topology::derive(&config);
        for options in all_options() {
            if let Err(faults) = verify(graph::step(&config, &topology, options)) {
                panic!("step, {options:?}: {faults}");
            }
        }
        for mode in Mode::ALL {
            if let Err(faults) = verify(graph::draft(&config, &topology, mode)) {
                panic!("draft, {}: {faults}", mode.name());
            }
        }
    }
}

/// The weights that `step` and `draft` declare are the required tensors of the checkpoint, each with its shape.
#[test]
fn modules_declare_exactly_the_tensors_of_the_checkpoint() {
    for config in configs() {
        let topology = Topology::derive(&config);
        let modules = [
            graph::step(&config, &topology, BuildOptions::default()),
            graph::draft(&config, &topology, Mode::Ref),
        ];
        let mut declared = BTreeMap::new();
        for module in &modules {
            for (name, shape) in stored_tensors(module) {
                let before = declared.insert(name.clone(), shape.clone());
                assert!(before.is_none_or(|before| before == shape), "{name} has two shapes");
            }
        }
        // Image tokens alone use this bias.
        let unused = |name: &str| name.ends_with(".bias_vl");
        let expected: BTreeMap<String, Vec<usize>> = expected_tensors(&config, &topology)
            .into_iter()
            .filter(|tensor| tensor.need == Need::Required && !unused(&tensor.name))
            .map(|tensor| (tensor.name, tensor.shape))
            .collect();
        for (name, shape) in &expected {
            assert_eq!(declared.get(name), Some(shape), "{name}");
        }
        assert_eq!(declared.len(), expected.len(), "tensors that no checkpoint holds");
    }
}

/// Names and stored shapes of the tensors behind a module's weights, scales and single experts included.
fn stored_tensors(module: &Module) -> Vec<(String, Vec<usize>)> {
    let mut stored = Vec::new();
    let weights =
        module.decls.iter().filter(|decl| decl.kind == DeclKind::Weight && decl.name != "token_map");
    for decl in weights {
        let shape: Vec<usize> = decl.ty.shape.iter().map(|dim| dim.fixed().unwrap()).collect();
        match decl.name.split_once('*') {
            None => tensor(&decl.name, &shape, &decl.ty, &mut stored),
            Some((before, after)) => {
                for expert in 0..shape[0] {
                    tensor(&format!("{before}{expert}{after}"), &shape[1..], &decl.ty, &mut stored);
                }
            }
        }
    }
    stored
}

fn tensor(name: &str, shape: &[usize], ty: &TensorType, stored: &mut Vec<(String, Vec<usize>)>) {
    let scale = name.replace(".weight", ".scale");
    let tiles = |rows: usize| vec![shape[0].div_ceil(rows), shape[1].div_ceil(32)];
    if ty.format == Format::W8 {
        stored.push((name.to_owned(), shape.to_vec()));
        stored.push((scale, tiles(32)));
    } else if ty.format == Format::MX8 {
        stored.push((name.to_owned(), shape.to_vec()));
        stored.push((scale, tiles(1)));
    } else if ty.format == Format::MX4 {
        stored.push((name.to_owned(), vec![shape[0], shape[1] / 2]));
        stored.push((scale, tiles(1)));
    } else {
        stored.push((name.to_owned(), shape.to_vec()));
    }
}

/// The conventions that executors rely on.
#[test]
fn inputs_states_and_outputs_bear_the_agreed_names() {
    let config = &configs()[0];
    let topology = Topology::derive(config);
    let names = |module: &Module, kind| {
        let mut names: Vec<String> =
            module.decls.iter().filter(|decl| decl.kind == kind).map(|decl| decl.name.clone()).collect();
        names.sort_unstable();
        names
    };
    let step = graph::step(config, &topology, BuildOptions::default());
    assert_eq!(names(&step, DeclKind::Input), ["decoder_lo", "lo", "logit_rows", "pos", "seq", "tokens"]);
    let replay = graph::step(config, &topology, BuildOptions { replay: true, ..BuildOptions::default() });
    assert_eq!(
        names(&replay, DeclKind::Input),
        [
            "decoder_lo",
            "kept_lo",
            "kept_pos",
            "kept_rows",
            "kept_seq",
            "lo",
            "logit_rows",
            "pos",
            "seq",
            "tokens"
        ]
    );
    let mut states = vec!["history".to_owned()];
    states.extend((0..10).map(|layer| format!("layers.{layer}.window")));
    states.extend([2, 4, 6].iter().flat_map(|l| ["cache", "index"].map(|s| format!("layers.{l}.{s}"))));
    states.extend([2, 4].iter().flat_map(|l| ["tail_kv", "tail_gate"].map(|s| format!("layers.{l}.{s}"))));
    states.extend((0..3).map(|stage| format!("mtp.{stage}.window")));
    states.sort_unstable();
    assert_eq!(names(&step, DeclKind::State), states);
    let draft = graph::draft(config, &topology, Mode::Ref);
    assert_eq!(names(&draft, DeclKind::Input), ["lo", "pos", "seq", "tokens"]);
    assert_eq!(names(&draft, DeclKind::State), ["mtp.0.window", "mtp.1.window", "mtp.2.window"]);
    let outputs: Vec<&str> = draft.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(outputs, ["tokens", "logits", "conf"]);
    // `draft` reads the rings that `step` writes.
    for name in names(&draft, DeclKind::State) {
        assert_eq!(draft.decl(&name).map(|(_, decl)| &decl.ty), step.decl(&name).map(|(_, decl)| &decl.ty));
    }
}
