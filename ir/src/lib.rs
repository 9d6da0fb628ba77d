//! Number formats, tensor types, Graph IR, Tile IR and the artifact that crosses to the runtime.

pub mod artifact;
mod error;
pub mod graph;
pub mod machine;
pub mod num;
pub mod text;
pub mod tile;
pub mod types;
mod verified;

pub use error::Error;
pub use types::{Bindings, Dim, Elem, Format, Layout, Sym, TensorType};
pub use verified::Verified;
