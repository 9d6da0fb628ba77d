//! PTX: what the builder prints is what the assembler takes, and the encodings agree with published numbers.

mod assembled;
mod assembler;
mod encodings;
mod every_form;
mod hardware_forms;
mod refused;
mod tensor_maps;
mod text;
