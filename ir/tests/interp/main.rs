//! The interpreter against hand-computed values, f64 arithmetic and the faults that such programs are known for.

mod attention;
mod case;
mod engram;
mod every_op;
mod faults;
mod index;
mod linear;
mod moe;
mod pointwise;
mod state;
mod streams;
mod zoo;
