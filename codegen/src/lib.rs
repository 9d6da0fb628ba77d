//! Fusion passes over Graph IR and the targets that emit code from Tile IR.

mod compile;
mod error;
pub mod groups;
pub mod passes;
pub mod pipeline;
pub mod target;

pub use compile::{Plan, Scheduled};
pub use error::{Error, Unsupported};
