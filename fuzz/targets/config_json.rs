//! Fuzz target: [`tessera_fuzz::config_json`] on any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tessera_fuzz::config_json(bytes));
