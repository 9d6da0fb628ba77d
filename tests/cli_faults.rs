//! What the program says about wrong input: every message and exit code, as one snapshot a subject.

mod common;

use common::{repo, tessera};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::Path;

/// Runs each case and writes down command, exit code and messages; paths of this machine are cut off.
fn transcript(folder: &Path, cases: &[&[&str]]) -> String {
    let mut out = String::new();
    for args in cases {
        let full: Vec<OsString> =
            args.iter().map(|arg| OsString::from(arg.replace("DIR", folder.to_str().unwrap()))).collect();
        let ran = tessera(&full);
        assert!(ran.stdout.is_empty(), "{args:?}: {}", ran.stdout);
        let clean =
            ran.stderr.replace(folder.to_str().unwrap(), "DIR").replace(repo("").to_str().unwrap(), "REPO/");
        // A list of thousands of tokens says nothing more than its length.
        let shown = args.iter().map(|arg| match arg.len() {
            0 => "''".to_owned(),
            1..80 => (*arg).to_owned(),
            n => format!("({n} characters)"),
        });
        let shown: Vec<String> = shown.collect();
        writeln!(out, "$ tessera {}\nexit {}\n{}", shown.join(" "), ran.code, clean.trim_end()).unwrap();
        out.push('\n');
    }
    out
}

#[test]
fn prompt_and_option_faults() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("latin1.txt"), b"caf\xe9 ole").unwrap();
    std::fs::write(folder.path().join("long.txt"), "a".repeat(1 << 20)).unwrap();
    let long = vec!["1"; 4097].join(",");
    let cases: &[&[&str]] = &[
        &["run"],
        &["run", "--prompt", ""],
        &["run", "--tokens", ""],
        &["run", "--tokens", "1,two,3"],
        &["run", "--tokens", "-1"],
        &["run", "--tokens", "0,2048"],
        &["run", "--tokens", &long],
        &["run", "--prompt-file", "DIR/no-such-file"],
        &["run", "--prompt-file", "DIR/latin1.txt"],
        &["run", "--prompt", "x", "--tokens", "1"],
        &["run", "--prompt", "x", "--max-tokens", "0"],
        &["run", "--prompt", "x", "--threads", "0"],
        &["run", "--prompt", "x", "--threads", "100000"],
        &["run", "--prompt", "x", "--prefill-chunk", "0"],
        &["run", "--prompt", "x", "--mode", "f16"],
        &["run", "--prompt", "x", "--stop", ""],
        &["run", "--prompt", "x", "--temperature", "-1"],
        &["run", "--prompt", "x", "--temperature", "inf"],
        &["run", "--prompt", "x", "--top-p", "0"],
        &["run", "--prompt", "x", "--think"],
        &["run", "--prompt", "x", "--chat", "--think", "--effort", "101"],
        &["run", "--prompt", "x", "--chat", "--think"],
        &["run", "--prompt", "x", "--strict"],
        &["run", "--prompt", "x", "--top-k", "-1"],
        &["run", "--prompt", "x", "--accept-config", "nope"],
        &["run", "--prompt-file", "DIR/long.txt"],
        &["inspect", "--memory", "--context", "100000000000"],
        &["logits", "--tokens", "0,5", "--engine", "oracle", "--threads", "2", "--out", "DIR/x"],
        &["logits", "--tokens", "0,5", "--out", "/dev/null"],
        &["run", "--jobs", "DIR/no-such-file"],
        &["run", "--model", "tests/data/random-v41", "--prompt", "x"],
        &["run", "--model", "tests/data/random-v41", "--tokens", "1", "--stop", "x"],
    ];
    insta::assert_snapshot!(transcript(folder.path(), cases));
}

#[test]
fn devices_and_later_options() {
    let folder = tempfile::tempdir().unwrap();
    let mut cases: Vec<Vec<&str>> = Vec::new();
    for device in
        ["cuda", "cuda:0", "cuda:emulated", "ascend", "ascend:1", "ascend:emulated", "gpu", "cpu:0", "cuda:x"]
    {
        cases.push(vec!["run", "--prompt", "x", "--device", device]);
    }
    for later in [
        &["--draft", "3"][..],
        &["--draft", "6"],
        &["--schema", "s.json"],
        &["--regex", "a+"],
        &["--grammar", "g.lark"],
        &["--batch", "4"],
        &["--replay", "mask"],
        &["--replay-keep", "9"],
    ] {
        cases.push([&["run", "--prompt", "x"], later].concat());
    }
    cases.push(vec!["run", "--bundle", "b", "--prompt", "x"]);
    cases.push(vec!["logits", "--tokens", "1", "--draft", "--out", "DIR/x"]);
    cases.push(vec!["logits", "--tokens", "1", "--replay", "mask", "--out", "DIR/x"]);
    cases.push(vec!["logits", "--tokens", "1", "--device", "cuda", "--out", "DIR/x"]);
    cases.push(vec![
        "logits",
        "--tokens",
        "1,2",
        "--teacher",
        "tests/data/random-v41/golden.safetensors",
        "--out",
        "DIR/x",
    ]);
    cases.push(vec!["tune", "--all"]);
    let cases: Vec<&[&str]> = cases.iter().map(Vec::as_slice).collect();
    insta::assert_snapshot!(transcript(folder.path(), &cases));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A copy of the random model's folder whose `config.json` is changed by text.
fn model(folder: &Path, name: &str, from: &str, to: &str) {
    let path = folder.join(name);
    std::fs::create_dir(&path).unwrap();
    for file in ["token_map.json", "model.safetensors"] {
        std::fs::copy(repo("tests/data/random-v41").join(file), path.join(file)).unwrap();
    }
    let config = std::fs::read_to_string(repo("tests/data/random-v41/config.json")).unwrap();
    assert!(config.contains(from), "{from}");
    std::fs::write(path.join("config.json"), config.replacen(from, to, 1)).unwrap();
}

#[test]
fn model_faults() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    model(f, "unknown", "{", "{\"surprise\": 1,");
    model(f, "mistyped", "\"hidden_size\": 128", "\"hidden_size\": \"wide\"");
    model(f, "null", "\"hidden_size\": 128", "\"hidden_size\": null");
    model(f, "not-json", "{", "{,");
    model(f, "other-size", "\"moe_intermediate_size\": 32", "\"moe_intermediate_size\": 64");
    model(f, "cut", "{", "{");
    let file = std::fs::OpenOptions::new().write(true).open(f.join("cut/model.safetensors")).unwrap();
    file.set_len(3_000_000).unwrap();
    model(f, "no-map", "{", "{");
    std::fs::remove_file(f.join("no-map/token_map.json")).unwrap();
    model(f, "no-tensors", "{", "{");
    std::fs::remove_file(f.join("no-tensors/model.safetensors")).unwrap();
    std::fs::create_dir(f.join("empty")).unwrap();
    let names = [
        "nowhere",
        "empty",
        "unknown",
        "mistyped",
        "null",
        "not-json",
        "other-size",
        "cut",
        "no-map",
        "no-tensors",
    ];
    let folders: Vec<String> = names.iter().map(|name| format!("DIR/{name}")).collect();
    let cases: Vec<Vec<&str>> =
        folders.iter().map(|folder| vec!["run", "--model", folder, "--tokens", "1"]).collect();
    let cases: Vec<&[&str]> = cases.iter().map(Vec::as_slice).collect();
    insta::assert_snapshot!(transcript(f, &cases));

    let path = f.join("unknown").to_str().unwrap().to_owned();
    let accepted =
        ["run", "--model", &path, "--tokens", "1", "--max-tokens", "1", "--accept-config", "surprise"];
    let ran = tessera(accepted).expect(0);
    assert!(ran.stderr.contains("surprise"), "an accepted key is said: {}", ran.stderr);
}

#[test]
fn file_faults_of_check_build_and_diff() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    std::fs::write(f.join("x.tir"), "tessera.graph 2\nmodule @m {}\n").unwrap();
    std::fs::write(f.join("x.txt"), "hello").unwrap();
    std::fs::write(f.join("ok.tir"), "tessera.graph 1\nmodule @m {\n}\n").unwrap();
    std::fs::write(f.join("x.safetensors"), [9, 0, 0]).unwrap();
    std::fs::write(f.join("latin1.tir"), b"tessera.graph 1 ; caf\xe9").unwrap();
    let cases: &[&[&str]] = &[
        &["check", "DIR/no-such-file.tir"],
        &["check", "DIR/x.txt"],
        &["check", "DIR/latin1.tir"],
        &["build", "DIR/x.tir"],
        &["build", "DIR/ok.tir", "--target", "ascend950"],
        &["build", "DIR/ok.tir", "--target", "tpu"],
        &["build", "DIR/ok.tir", "--emit", "ptx"],
        &["build", "DIR/ok.tir", "--dump-after", "magic"],
        &["diff", "DIR/x.safetensors", "DIR/x.safetensors"],
        &["inspect", "--mode", "f64"],
    ];
    insta::assert_snapshot!(transcript(f, cases));
}

#[cfg(unix)]
#[test]
fn an_argument_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let bad = OsStr::from_bytes(b"caf\xe9");
    let ran = tessera([OsStr::new("run"), OsStr::new("--prompt"), bad]).expect(2);
    assert!(ran.stderr.contains("UTF-8"), "{}", ran.stderr);
}

/// A NaN among the weights reaches every logit; no token can be chosen from that.
#[test]
fn a_damaged_weight_is_an_error_and_no_text() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "token_map.json", "model.safetensors"] {
        std::fs::copy(repo("tests/data/random-v41").join(file), folder.path().join(file)).unwrap();
    }
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let json: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let at = json["layers.0.attn.kv_norm.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[8 + header + at..][..2].copy_from_slice(&0x7fc0_u16.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    for sampling in [&[][..], &["--temperature", "1"]] {
        let model = folder.path().to_str().unwrap();
        let args = [&["run", "--model", model, "--tokens", "1,5", "--max-tokens", "2"], sampling].concat();
        let ran = tessera(&args);
        assert!(ran.code == 2 && ran.stdout.is_empty(), "{} {}", ran.code, ran.stdout);
        assert!(ran.stderr.contains("logits at position 2 are not finite"), "{}", ran.stderr);
    }
}
