//! Numbers that SM100 instructions are told as bit fields and layouts: descriptors, swizzles, tensor memory, tensor maps.
//!
//! Pure functions; what is not legal is a typed fault. Nothing here emits instructions.

mod accumulator;
mod fault;
mod fragment;
mod instruction;
mod scales;
mod shape;
mod shared;
mod swizzle;
mod tensor_map;

pub use accumulator::{AccLayout, Place};
pub use fault::{EncodeFault, MapFault};
pub use fragment::{Cell, columns, holder};
pub use instruction::{Factor, InstrDesc, Major, Sum};
pub use scales::{SCALE_BLOCK_BYTES, scale_byte, scale_columns, scale_desc, scale_place, scale_words};
pub use shape::MmaShape;
pub use shared::{SmemDesc, SmemLayout, k_step};
pub use swizzle::Swizzle;
pub use tensor_map::{box_bytes, check_map, dtype_code, swizzle_code, transfer_bytes};
