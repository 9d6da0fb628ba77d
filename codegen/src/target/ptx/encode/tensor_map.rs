//! Rules of tensor maps (driver API, `cuTensorMapEncodeTiled`; PTX ISA 5.5).

use super::super::{Extent, MapElem, MapFill, MapSwizzle, TensorMapSpec};
use super::fault::MapFault;
use tessera_ir::Dim;

/// Shared memory of a block, in bytes.
const SHARED: u64 = 232_448;

/// The driver's number of an element type.
pub fn dtype_code(dtype: MapElem) -> u32 {
    match dtype {
        MapElem::U8 => 0,
        MapElem::U16 => 1,
        MapElem::U32 => 2,
        MapElem::I32 => 3,
        MapElem::U64 => 4,
        MapElem::F16 => 6,
        MapElem::F32 => 7,
        MapElem::Bf16 => 9,
        MapElem::U4Align8 => 13,
        MapElem::U4Align16 => 14,
    }
}

/// The driver's number of a swizzle; not the code of descriptors.
pub fn swizzle_code(swizzle: MapSwizzle) -> u32 {
    match swizzle {
        MapSwizzle::None => 0,
        MapSwizzle::B32 => 1,
        MapSwizzle::B64 => 2,
        MapSwizzle::B128 => 3,
    }
}

/// Bits that an element takes in shared memory: padded elements take a byte.
fn slot_bits(dtype: MapElem) -> u64 {
    match dtype {
        MapElem::U4Align16 => 8,
        other => other.bits() as u64,
    }
}

fn elements(spec: &TensorMapSpec) -> u64 {
    spec.box_dims.iter().fold(1, |n: u64, d| n.saturating_mul((*d).into()))
}

/// Bytes of shared memory that a box takes.
pub fn box_bytes(spec: &TensorMapSpec) -> u64 {
    elements(spec).saturating_mul(slot_bits(spec.dtype)) / 8
}

/// Bytes that a barrier counts for a box, whether or not it hangs over the tensor's edge: for padded elements half of
/// what they take.
pub fn transfer_bytes(spec: &TensorMapSpec) -> u64 {
    elements(spec).saturating_mul(spec.dtype.bits() as u64) / 8
}

/// Everything that is wrong with a map, as far as it is known before symbols are bound: a dimension or stride with
/// symbols must obey whatever they are, but its size is not known.
///
/// # Errors
/// Every fault, in the order of the fields.
pub fn check_map(spec: &TensorMapSpec) -> Result<(), Vec<MapFault>> {
    let mut faults = Vec::new();
    let rank = spec.dims.len();
    let lengths = (spec.strides.len() + 1, spec.box_dims.len(), spec.elem_strides.len());
    if !(1..=5).contains(&rank) || lengths != (rank, rank, rank) {
        return Err(vec![MapFault::Rank {
            dims: rank,
            strides: spec.strides.len(),
            box_dims: spec.box_dims.len(),
            elem_strides: spec.elem_strides.len(),
        }]);
    }
    let padded = spec.dtype == MapElem::U4Align16;
    let multiple = if padded { 32 } else { 16 };
    if !spec.offset.is_multiple_of(multiple) {
        faults.push(MapFault::Offset { offset: spec.offset, multiple });
    }
    for (dim, size) in spec.dims.iter().enumerate() {
        if size.fixed().is_some_and(|n| !(1..=1 << 32).contains(&n)) {
            faults.push(MapFault::Dim { dim, size: size.to_string() });
        }
    }
    for (dim, stride) in (1..).zip(&spec.strides) {
        let long = stride.fixed().is_some_and(|n| n == 0 || n >= 1 << 40);
        if long || !factor(stride).is_multiple_of(multiple) {
            faults.push(MapFault::Stride { dim, stride: stride.to_string(), multiple });
        }
    }
    for (dim, size) in spec.box_dims.iter().enumerate() {
        if !(1..=256).contains(size) {
            faults.push(MapFault::Box { dim, size: *size });
        }
    }
    for (dim, step) in spec.elem_strides.iter().enumerate() {
        if !(1..=8).contains(step) {
            faults.push(MapFault::Step { dim, step: *step });
        }
    }
    let row_bits = u64::from(spec.box_dims[0]) * slot_bits(spec.dtype);
    if !row_bits.is_multiple_of(128) {
        faults.push(MapFault::RowBytes { bits: row_bits });
    }
    let pattern = spec.swizzle.bytes() as u64;
    if pattern != 0 && row_bits > pattern * 8 {
        faults.push(MapFault::Wide { bytes: row_bits / 8, swizzle: pattern });
    }
    if box_bytes(spec) > SHARED {
        faults.push(MapFault::Large { bytes: box_bytes(spec) });
    }
    if padded {
        if spec.box_dims[0] != 128 {
            faults.push(MapFault::PaddedBox { size: spec.box_dims[0] });
        }
        if !factor(&spec.dims[0]).is_multiple_of(128) {
            faults.push(MapFault::PaddedDim { size: spec.dims[0].to_string() });
        }
        if !matches!(spec.swizzle, MapSwizzle::None | MapSwizzle::B128) {
            faults.push(MapFault::PaddedSwizzle);
        }
    }
    if spec.fill == MapFill::Nan && !matches!(spec.dtype, MapElem::Bf16 | MapElem::F16 | MapElem::F32) {
        faults.push(MapFault::Fill);
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// A number that divides the extent whatever its symbols are; 0 for an extent of 0.
fn factor(extent: &Extent) -> u64 {
    match extent {
        Extent::Const(n) => *n,
        Extent::Dim(Dim::Fixed(n)) => *n as u64,
        Extent::Dim(Dim::Sym { times, .. }) => *times as u64,
        Extent::Mul(a, b) => factor(a).saturating_mul(factor(b)),
        Extent::Add(a, b) | Extent::Min(a, b) | Extent::Max(a, b) => gcd(factor(a), factor(b)),
        Extent::CeilDiv(..) => 1,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
