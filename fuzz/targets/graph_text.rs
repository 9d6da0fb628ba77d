//! Fuzz target: [`tessera_fuzz::graph_text`] on any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tessera_fuzz::graph_text(bytes));
