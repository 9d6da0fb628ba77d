//! Fuzz target: [`tessera_fuzz::safetensors_header`] on any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tessera_fuzz::safetensors_header(bytes));
