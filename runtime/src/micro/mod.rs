//! Micro-kernels: the heavy inner loops that generated code calls by address.
//!
//! A kernel is one body over sixteen f32 lanes (`lanes.rs`) and one entry point per instruction set, found through
//! [`Symbol`] by name. **All instruction sets give the same bits**: the order of every reduction is written once, in
//! the body, and depends only on the length of the row it reduces. (Of a NaN only that it is one is determined, not its
//! sign and payload.)
//!
//! | file | holds |
//! |---|---|
//! | `symbols.rs` | the table of all kernels: name, contract, signature, addresses |
//! | `isa.rs` | the instruction sets and which of them the processor has |
//! | `pack.rs` | weight panels |
//! | `mma.rs` | matrix products over panels |
//! | `reduce.rs` | reductions of a row |
//! | `math.rs` | elementwise functions |
//! | `quant.rs`, `codes.rs` | quantisers, dequantisers and the number formats in lanes |
//! | `attention.rs` | attention and index products |
//! | `select.rs` | top-k, block maxima, argmax |
//! | `lanes*.rs` | the lanes: portable, AVX2, AVX-512 |
//!
//! Kernels never allocate, never panic and keep no state. Rounding mode and subnormal handling are those a thread
//! starts with.

#![allow(
    clippy::needless_range_loop,
    reason = "arrays of registers are walked by index: closures and iterators over them would be compiled without the \
              instruction set of the kernel that they end up in"
)]

mod attention;
mod codes;
mod isa;
mod lanes;
#[cfg(target_arch = "x86_64")]
mod lanes_avx2;
#[cfg(target_arch = "x86_64")]
mod lanes_avx512;
mod lanes_portable;
mod math;
mod mma;
pub mod pack;
mod quant;
mod reduce;
mod select;
mod symbols;

pub use isa::{Isa, describe};
pub use symbols::{Kernels, Symbol, abi, resolve};
