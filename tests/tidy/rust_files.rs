//! Rules for Rust files: a first line that says what for, length, `unsafe`, leftovers.

use crate::{File, files, report};

/// Longest file, in lines.
const LONGEST: usize = 800;

/// Files that a program wrote.
const GENERATED: &[&str] = &[];

/// Where `unsafe` may be: beginnings of paths.
const UNSAFE: &[&str] = &[
    "runtime/",
    "model/src/mapping.rs",
    "tests/steady_state.rs",
    "codegen/tests/cpu_conformance/loader.rs",
    "benches/",
];

#[test]
fn every_file_begins_with_its_idea() {
    let findings: Vec<String> = files(&[".rs"])
        .iter()
        .filter(|f| !f.text.lines().next().is_some_and(|line| line.starts_with("//! ") && line.len() > 12))
        .map(|f| f.path.clone())
        .collect();
    report("files whose first line is not `//! one idea`", &findings);
}

#[test]
fn files_stay_readable() {
    let findings: Vec<String> = files(&[".rs"])
        .iter()
        .filter(|f| !GENERATED.contains(&f.path.as_str()) && f.text.lines().count() > LONGEST)
        .map(|f| format!("{}: {} lines", f.path, f.text.lines().count()))
        .collect();
    report("files of more than 800 lines", &findings);
}

#[test]
fn nothing_is_left_for_later() {
    let leftovers = [
        concat!("to", "do!"),
        concat!("unimpl", "emented!"),
        concat!("#[", "ignore"),
        concat!("db", "g!"),
        concat!("FIX", "ME"),
    ];
    let mut findings = Vec::new();
    for file in files(&[".rs"]) {
        for (line, text) in (1..).zip(file.text.lines()) {
            if let Some(leftover) = leftovers.iter().find(|l| text.contains(**l)) {
                findings.push(format!("{}:{line}: {leftover}", file.path));
            }
        }
    }
    report("leftovers", &findings);
}

#[test]
fn unsafe_code_stays_where_it_may() {
    let findings: Vec<String> = files(&[".rs"])
        .iter()
        .filter(|f| !UNSAFE.iter().any(|allowed| f.path.starts_with(allowed)))
        .flat_map(|f| unsafe_lines(f).into_iter().map(|line| format!("{}:{}", f.path, line + 1)))
        .collect();
    report("`unsafe` outside the runtime and the mapping of files", &findings);
}

#[test]
fn unsafe_code_gives_its_reason() {
    let mut findings = Vec::new();
    let mut seen = 0;
    for file in files(&[".rs"]) {
        let lines: Vec<&str> = file.text.lines().collect();
        for at in unsafe_lines(&file) {
            seen += 1;
            if !explained(&lines, at) {
                findings.push(format!("{}:{}: {}", file.path, at + 1, lines[at].trim()));
            }
        }
    }
    report("`unsafe` without a `SAFETY:` comment or a `# Safety` section above it", &findings);
    assert!(seen > 0, "no `unsafe` found at all: the search is broken");
}

/// Indices of lines whose code contains the keyword.
fn unsafe_lines(file: &File) -> Vec<usize> {
    let keyword = concat!("uns", "afe");
    let has = |line: &str| {
        let code = code_of(line);
        code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == keyword)
    };
    file.text.lines().enumerate().filter(|(_, line)| has(line)).map(|(i, _)| i).collect()
}

/// A line without its strings and its comment.
fn code_of(line: &str) -> String {
    let mut code = String::new();
    let mut in_string = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (in_string, c) {
            (true, '\\') => drop(chars.next()),
            (_, '"') => in_string = !in_string,
            (false, '/') if chars.peek() == Some(&'/') => break,
            (false, c) => code.push(c),
            (true, _) => {}
        }
    }
    code
}

/// Function pointer types say nothing to explain, nor do functions that only tests call; methods of an `impl` of a trait keep the trait's contract; all else needs a
/// comment in the statement itself or directly above it, above other such lines, attributes and the documentation.
fn explained(lines: &[&str], at: usize) -> bool {
    let line = lines[at].trim();
    if line.contains(concat!("uns", "afe extern \"C\" fn(")) || line.contains(concat!("uns", "afe fn(")) {
        return true;
    }
    let is_function =
        line.contains(concat!("uns", "afe fn ")) || line.contains(concat!("uns", "afe extern \"C\" fn "));
    let in_tests = lines[..at].iter().any(|line| line.starts_with("#[cfg(test)]"));
    if is_function && in_tests {
        return true;
    }
    if is_function && owner(lines, at).is_some_and(|head| head.contains(" for ") && head.contains("impl")) {
        return true;
    }
    if is_function
        && owner(lines, at).is_some_and(|head| head.contains("trait "))
        && documented_owner(lines, at)
    {
        return true;
    }
    let marks = |l: &str| l.contains("SAFETY:") || l.contains("# Safety");
    // A reason may stand above the statement that the keyword is part of.
    (at.saturating_sub(12)..=at)
        .rev()
        .take_while(|i| *i == at || !ends_statement(lines[*i]))
        .any(|i| marks(lines[i]))
        || (is_function && documentation(lines, at).iter().any(|l| marks(l)))
}

/// True for a line after which a new statement begins.
fn ends_statement(line: &str) -> bool {
    let line = line.trim();
    let comment = line.starts_with("//");
    !comment && (line.ends_with(';') || line.ends_with('}') || line.is_empty())
}

/// Comment and attribute lines right above `at`.
fn documentation<'a>(lines: &[&'a str], at: usize) -> Vec<&'a str> {
    let above = lines[..at].iter().rev().map(|l| l.trim());
    above.take_while(|l| l.starts_with("//") || l.starts_with("#[") || l.ends_with(")]")).collect()
}

/// The line that opens the block around `at`: the nearest one above that is less indented and not blank.
fn owner<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    owner_line(lines, at).map(|i| lines[i])
}

fn owner_line(lines: &[&str], at: usize) -> Option<usize> {
    let indent = |l: &str| l.len() - l.trim_start().len();
    (0..at).rev().find(|i| !lines[*i].trim().is_empty() && indent(lines[*i]) < indent(lines[at]))
}

fn documented_owner(lines: &[&str], at: usize) -> bool {
    let Some(head) = owner_line(lines, at) else { return false };
    documentation(lines, head).iter().any(|l| l.contains("# Safety") || l.contains("SAFETY:"))
}
