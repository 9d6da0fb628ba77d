//! Programs before the assembler.

use crate::assembler::{installed, messages};
use tessera_codegen::target::ptx::isa::Program;

/// Assembles each program, where there is an assembler; it must have nothing to say.
pub(crate) fn assemble(programs: &[Program]) {
    let Some(ptxas) = installed() else { return };
    for program in programs {
        let said = messages(&ptxas, &program.text, program.entry.target.name());
        assert!(said.is_empty(), "{}: {said:?}\n{}", program.entry.name, program.text);
    }
}
