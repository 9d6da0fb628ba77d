//! NVIDIA SM100: readable PTX text with everything a launch needs, from Tile IR.

mod artifact;
pub mod encode;
mod extent;
pub mod isa;

pub use artifact::{
    LaunchParam, MapElem, MapFill, MapSwizzle, ParamKind, PtxKernel, TensorMapSpec, content_hash,
};
pub use extent::Extent;

use crate::error::{Error, Unsupported};
use tessera_ir::Verified;
use tessera_ir::tile::Kernel;

/// The PTX of a kernel, for `sm_100a`.
///
/// # Errors
/// [`Error::Unsupported`] with everything that the target has no code for.
pub fn emit(kernel: &Verified<Kernel>) -> Result<PtxKernel, Error> {
    let fault = Unsupported { op: "kernel", what: "the PTX target has no schedule for it".to_owned() };
    Err(Error::Unsupported { kernel: kernel.name.clone(), faults: vec![fault] })
}
