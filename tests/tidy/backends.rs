//! Backends take verified modules only, and what they emit depends on nothing but module, target and configuration.

use crate::{files, read, report};

#[test]
fn backends_take_verified_kernels_only() {
    let mut findings = Vec::new();
    let mut seen = 0;
    for file in files(&[".rs"]).iter().filter(|f| is_target(&f.path)) {
        for function in file.text.split("\n    pub fn ").skip(1).chain(file.text.split("\npub fn ").skip(1)) {
            let head = function.split('{').next().unwrap_or_default();
            let takes = |ty: &str| head.split("->").next().is_some_and(|params| params.contains(ty));
            if takes("Kernel") || takes("Module") {
                seen += 1;
                if !takes("Verified<Kernel>")
                    && !takes("Verified<tile::Kernel>")
                    && !takes("Verified<Module>")
                {
                    findings.push(format!(
                        "{}: pub fn {}",
                        file.path,
                        head.split('(').next().unwrap_or_default()
                    ));
                }
            }
        }
    }
    report("backends that take unverified modules", &findings);
    assert!(seen > 0, "no backend found: the search is broken");
}

/// The face of a target: the file that other crates call.
fn is_target(path: &str) -> bool {
    path.strip_prefix("codegen/src/target/")
        .is_some_and(|rest| rest.ends_with("/mod.rs") && rest.matches('/').count() == 1)
}

#[test]
fn only_verifiers_mark_modules_as_verified() {
    assert!(read("ir/src/verified.rs").contains("pub(crate) fn new("), "the mark must stay private to ir");
    let makers: Vec<String> = files(&[".rs"])
        .into_iter()
        .filter(|f| {
            let shipped = f.text.split("#[cfg(test)]").next().unwrap_or_default();
            shipped.contains(concat!("Verified", "::new("))
        })
        .map(|f| f.path)
        .collect();
    assert_eq!(makers, ["ir/src/graph/verify.rs", "ir/src/tile/verify.rs"]);
}

#[test]
fn compilers_keep_no_hash_maps_clocks_or_paths() {
    // Hash maps iterate in another order each time; the rest differs from run to run or machine to machine. The parsers
    // of ir look names up in hash maps and never iterate over them.
    let compilers = ["codegen/src/", "kernels-gen/src/"];
    let foreign =
        ["HashMap", "HashSet", "SystemTime", "Instant", "std::env", "std::fs", "env!(", "thread_rng"];
    let mut findings = Vec::new();
    for file in files(&[".rs"]) {
        if !compilers.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        for (line, text) in (1..).zip(file.text.lines()) {
            if let Some(found) = foreign.iter().find(|f| text.contains(**f)) {
                findings.push(format!("{}:{line}: {found}", file.path));
            }
        }
    }
    report("what would make emission depend on more than its input", &findings);
}
