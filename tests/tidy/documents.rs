//! Documents keep their promises: commands that CI runs, tests that exist, lengths.

use crate::{files, read, report, root};

/// The two commands that a newcomer needs.
const MAIN_COMMAND: &str = "cargo run --release -- run --prompt";
const TEST_COMMAND: &str = "cargo test --release --workspace";

#[test]
fn the_two_commands_of_the_readme_are_what_ci_runs() {
    let readme = read("README.md");
    let block = readme
        .split("```sh\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a block of commands");
    let commands: Vec<&str> = block.lines().filter(|line| !line.trim().is_empty()).collect();
    assert_eq!(
        commands.len(),
        2,
        "the first block of the README holds the two commands and no other: {commands:?}"
    );
    assert!(commands[0].starts_with(MAIN_COMMAND), "{}", commands[0]);
    assert_eq!(commands[1], TEST_COMMAND);
    let ci = read(".ci/run");
    for command in [MAIN_COMMAND, TEST_COMMAND] {
        assert!(ci.lines().any(|line| line.contains(command)), ".ci/run lacks `{command}`");
    }
    assert!(ci.contains("set -euo pipefail") && ci.contains("INSTA_UPDATE=no"));
}

/// `path::name` in code spans whose path is a Rust file.
fn cited_tests(text: &str) -> Vec<(&str, &str)> {
    let spans = text.split('`').skip(1).step_by(2);
    spans
        .filter_map(|span| span.split_once(".rs::").map(|(path, name)| (&span[..path.len() + 3], name)))
        .collect()
}

/// True if `text` has a function `name` that the test runner runs: the attributes above it hold `#[test]`, or it stands in
/// a `proptest!` block, which needs the attribute too.
fn is_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    lines.iter().enumerate().filter(|(_, line)| line.starts_with(&format!("fn {name}("))).any(|(at, _)| {
        let above =
            lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        above.into_iter().any(|line| line.starts_with("#[test]"))
    })
}

#[test]
fn tests_that_documents_name_exist() {
    let mut findings = Vec::new();
    let mut cited = 0;
    for file in files(&[".md"]) {
        for (path, name) in cited_tests(&file.text) {
            cited += 1;
            if !(root().join(path).is_file() && is_test(&read(path), name)) {
                findings.push(format!("{}: `{path}::{name}`", file.path));
            }
        }
    }
    report("tests that are named but not there", &findings);
    assert!(cited > 20, "{cited} citations only: the search is broken");
}

#[test]
fn every_invariant_names_its_test() {
    let text = read("ARCHITECTURE.md");
    let section =
        text.split("## Invariants").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("invariants");
    let mut items: Vec<String> = Vec::new();
    for line in section.lines() {
        if line.starts_with(&format!("{}. ", items.len() + 1)) {
            items.push(line.to_owned());
        } else if let (Some(item), true) = (items.last_mut(), line.starts_with("   ")) {
            item.push_str(line);
        }
    }
    assert_eq!(items.len(), 10, "there are ten invariants");
    let findings: Vec<String> = items
        .into_iter()
        .filter(|item| cited_tests(item).is_empty() && !item.contains("comes with part"))
        .collect();
    report("invariants without a test", &findings);
}

#[test]
fn documents_stay_short() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines <= 250, "ARCHITECTURE.md has {lines} lines, 250 at most");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut findings = Vec::new();
    for file in files(&[".md"]) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for rest in file.text.split("](").skip(1) {
            let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
            let external = target.is_empty() || target.contains("://");
            if !external && !root().join(folder).join(target).exists() {
                findings.push(format!("{}: {target}", file.path));
            }
        }
    }
    report("links to nothing", &findings);
}

#[test]
fn fuzz_targets_are_declared_run_and_checked() {
    let manifest = read("fuzz/Cargo.toml");
    let (chore, checks) = (read("xtask/src/fuzz.rs"), read("fuzz/checks.rs"));
    let names: Vec<&str> =
        manifest.split("[[bin]]\nname = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() >= 4);
    for name in names {
        assert!(chore.contains(&format!("\"{name}\"")), "xtask does not run {name}");
        assert!(checks.contains(&format!("pub fn {name}(")), "checks.rs lacks {name}");
        assert!(root().join(format!("fuzz/targets/{name}.rs")).is_file());
    }
}
