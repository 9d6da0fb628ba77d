//! Sixteen lanes as an array, for any processor.

use super::lanes::{E2M1, Lanes};

/// Sixteen f32.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; 16]);

#[inline(always)]
fn map2<A: Copy, B: Copy, C: Copy + Default>(a: [A; 16], b: [B; 16], f: impl Fn(A, B) -> C) -> [C; 16] {
    let mut out = [C::default(); 16];
    for i in 0..16 {
        out[i] = f(a[i], b[i]);
    }
    out
}

impl Lanes for Portable {
    type Int = [u32; 16];
    type Mask = [bool; 16];
    const ROWS: usize = 6;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; 16])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller vouches for 16 values.
        Self(unsafe { p.cast::<[f32; 16]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller vouches for 16 values.
        unsafe { p.cast::<[f32; 16]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn int(x: u32) -> [u32; 16] {
        [x; 16]
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> [u32; 16] {
        // SAFETY: the caller vouches for 16 bytes.
        unsafe { p.cast::<[u8; 16]>().read_unaligned() }.map(u32::from)
    }
    #[inline(always)]
    unsafe fn load_u16(p: *const u16) -> [u32; 16] {
        // SAFETY: the caller vouches for 32 bytes.
        unsafe { p.cast::<[u16; 16]>().read_unaligned() }.map(u32::from)
    }
    #[inline(always)]
    unsafe fn store_u8(v: [u32; 16], p: *mut u8) {
        // SAFETY: the caller vouches for 16 bytes.
        unsafe { p.cast::<[u8; 16]>().write_unaligned(v.map(|x| x as u8)) }
    }
    #[inline(always)]
    unsafe fn store_u16(v: [u32; 16], p: *mut u16) {
        // SAFETY: the caller vouches for 32 bytes.
        unsafe { p.cast::<[u16; 16]>().write_unaligned(v.map(|x| x as u16)) }
    }
    #[inline(always)]
    unsafe fn load_e2m1(p: *const u8) -> [Self; 4] {
        // SAFETY: the caller vouches for 32 bytes.
        let [a, b] = unsafe { p.cast::<[[u8; 16]; 2]>().read_unaligned() };
        let low = |bytes: [u8; 16]| Self(bytes.map(|b| E2M1[usize::from(b & 15)]));
        let high = |bytes: [u8; 16]| Self(bytes.map(|b| E2M1[usize::from(b >> 4)]));
        [low(a), high(a), low(b), high(b)]
    }
    #[inline(always)]
    unsafe fn load_e4m3(p: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 bytes.
        let codes = unsafe { p.cast::<[u8; 16]>().read_unaligned() };
        Self(codes.map(|code| {
            // The code is a float with a bias of 7 instead of 127, and stays one, subnormals included, when it is
            // multiplied by 2^120, which is exact.
            let (sign, magnitude) = (u32::from(code & 0x80), u32::from(code & 0x7f));
            f32::from_bits(sign << 24 | magnitude << 20) * f32::from_bits(247 << 23)
        }))
    }

    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Self(map2(self.0, o.0, |a, b| a + b))
    }
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        Self(map2(self.0, o.0, |a, b| a - b))
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        Self(map2(self.0, o.0, |a, b| a * b))
    }
    #[inline(always)]
    fn div(self, o: Self) -> Self {
        Self(map2(self.0, o.0, |a, b| a / b))
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        let mut out = c.0;
        for i in 0..16 {
            out[i] = self.0[i].mul_add(b.0[i], c.0[i]);
        }
        Self(out)
    }
    #[inline(always)]
    fn lt(self, o: Self) -> [bool; 16] {
        map2(self.0, o.0, |a, b| a < b)
    }
    #[inline(always)]
    fn is_nan(self) -> [bool; 16] {
        self.0.map(f32::is_nan)
    }
    #[inline(always)]
    fn select(m: [bool; 16], a: Self, b: Self) -> Self {
        let mut out = b.0;
        for i in 0..16 {
            out[i] = if m[i] { a.0[i] } else { b.0[i] };
        }
        Self(out)
    }
    #[inline(always)]
    fn bits(self) -> [u32; 16] {
        self.0.map(f32::to_bits)
    }
    #[inline(always)]
    fn from_bits(v: [u32; 16]) -> Self {
        Self(v.map(f32::from_bits))
    }
    #[inline(always)]
    fn tree(self) -> f32 {
        let mut v = self.0;
        for width in [8, 4, 2, 1] {
            for j in 0..width {
                v[j] += v[j + width];
            }
        }
        v[0]
    }

    #[inline(always)]
    fn iadd(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        map2(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    fn isub(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        map2(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    fn iand(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        map2(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn ior(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        map2(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn shl(a: [u32; 16], n: u32) -> [u32; 16] {
        a.map(|x| x << n)
    }
    #[inline(always)]
    fn shr(a: [u32; 16], n: u32) -> [u32; 16] {
        a.map(|x| x >> n)
    }
    #[inline(always)]
    fn ieq(a: [u32; 16], b: [u32; 16]) -> [bool; 16] {
        map2(a, b, |a, b| a == b)
    }
    #[inline(always)]
    fn ilt(a: [u32; 16], b: [u32; 16]) -> [bool; 16] {
        map2(a, b, |a, b| (a as i32) < b as i32)
    }
    #[inline(always)]
    fn iselect(m: [bool; 16], a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        let mut out = b;
        for i in 0..16 {
            out[i] = if m[i] { a[i] } else { b[i] };
        }
        out
    }
    #[inline(always)]
    fn ints(v: [u32; 16]) -> [u32; 16] {
        v
    }
}
