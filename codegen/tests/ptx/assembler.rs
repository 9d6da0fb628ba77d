//! The assembler, where there is one.

use tessera_assembler::{Error, Ptxas};
use tessera_codegen::target::ptx::isa::Program;

/// Assembles each program; panics with everything that the assembler says unless that is nothing.
#[allow(clippy::print_stderr, reason = "says why nothing was tested")]
pub(crate) fn assemble(programs: &[Program]) {
    let ptxas = match Ptxas::find() {
        Ok(ptxas) => ptxas,
        Err(Error::Absent { .. }) => {
            assert!(std::env::var_os("TESSERA_REQUIRE_PTXAS").is_none(), "no ptxas, which CI must have");
            eprintln!("skipped: no ptxas");
            return;
        }
        Err(other) => panic!("{other}"),
    };
    let mut complaints = String::new();
    for program in programs {
        let said = match ptxas.assemble(&program.text, program.entry.target.name()) {
            Ok(assembled) => assembled.messages.iter().map(|message| format!("{message}\n")).collect(),
            Err(refused) => refused.to_string(),
        };
        if !said.is_empty() {
            complaints += &format!("{}: {said}\n{}", program.entry.name, numbered(&program.text));
        }
    }
    assert!(complaints.is_empty(), "{complaints}");
}

fn numbered(text: &str) -> String {
    (1..).zip(text.lines()).map(|(n, line)| format!("{n:5} {line}\n")).collect()
}
