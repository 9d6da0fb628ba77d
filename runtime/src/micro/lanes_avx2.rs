//! Sixteen lanes in two AVX2 registers (with FMA and F16C, which come with AVX2).

use super::lanes::{E2M1, Lanes};
use std::arch::x86_64::*;

/// Lanes 0–7 and 8–15.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256, __m256);

/// The upper and the lower byte of the e2m1 values in bf16.
const E2M1_UPPER: [u8; 16] = e2m1_bytes(24);
const E2M1_LOWER: [u8; 16] = e2m1_bytes(16);

const fn e2m1_bytes(shift: u32) -> [u8; 16] {
    let mut table = [0; 16];
    let mut code = 0;
    while code < 16 {
        table[code] = (E2M1[code].to_bits() >> shift) as u8;
        code += 1;
    }
    table
}

/// `f(lower)` and `f(upper)`.
macro_rules! both {
    ($make:ident, [$($half:ident = $pair:expr),+] $body:expr) => {{
        // SAFETY: a value of these types exists only where AVX2, FMA and F16C do, and the functions that take none
        // (loads, splats) require that of their caller, who also vouches for the memory.
        unsafe {
            let lower = { $(let $half = $pair.0;)+ $body };
            let upper = { $(let $half = $pair.1;)+ $body };
            $make(lower, upper)
        }
    }};
}

/// Two integer registers.
#[derive(Clone, Copy)]
pub(crate) struct Int(__m256i, __m256i);

impl Lanes for Avx2 {
    type Int = Int;
    type Mask = Int;
    const ROWS: usize = 6;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        both!(Avx2, [x = (x, x)] _mm256_set1_ps(x))
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        both!(Avx2, [p = (p, p.wrapping_add(8))] _mm256_loadu_ps(p))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller vouches for 16 values.
        unsafe {
            _mm256_storeu_ps(p, self.0);
            _mm256_storeu_ps(p.add(8), self.1);
        }
    }
    #[inline(always)]
    unsafe fn int(x: u32) -> Int {
        both!(Int, [x = (x, x)] _mm256_set1_epi32(x as i32))
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> Int {
        both!(Int, [p = (p, p.wrapping_add(8))] _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast())))
    }
    #[inline(always)]
    unsafe fn load_u16(p: *const u16) -> Int {
        both!(Int, [p = (p, p.wrapping_add(8))] _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast())))
    }
    #[inline(always)]
    unsafe fn store_u8(v: Int, p: *mut u8) {
        // SAFETY: the caller vouches for 16 bytes.
        unsafe {
            let words = words(v);
            let bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(p.cast(), bytes);
        }
    }
    #[inline(always)]
    unsafe fn store_u16(v: Int, p: *mut u16) {
        // SAFETY: the caller vouches for 32 bytes.
        unsafe { _mm256_storeu_si256(p.cast(), words(v)) }
    }
    #[inline(always)]
    unsafe fn load_e2m1(p: *const u8) -> [Self; 4] {
        // SAFETY: the caller vouches for the instructions and 32 bytes.
        unsafe {
            // An e2m1 value is exact in bf16: look up the two bytes of that by nibble, 64 at once. Interleaving stays
            // within halves of a register, so bring lanes 0–3 and 8–11 of both pairs into the lower half first; the two
            // rounds of interleaving then leave all lanes in order.
            let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
            let bytes = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(p.cast()), order);
            let mask = _mm256_set1_epi8(15);
            let even = _mm256_and_si256(bytes, mask);
            let odd = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), mask);
            let upper = _mm256_broadcastsi128_si256(_mm_loadu_si128(E2M1_UPPER.as_ptr().cast()));
            let lower = _mm256_broadcastsi128_si256(_mm_loadu_si128(E2M1_LOWER.as_ptr().cast()));
            let (even_upper, even_lower) =
                (_mm256_shuffle_epi8(upper, even), _mm256_shuffle_epi8(lower, even));
            let (odd_upper, odd_lower) = (_mm256_shuffle_epi8(upper, odd), _mm256_shuffle_epi8(lower, odd));
            [
                widen(_mm256_unpacklo_epi8(even_lower, even_upper)),
                widen(_mm256_unpacklo_epi8(odd_lower, odd_upper)),
                widen(_mm256_unpackhi_epi8(even_lower, even_upper)),
                widen(_mm256_unpackhi_epi8(odd_lower, odd_upper)),
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
            let scale = _mm256_set1_ps(256.0);
            Self(
                _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), scale),
                _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256::<1>(halves)), scale),
            )
        }
    }

    #[inline(always)]
    fn add(self, o: Self) -> Self {
        both!(Avx2, [a = self, b = o] _mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        both!(Avx2, [a = self, b = o] _mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        both!(Avx2, [a = self, b = o] _mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, o: Self) -> Self {
        both!(Avx2, [a = self, b = o] _mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        both!(Avx2, [a = self, b = b, c = c] _mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn lt(self, o: Self) -> Int {
        both!(Int, [a = self, b = o] _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b)))
    }
    #[inline(always)]
    fn is_nan(self) -> Int {
        both!(Int, [a = self] _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)))
    }
    #[inline(always)]
    fn select(m: Int, a: Self, b: Self) -> Self {
        both!(Avx2, [m = m, a = a, b = b] _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m)))
    }
    #[inline(always)]
    fn bits(self) -> Int {
        both!(Int, [a = self] _mm256_castps_si256(a))
    }
    #[inline(always)]
    fn from_bits(v: Int) -> Self {
        both!(Avx2, [v = v] _mm256_castsi256_ps(v))
    }
    #[inline(always)]
    fn tree(self) -> f32 {
        let four = self.quarter();
        // SAFETY: a value of this type exists only where AVX2 does.
        unsafe {
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    fn tree4(a: Self, b: Self, c: Self, d: Self) -> [f32; 4] {
        let (a, b, c, d) = (a.quarter(), b.quarter(), c.quarter(), d.quarter());
        let mut out = [0.0; 4];
        // SAFETY: a value of this type exists only where AVX2 does; `out` has room for four values.
        unsafe {
            // A 4×4 transposition: register i then holds lane i of the four.
            let (ab01, ab23) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
            let (cd01, cd23) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
            let (l0, l1) = (_mm_movelh_ps(ab01, cd01), _mm_movehl_ps(cd01, ab01));
            let (l2, l3) = (_mm_movelh_ps(ab23, cd23), _mm_movehl_ps(cd23, ab23));
            let sum = _mm_add_ps(_mm_add_ps(l0, l2), _mm_add_ps(l1, l3));
            _mm_storeu_ps(out.as_mut_ptr(), sum);
        }
        out
    }

    #[inline(always)]
    fn iadd(a: Int, b: Int) -> Int {
        both!(Int, [a = a, b = b] _mm256_add_epi32(a, b))
    }
    #[inline(always)]
    fn isub(a: Int, b: Int) -> Int {
        both!(Int, [a = a, b = b] _mm256_sub_epi32(a, b))
    }
    #[inline(always)]
    fn iand(a: Int, b: Int) -> Int {
        both!(Int, [a = a, b = b] _mm256_and_si256(a, b))
    }
    #[inline(always)]
    fn ior(a: Int, b: Int) -> Int {
        both!(Int, [a = a, b = b] _mm256_or_si256(a, b))
    }
    #[inline(always)]
    fn shl(a: Int, n: u32) -> Int {
        both!(Int, [a = a] _mm256_sllv_epi32(a, _mm256_set1_epi32(n as i32)))
    }
    #[inline(always)]
    fn shr(a: Int, n: u32) -> Int {
        both!(Int, [a = a] _mm256_srlv_epi32(a, _mm256_set1_epi32(n as i32)))
    }
    #[inline(always)]
    fn ieq(a: Int, b: Int) -> Int {
        both!(Int, [a = a, b = b] _mm256_cmpeq_epi32(a, b))
    }
    #[inline(always)]
    fn ilt(a: Int, b: Int) -> Int {
        both!(Int, [a = a, b = b] _mm256_cmpgt_epi32(b, a))
    }
    #[inline(always)]
    fn iselect(m: Int, a: Int, b: Int) -> Int {
        both!(Int, [m = m, a = a, b = b] _mm256_blendv_epi8(b, a, m))
    }
    #[inline(always)]
    fn ints(v: Int) -> [u32; 16] {
        Self::from_bits(v).floats().map(f32::to_bits)
    }
}

impl Avx2 {
    /// The first two steps of the tree: lanes 0–3 after adding j+8 and j+4.
    #[inline(always)]
    fn quarter(self) -> __m128 {
        // SAFETY: a value of this type exists only where AVX2 does.
        unsafe {
            let eight = _mm256_add_ps(self.0, self.1);
            _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight))
        }
    }
}

/// The values of a register of bf16, whose halves hold lanes 0–3 and 8–11, 4–7 and 12–15.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn widen(words: __m256i) -> Avx2 {
    // SAFETY: by the caller's word.
    unsafe {
        let zero = _mm256_setzero_si256();
        Avx2::from_bits(Int(_mm256_unpacklo_epi16(zero, words), _mm256_unpackhi_epi16(zero, words)))
    }
}

/// The lanes, all below 65536, as 16 half-words in order.
#[inline(always)]
fn words(v: Int) -> __m256i {
    // SAFETY: a value of this type exists only where AVX2 does.
    unsafe { _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(v.0, v.1)) }
}
