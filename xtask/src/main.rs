//! Chores of the repository: `cargo xtask check`, `bless` and `fuzz`.

mod chores;
mod fuzz;

use anyhow::{Context, Result, bail};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <chore>

  check                         format, lints, documentation and tests: what a change must pass
  bless                         run the tests and accept every snapshot as it is now
  fuzz [--seconds N] [TARGET…]  run fuzz targets one after another, N seconds each (60)";

#[allow(clippy::print_stderr, reason = "a program for the terminal")]
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let Some((chore, rest)) = args.split_first() else { bail!("{USAGE}") };
    match chore.as_str() {
        "check" => none(rest).and_then(|()| chores::check()),
        "bless" => none(rest).and_then(|()| chores::bless()),
        "fuzz" => {
            let (seconds, targets) = fuzz_args(rest)?;
            fuzz::run_all(seconds, &targets)
        }
        _ => bail!("unknown chore `{chore}`\n\n{USAGE}"),
    }
}

fn none(rest: &[String]) -> Result<()> {
    match rest.first() {
        None => Ok(()),
        Some(extra) => bail!("unexpected argument `{extra}`\n\n{USAGE}"),
    }
}

fn fuzz_args(mut rest: &[String]) -> Result<(u64, Vec<String>)> {
    let mut seconds = 60;
    let mut targets = Vec::new();
    while let Some((arg, tail)) = rest.split_first() {
        rest = tail;
        if arg == "--seconds" {
            let (value, tail) = rest.split_first().context("--seconds needs a number")?;
            seconds = value.parse().with_context(|| format!("--seconds `{value}`"))?;
            rest = tail;
        } else if arg.starts_with('-') {
            bail!("unknown option `{arg}`\n\n{USAGE}");
        } else {
            targets.push(arg.clone());
        }
    }
    Ok((seconds, targets))
}
