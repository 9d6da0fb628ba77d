//! Number formats of V4.1: scalar codes, and the group formats built from them.
//!
//! | module | format | range | special codes |
//! |---|---|---|---|
//! | [`e4m3`] | `float8_e4m3fn`, bias 7 | ±448, smallest step 2⁻⁹ | NaN `0x7f`, `0xff`; no infinity |
//! | [`e5m2`] | `float8_e5m2`, bias 15 | ±57344, smallest step 2⁻¹⁶ | infinities and NaNs as in IEEE |
//! | [`e2m1`] | `float4_e2m1fn`, bias 1 | ±{0, .5, 1, 1.5, 2, 3, 4, 6} | none |
//! | [`e8m0`] | `float8_e8m0fnu`, scales | 2⁻¹²⁷ … 2¹²⁷ | NaN `0xff`; no zero, no sign |
//! | [`bf16`] | `bfloat16` | as f32 | as in IEEE |
//!
//! All conversions round to nearest, ties to even, in one rounding; the sign of zero is kept and subnormals
//! are exact in both directions (nothing is flushed to zero). The scalar functions are pure functions of the
//! bits of their argument, total over all arguments, and do not allocate.
//!
//! [`group`] holds the formats that share one scale among 16, 32 or 32×32 codes.

pub mod bf16;
pub mod e2m1;
pub mod e4m3;
pub mod e5m2;
pub mod e8m0;
pub mod group;
mod narrow;
