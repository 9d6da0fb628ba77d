//! Sixteen lanes in one AVX-512 register.
//!
//! `vdpbf16ps`, the bf16 dot product of AVX-512 BF16, is not used although e2m1 and e4m3 codes are exact in bf16. Our
//! activations are f32 (and not always codes), it flushes subnormals whatever MXCSR says, and that its two steps round
//! as two separate `fma`s (odd element first) on every vendor is documented by one of them only. The canonical order
//! leaves room for it, should that be proved on the machines.

use super::lanes::{E2M1, Lanes};
use std::arch::x86_64::*;

/// Lanes 0–15.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512);

macro_rules! op {
    ($body:expr) => {{
        // SAFETY: a value of these types exists only where AVX-512 F, BW, VL and DQ do, and the functions that take
        // none (loads, splats) require that of their caller, who also vouches for the memory.
        unsafe { $body }
    }};
}

impl Lanes for Avx512 {
    type Int = __m512i;
    type Mask = __mmask16;
    const ROWS: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self(op!(_mm512_set1_ps(x)))
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        Self(op!(_mm512_loadu_ps(p)))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        op!(_mm512_storeu_ps(p, self.0))
    }
    #[inline(always)]
    unsafe fn int(x: u32) -> __m512i {
        op!(_mm512_set1_epi32(x as i32))
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> __m512i {
        op!(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())))
    }
    #[inline(always)]
    unsafe fn load_u16(p: *const u16) -> __m512i {
        op!(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast())))
    }
    #[inline(always)]
    unsafe fn store_u8(v: __m512i, p: *mut u8) {
        op!(_mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(v)))
    }
    #[inline(always)]
    unsafe fn store_u16(v: __m512i, p: *mut u16) {
        op!(_mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(v)))
    }
    #[inline(always)]
    unsafe fn load_e2m1(p: *const u8) -> [Self; 4] {
        // SAFETY: the caller vouches for the instructions and 32 bytes.
        unsafe {
            let table = _mm512_loadu_ps(E2M1.as_ptr());
            let (a, b) = (Self::load_u8(p), Self::load_u8(p.add(16)));
            // A permutation looks at the low four bits of its index only.
            [
                Self(_mm512_permutexvar_ps(a, table)),
                Self(_mm512_permutexvar_ps(_mm512_srli_epi32::<4>(a), table)),
                Self(_mm512_permutexvar_ps(b, table)),
                Self(_mm512_permutexvar_ps(_mm512_srli_epi32::<4>(b), table)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn load_e4m3(p: *const u8) -> Self {
        // SAFETY: the caller vouches for the instructions and 16 bytes.
        unsafe {
            // The code is an f16 with a bias of 7 instead of 15. Unlike a product, the conversion from f16 is not slowed
            // by subnormals.
            let codes = _mm256_cvtepi8_epi16(_mm_loadu_si128(p.cast()));
            let halves = _mm256_and_si256(_mm256_slli_epi16::<7>(codes), _mm256_set1_epi16(0xbf80u16 as i16));
            Self(_mm512_mul_ps(_mm512_cvtph_ps(halves), _mm512_set1_ps(256.0)))
        }
    }

    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Self(op!(_mm512_add_ps(self.0, o.0)))
    }
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        Self(op!(_mm512_sub_ps(self.0, o.0)))
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        Self(op!(_mm512_mul_ps(self.0, o.0)))
    }
    #[inline(always)]
    fn div(self, o: Self) -> Self {
        Self(op!(_mm512_div_ps(self.0, o.0)))
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        Self(op!(_mm512_fmadd_ps(self.0, b.0, c.0)))
    }
    #[inline(always)]
    fn lt(self, o: Self) -> __mmask16 {
        op!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, o.0))
    }
    #[inline(always)]
    fn is_nan(self) -> __mmask16 {
        op!(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0))
    }
    #[inline(always)]
    fn select(m: __mmask16, a: Self, b: Self) -> Self {
        Self(op!(_mm512_mask_blend_ps(m, b.0, a.0)))
    }
    #[inline(always)]
    fn bits(self) -> __m512i {
        op!(_mm512_castps_si512(self.0))
    }
    #[inline(always)]
    fn from_bits(v: __m512i) -> Self {
        Self(op!(_mm512_castsi512_ps(v)))
    }
    #[inline(always)]
    fn tree(self) -> f32 {
        let four = self.quarter();
        op!({
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        })
    }
    #[inline(always)]
    fn tree4(a: Self, b: Self, c: Self, d: Self) -> [f32; 4] {
        let (a, b, c, d) = (a.quarter(), b.quarter(), c.quarter(), d.quarter());
        let mut out = [0.0; 4];
        op!({
            // A 4×4 transposition: register i then holds lane i of the four.
            let (ab01, ab23) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
            let (cd01, cd23) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
            let (l0, l1) = (_mm_movelh_ps(ab01, cd01), _mm_movehl_ps(cd01, ab01));
            let (l2, l3) = (_mm_movelh_ps(ab23, cd23), _mm_movehl_ps(cd23, ab23));
            _mm_storeu_ps(out.as_mut_ptr(), _mm_add_ps(_mm_add_ps(l0, l2), _mm_add_ps(l1, l3)));
        });
        out
    }

    #[inline(always)]
    fn iadd(a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn isub(a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_sub_epi32(a, b))
    }
    #[inline(always)]
    fn iand(a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn ior(a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn shl(a: __m512i, n: u32) -> __m512i {
        op!(_mm512_sllv_epi32(a, _mm512_set1_epi32(n as i32)))
    }
    #[inline(always)]
    fn shr(a: __m512i, n: u32) -> __m512i {
        op!(_mm512_srlv_epi32(a, _mm512_set1_epi32(n as i32)))
    }
    #[inline(always)]
    fn ieq(a: __m512i, b: __m512i) -> __mmask16 {
        op!(_mm512_cmpeq_epi32_mask(a, b))
    }
    #[inline(always)]
    fn ilt(a: __m512i, b: __m512i) -> __mmask16 {
        op!(_mm512_cmplt_epi32_mask(a, b))
    }
    #[inline(always)]
    fn iselect(m: __mmask16, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_mask_blend_epi32(m, b, a))
    }
    #[inline(always)]
    fn ints(v: __m512i) -> [u32; 16] {
        Self::from_bits(v).floats().map(f32::to_bits)
    }
}

impl Avx512 {
    /// The first two steps of the tree: lanes 0–3 after adding j+8 and j+4.
    #[inline(always)]
    fn quarter(self) -> __m128 {
        op!({
            let eight = _mm256_add_ps(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
            _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight))
        })
    }
}
