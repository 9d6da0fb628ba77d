//! Arithmetic of the PTX target: the emitted instructions, executed on the CPU, against f64 and the reference formats.

mod assembled;
#[path = "../ptx/assembler.rs"]
mod assembler;
mod decode;
mod formats;
mod functions;
mod machine;
