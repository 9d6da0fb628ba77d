//! Where the repository keeps the models that the tests read.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::path::{Path, PathBuf};

use tessera_model::{Config, ConfigOptions};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The trained checkpoint with a tokenizer.
pub(crate) fn tiny() -> PathBuf {
    root().join("models/tiny-v41")
}

/// The random checkpoint with golden data.
pub(crate) fn random() -> PathBuf {
    root().join("tests/data/random-v41")
}

/// The configuration of a model folder.
pub(crate) fn config(dir: &Path) -> Config {
    Config::from_dir(dir, &ConfigOptions::default()).unwrap()
}

/// The file as JSON.
pub(crate) fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
