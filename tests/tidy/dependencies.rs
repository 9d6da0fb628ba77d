//! Which crate may depend on which.

use crate::{report, root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// Crates of this repository and those they may use outside tests. ARCHITECTURE.md has them as a table.
const MAY_USE: &[(&str, &[&str])] = &[
    ("tessera-ir", &[]),
    ("tessera-kernels", &["tessera-ir"]),
    ("tessera-codegen", &["tessera-ir", "tessera-kernels"]),
    ("tessera-model", &["tessera-ir"]),
    ("tessera-runtime", &["tessera-ir", "tessera-model"]),
    ("tessera-assembler", &[]),
    (
        "tessera",
        &[
            "tessera-ir",
            "tessera-kernels",
            "tessera-codegen",
            "tessera-model",
            "tessera-runtime",
            "tessera-assembler",
        ],
    ),
    ("xtask", &["tessera-assembler"]),
];

/// Beginnings of the names of crates that compile: only `tessera-codegen` may use them.
const COMPILERS: &[&str] = &["cranelift", "inkwell", "llvm", "wasmtime"];

fn cargo(args: &[&str]) -> Vec<u8> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let out = Command::new(cargo).args(args).current_dir(root()).output().expect("cargo starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

fn packages() -> Vec<Value> {
    let out = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let metadata: Value = serde_json::from_slice(&out).expect("metadata is JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// Names of a package's dependencies as `(name, is of this repository, is used outside tests)`.
fn dependencies(package: &Value) -> Vec<(&str, bool, bool)> {
    let list = package["dependencies"].as_array().expect("dependencies");
    let entry = |d| {
        let d: &Value = d;
        (d["name"].as_str().expect("a name"), !d["path"].is_null(), d["kind"].as_str() != Some("dev"))
    };
    list.iter().map(entry).collect()
}

#[test]
fn dependencies_point_one_way() {
    let mut findings = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        let Some((_, may_use)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("{name} is not in the table of crates"));
            continue;
        };
        for (dependency, ours, outside_tests) in dependencies(&package) {
            if ours && outside_tests && !may_use.contains(&dependency) {
                findings.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    report("dependencies that point the wrong way", &findings);
}

#[test]
fn only_codegen_uses_a_compiler() {
    let mut findings = Vec::new();
    let mut used = false;
    for package in packages() {
        let name = package["name"].as_str().expect("a name").to_owned();
        for (dependency, _, _) in dependencies(&package) {
            if COMPILERS.iter().any(|beginning| dependency.starts_with(beginning)) {
                used |= name == "tessera-codegen";
                if name != "tessera-codegen" {
                    findings.push(format!("{name} depends on {dependency}"));
                }
            }
        }
    }
    report("compilers outside codegen", &findings);
    assert!(used, "codegen uses no compiler by a known name: the list is out of date");
}

/// Foreign crates with the features that a command turns on.
fn features(scope: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--offline", "--no-dedupe", "--prefix", "none", "--format", "{p} with {f}"];
    let out = String::from_utf8(cargo(&[&tree, scope].concat())).expect("a tree of names");
    let foreign =
        |line: &&str| !line.starts_with("tessera") && !line.starts_with("xtask") && !line.is_empty();
    out.lines().filter(foreign).map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn the_program_and_its_tests_share_compiled_dependencies() {
    let run = features(&["--package", "tessera", "--edges", "normal,build"]);
    let test = features(&["--workspace", "--edges", "normal,build,dev"]);
    assert!(run.len() > 50, "{} crates only: the search is broken", run.len());
    let findings: Vec<String> = run.difference(&test).cloned().collect();
    report(
        "crates that `cargo test` would compile again, with more features than `cargo run` turns on",
        &findings,
    );
}
