//! Arithmetic on registers: functions, angles, formats. Each emits straight-line code for one thread's values.
//!
//! The meanings are those of the Tile IR interpreter. What IEEE defines (sums, products, quotients, roots,
//! conversions) is bit-exact but for payloads of NaN and the sign of a zero that `min` and `max` choose; exponentials,
//! logarithms and angles keep the bounds that their functions state. Nothing is flushed to zero.

mod angles;
mod bf16;
mod decode;
mod exp;
mod functions;
mod log;
mod quantise;

pub use angles::{angle, angle_of};
pub use bf16::{round_bf16, round_bf16x2};
pub use decode::{decode_kv4, decode_kv8};
pub use exp::{exp, exp2};
pub use functions::{binary, sigmoid, silu, sqrt_softplus, unary};
pub use log::log1p;
pub use quantise::{Quantiser, Scale};
