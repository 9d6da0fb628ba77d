//! Rules of the house that no compiler checks: each is a test that reads the repository's files.

mod backends;
mod dependencies;
mod documents;
mod op_matches;
mod rust_files;
mod snapshots;
mod text_files;

use std::fs;
use std::path::{Path, PathBuf};

/// A file of the repository.
struct File {
    /// Path from the root, with `/`.
    path: String,
    /// Content; bytes that are no UTF-8 are replaced.
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Folders that hold build products and not the repository's files.
const PRODUCTS: &[&str] = &["target", "fuzz/target", "fuzz/corpus", "fuzz/artifacts", ".git", ".tools"];

/// The repository's files whose names end in one of `endings`, sorted by path.
fn files(endings: &[&str]) -> Vec<File> {
    let mut paths = Vec::new();
    walk(root(), &mut paths);
    let mut files: Vec<File> = paths
        .into_iter()
        .filter(|path| endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)))
        .map(|path| {
            let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            File { path: relative(&path), text: String::from_utf8_lossy(&bytes).into_owned() }
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!files.is_empty(), "no file ends in any of {endings:?}");
    files
}

fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry of a folder").path();
        if PRODUCTS.contains(&relative(&path).as_str()) || path.ends_with("__pycache__") {
            continue;
        }
        if path.is_dir() { walk(&path, into) } else { into.push(path) }
    }
}

fn relative(path: &Path) -> String {
    let path = path.strip_prefix(root()).expect("a path below the root");
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Fails with every finding at once.
fn report(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}
