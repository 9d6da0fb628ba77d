//! The assembler, where there is one.

use tessera_assembler::{Error, Message, Ptxas};

/// The assembler; none where it is not installed.
#[allow(clippy::print_stderr, reason = "says why nothing was tested")]
pub(crate) fn installed() -> Option<Ptxas> {
    match Ptxas::find() {
        Ok(ptxas) => Some(ptxas),
        Err(Error::Absent { .. }) => {
            assert!(std::env::var_os("TESSERA_REQUIRE_PTXAS").is_none(), "no ptxas, which CI must have");
            eprintln!("skipped: no ptxas");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Everything that the assembler says about a text; nothing if it takes it as it is.
pub(crate) fn messages(ptxas: &Ptxas, text: &str, arch: &str) -> Vec<Message> {
    match ptxas.assemble(text, arch) {
        Ok(assembled) => assembled.messages,
        Err(Error::Refused { messages }) => messages,
        Err(other) => panic!("{other}\n{text}"),
    }
}
