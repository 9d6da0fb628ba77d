//! `tessera check`: parses and verifies a file of either IR.

use crate::cli::failure::Failure;
use crate::cli::{Done, output};
use serde::Serialize;
use std::path::PathBuf;
use tessera::texts::{self, Fault};

/// Parse and verify a file of Graph IR (.tir) or Tile IR (.tile)
///
/// A file may hold several texts, as `build` prints them; each is checked.
///
/// A text that does not follow its grammar is bad input (exit code 2); one that breaks rules of its level fails the check
/// (exit code 1), and all its faults are listed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tessera check kernel.tile")]
pub(crate) struct Args {
    /// File to check
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    file: String,
    level: &'static str,
    name: Option<String>,
    ok: bool,
    faults: Vec<FaultReport>,
}

#[derive(Serialize)]
struct FaultReport {
    rule: Option<&'static str>,
    line: Option<usize>,
    column: Option<usize>,
    message: String,
}

pub(crate) fn main(args: &Args) -> Done {
    let (source, level) = texts::read(&args.file)?;
    let mut worst = Ok(());
    for (text, level) in texts::pieces(&source, level) {
        let one = check_one(args, &text, level);
        if let (Err(_), Ok(()) | Err(Failure::Check(_))) = (&one, &worst) {
            worst = one;
        }
    }
    worst
}

fn check_one(args: &Args, source: &str, level: texts::Level) -> Done {
    let file = args.file.display().to_string();
    let (name, faults) = match texts::check(source, level) {
        Ok(content) => (Some(content.name().to_owned()), Vec::new()),
        Err(faults) => (None, faults),
    };
    if args.json {
        output::json(&Report {
            schema: "tessera.check/1",
            file: file.clone(),
            level: level.name(),
            name: name.clone(),
            ok: faults.is_empty(),
            faults: faults.iter().map(report).collect(),
        })?;
    } else if let Some(name) = &name {
        output::text_line(&format!("{file}: {} @{name} is sound", level.name()))?;
    } else {
        let listed: Vec<String> = faults.iter().map(|fault| format!("{file}: {fault}\n")).collect();
        output::text_line(&listed.concat())?;
    }
    if faults.is_empty() {
        return Ok(());
    }
    let summary = summary(&file, &faults);
    let grammar = faults.iter().all(|fault| fault.rule.is_none());
    Err(if grammar { Failure::Input(summary) } else { Failure::Check(summary) })
}

/// The refusal of a file that is not sound, with every fault.
pub(super) fn refusal(file: &str, faults: &[Fault]) -> Failure {
    let listed: Vec<String> = faults.iter().map(|fault| format!("\n{fault}")).collect();
    Failure::Input(format!("{}{}", summary(file, faults), listed.concat()))
}

/// How many faults of which kind.
fn summary(file: &str, faults: &[Fault]) -> String {
    let n = faults.len();
    match faults.first().map(|fault| fault.rule) {
        Some(None) => format!("{file} does not parse"),
        Some(Some(_)) | None => {
            format!("{file} breaks rules of its level: {n} {}", if n == 1 { "fault" } else { "faults" })
        }
    }
}

fn report(fault: &Fault) -> FaultReport {
    FaultReport {
        rule: fault.rule,
        line: fault.at.as_ref().map(|at| at.line),
        column: fault.at.as_ref().map(|at| at.column),
        message: fault.message.clone(),
    }
}
