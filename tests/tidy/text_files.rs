//! Rules for every text file: no trailing blanks, nothing of the machine that it was written on.

use crate::{files, report};

/// Endings of files that people write.
const WRITTEN: &[&str] = &[".rs", ".md", ".toml", ".py", "run", ".gitignore"];

#[test]
fn lines_end_without_blanks_and_files_with_a_line_end() {
    let mut findings = Vec::new();
    for file in files(WRITTEN) {
        for (line, text) in (1..).zip(file.text.lines()) {
            if text.ends_with([' ', '\t', '\r']) {
                findings.push(format!("{}:{line}: blank at the end of the line", file.path));
            }
        }
        if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
            findings.push(format!("{}: the file must end with one line end", file.path));
        }
    }
    report("blanks", &findings);
}

#[test]
fn no_file_names_a_machine_or_a_registry() {
    // Spelled in pieces, so that this file passes.
    let foreign = [
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/wo", "rk/"),
        concat!("/Us", "ers/"),
        concat!("C:", "\\"),
        concat!("crates", ".io"),
        concat!("py", "pi.org"),
        concat!("npm", "js."),
        concat!("hugging", "face.co"),
        concat!("deb", "ian.org"),
    ];
    let mut findings = Vec::new();
    for file in
        files(&[".rs", ".md", ".toml", ".py", "run", ".json", ".snap", ".tir", ".tile", ".txt", ".gitignore"])
    {
        for (line, text) in (1..).zip(file.text.lines()) {
            if let Some(found) = foreign.iter().find(|f| text.contains(**f)) {
                findings.push(format!("{}:{line}: {found}", file.path));
            }
        }
    }
    report("paths and hosts", &findings);
}

#[test]
fn locked_crates_come_from_the_public_registry() {
    let standard = concat!("source = \"registry+https://github.com/rust-lang/crates", ".io-index\"");
    let findings: Vec<String> = files(&["Cargo.lock"])
        .iter()
        .flat_map(|f| f.text.lines().map(|line| format!("{}: {line}", f.path)).collect::<Vec<_>>())
        .filter(|line| line.contains(": source = ") && !line.ends_with(standard))
        .collect();
    report("sources of crates", &findings);
}
