//! What the PTX target makes of a kernel: its text and everything a launch needs, as plain data.

use super::extent::Extent;
use tessera_ir::Sym;

/// A kernel as PTX text, with its launch.
///
/// A launch passes the parameters in order, grid and cluster as they are given here (`cluster` divides `grid`), and `smem`
/// bytes of dynamic shared memory. Symbols are bound when a step is launched.
#[derive(Clone, Debug, PartialEq)]
pub struct PtxKernel {
    /// Name of the Tile IR kernel.
    pub name: String,
    /// Operator family; empty where the kernel came from a text.
    pub family: String,
    /// The PTX module: one entry function.
    pub text: String,
    /// Name of the entry function.
    pub entry: String,
    /// Parameters of the entry function, ascending by offset.
    pub params: Vec<LaunchParam>,
    /// Contents of the parameters of kind [`ParamKind::TensorMap`], in their order.
    pub tensor_maps: Vec<TensorMapSpec>,
    /// Thread blocks along x, y, z.
    pub grid: [Extent; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Thread blocks of a cluster along x, y, z; all 1 without clusters.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub smem: usize,
    /// Columns of tensor memory that a block allocates; 0 without any.
    pub tmem_columns: usize,
    /// True if the kernel waits for the one before it by itself (`griddepcontrol.wait`), so that it may be launched early.
    pub pdl: bool,
    /// Every symbol that a launch binds, each once.
    pub symbols: Vec<Sym>,
    /// 32 hexadecimal digits that name the text ([`content_hash`]).
    pub hash: String,
}

/// A parameter of an entry function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchParam {
    /// Name in the text.
    pub name: String,
    /// What is passed.
    pub kind: ParamKind,
    /// Byte offset in the parameter space.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// What is passed for a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A tensor map of 128 bytes, 64-byte aligned; [`PtxKernel::tensor_maps`] says which.
    TensorMap,
    /// Global address of a memory plane of a Tile IR parameter.
    Pointer {
        /// Name of the Tile IR parameter.
        param: String,
        /// Its plane: 0 for data, 1 for scales.
        plane: usize,
    },
    /// Global address of memory that lives for this launch only.
    Workspace {
        /// Bytes of it.
        bytes: Extent,
        /// True if it must hold zeros when the launch starts.
        zeroed: bool,
    },
    /// A number of 32 bits.
    U32(Extent),
    /// A number of 64 bits.
    U64(Extent),
}

/// Element type of a tensor map, by the driver's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapElem {
    /// One byte; also e4m3, e8m0, and packed codes counted in bytes.
    U8,
    /// 16-bit unsigned.
    U16,
    /// 32-bit unsigned.
    U32,
    /// 32-bit signed.
    I32,
    /// 64-bit unsigned.
    U64,
    /// bfloat16.
    Bf16,
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
    /// Sixteen 4-bit codes in 8 bytes, as dense in shared memory as in global memory (`16U4_ALIGN8B`).
    U4Align8,
    /// Sixteen 4-bit codes in 8 bytes, each eight bytes padded to a slot of 16 in shared memory (`16U4_ALIGN16B`).
    U4Align16,
}

impl MapElem {
    /// Name in manifests.
    pub const fn name(self) -> &'static str {
        match self {
            MapElem::U8 => "u8",
            MapElem::U16 => "u16",
            MapElem::U32 => "u32",
            MapElem::I32 => "i32",
            MapElem::U64 => "u64",
            MapElem::Bf16 => "bf16",
            MapElem::F16 => "f16",
            MapElem::F32 => "f32",
            MapElem::U4Align8 => "16u4_align8b",
            MapElem::U4Align16 => "16u4_align16b",
        }
    }
    /// Bits that an element takes in global memory.
    pub const fn bits(self) -> usize {
        match self {
            MapElem::U8 => 8,
            MapElem::U16 | MapElem::Bf16 | MapElem::F16 => 16,
            MapElem::U32 | MapElem::I32 | MapElem::F32 => 32,
            MapElem::U64 => 64,
            MapElem::U4Align8 | MapElem::U4Align16 => 4,
        }
    }
}

/// Permutation of 16-byte chunks in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapSwizzle {
    /// None.
    None,
    /// Over 32 bytes.
    B32,
    /// Over 64 bytes.
    B64,
    /// Over 128 bytes.
    B128,
}

impl MapSwizzle {
    /// Name in manifests.
    pub const fn name(self) -> &'static str {
        match self {
            MapSwizzle::None => "none",
            MapSwizzle::B32 => "32b",
            MapSwizzle::B64 => "64b",
            MapSwizzle::B128 => "128b",
        }
    }
    /// Bytes of the pattern's row; 0 without one.
    pub const fn bytes(self) -> usize {
        match self {
            MapSwizzle::None => 0,
            MapSwizzle::B32 => 32,
            MapSwizzle::B64 => 64,
            MapSwizzle::B128 => 128,
        }
    }
}

/// What elements outside the tensor read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapFill {
    /// 0.
    Zero,
    /// A NaN; floating-point elements only.
    Nan,
}

impl MapFill {
    /// Name in manifests.
    pub const fn name(self) -> &'static str {
        match self {
            MapFill::Zero => "zero",
            MapFill::Nan => "nan",
        }
    }
}

/// Contents of a tensor map, for the driver to encode. Dimensions are listed innermost first, as the driver takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapSpec {
    /// Name of the launch parameter that it fills.
    pub param: String,
    /// Name of the Tile IR parameter whose memory it describes.
    pub tensor: String,
    /// Plane of that parameter: 0 for data, 1 for scales.
    pub plane: usize,
    /// Bytes from the plane's first byte to the map's.
    pub offset: u64,
    /// Element type.
    pub dtype: MapElem,
    /// Elements along each dimension, 1 to 5 of them.
    pub dims: Vec<Extent>,
    /// Bytes from one index to the next, of every dimension but the innermost.
    pub strides: Vec<Extent>,
    /// Elements of a box along each dimension.
    pub box_dims: Vec<u32>,
    /// Step of a box through the tensor along each dimension, in elements.
    pub elem_strides: Vec<u32>,
    /// Permutation in shared memory.
    pub swizzle: MapSwizzle,
    /// Elements outside.
    pub fill: MapFill,
}

/// 32 hexadecimal digits of the BLAKE3 hash of a text: equal texts and nothing else have equal names.
pub fn content_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}
