//! Commands: each parses its options, calls the library and prints a result.

mod args;
mod build;
mod check;
mod diff;
mod doctor;
mod failure;
mod generate;
mod inspect;
mod interrupt;
mod jobs;
mod kernels;
mod logits;
mod output;
mod run;
mod verify;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Compiles DeepSeek-V4.1 and runs it, entirely in this program.
///
/// Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 a check failed, 2 bad input
/// or usage, 3 a named device or tool is absent, 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "tessera", version, after_help = "Example:\n  tessera run --prompt \"In the beginning\"")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate text from a prompt, or from a file of requests.
    Run(run::Args),
    /// Write logits and inner values of a prompt as tensors.
    Logits(logits::Args),
    /// Compare two files of tensors.
    Diff(diff::Args),
    /// Parse and verify a file of Graph IR or Tile IR.
    Check(check::Args),
    /// Compile a file of Graph IR or Tile IR and print a stage of it.
    Build(build::Args),
    /// Write the kernels of a model as texts, with a manifest of their launches.
    Gen(generate::Args),
    /// Assemble kernels, and report what they take of the machine.
    Verify(verify::Args),
    /// Show a model's topology, its fused plan and its memory.
    Inspect(inspect::Args),
    /// Show what this machine offers.
    Doctor(doctor::Args),
}

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Run(args) => run::main(args),
        Command::Logits(args) => logits::main(args),
        Command::Diff(args) => diff::main(args),
        Command::Check(args) => check::main(args),
        Command::Build(args) => build::main(args),
        Command::Gen(args) => generate::main(args),
        Command::Verify(args) => verify::main(args),
        Command::Inspect(args) => inspect::main(args),
        Command::Doctor(args) => doctor::main(args),
    };
    let failure = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    if let Some(message) = failure.message() {
        output::error(message);
    }
    ExitCode::from(failure.code())
}

/// Positive whole numbers, for options that count something.
fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(n) => Ok(n),
        Err(error) => Err(format!("expected a whole number from 1 on: {error}")),
    }
}

/// What every command returns.
type Done = Result<(), Failure>;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        for command in Cli::command().get_subcommands().filter(|c| c.get_name() != "help") {
            let help = command.clone().render_long_help().to_string();
            let example = format!("tessera {}", command.get_name());
            assert!(help.contains("Example") && help.contains(&example), "{}", command.get_name());
        }
    }
}
