//! The machines that code is emitted for.

pub mod cpu;
pub mod ptx;
