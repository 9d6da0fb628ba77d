//! Chores that only call cargo.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Everything a change must pass. One profile throughout, so that dependencies compile once.
pub(crate) fn check() -> Result<()> {
    cargo("fmt --all --check", &[])?;
    cargo("fmt --check --manifest-path fuzz/Cargo.toml", &[])?;
    cargo("clippy --workspace --all-targets --release -- -D warnings", &[])?;
    cargo("doc --workspace --no-deps --release", &[("RUSTDOCFLAGS", "-D warnings")])?;
    cargo("test --release --workspace", &[("INSTA_UPDATE", "no")])
}

/// Runs the tests and rewrites the snapshots that differ.
pub(crate) fn bless() -> Result<()> {
    cargo("test --release --workspace", &[("INSTA_UPDATE", "always"), ("INSTA_FORCE_PASS", "1")])
}

/// Assembles every kernel and rewrites the table in docs/kernels_sm100.md.
pub(crate) fn table() -> Result<()> {
    let env = [("TESSERA_REQUIRE_PTXAS", "1"), ("TESSERA_WRITE_TABLE", "1")];
    cargo("test --release --package tessera --test ptx_assembled -- the_table_of_kernels_is_current", &env)
}

fn cargo(args: &str, env: &[(&str, &str)]) -> Result<()> {
    run(Command::new("cargo").args(args.split(' ')).envs(env.iter().copied()))
}

/// Runs a command in the repository's root and fails if it does.
#[allow(clippy::print_stderr, reason = "a program for the terminal")]
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    eprintln!("$ {shown}");
    let status = command.current_dir(root()).status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}
