//! What can't be encoded.

use super::super::isa::{CtaGroup, MmaKind};
use super::instruction::{Factor, Sum};
use super::swizzle::Swizzle;
use std::fmt;

/// Why there is no encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodeFault {
    /// No such number of rows.
    M {
        /// Formats.
        kind: MmaKind,
        /// Blocks.
        group: CtaGroup,
        /// Rows asked for.
        m: u32,
    },
    /// No such number of columns.
    N {
        /// Formats.
        kind: MmaKind,
        /// Blocks.
        group: CtaGroup,
        /// Rows.
        m: u32,
        /// Columns asked for.
        n: u32,
    },
    /// The form doesn't exist: weight-stationary for pairs or with scales, a factor in the wrong memory.
    Form {
        /// Formats.
        kind: MmaKind,
        /// Why not.
        why: &'static str,
    },
    /// The kind doesn't multiply the format.
    Factor {
        /// Formats.
        kind: MmaKind,
        /// The format asked for.
        factor: Factor,
    },
    /// The kind doesn't sum in the format.
    Sum {
        /// Formats.
        kind: MmaKind,
        /// The format asked for.
        sum: Sum,
    },
    /// The factor can't be stored with rows as the fastest dimension.
    Major {
        /// Formats.
        kind: MmaKind,
        /// The factor's format.
        factor: Factor,
    },
    /// The kind's scales don't begin there.
    ScaleId {
        /// Formats.
        kind: MmaKind,
        /// Byte asked for.
        id: u32,
    },
    /// An address or stride that the field can't hold.
    Field {
        /// The field.
        field: &'static str,
        /// Its value in bytes.
        bytes: u32,
    },
    /// A tile that doesn't begin where its pattern does.
    Alignment {
        /// The pattern.
        swizzle: Swizzle,
        /// Address of the tile.
        address: u32,
    },
}

impl fmt::Display for EncodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeFault::M { kind, group, m } => write!(f, "{kind:?} of {group:?} has no M of {m}"),
            EncodeFault::N { kind, group, m, n } => {
                write!(f, "{kind:?} of {group:?} with M of {m} has no N of {n}")
            }
            EncodeFault::Form { kind, why } => write!(f, "{kind:?}: {why}"),
            EncodeFault::Factor { kind, factor } => write!(f, "{kind:?} does not multiply {factor:?}"),
            EncodeFault::Sum { kind, sum } => write!(f, "{kind:?} does not sum in {sum:?}"),
            EncodeFault::Major { kind, factor } => {
                write!(f, "{kind:?} takes {factor:?} with K as the fastest dimension only")
            }
            EncodeFault::ScaleId { kind, id } => write!(f, "scales of {kind:?} do not begin at byte {id}"),
            EncodeFault::Field { field, bytes } => {
                write!(f, "{field} of {bytes} bytes: a multiple of 16 below 2^18 is wanted")
            }
            EncodeFault::Alignment { swizzle, address } => {
                write!(f, "a tile with {swizzle:?} at {address:#x} does not begin where the pattern does")
            }
        }
    }
}

impl std::error::Error for EncodeFault {}

/// What is wrong with a tensor map. `dim` counts from the innermost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapFault {
    /// Not 1 to 5 dimensions, or lists of other lengths.
    Rank {
        /// Dimensions.
        dims: usize,
        /// Strides; one fewer.
        strides: usize,
        /// Sizes of the box.
        box_dims: usize,
        /// Steps of the box.
        elem_strides: usize,
    },
    /// A dimension outside 1 to 2^32.
    Dim {
        /// Which.
        dim: usize,
        /// Its size.
        size: String,
    },
    /// A stride of 2^40 bytes or more, or not a multiple of what the elements ask for.
    Stride {
        /// Of which dimension.
        dim: usize,
        /// Bytes.
        stride: String,
        /// What it must be a multiple of.
        multiple: u64,
    },
    /// A box of 0 or more than 256 elements along a dimension.
    Box {
        /// Which.
        dim: usize,
        /// Elements.
        size: u32,
    },
    /// A step outside 1 to 8.
    Step {
        /// Of which dimension.
        dim: usize,
        /// Elements.
        step: u32,
    },
    /// A box whose rows are no multiple of 16 bytes in shared memory.
    RowBytes {
        /// Bits of a row.
        bits: u64,
    },
    /// A box whose rows are wider than the swizzle's.
    Wide {
        /// Bytes of a row.
        bytes: u64,
        /// Bytes of the pattern's row.
        swizzle: u64,
    },
    /// A box that shared memory can't hold.
    Large {
        /// Bytes.
        bytes: u64,
    },
    /// A first byte that is not aligned.
    Offset {
        /// Bytes from the plane's begin.
        offset: u64,
        /// What it must be a multiple of.
        multiple: u64,
    },
    /// Padded 4-bit elements with a box row of other than 128 elements.
    PaddedBox {
        /// Elements.
        size: u32,
    },
    /// Padded 4-bit elements with rows that are no multiple of 128.
    PaddedDim {
        /// Elements.
        size: String,
    },
    /// Padded 4-bit elements with a swizzle other than none and 128 bytes.
    PaddedSwizzle,
    /// NaN for elements that have none.
    Fill,
}

impl fmt::Display for MapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapFault::Rank { dims, strides, box_dims, elem_strides } => write!(
                f,
                "{dims} dimensions, {strides} strides, a box of {box_dims} dimensions with {elem_strides} steps"
            ),
            MapFault::Dim { dim, size } => {
                write!(f, "dimension {dim} of {size} elements: 1 to 2^32 are possible")
            }
            MapFault::Stride { dim, stride, multiple } => write!(
                f,
                "stride of dimension {dim} of {stride} bytes: a multiple of {multiple} below 2^40 is wanted"
            ),
            MapFault::Box { dim, size } => {
                write!(f, "box of {size} along dimension {dim}: 1 to 256 are possible")
            }
            MapFault::Step { dim, step } => {
                write!(f, "step of {step} along dimension {dim}: 1 to 8 are possible")
            }
            MapFault::RowBytes { bits } => write!(f, "a box row of {bits} bits is no multiple of 16 bytes"),
            MapFault::Wide { bytes, swizzle } => {
                write!(f, "a box row of {bytes} bytes is wider than the swizzle's {swizzle}")
            }
            MapFault::Large { bytes } => write!(f, "a box of {bytes} bytes does not fit shared memory"),
            MapFault::Offset { offset, multiple } => {
                write!(f, "the first byte is at {offset}: a multiple of {multiple} is wanted")
            }
            MapFault::PaddedBox { size } => write!(f, "padded 4-bit elements have boxes of 128, not {size}"),
            MapFault::PaddedDim { size } => {
                write!(f, "padded 4-bit elements have rows of a multiple of 128, not {size}")
            }
            MapFault::PaddedSwizzle => {
                f.write_str("padded 4-bit elements are swizzled over 128 bytes or not at all")
            }
            MapFault::Fill => f.write_str("only floating-point elements are filled with NaN"),
        }
    }
}

impl std::error::Error for MapFault {}
