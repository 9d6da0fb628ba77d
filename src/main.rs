//! The `tessera` program: commands over the facade library.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
