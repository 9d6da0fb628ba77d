//! PTX: what the builder prints is what the assembler takes, and the encodings agree with published numbers.

mod assembler;
mod every_form;
mod refused;
mod text;
