//! `tessera gen`: the files, the manifest and its figures; what it refuses.

mod common;

use common::{Ran, tessera};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tessera::texts::{self, Level};

fn generate(out: &Path, args: &[&str]) -> Ran {
    tessera(["gen", "--out", out.to_str().unwrap()].iter().chain(args))
}

/// Names and contents of a folder's files.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|p| (p.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&p).unwrap()))
        .collect()
}

/// The value of `a + b`, `a * b`, `ceil(a / n)`, `min(a, b)`, `max(a, b)` over numbers and symbols.
fn evaluate(text: &str, symbols: &BTreeMap<&str, u64>) -> u64 {
    /// Parts of `text` between `separator` outside parentheses.
    fn parts<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
        let (mut depth, mut from, mut found) = (0, 0, Vec::new());
        for (at, c) in text.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 && text[at..].starts_with(separator) {
                found.push(&text[from..at]);
                from = at + separator.len();
            }
        }
        found.push(&text[from..]);
        found
    }
    let inside = |name: &str| text.strip_prefix(name).and_then(|rest| rest.strip_suffix(')'));
    let terms = parts(text, " + ");
    if terms.len() > 1 {
        return terms.iter().map(|term| evaluate(term, symbols)).sum();
    }
    let factors = parts(text, " * ");
    if factors.len() > 1 {
        return factors.iter().map(|factor| evaluate(factor, symbols)).product();
    }
    if let Some(quotient) = inside("ceil(") {
        let (a, n) = quotient.rsplit_once(" / ").unwrap();
        return evaluate(a, symbols).div_ceil(n.parse().unwrap());
    }
    for (name, pick) in [("min(", u64::min as fn(u64, u64) -> u64), ("max(", u64::max)] {
        if let Some(pair) = inside(name) {
            let pair = parts(pair, ", ");
            return pick(evaluate(pair[0], symbols), evaluate(pair[1], symbols));
        }
    }
    if let Some(sum) = inside("(") {
        return evaluate(sum, symbols);
    }
    match text.split_once('*') {
        Some((times, symbol)) => times.parse::<u64>().unwrap() * symbols[symbol],
        None => text.parse().unwrap_or_else(|_| symbols[text]),
    }
}

/// Everything in the manifest is what the files hold, twice the same bytes; grids have the values of their expressions.
#[test]
fn files_and_manifest_agree() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("deep/two"));
    let args = ["--all", "--target", "cpu", "--model", "tests/data/random-v41", "--rows", "4096,3,3"];
    let printed = generate(&one, &[&args[..], &["--json"]].concat()).expect(0).json();
    let text = generate(&two, &args).expect(0).stdout;
    assert!(files(&one) == files(&two), "two runs differ");
    let mut files = files(&one);
    let manifest: Value = serde_json::from_slice(&files.remove("manifest.json").unwrap()).unwrap();
    assert_eq!(manifest, printed);
    let kernels = manifest["kernels"].as_array().unwrap();
    assert!(kernels.len() > 20 && text.ends_with(&format!("{} kernels for cpu\n", kernels.len())), "{text}");
    for kernel in kernels {
        let take = |files: &mut BTreeMap<String, Vec<u8>>, key: &str| {
            let name = kernel[key].as_str().unwrap();
            String::from_utf8(files.remove(name).unwrap_or_else(|| panic!("{name} is missing"))).unwrap()
        };
        let (code, tile) = (take(&mut files, "file"), take(&mut files, "tile"));
        assert_eq!(kernel["hash"], tessera::codegen::target::ptx::content_hash(&code));
        assert_eq!(texts::check(&tile, Level::Tile).unwrap().name(), kernel["entry"]);
        assert!(code.contains("function"), "{code}");
        assert_eq!(kernel["rows"], serde_json::json!([3, 4096]));
        for axis in kernel["grid"].as_array().unwrap() {
            for value in axis["at"].as_array().unwrap() {
                let rows = value["rows"].as_u64().unwrap();
                // Three rows are three sequences, 4096 are one.
                let sequences = if rows == 3 { 3 } else { 1 };
                let symbols =
                    [("T", rows), ("K", rows), ("L", sequences), ("Q", sequences), ("S", sequences)].into();
                let expr = axis["expr"].as_str().unwrap();
                assert_eq!(value["value"], evaluate(expr, &symbols), "{expr} at {rows} rows");
            }
        }
        let offsets = kernel["params"].as_array().unwrap().iter().map(|p| p["offset"].as_u64().unwrap());
        assert!(offsets.clone().zip(offsets.skip(1)).all(|(a, b)| a < b), "{kernel}");
    }
    assert!(files.is_empty(), "the manifest lacks {:?}", files.keys());
}

#[test]
fn families_shapes_and_knobs_select_and_change_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let all = [&["--target", "cpu", "--json"], args].concat();
        generate(folder.path(), &all).expect(0).json()["kernels"].as_array().unwrap().clone()
    };
    let of = |kernels: &[Value], family: &str| kernels.iter().filter(|k| k["family"] == family).count();
    let everything = run(&["--all"]);
    let (linear, attention) = (run(&["linear"]), run(&["attention", "linear"]));
    assert_eq!(linear.len(), of(&everything, "linear"));
    assert_eq!(attention.len(), of(&everything, "linear") + of(&everything, "attention"));
    let n = linear[0]["shape"]["n"].as_u64().unwrap();
    let chosen = run(&["linear", "--shape", &format!("n={n}")]);
    assert!(!chosen.is_empty() && chosen.len() < linear.len());
    assert!(chosen.iter().all(|kernel| kernel["shape"]["n"] == n), "{chosen:?}");
    let value = |kernels: &[Value]| {
        let draft = kernels.iter().find(|k| k["grid"][0]["expr"].as_str().unwrap().contains('Q')).unwrap();
        draft["grid"][0]["at"][0]["value"].as_u64().unwrap()
    };
    assert!(value(&run(&["linear", "--shape", "Q=1000"])) > value(&linear));
    let wide = run(&["linear", "--set", "linear_cols=32"]);
    assert_eq!(
        (&wide[0]["config"]["linear_cols"], &linear[0]["config"]["linear_cols"]),
        (&32.into(), &128.into())
    );
    assert_ne!(wide[0]["hash"], linear[0]["hash"]);
}

#[test]
fn what_cannot_be_generated_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let refused = [
        (&["linear", "--target", "ascend950"][..], "ascend950 is not in this version"),
        (&["linear", "--target", "sm_90"], "unknown target sm_90"),
        (&["linar"], "there is no family linar; families are rows, linear"),
        (&[], "<FAMILY>"),
        (&["linear", "--target", "cpu", "--shape", "n=1,k=2,e=3"], "no kernel of this shape; it has"),
        (&["linear", "--target", "cpu", "--shape", "x=1"], "no kernel has a size x; sizes are n"),
        (&["linear", "--target", "cpu", "--shape", "T=1"], "use --rows"),
        (&["linear", "--target", "cpu", "--shape", "n"], "NAME=NUMBER"),
        (
            &["linear", "--target", "cpu", "--set", "cols=1"],
            "there is no knob cols; the knobs are linear_cols",
        ),
        (&["linear", "--target", "cpu", "--set", "linear_cols=33"], "multiple of 32"),
        (&["linear", "--set", "cols=1"], "there is no knob cols; the knobs are cores"),
        (&["linear", "--target", "cpu", "--rows", "0"], "at least 1"),
        (&["linear", "--target", "cpu", "--config", "other"], "released"),
        (&["linear", "--target", "cpu", "--model", "docs"], "config.json"),
        (&["linear", "--config", "released", "--model", "docs"], "--model"),
        (&["kernel.ptx"], "kernel.ptx is a file"),
    ];
    for (args, words) in refused {
        let ran = generate(&out, args).expect(2);
        assert!(ran.stdout.is_empty() && ran.stderr.contains(words), "{args:?}: {ran:?}");
        assert!(!out.exists(), "{args:?} left something behind");
    }
    std::fs::write(&out, "a file").unwrap();
    let ran = generate(&out, &["moe_group", "--target", "cpu"]).expect(2);
    assert!(ran.stderr.contains("cannot write"), "{ran:?}");
}
