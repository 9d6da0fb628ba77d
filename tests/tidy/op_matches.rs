//! Consumers of the op tables name every op, so that a new op can't be forgotten: no `_` arm hides it.

use crate::{read, report};

const GRAPH: &str = "ir/src/graph/ops.rs";
const TILE: &str = "ir/src/tile/ops.rs";

/// Files with a match over a whole table.
const EXHAUSTIVE: &[(&str, &str)] = &[
    ("ir/src/graph/typing/rules.rs", GRAPH),
    ("ir/src/graph/interp/dispatch.rs", GRAPH),
    ("ir/src/graph/tolerance.rs", GRAPH),
    ("codegen/src/groups.rs", GRAPH),
    ("kernels-gen/src/rows/mod.rs", GRAPH),
    ("ir/src/tile/typing.rs", TILE),
    ("ir/src/tile/verify/statements.rs", TILE),
    ("ir/src/tile/verify/views.rs", TILE),
    ("ir/src/tile/interp/exec.rs", TILE),
    ("codegen/src/target/cpu/emit/program.rs", TILE),
];

/// Names of the rows of a table: `Name = "mnemonic" (`.
fn variants(table: &str) -> Vec<String> {
    let text = read(table);
    let row = |line: &str| {
        let (name, rest) = line.trim().split_once(" = \"")?;
        let is_row = rest.contains("\" (") && name.chars().all(|c| c.is_ascii_alphanumeric());
        is_row.then(|| name.to_owned())
    };
    let names: Vec<String> = text.lines().filter_map(row).collect();
    assert!(names.len() > 20, "{table}: found {} rows only", names.len());
    names
}

/// Matches over an op: the lines from `match … op {` to the brace that closes it.
fn op_matches(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |l: &str| l.len() - l.trim_start().len();
    let opens = |l: &str| l.contains("match ") && (l.ends_with(" op {") || l.ends_with(".op {"));
    let starts = lines.iter().enumerate().filter(|(_, line)| opens(line)).map(|(i, _)| i);
    starts
        .map(|start| {
            let depth = indent(lines[start]);
            let body = lines[start + 1..].iter().take_while(|l| l.trim().is_empty() || indent(l) > depth);
            std::iter::once(lines[start]).chain(body.copied()).collect()
        })
        .collect()
}

/// True if an arm of the match itself, not of one inside an arm, is `_`.
fn has_wildcard(body: &[&str]) -> bool {
    let indent = |l: &str| l.len() - l.trim_start().len();
    let arm = indent(body[0]) + 4;
    body[1..].iter().any(|l| indent(l) == arm && l.trim_start().starts_with("_ "))
}

#[test]
fn matches_over_op_tables_name_every_op() {
    let mut findings = Vec::new();
    for (file, table) in EXHAUSTIVE {
        let variants = variants(table);
        let text = read(file);
        let names = |body: &[&str], variant: &str| {
            let name = format!("Op::{variant}");
            body.iter().any(|line| {
                line.match_indices(&name)
                    .any(|(at, _)| !line[at + name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric()))
            })
        };
        let whole = |body: &Vec<&str>| !has_wildcard(body) && variants.iter().all(|v| names(body, v));
        if !op_matches(&text).iter().any(whole) {
            findings.push(format!("{file}: no match names every op of {table}"));
        }
    }
    report("matches with a gap", &findings);
}
