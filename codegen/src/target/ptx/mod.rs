//! NVIDIA SM100: readable PTX text with everything a launch needs, from Tile IR.

mod artifact;
mod emit;
pub mod encode;
mod extent;
pub mod isa;
pub mod numeric;

pub use artifact::{
    LaunchParam, MapElem, MapFill, MapSwizzle, ParamKind, PtxKernel, TensorMapSpec, content_hash,
};
pub use extent::Extent;

use crate::error::Error;
use tessera_ir::Verified;
use tessera_ir::tile::{Kernel, Target};

/// The PTX of a kernel of operator family `family`, for `sm_100a`.
///
/// # Errors
/// [`Error::Machine`] if it is written for another machine, [`Error::Unsupported`] with everything that the target has no
/// code for, [`Error::Emit`] if the code is not legal PTX (a bug of the target).
pub fn emit(kernel: &Verified<Kernel>, family: &str) -> Result<PtxKernel, Error> {
    match kernel.target {
        Target::Sm100 => emit::emit(kernel, family),
        Target::Cpu => Err(Error::Machine {
            kernel: kernel.name.clone(),
            written: Target::Cpu.name(),
            asked: Target::Sm100.name(),
        }),
    }
}
