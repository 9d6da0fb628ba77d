//! Kernels with known faults: each file says what is wrong and where, the snapshot beside it how the report reads.
//!
//! A file under `filetests/tile/parse` starts with `; expect: LINE:COLUMN PART OF THE MESSAGE`, one under
//! `filetests/tile/verify` with one `; expect: RULE PLACE` per fault, in the order of the report. Files under
//! `filetests/tile/ok` are canonical text of valid kernels.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tessera_ir::tile::{self, Fault, Kernel, Place, Rule, Stmt};

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests/tile").join(kind)
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
        let text = fs::read_to_string(folder.join(format!("{name}.tile"))).expect("a text in UTF-8");
        (name, text)
    };
    stems(&folder, "tile").into_iter().map(read).collect()
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
    let mut wrong = Vec::new();
    for (name, text) in texts("parse") {
        let fault = match tile::parse(&text) {
            Err(fault) => fault,
            Ok(_) => panic!("{name} parses"),
        };
        let expected = expectations(&text);
        let [(place, part)] = expected.iter().filter_map(|e| e.split_once(' ')).collect::<Vec<_>>()[..]
        else {
            panic!("{name} needs one `; expect: LINE:COLUMN PART` line");
        };
        if format!("{}:{}", fault.line, fault.column) != place || !fault.message.contains(part) {
            wrong.push(format!("{name} should say {part:?} at {place}:\n{fault}"));
            continue;
        }
        snapshot("parse", &name, &fault.to_string());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// `RULE PLACE`, as the files spell faults.
fn spelled(fault: &Fault) -> String {
    let role = &fault.role;
    match fault.place {
        Place::Kernel => format!("{} kernel", fault.rule),
        Place::Param(i) => format!("{} parameter {i}", fault.rule),
        Place::Axis(i) => format!("{} axis {i}", fault.rule),
        Place::Ring(i) => format!("{} ring {i}", fault.rule),
        Place::Role(_) => format!("{} role {role}", fault.rule),
        Place::Stmt { number, .. } => format!("{} role {role}, statement {number}", fault.rule),
    }
}

#[test]
fn faulty_kernels_are_reported_in_full() {
    let mut rules = BTreeSet::new();
    let mut wrong = Vec::new();
    let texts = texts("verify");
    assert!(texts.len() >= 150, "{} texts of faulty kernels; some are gone", texts.len());
    for (name, text) in texts {
        let kernel = tile::parse(&text).unwrap_or_else(|e| panic!("{name} does not parse:\n{e}"));
        let errors = match tile::verify(kernel) {
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
    // No text has these faults: the parser numbers values and refuses deep nesting. They have tests of their own.
    rules.extend([Rule::Numbering, Rule::Nesting]);
    assert_eq!(rules.into_iter().collect::<Vec<_>>(), Rule::ALL, "a rule without a file");
}

#[test]
fn canonical_texts_print_as_they_are() {
    let texts = texts("ok");
    let all: String = texts.iter().map(|(_, text)| text.as_str()).collect();
    let constructs = [
        "index.group ",
        "index.end ",
        "return ",
        "copy.tile ",
        "copy.rows ",
        "copy.wrap ",
        "decode ",
        "mma.tile ",
        "store.rows ",
        "store.scatter ",
        "transpose ",
        "mask.cols ",
        "mask.ids ",
        "any ",
        "topk.view ",
        "topk.listed ",
        "sort.groups ",
        " for sm100 {",
        " groups %",
        "persistent ",
        "cluster 2",
        "scope pair",
        "codes + scales ->",
        "-> matrix + mix",
        " warps 8 registers 64 lanes 256x8 {",
        "blocks128",
        "pitch16",
        "split read",
        "split3",
        "trans = true",
        "per = 2",
    ];
    for word in constructs {
        assert!(all.contains(word), "no text has {word}");
    }
    for (name, text) in texts {
        let kernel = tile::parse(&text).unwrap_or_else(|e| panic!("{name}:\n{e}"));
        assert_eq!(tile::print(&kernel), text, "{name}");
        if let Err(errors) = tile::verify(kernel) {
            panic!("{name}:\n{errors}");
        }
    }
}

#[test]
fn every_snapshot_has_its_text() {
    for kind in ["parse", "verify"] {
        let snapshots = stems(&folder("snapshots").join(kind), "snap");
        let texts = stems(&folder(kind), "tile");
        assert!(!texts.is_empty());
        assert_eq!(snapshots, texts, "snapshots and texts of {kind} differ");
    }
}

fn linear() -> Kernel {
    let text = fs::read_to_string(folder("ok").join("linear_w8.tile")).expect("a text");
    tile::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn values_out_of_order_are_reported_once() {
    let mut kernel = linear();
    let Some(Stmt::Op(node)) = kernel.roles[1].body.first_mut() else { panic!("an op") };
    let Some((v, _)) = &mut node.result else { panic!("a result") };
    v.0 += 1;
    let errors = tile::verify(kernel).expect_err("a number is skipped");
    let found: Vec<String> = errors.faults.iter().map(spelled).collect();
    assert_eq!(found, ["numbering role matrix, statement 0"]);
    assert!(errors.to_string().contains("defines %17, but the next value in text order is %16"), "{errors}");
}

#[test]
fn deep_nesting_is_reported_without_overflowing_the_stack() {
    let mut kernel = linear();
    let cond = tile::Value(24);
    let body = &mut kernel.roles[2].body;
    for _ in 0..100 {
        let inner = std::mem::take(body);
        body.push(Stmt::If { cond, body: inner });
    }
    let errors = tile::verify(kernel).expect_err("too deep");
    assert!(errors.faults.iter().any(|f| f.rule == Rule::Nesting), "{errors}");
}
