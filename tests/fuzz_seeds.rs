//! Runs the bodies of the fuzz targets on their seeds, which include every input that once failed.

#[path = "../fuzz/checks.rs"]
#[allow(unreachable_pub, reason = "the library of the fuzz crate")]
mod checks;

use std::fs;
use std::path::Path;

/// Runs `check` on every file below the folders.
fn replay(folders: &[&str], check: fn(&[u8])) {
    let mut count = 0;
    for folder in folders {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("an entry of a folder").path();
            if path.is_file() {
                let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                check(&bytes);
                count += 1;
            }
        }
    }
    assert!(count > 1, "no seeds in {folders:?}");
}

#[test]
fn graph_texts_round_trip_or_are_refused() {
    replay(
        &["ir/tests/filetests/ok", "ir/tests/filetests/parse", "ir/tests/filetests/verify"],
        checks::graph_text,
    );
}

#[test]
fn tile_texts_round_trip_or_are_refused() {
    let folders =
        ["ir/tests/filetests/tile/ok", "ir/tests/filetests/tile/parse", "ir/tests/filetests/tile/verify"];
    replay(&folders, checks::tile_text);
}

#[test]
fn configurations_are_whole_or_refused() {
    replay(&["fuzz/seeds/config_json", "model/data"], checks::config_json);
}

#[test]
fn safetensors_headers_tile_the_file_or_are_refused() {
    replay(&["fuzz/seeds/safetensors_header"], checks::safetensors_header);
}
