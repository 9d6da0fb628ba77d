//! Fuzz target: [`tessera_fuzz::tile_text`] on any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tessera_fuzz::tile_text(bytes));
