//! Snapshots without a test or an input are orphans: nothing would notice if they were wrong.

use crate::{files, read, report, root};
use std::path::Path;

/// A folder whose own test asserts that it holds nothing else than what it writes.
const COUNTED: &[(&str, &str)] = &[("tests/snapshots/kernels/", "tests/ptx_snapshots.rs")];

/// Endings of the inputs that a snapshot may mirror.
const INPUTS: &[&str] = &["tir", "tile", "json", "txt"];

#[test]
fn every_snapshot_has_a_source() {
    let mut findings = Vec::new();
    for file in files(&[".snap"]) {
        let source = file.text.lines().find_map(|line| line.strip_prefix("source: "));
        match source {
            None => findings.push(format!("{}: names no source", file.path)),
            Some(source) if !root().join(source).is_file() => {
                findings.push(format!("{}: its source {source} is gone", file.path));
            }
            Some(source) if COUNTED.iter().any(|(f, s)| file.path.starts_with(f) && *s == source) => {}
            Some(source) if !mirrors_an_input(&file.path) && !is_named(&file.path, &read(source)) => {
                findings
                    .push(format!("{}: nothing in {source} writes it, and no input mirrors it", file.path));
            }
            Some(_) => {}
        }
    }
    report("orphaned snapshots", &findings);
}

/// `…/snapshots/kind/name.snap` mirrors `…/kind/name.EXT`.
fn mirrors_an_input(snapshot: &str) -> bool {
    let Some((before, after)) = snapshot.rsplit_once("snapshots/") else { return false };
    let stem = format!("{before}{}", after.trim_end_matches(".snap"));
    INPUTS.iter().any(|ending| root().join(format!("{stem}.{ending}")).is_file())
}

/// `module__name.snap` is written by an assertion or a test called `name`; texts of a kernel end in `.tile` or `.ptx`.
fn is_named(snapshot: &str, source: &str) -> bool {
    let stem = Path::new(snapshot).file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let name = stem.rsplit("__").next().unwrap_or(&stem);
    let name = name.strip_suffix(".tile").or_else(|| name.strip_suffix(".ptx")).unwrap_or(name);
    let counted =
        name.rsplit_once('-').filter(|(_, n)| n.bytes().all(|b| b.is_ascii_digit())).map(|(name, _)| name);
    let written =
        |name: &str| source.contains(&format!("\"{name}\"")) || source.contains(&format!("fn {name}("));
    written(name) || counted.is_some_and(written)
}

#[test]
fn no_snapshot_waits_for_a_decision() {
    let mut pending = Vec::new();
    crate::walk(root(), &mut pending);
    let findings: Vec<String> = pending
        .iter()
        .filter(|path| path.to_string_lossy().ends_with(".snap.new"))
        .map(|path| crate::relative(path))
        .collect();
    report("snapshots that were not accepted", &findings);
}
