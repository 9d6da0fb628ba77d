//! `tessera logits` and `tessera diff`: files of tensors, written whole and compared.

mod common;

use common::golden::Golden;
use common::{Ran, list, tessera};
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const RANDOM: &str = "tests/data/random-v41";
const GOLDEN: &str = "tests/data/random-v41/golden.safetensors";

fn prompt() -> String {
    list(&Golden::open("random-v41").list("prompt"))
}

fn forced() -> String {
    list(&Golden::open("random-v41").list("forced_continuation"))
}

/// `logits` on the random model, to `NAME.safetensors` of a folder.
fn logits(folder: &Path, name: &str, args: &[&str]) -> PathBuf {
    let out = folder.join(format!("{name}.safetensors"));
    let prompt = prompt();
    let base = ["logits", "--model", RANDOM, "--tokens", &prompt, "--json", "--out", out.to_str().unwrap()];
    let report = tessera(base.iter().chain(args)).expect(0).json();
    let tensors = report["tensors"].as_array().unwrap();
    assert!(tensors.iter().any(|t| t["name"] == "prefill.logits" && t["shape"] == json!([40, 256])));
    out
}

fn diff(a: &Path, b: &str, args: &[&str]) -> Ran {
    tessera(["diff", a.to_str().unwrap(), b].iter().chain(args))
}

#[test]
fn both_engines_write_the_golden_keys() {
    let folder = tempfile::tempdir().unwrap();
    let forced = forced();
    for engine in ["oracle", "cpu"] {
        let args = ["--force", &forced, "--draft", "--mode", "f32", "--engine", engine];
        let replay = ["--replay", "compact", "--replay-keep", "20"];
        let file = logits(folder.path(), engine, &[&args[..], &replay].concat());
        let tolerance = ["--prefix-b", "f32.", "--atol", "1e-3", "--json"];
        for only in ["prefill.*", "d*", "compact.*.logits"] {
            let report = diff(&file, GOLDEN, &[&tolerance[..], &["--only", only]].concat()).expect(0).json();
            assert_eq!(report["pass"], true);
        }
        // The golden data has fewer keys of the replayed drafts; a key on one side is a failure.
        let report = diff(&file, GOLDEN, &tolerance).expect(1).json();
        let failed = report["tensors"].as_array().unwrap().iter().filter(|t| t["pass"] == false);
        let failed: Vec<&Value> = failed.map(|t| &t["name"]).collect();
        assert_eq!(failed, ["compact.draft.conf", "compact.draft.tokens"]);
    }
}

#[test]
fn a_teacher_feeds_every_block_of_either_engine() {
    let folder = tempfile::tempdir().unwrap();
    for engine in ["oracle", "cpu"] {
        let file = logits(folder.path(), engine, &["--teacher", GOLDEN, "--engine", engine]);
        let exact = ["--prefix-b", "ref.", "--json", "--only"];
        for only in ["prefill.engram_hash", "*.route_idx", "prefill.topk.*"] {
            diff(&file, GOLDEN, &[&exact[..], &[only]].concat()).expect(0);
        }
        let report = diff(&file, GOLDEN, &[&exact[..], &["prefill.hidden.*"]].concat()).json();
        for tensor in report["tensors"].as_array().unwrap() {
            assert!(tensor["rel_l2"].as_f64().unwrap() < 1e-2, "{tensor}");
        }
    }
}

#[test]
fn chunks_and_threads_change_no_byte_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let forced = forced();
    let args = ["--force", &forced, "--draft", "--replay", "compact", "--replay-keep", "20"];
    let whole = std::fs::read(logits(folder.path(), "whole", &args)).unwrap();
    for more in
        [&["--prefill-chunk", "7"][..], &["--prefill-chunk", "1", "--threads", "3"], &["--threads", "1"]]
    {
        let other = logits(folder.path(), "other", &[&args[..], more].concat());
        assert!(std::fs::read(other).unwrap() == whole, "{more:?}");
    }
}

/// Whatever goes wrong, an existing file stays as it was and no other appears.
#[test]
fn a_failure_leaves_no_half_written_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.safetensors");
    std::fs::write(&out, b"before").unwrap();
    let path = out.to_str().unwrap();
    for (args, code) in [
        (&["--tokens", "1,256"][..], 2),
        (&["--tokens", ""], 2),
        (&["--tokens", "1", "--force", "300"], 2),
        (&["--tokens", "1,2", "--teacher", GOLDEN], 2),
        (&["--tokens", "1", "--device", "cuda"], 3),
        (&["--tokens", "1", "--out", "/"], 2),
    ] {
        let args = if args.contains(&"--out") { args.to_vec() } else { [args, &["--out", path]].concat() };
        let ran = tessera(["logits", "--model", RANDOM].iter().chain(&args)).expect(code);
        assert!(ran.stdout.is_empty() && ran.stderr.starts_with("error: "), "{ran:?}");
    }
    let missing = folder.path().join("no/such/folder.safetensors");
    let ran =
        tessera(["logits", "--model", RANDOM, "--tokens", "1", "--out", missing.to_str().unwrap()]).expect(2);
    assert!(ran.stderr.contains("cannot write"), "{ran:?}");
    assert_eq!(std::fs::read(&out).unwrap(), b"before");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A file of tensors of reals and integers.
fn file(folder: &Path, name: &str, reals: &[(&str, &[f32])], ints: &[(&str, &[i64])]) -> PathBuf {
    let real = |v: &[f32]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let int = |v: &[i64]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let reals: Vec<_> = reals.iter().map(|(n, v)| (*n, Dtype::F32, v.len(), real(v))).collect();
    let ints: Vec<_> = ints.iter().map(|(n, v)| (*n, Dtype::I64, v.len(), int(v))).collect();
    let all: Vec<_> = reals.into_iter().chain(ints).collect();
    let views = all
        .iter()
        .map(|(name, dtype, len, data)| (*name, TensorView::new(*dtype, vec![*len], data).unwrap()));
    let path = folder.join(name);
    std::fs::write(&path, serialize(views, None).unwrap()).unwrap();
    path
}

#[test]
fn diff_reports_what_how_much_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let a = file(
        f,
        "a",
        &[("x", &[1.0, 2.5, nan]), ("y", &[1.0, inf]), ("shape", &[1.0]), ("kind", &[1.0]), ("a", &[0.0])],
        &[("i", &[1, 2, 1 << 60])],
    );
    let b = file(
        f,
        "b",
        &[("x", &[1.0, 2.0, nan]), ("y", &[1.0, nan]), ("shape", &[1.0, 2.0]), ("b", &[0.0])],
        &[("i", &[1, 3, (1 << 60) + 1]), ("kind", &[1])],
    );
    let b = b.to_str().unwrap();
    let report = diff(&a, b, &["--json", "--atol", "0.1"]).expect(1).json();
    let tensors = report["tensors"].as_array().unwrap();
    let tensor = |name: &str| tensors.iter().find(|t| t["name"] == name).unwrap();
    assert_eq!((&report["compared"], &report["failed"]), (&json!(7), &json!(7)));
    let x = tensor("x");
    assert_eq!((&x["max_abs"], &x["max_rel"], &x["mean_signed"]), (&json!(0.5), &json!(0.25), &json!(0.25)));
    assert_eq!(x["first"], json!({"index": [1], "a": 2.5, "b": 2.0}));
    assert_eq!(tensor("y")["first"], json!({"index": [1], "a": null, "b": null}));
    assert_eq!(tensor("i")["beyond"], 2, "integers are exact, beyond 2^53 too, whatever the tolerance");
    assert_eq!(tensor("a")["problem"], "only in A");
    assert_eq!(tensor("b")["problem"], "only in B");
    assert!(tensor("shape")["problem"].as_str().unwrap().contains("[1] against [2]"));
    assert!(tensor("kind")["problem"].as_str().unwrap().contains("F32 against I64"));

    diff(&a, b, &["--only", "x", "--atol", "0.5"]).expect(0);
    diff(&a, b, &["--only", "x", "--rtol", "0.25"]).expect(0);
    let table = diff(&a, b, &["--only", "?"]).expect(1);
    assert!(table.stdout.contains("FAIL") && table.stdout.contains("[1]: 2.5 against 2"), "{}", table.stdout);
    assert!(table.stderr.contains("5 of 5 tensors"), "{}", table.stderr);
    let none = diff(&a, b, &["--prefix-a", "z"]).expect(1);
    assert!(none.stdout.contains("only in B"), "{}", none.stdout);
    let none = diff(&a, b, &["--only", "nothing"]).expect(2);
    assert!(none.stderr.contains("no tensor takes part"), "{}", none.stderr);
    diff(&a, "no-such-file", &[]).expect(2);
    diff(&a, b, &["--atol", "nan"]).expect(2);
}
