//! Runs the fuzz targets for a bounded time, on the seeds and on texts that the repository has anyway.
//!
//! Without a sanitizer: the code under test is safe Rust, so a fault shows as a panic, and a stable compiler suffices.

use crate::chores::{root, run};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A target with the folders its inputs start from.
const TARGETS: &[(&str, &[&str])] = &[
    ("graph_text", &["ir/tests/filetests/ok", "ir/tests/filetests/parse", "ir/tests/filetests/verify"]),
    (
        "tile_text",
        &["ir/tests/filetests/tile/ok", "ir/tests/filetests/tile/parse", "ir/tests/filetests/tile/verify"],
    ),
    ("config_json", &["fuzz/seeds/config_json", "model/data"]),
    ("safetensors_header", &["fuzz/seeds/safetensors_header"]),
];

/// Runs `targets`, or all, for `seconds` each.
pub(crate) fn run_all(seconds: u64, targets: &[String]) -> Result<()> {
    if let Some(unknown) = targets.iter().find(|t| !TARGETS.iter().any(|(name, _)| name == t)) {
        let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        bail!("unknown fuzz target `{unknown}`; targets are {}", names.join(", "));
    }
    if !starts("cargo", &["fuzz", "--version"]) {
        bail!("cargo-fuzz is missing; install it with `cargo install cargo-fuzz`");
    }
    if std::env::var_os("CXX").is_none()
        && !["c++", "g++", "clang++"].iter().any(|cxx| starts(cxx, &["--version"]))
    {
        bail!("a C++ compiler is missing, which the fuzzer is built with; install one or name it in CXX");
    }
    for (name, seeds) in TARGETS {
        if targets.is_empty() || targets.iter().any(|t| t == name) {
            target(name, seeds, seconds)?;
        }
    }
    Ok(())
}

/// True if the program is there and says so.
fn starts(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|out| out.status.success())
}

fn target(name: &str, seeds: &[&str], seconds: u64) -> Result<()> {
    let corpus = format!("fuzz/corpus/{name}");
    fs::create_dir_all(root().join(&corpus)).with_context(|| format!("cannot create {corpus}"))?;
    let dictionary = format!("{corpus}.dict");
    fs::write(root().join(&dictionary), words(seeds)?)
        .with_context(|| format!("cannot write {dictionary}"))?;
    run(Command::new("cargo")
        .args(["fuzz", "run", "--sanitizer", "none", name, &corpus])
        .args(seeds)
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-dict={dictionary}"))
        .args(["-max_len=8192", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"]))
}

/// The words of the seeds, in the form of a dictionary: mutations then meet keywords and names.
fn words(seeds: &[&str]) -> Result<String> {
    let mut words = BTreeSet::new();
    for folder in seeds {
        collect(&root().join(folder), &mut words)?;
    }
    Ok(words.iter().map(|word| format!("\"{word}\"\n")).collect())
}

fn collect(folder: &Path, words: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, words)?;
            continue;
        }
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let word = |c: u8| c.is_ascii_alphanumeric() || b"._%@".contains(&c);
        for piece in bytes.split(|c| !word(*c)).filter(|piece| (2..=32).contains(&piece.len())) {
            words.insert(String::from_utf8_lossy(piece).into_owned());
        }
    }
    Ok(())
}
