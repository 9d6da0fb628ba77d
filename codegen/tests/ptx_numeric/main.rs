//! Arithmetic of the PTX target: the emitted instructions, executed on the CPU, against f64 and the reference formats.

#[path = "../ptx/assembler.rs"]
mod assembler;
mod formats;
mod functions;
mod machine;
