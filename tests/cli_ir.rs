//! `tessera check`, `build`, `inspect` and `doctor`: texts of both IRs in and out of the program.

mod common;

use common::{Ran, tessera};
use std::path::{Path, PathBuf};
use tessera::codegen::pipeline::pass_names;

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn run(command: &str, file: &Path, args: &[&str]) -> Ran {
    tessera([command, file.to_str().unwrap()].iter().chain(args))
}

/// The graph of a program of the random model, as the program prints it.
fn graph(program: &str, mode: &str) -> String {
    graph_of("tests/data/random-v41", program, mode)
}

/// The graph of a program of a model, as the program prints it.
fn graph_of(model: &str, program: &str, mode: &str) -> String {
    let model = ["inspect", "--model", model];
    let ran = tessera(model.iter().chain(&["--graph", "--program", program, "--mode", mode])).expect(0);
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    ran.stdout
}

#[test]
fn a_printed_graph_is_a_sound_file_and_builds_through_every_stage() {
    let folder = tempfile::tempdir().unwrap();
    for (program, mode) in [("step", "ref"), ("step", "f32"), ("draft", "f32q")] {
        let text = graph(program, mode);
        assert_eq!(text, graph(program, mode), "printing is byte-stable");
        let file = write(folder.path(), "graph.tir", &text);
        let report = run("check", &file, &["--json"]).expect(0).json();
        assert_eq!((&report["ok"], report["name"].as_str()), (&true.into(), Some(program)));
        for emit in ["graph", "tile", "clif"] {
            let built = run("build", &file, &["--target", "cpu", "--emit", emit]).expect(0);
            let again = run("build", &file, &["--target", "cpu", "--emit", emit]).expect(0);
            assert!(built.stdout == again.stdout, "{program} {mode}: {emit} is byte-stable");
            run("build", &file, &["--emit", emit, "--json"]).expect(0).json();
        }
    }
}

#[test]
fn every_kernel_of_a_graph_is_a_sound_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "graph.tir", &graph("step", "ref"));
    let report = run("build", &file, &["--emit", "tile", "--json"]).expect(0).json();
    let kernels = report["kernels"].as_array().unwrap();
    assert!(kernels.len() > 20);
    // One of each family stands for the others; each is two runs of the program.
    let mut families: Vec<&str> = Vec::new();
    for kernel in kernels {
        let family = kernel["family"].as_str().unwrap();
        if families.contains(&family) {
            continue;
        }
        families.push(family);
        let text = kernel["text"].as_str().unwrap();
        let file = write(folder.path(), "kernel.tile", text);
        run("check", &file, &["--json"]).expect(0).json();
        assert_eq!(run("build", &file, &["--emit", "tile"]).expect(0).stdout, text, "printing is canonical");
        assert!(run("build", &file, &["--emit", "clif"]).expect(0).stdout.contains("function"));
        run("build", &file, &["--emit", "graph"]).expect(2);
        run("build", &file, &["--dump-after", "outline"]).expect(2);
    }
    assert!(families.len() >= 8, "{families:?}");
}

/// The same for SM100: a kernel's text gives the PTX that the graph gives, with its launch, and no code for another machine.
#[test]
fn every_kernel_of_a_graph_becomes_ptx() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "graph.tir", &graph_of("models/tiny-v41", "step", "ref"));
    let build = |emit: &str| {
        let args = ["--target", "sm_100a", "--rows", "64", "--emit", emit, "--json"];
        run("build", &file, &args).expect(0).json()["kernels"].as_array().unwrap().clone()
    };
    let (tiles, codes) = (build("tile"), build("ptx"));
    assert!(tiles.len() > 20 && tiles.len() == codes.len());
    let mut families: Vec<&str> = Vec::new();
    for (tile, code) in tiles.iter().zip(&codes) {
        let family = tile["family"].as_str().unwrap();
        if families.contains(&family) {
            continue;
        }
        families.push(family);
        let text = tile["text"].as_str().unwrap();
        let file = write(folder.path(), "kernel.tile", text);
        run("check", &file, &["--json"]).expect(0).json();
        let emit =
            |emit: &str| run("build", &file, &["--target", "sm_100a", "--emit", emit]).expect(0).stdout;
        assert_eq!(emit("tile"), text, "printing is canonical");
        assert_eq!(emit("ptx"), code["text"].as_str().unwrap(), "{family}");
        assert!(
            code["text"].as_str().unwrap().contains(&format!(".entry {}", code["name"].as_str().unwrap()))
        );
        assert_eq!(code["launch"]["family"], family);
        let other = run("build", &file, &["--target", "cpu", "--emit", "clif"]).expect(2);
        assert!(other.stderr.contains("use --target sm_100a"), "{other:?}");
        run("build", &file, &["--target", "sm_100a", "--emit", "clif"]).expect(2);
        run("build", &file, &["--target", "sm_100a", "--rows", "1"]).expect(2);
    }
    assert!(families.len() >= 9, "{families:?}");
}

#[test]
fn what_build_prints_can_be_checked_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let step = write(folder.path(), "step.tir", &graph("step", "ref"));
    for (emit, name) in [("graph", "fragments.tir"), ("tile", "kernels.tile")] {
        let built = run("build", &step, &["--target", "cpu", "--emit", emit]);
        assert_eq!(built.code, 0, "{}", built.stderr);
        let checked = run("check", &write(folder.path(), name, &built.stdout), &[]);
        assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
        let sound = checked.stdout.lines().filter(|line| line.ends_with("is sound")).count();
        assert!(sound > 20 && sound == checked.stdout.lines().count(), "{}", checked.stdout);
        // A fault in the last text has its line in the file.
        let broken = format!("{}tessera.{emit} 1\n?", built.stdout);
        let checked = run("check", &write(folder.path(), name, &broken), &[]);
        let line = format!("line {}", broken.lines().count());
        assert!(checked.code == 2 && checked.stdout.contains(&line), "{}", checked.stdout);
    }
}

#[test]
fn every_pass_can_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "graph.tir", &graph("step", "ref"));
    for pass in pass_names() {
        let dumped =
            run("build", &file, &["--emit", "tile", "--dump-after", pass, "--json"]).expect(0).json();
        assert_eq!(dumped["dumps"][0]["pass"], pass);
        let stopped = run("build", &file, &["--stop-after", pass, "--json"]).expect(0).json();
        assert_eq!(stopped["text"], dumped["dumps"][0]["text"]);
        assert_eq!(stopped["kernels"].as_array().unwrap().len(), 0);
    }
}

#[test]
fn faults_have_their_places_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    // A comment and a blank line, so that places are those of the file and not of the canonical text.
    let text = "tessera.graph 1\n; a comment\n\nmodule @m {\n  %a = input \"a\" : [T, 4] f32\n  %b = input \"a\" : [T, 4] f32\n  \
                %c = add %a, %a : [T, 4] f32\n  %d =\n    scale %c {factor = 2.0} : [T, 8] f32\n  output \"d\" = %d\n}\n";
    let file = write(folder.path(), "m.tir", text);
    let report = run("check", &file, &["--json"]).expect(1).json();
    let places: Vec<(u64, u64, &str)> = report["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["line"].as_u64().unwrap(), f["column"].as_u64().unwrap(), f["rule"].as_str().unwrap()))
        .collect();
    assert_eq!(places, [(6, 3, "names"), (8, 3, "result")]);
    let human = run("check", &file, &[]).expect(1);
    assert!(human.stdout.contains("line 8, column 3") && human.stderr.contains("2 faults"), "{human:?}");
    let built = run("build", &file, &[]).expect(2);
    assert!(built.stdout.is_empty() && built.stderr.contains("line 8, column 3"), "{built:?}");

    let file = write(folder.path(), "n.tir", &text.replace("add %a, %a", "add %a, %x"));
    let report = run("check", &file, &["--json"]).expect(2).json();
    assert_eq!(
        (&report["faults"][0]["line"], &report["faults"][0]["rule"]),
        (&7.into(), &serde_json::Value::Null)
    );
}

#[test]
fn inspect_shows_topology_plan_and_memory() {
    let whole = ["--json", "--graph", "--plan", "--memory", "--context", "300"];
    for model in ["models/tiny-v41", "tests/data/random-v41"] {
        let report = tessera(["inspect", "--model", model].iter().chain(&whole)).expect(0).json();
        let layers = report["model"]["layers"].as_u64().unwrap() as usize;
        assert_eq!(report["layers"].as_array().unwrap().len(), layers);
        let kinds = report["memory"]["kinds"].as_array().unwrap();
        let sum: u64 = kinds.iter().map(|kind| kind["bytes"].as_u64().unwrap()).sum();
        assert_eq!(report["memory"]["total_bytes"], sum);
        assert!(kinds.iter().all(|kind| kind["bytes"].as_u64().unwrap() > 0), "{kinds:?}");
        assert_eq!(report["memory"]["context"], 300);
        assert!(report["plan"]["calls"].as_array().unwrap().len() > layers);
        let text = tessera(["inspect", "--model", model]).expect(0).stdout;
        assert!(text.contains("reindex") && text.contains("candidates"), "{text}");
    }
}

/// The plan's memory is what an engine of that size takes.
#[test]
fn inspected_memory_is_what_an_engine_takes() {
    let args = ["inspect", "--memory", "--context", "300", "--prefill-chunk", "64", "--json"];
    let report = tessera(args).expect(0).json();
    let session = common::session(common::tiny(), tessera::compile::Build::default());
    let size = tessera::session::Size { threads: 2, slots: 1, context: 300, rows: 64, all_logits: false };
    let engine = session.engine(size).unwrap();
    let kinds = report["memory"]["kinds"].as_array().unwrap();
    let bytes = |names: &[&str]| -> u64 {
        let chosen = kinds.iter().filter(|kind| names.contains(&kind["kind"].as_str().unwrap()));
        chosen.map(|kind| kind["bytes"].as_u64().unwrap()).sum()
    };
    let states = ["window rings", "compressed entries", "index keys", "compressor tails", "token history"];
    assert_eq!(bytes(&states), engine.instance().state_bytes() as u64);
    assert_eq!(bytes(&["activations"]), engine.instance().arena_bytes() as u64);
    assert!(session.loaded.weights.repacked_bytes() as u64 >= bytes(&["weights repacked"]));
}

#[test]
fn doctor_says_what_runs_and_what_is_missing() {
    let report = tessera(["doctor", "--json"]).expect(0).json();
    let chosen = report["micro_kernels"]["chosen"].as_str().unwrap();
    let sets = report["micro_kernels"]["sets"].as_array().unwrap();
    let set = sets.iter().find(|set| set["name"] == chosen).unwrap();
    assert_eq!((&set["available"], set["missing"].as_array().unwrap().len()), (&true.into(), 0));
    for set in sets.iter().filter(|set| set["available"] == false) {
        assert!(!set["missing"].as_array().unwrap().is_empty(), "{set}");
    }
    assert_eq!(report["default_model"], true);
    let text = tessera(["doctor"]).expect(0).stdout;
    for word in
        ["processor", "micro-kernels", chosen, "huge pages", "ptxas", "nvdisasm", "C++ compiler", "LLVM"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// No schema without a command that was checked against it, and no JSON Schema word that the check doesn't know.
#[test]
fn every_command_has_a_schema() {
    let names: Vec<String> = common::schema::all().into_keys().collect();
    let commands = ["build", "check", "diff", "doctor", "gen", "inspect", "logits", "run", "sass", "verify"];
    let want: Vec<String> = commands.iter().map(|command| format!("tessera.{command}/1")).collect();
    assert_eq!(names, want);
}
