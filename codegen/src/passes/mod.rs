//! Fusion passes, one file each; `pipeline.rs` lists them in order.

pub mod fuse_gate_up;
pub mod fuse_index_select;
pub mod fuse_quantise;
pub mod fuse_rows;
pub mod fuse_unrope;
pub mod group_experts;
pub mod outline;
pub mod split_index;
