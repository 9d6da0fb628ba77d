//! Facade over the Tessera crates.
