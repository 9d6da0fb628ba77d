//! How tensors lie in memory that SM100's kernels share.

use tessera_ir::{Format, Layout, TensorType};

/// The layout of an activation or a state of this type, the same in every kernel: cache rows are records of whole 16-byte pieces,
/// index rows have codes and scales in two planes, everything else lies in rows. Weights of products are laid out by the
/// schedules that multiply with them.
pub(crate) fn lies(ty: &TensorType) -> TensorType {
    let layout = match ty.format {
        Format::KV8 | Format::KV4 => Layout::Pitch16,
        Format::INDEX4 => Layout::Split,
        _ => ty.layout,
    };
    TensorType { layout, ..ty.clone() }
}
