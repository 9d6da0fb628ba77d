//! Sixteen f32 lanes: the one vector type that every kernel body is written in.
//!
//! A kernel body is generic over [`Lanes`] and inlined into one entry point per instruction set (`symbols.rs`), so
//! its order of operations exists once. An implementation only says how sixteen lanes are held: one AVX-512
//! register, two AVX2 registers, or an array. Each operation is one IEEE operation per lane, rounded to nearest
//! even, subnormals kept; `fma` rounds once. So equal inputs give equal bits whatever the implementation; only the
//! sign and payload of a NaN may differ.

/// Sixteen lanes of f32, with sixteen 32-bit integers ([`Lanes::Int`]) and sixteen truth values ([`Lanes::Mask`]).
///
/// The functions that make a value from nothing are `unsafe`: they may run only where the implementation's
/// instructions exist. Whoever has a value may therefore compute with it.
pub(crate) trait Lanes: Copy {
    /// Sixteen 32-bit integers.
    type Int: Copy;
    /// Sixteen truth values.
    type Mask: Copy;
    /// Rows of a matrix product that fit into registers together, with 16 columns each.
    const ROWS: usize;

    /// The same value in all lanes.
    ///
    /// # Safety
    /// The processor has the implementation's instructions. This holds for every function of this trait that is
    /// `unsafe`, besides what it says itself.
    unsafe fn splat(x: f32) -> Self;
    /// Reads 16 values.
    ///
    /// # Safety
    /// 16 values are readable at `p`, which needs no alignment beyond that of f32.
    unsafe fn load(p: *const f32) -> Self;
    /// Writes 16 values.
    ///
    /// # Safety
    /// 16 values are writable at `p`.
    unsafe fn store(self, p: *mut f32);

    /// The same integer in all lanes.
    ///
    /// # Safety
    /// See [`Lanes::splat`].
    unsafe fn int(x: u32) -> Self::Int;
    /// Reads 16 bytes, one per lane.
    ///
    /// # Safety
    /// 16 bytes are readable at `p`.
    unsafe fn load_u8(p: *const u8) -> Self::Int;
    /// Reads 16 half-words, one per lane.
    ///
    /// # Safety
    /// 32 bytes are readable at `p`; no alignment is needed.
    unsafe fn load_u16(p: *const u16) -> Self::Int;
    /// Writes the lanes, all below 256, as bytes.
    ///
    /// # Safety
    /// 16 bytes are writable at `p`.
    unsafe fn store_u8(v: Self::Int, p: *mut u8);
    /// Writes the lanes, all below 65536, as half-words.
    ///
    /// # Safety
    /// 32 bytes are writable at `p`; no alignment is needed.
    unsafe fn store_u16(v: Self::Int, p: *mut u16);
    /// Values of the 64 e2m1 codes of 32 bytes: the low and the high nibbles of the first 16, then of the others.
    ///
    /// # Safety
    /// 32 bytes are readable at `p`.
    unsafe fn load_e2m1(p: *const u8) -> [Self; 4];
    /// Values of 16 e4m3 codes, but ±480 instead of NaN for the codes 0x7f and 0xff.
    ///
    /// # Safety
    /// 16 bytes are readable at `p`.
    unsafe fn load_e4m3(p: *const u8) -> Self;

    /// `self + o`.
    fn add(self, o: Self) -> Self;
    /// `self - o`.
    fn sub(self, o: Self) -> Self;
    /// `self * o`.
    fn mul(self, o: Self) -> Self;
    /// `self / o`.
    fn div(self, o: Self) -> Self;
    /// `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// `self < o`; false where either is NaN.
    fn lt(self, o: Self) -> Self::Mask;
    /// Where a lane is NaN.
    fn is_nan(self) -> Self::Mask;
    /// `a` where `m`, else `b`.
    fn select(m: Self::Mask, a: Self, b: Self) -> Self;
    /// The bits of the lanes.
    fn bits(self) -> Self::Int;
    /// The values of bits.
    fn from_bits(v: Self::Int) -> Self;
    /// Lane j += lane j+8, then j+4, j+2, j+1; lane 0.
    fn tree(self) -> f32;

    /// Four [`Lanes::tree`]s.
    #[inline(always)]
    fn tree4(a: Self, b: Self, c: Self, d: Self) -> [f32; 4] {
        [a.tree(), b.tree(), c.tree(), d.tree()]
    }

    /// Wrapping sum.
    fn iadd(a: Self::Int, b: Self::Int) -> Self::Int;
    /// Wrapping difference.
    fn isub(a: Self::Int, b: Self::Int) -> Self::Int;
    /// Bitwise and.
    fn iand(a: Self::Int, b: Self::Int) -> Self::Int;
    /// Bitwise or.
    fn ior(a: Self::Int, b: Self::Int) -> Self::Int;
    /// Left shift by a constant below 32.
    fn shl(a: Self::Int, n: u32) -> Self::Int;
    /// Logical right shift by a constant below 32.
    fn shr(a: Self::Int, n: u32) -> Self::Int;
    /// `a == b`.
    fn ieq(a: Self::Int, b: Self::Int) -> Self::Mask;
    /// `a < b` as signed integers.
    fn ilt(a: Self::Int, b: Self::Int) -> Self::Mask;
    /// `a` where `m`, else `b`.
    fn iselect(m: Self::Mask, a: Self::Int, b: Self::Int) -> Self::Int;
    /// The lanes as an array.
    fn ints(v: Self::Int) -> [u32; 16];

    /// Zeros.
    ///
    /// # Safety
    /// See [`Lanes::splat`].
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has the instructions.
        unsafe { Self::splat(0.0) }
    }

    /// The lanes as an array.
    #[inline(always)]
    fn floats(self) -> [f32; 16] {
        let mut out = [0.0; 16];
        // SAFETY: `out` holds 16 values, and a value of this type exists only where its instructions do.
        unsafe { self.store(out.as_mut_ptr()) };
        out
    }

    /// Magnitude.
    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: a value of this type exists only where its instructions do.
        let mask = unsafe { Self::int(0x7fff_ffff) };
        Self::from_bits(Self::iand(self.bits(), mask))
    }

    /// Reads the `n` ≤ 16 values at `p` and zeros beyond them.
    ///
    /// # Safety
    /// `n` values are readable at `p`.
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize) -> Self {
        let mut part = [0.0; 16];
        // SAFETY: the caller vouches for the `n` ≤ 16 values at `p`.
        unsafe {
            std::ptr::copy_nonoverlapping(p, part.as_mut_ptr(), n);
            Self::load(part.as_ptr())
        }
    }

    /// Writes the first `n` ≤ 16 lanes.
    ///
    /// # Safety
    /// `n` values are writable at `p`.
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, n: usize) {
        let part = self.floats();
        // SAFETY: the caller vouches for the `n` ≤ 16 values at `p`.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), p, n) };
    }
}

/// Values of the e2m1 codes (V4.1 §3.1).
pub(crate) const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Asks for the cache line of `p`, which may be any address.
#[inline(always)]
pub(crate) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}
