//! Texts with known faults: each file says what is wrong and where, the snapshot beside it how the report reads.
//!
//! A file under `filetests/parse` starts with `; expect: LINE:COLUMN PART OF THE MESSAGE`, one under `filetests/verify` with
//! one `; expect: RULE PLACE[, SUBJECT]` per fault, in the order of the report. Files under `filetests/ok` are canonical
//! text of valid modules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tessera_ir::graph::{self, Fault, Place, Rule, Subject};

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests").join(kind)
}

/// Stems of the files of a folder with this extension, sorted.
fn stems(folder: &Path, extension: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths = entries.map(|e| e.expect("an entry of a folder").path());
    let wanted = paths.filter(|p| p.extension().is_some_and(|e| e == extension));
    wanted.map(|p| p.file_stem().expect("a file name").to_string_lossy().into_owned()).collect()
}

/// Names and texts of the files of one kind.
fn texts(kind: &str) -> Vec<(String, String)> {
    let folder = folder(kind);
    let read = |name: String| {
        let text = fs::read_to_string(folder.join(format!("{name}.tir"))).expect("a text in UTF-8");
        (name, text)
    };
    stems(&folder, "tir").into_iter().map(read).collect()
}

fn expectations(text: &str) -> Vec<&str> {
    text.lines().map_while(|l| l.strip_prefix("; expect: ")).map(str::trim_end).collect()
}

fn snapshot(kind: &str, name: &str, report: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder("snapshots").join(kind));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, report));
}

#[test]
fn faulty_texts_are_reported_at_their_place() {
    for (name, text) in texts("parse") {
        let fault = match graph::parse(&text) {
            Err(fault) => fault,
            Ok(_) => panic!("{name} parses"),
        };
        let expected = expectations(&text);
        let [(place, part)] = expected.iter().filter_map(|e| e.split_once(' ')).collect::<Vec<_>>()[..]
        else {
            panic!("{name} needs one `; expect: LINE:COLUMN PART` line");
        };
        assert_eq!(format!("{}:{}", fault.line, fault.column), place, "{name}:\n{fault}");
        assert!(fault.message.contains(part), "{name} lacks {part:?}:\n{fault}");
        snapshot("parse", &name, &fault.to_string());
    }
}

/// `RULE PLACE[, SUBJECT]`, as the files spell faults.
fn spelled(fault: &Fault) -> String {
    let place = match fault.place {
        Place::Module => "module".to_owned(),
        Place::Decl(i) => format!("declaration {i}"),
        Place::Node(i) => format!("node {i}"),
        Place::Output(i) => format!("output {i}"),
    };
    match fault.subject {
        Subject::Node => format!("{} {place}", fault.rule),
        Subject::Operand(name) => format!("{} {place}, operand {name}", fault.rule),
        Subject::Attribute(name) => format!("{} {place}, attribute {name}", fault.rule),
        Subject::Result(i) => format!("{} {place}, result {i}", fault.rule),
    }
}

#[test]
fn faulty_modules_are_reported_in_full() {
    let mut rules = BTreeSet::new();
    let mut wrong = Vec::new();
    for (name, text) in texts("verify") {
        let module = graph::parse(&text).unwrap_or_else(|e| panic!("{name} does not parse:\n{e}"));
        let errors = match graph::verify(module) {
            Err(errors) => errors,
            Ok(_) => panic!("{name} verifies"),
        };
        let found: Vec<String> = errors.faults.iter().map(spelled).collect();
        if found != expectations(&text) {
            wrong.push(format!("{name}: {found:#?}\n{errors}"));
            continue;
        }
        rules.extend(errors.faults.iter().map(|f| f.rule));
        snapshot("verify", &name, &errors.to_string());
    }
    assert!(wrong.is_empty(), "reports that differ from what the files expect:\n{}", wrong.join("\n\n"));
    // No text has these faults: the parser numbers values and refuses undefined ones.
    rules.extend([Rule::Numbering, Rule::Defined]);
    assert_eq!(rules.into_iter().collect::<Vec<_>>(), Rule::ALL, "a rule without a file");
}

#[test]
fn canonical_texts_print_as_they_are() {
    for (name, text) in texts("ok") {
        let module = graph::parse(&text).unwrap_or_else(|e| panic!("{name}:\n{e}"));
        assert_eq!(graph::print(&module), text, "{name}");
        if let Err(errors) = graph::verify(module) {
            panic!("{name}:\n{errors}");
        }
    }
}

#[test]
fn every_snapshot_has_its_text() {
    for kind in ["parse", "verify"] {
        let snapshots = stems(&folder("snapshots").join(kind), "snap");
        let texts = stems(&folder(kind), "tir");
        assert!(!texts.is_empty());
        assert_eq!(snapshots, texts, "snapshots and texts of {kind} differ");
    }
}
