//! Micro-kernels: every instruction set of this machine against scalar references, `tessera_ir::num` and f64.

mod attention;
mod math;
mod mma;
mod quant;
mod reduce;
mod select;
mod support;
mod symbols;
