//! Snapshots: one kernel of each family at a released and at a tiny shape, as Tile IR and as PTX.

mod common;

use std::collections::BTreeSet;
use tessera::generate::{Generated, Request, Target, generate};
use tessera::load::default_model;
use tessera::model::{Config, ConfigOptions, Topology};

/// Rows of the step that schedules are chosen for.
const ROWS: usize = 64;

const FOLDER: &str = "tests/snapshots/kernels";

/// Of each family the kernel of the most ops, the first of equals.
fn representatives(config: &Config) -> Vec<Generated> {
    let request = Request { rows: vec![ROWS], ..Request::all(Target::Sm100a) };
    let mut chosen: Vec<Generated> = Vec::new();
    for kernel in generate(config, &Topology::derive(config), &request).unwrap() {
        match chosen.iter_mut().find(|other| other.family == kernel.family) {
            Some(other) if other.ops.len() < kernel.ops.len() => *other = kernel,
            Some(_) => {}
            None => chosen.push(kernel),
        }
    }
    chosen
}

#[test]
fn a_kernel_of_each_family_and_model() {
    let tiny = Config::from_dir(default_model().unwrap(), &ConfigOptions::default()).unwrap();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots/kernels");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut written = BTreeSet::new();
    for (model, config) in [("released", Config::released().unwrap()), ("tiny", tiny)] {
        let chosen = representatives(&config);
        assert!(chosen.len() >= 9, "{} families only", chosen.len());
        for kernel in chosen {
            for (level, text) in [("tile", &kernel.tile), ("ptx", &kernel.code.text)] {
                let name = format!("{}_{model}_{level}", kernel.family);
                settings.set_description(format!("{} {}", kernel.ops.join(" "), kernel.shape));
                settings.bind(|| insta::assert_snapshot!(name.clone(), text));
                written.insert(format!("{name}.snap"));
            }
        }
    }
    let entries = std::fs::read_dir(common::repo(FOLDER)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let orphans: Vec<String> = names.filter(|name| !written.contains(name)).collect();
    assert!(orphans.is_empty(), "no kernel writes these snapshots any more; delete them: {orphans:?}");
}
