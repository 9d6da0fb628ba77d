//! Permutations of 16-byte chunks in shared memory that copies and matrix instructions share (PTX ISA 5.5.7).

use super::super::MapSwizzle;

/// A permutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// None.
    None,
    /// Over 32 bytes.
    B32,
    /// Over 64 bytes.
    B64,
    /// Over 128 bytes.
    B128,
    /// Over 128 bytes in chunks of 32: tf32 with rows as the fastest dimension.
    B128Chunk32,
}

impl Swizzle {
    /// All permutations.
    pub const ALL: &'static [Swizzle] =
        &[Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128, Swizzle::B128Chunk32];

    /// Bytes of the pattern's row; 16 without a pattern.
    pub fn row_bytes(self) -> u32 {
        match self {
            Swizzle::None => 16,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 | Swizzle::B128Chunk32 => 128,
        }
    }
    /// Bytes after which the pattern repeats: what tiles are aligned to.
    pub fn repeat(self) -> u32 {
        match self {
            Swizzle::None => 16,
            Swizzle::B32 => 256,
            Swizzle::B64 => 512,
            Swizzle::B128 => 1024,
            Swizzle::B128Chunk32 => 512,
        }
    }
    /// Where the byte `address` of a tile lies; tiles begin where the pattern does. Its own inverse.
    pub fn address(self, address: u32) -> u32 {
        let row = address >> 7;
        address
            ^ match self {
                Swizzle::None => 0,
                Swizzle::B32 => (row & 1) << 4,
                Swizzle::B64 => (row & 3) << 4,
                Swizzle::B128 => (row & 7) << 4,
                Swizzle::B128Chunk32 => (row & 3) << 5,
            }
    }
    /// The code in shared-memory descriptors.
    pub fn code(self) -> u64 {
        match self {
            Swizzle::None => 0,
            Swizzle::B128Chunk32 => 1,
            Swizzle::B128 => 2,
            Swizzle::B64 => 4,
            Swizzle::B32 => 6,
        }
    }
}

impl From<MapSwizzle> for Swizzle {
    fn from(swizzle: MapSwizzle) -> Self {
        match swizzle {
            MapSwizzle::None => Swizzle::None,
            MapSwizzle::B32 => Swizzle::B32,
            MapSwizzle::B64 => Swizzle::B64,
            MapSwizzle::B128 => Swizzle::B128,
        }
    }
}
