//! Chores of the repository: `cargo xtask check`, `bless`, `fuzz`, `tools`, `sass` and `table`.

mod chores;
mod fuzz;
mod sass;
mod tools;

use anyhow::{Context, Result, bail};
use std::fmt;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <chore>

  check                         format, lints, documentation and tests: what a change must pass
  bless                         run the tests and accept every snapshot as it is now
  fuzz [--seconds N] [TARGET…]  run fuzz targets one after another, N seconds each (60)
  tools                         fetch ptxas, nvdisasm and cuobjdump into .tools/bin, in the pinned versions
  sass [--json|--text] FILE…    count the machine code of .ptx and .cubin files, or of those in folders: instructions,
                                loops, matrix instructions and others in them; --text shows the disassembly instead

  table                         assemble every kernel for SM100 and rewrite docs/kernels_sm100.md

exit codes: 0 done, 1 it failed, 2 wrong usage, 3 a tool is absent";

/// A tool that is not installed.
#[derive(Debug)]
struct Absent(String);

/// A command line that says nothing sensible.
#[derive(Debug)]
struct Usage(String);

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{USAGE}", self.0)
    }
}

impl std::error::Error for Absent {}
impl std::error::Error for Usage {}

#[allow(clippy::print_stderr, reason = "a program for the terminal")]
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            if error.chain().any(|cause| cause.is::<Absent>()) {
                ExitCode::from(3)
            } else if error.chain().any(|cause| cause.is::<Usage>()) {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let Some((chore, rest)) = args.split_first() else { bail!(Usage("name a chore".to_owned())) };
    if [chore.as_str(), rest.first().map_or("", String::as_str)]
        .iter()
        .any(|arg| ["help", "--help", "-h"].contains(arg))
    {
        return help();
    }
    match chore.as_str() {
        "check" => none(rest).and_then(|()| chores::check()),
        "bless" => none(rest).and_then(|()| chores::bless()),
        "fuzz" => {
            let (seconds, targets) = fuzz_args(rest)?;
            fuzz::run_all(seconds, &targets)
        }
        "tools" => none(rest).and_then(|()| tools::install()),
        "table" => none(rest).and_then(|()| chores::table()),
        "sass" => {
            let (options, paths): (Vec<_>, Vec<_>) =
                rest.iter().cloned().partition(|arg| arg.starts_with('-'));
            if let Some(unknown) =
                options.iter().find(|option| !["--json", "--text"].contains(&option.as_str()))
            {
                bail!(Usage(format!("unknown option `{unknown}`")));
            }
            let has = |name: &str| options.iter().any(|option| option == name);
            if has("--json") && has("--text") {
                bail!(Usage("--json and --text exclude each other".to_owned()));
            }
            sass::report(has("--json"), has("--text"), &paths)
        }
        _ => bail!(Usage(format!("unknown chore `{chore}`"))),
    }
}

#[allow(clippy::print_stdout, reason = "the result")]
fn help() -> Result<()> {
    println!("{USAGE}\n\nHow sass counts: {}.", tessera_assembler::sass::RULE);
    Ok(())
}

fn none(rest: &[String]) -> Result<()> {
    match rest.first() {
        None => Ok(()),
        Some(extra) => bail!(Usage(format!("unexpected argument `{extra}`"))),
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
            bail!(Usage(format!("unknown option `{arg}`")));
        } else {
            targets.push(arg.clone());
        }
    }
    Ok((seconds, targets))
}
