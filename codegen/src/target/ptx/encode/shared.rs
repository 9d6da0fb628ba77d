//! Factors in shared memory: canonical layouts and their descriptors (PTX ISA 9.7.16.4.1, 9.7.16.5).

use super::fault::EncodeFault;
use super::instruction::Major;
use super::swizzle::Swizzle;

/// What a descriptor says besides the address. Strides in bytes, multiples of 16 below 2^18.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmemDesc {
    /// Permutation.
    pub swizzle: Swizzle,
    /// The leading dimension's stride, `LBO`.
    pub leading: u32,
    /// The other stride, `SBO`.
    pub stride: u32,
}

impl SmemDesc {
    /// K as the fastest dimension, rows of `swizzle`'s width one after another: 8 rows make `stride`.
    pub fn k_major(swizzle: Swizzle) -> Self {
        SmemDesc { swizzle, leading: 16, stride: 8 * swizzle.row_bytes() }
    }
    /// All bits but the address; `or` them with the address divided by 16 (18 bits).
    ///
    /// # Errors
    /// [`EncodeFault::Field`].
    pub fn constant(self) -> Result<u64, EncodeFault> {
        let leading = field("leading stride", self.leading)?;
        let stride = field("stride", self.stride)?;
        Ok(leading << 16 | stride << 32 | 1 << 46 | self.swizzle.code() << 61)
    }
    /// The descriptor of a tile at `address` of shared memory, where its pattern begins.
    ///
    /// # Errors
    /// [`EncodeFault::Field`], [`EncodeFault::Alignment`].
    pub fn encode(self, address: u32) -> Result<u64, EncodeFault> {
        let at = field("address", address)?;
        if !address.is_multiple_of(self.swizzle.repeat()) {
            return Err(EncodeFault::Alignment { swizzle: self.swizzle, address });
        }
        Ok(self.constant()? | at)
    }
}

/// A number of bytes in units of 16, 14 bits.
fn field(name: &'static str, bytes: u32) -> Result<u64, EncodeFault> {
    if bytes.is_multiple_of(16) && bytes < 1 << 18 {
        Ok(u64::from(bytes >> 4))
    } else {
        Err(EncodeFault::Field { field: name, bytes })
    }
}

/// What to add to a descriptor to go `bytes` (a multiple of 16) along K inside a swizzled row: the permutation works on
/// addresses, so it needs no change.
pub fn k_step(bytes: u32) -> u64 {
    u64::from(bytes >> 4)
}

/// A tile of a factor in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmemLayout {
    /// Fastest dimension.
    pub major: Major,
    /// Bytes of an element's slot.
    pub element: u32,
    /// Permutation and strides.
    pub desc: SmemDesc,
}

impl SmemLayout {
    /// Where element (row or column `mn`, `k`) lies, in bytes from the tile's begin.
    pub fn byte(self, mn: u32, k: u32) -> u32 {
        let SmemDesc { swizzle, leading, stride } = self.desc;
        let row = swizzle.row_bytes();
        let plain = match self.major {
            Major::K => {
                let along = k * self.element;
                // Without a pattern each 16 bytes of K are `leading` apart.
                let (chunk, inner) =
                    if swizzle == Swizzle::None { (along / 16, along % 16) } else { (0, along) };
                (mn % 8) * row + (mn / 8) * stride + chunk * leading + inner
            }
            Major::Mn => {
                let along = mn * self.element;
                let (chunk, inner) = (along / row, along % row);
                // Without a pattern the strides change places.
                let (chunks, groups) =
                    if swizzle == Swizzle::None { (stride, leading) } else { (leading, stride) };
                // Patterns in chunks of 32 bytes have groups of four.
                let group = if swizzle == Swizzle::B128Chunk32 { 4 } else { 8 };
                inner + chunk * chunks + (k % group) * row + (k / group) * groups
            }
        };
        swizzle.address(plain)
    }
}
