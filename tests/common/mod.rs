//! What tests of the whole share: the repository's models and golden data, and the program under test.
#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod golden;
pub(crate) mod schema;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use tessera::compile::Build;
use tessera::load::ModelFolder;
use tessera::model::ConfigOptions;
use tessera::runtime::Engine;
use tessera::session::{Session, Size};

/// A path from the repository's root.
pub(crate) fn repo(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The trained model that ships with the repository.
pub(crate) fn tiny() -> ModelFolder {
    ModelFolder::open(repo("models/tiny-v41"), &ConfigOptions::default()).unwrap()
}

/// The random model of the golden data.
pub(crate) fn random() -> ModelFolder {
    ModelFolder::open(repo("tests/data/random-v41"), &ConfigOptions::default()).unwrap()
}

/// A compiled model.
pub(crate) fn session(folder: ModelFolder, build: Build) -> Session {
    Session::open(folder, build, &mut |_, _| ()).unwrap()
}

/// An engine of one slot whose rows may all want logits.
pub(crate) fn engine(session: &Session, context: usize, rows: usize) -> Engine {
    session.engine(Size { threads: 2, slots: 1, context, rows, all_logits: true }).unwrap()
}

/// What a run of the program gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The only object on standard output.
    pub(crate) fn json(&self) -> serde_json::Value {
        let objects = self.json_lines();
        assert_eq!(objects.len(), 1, "one object a run: {self:?}");
        objects[0].clone()
    }
    /// Every line of standard output as an object, checked against its schema.
    pub(crate) fn json_lines(&self) -> Vec<serde_json::Value> {
        let parse = |line: &str| {
            let value: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {self:?}"));
            assert!(line.starts_with("{\"schema\":\"tessera."), "the schema is not the first field: {line}");
            schema::check(&value);
            value
        };
        self.stdout.lines().map(parse).collect()
    }
    /// Asserts the exit code.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// Runs the program in the repository's root.
pub(crate) fn tessera<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    let output = command.args(args).current_dir(repo(".")).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Token ids as the command line takes them.
pub(crate) fn list(ids: &[u32]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
