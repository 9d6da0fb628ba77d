//! Quantisers and dequantisers of activations and caches (V4.1 §3.2, §3.3), equal to `tessera_ir::num::group` bit for
//! bit.
//!
//! A group with a NaN or an infinity gets the NaN scale and codes that do not depend on the values (e4m3 NaN, e2m1
//! ±6's positive one), so that the whole group reads back as NaN and records stay a function of their input.

use super::codes;
use super::lanes::Lanes;

/// Elements that share an e8m0 scale.
const GROUP: usize = 32;
/// f32(1/448) and f32(1/6): the definition multiplies and does not divide.
const BY_448: f32 = (1.0f64 / 448.0) as f32;
const BY_6: f32 = (1.0f64 / 6.0) as f32;
/// e4m3 NaN, and two e2m1 codes of 6.
const NAN_CODE: u8 = 0x7f;
const POISON: u8 = 0x77;

/// Largest magnitude as bits: NaN above infinity above the numbers.
#[inline(always)]
fn amax_bits<V: Lanes>(a: V, b: V) -> u32 {
    let (a, b) = (a.abs().bits(), b.abs().bits());
    // Magnitudes are not negative, so a signed comparison orders them.
    let largest = V::ints(V::iselect(V::ilt(a, b), b, a));
    let mut v = largest;
    for width in [8, 4, 2, 1] {
        for j in 0..width {
            v[j] = v[j].max(v[j + width]);
        }
    }
    v[0]
}

/// The e8m0 byte of 2^⌈log2 v⌉ for v = max(amax, floor) · factor, and NaN for what is not finite.
#[inline(always)]
fn pow2_ceil_byte(amax: u32, floor: f32, factor: f32) -> u8 {
    let amax = f32::from_bits(amax);
    let bits = (if amax < floor { floor } else { amax } * factor).to_bits();
    if bits >= 0x7f80_0000 {
        return 255;
    }
    ((bits >> 23) + u32::from(bits & 0x7f_ffff != 0)) as u8
}

/// 1 / 2^(byte−127), by which a product is the division, for the finite scales from 2^−126 to 2^126.
#[inline(always)]
fn reciprocal(byte: u8) -> f32 {
    f32::from_bits((254 - u32::from(byte)) << 23)
}

/// # Safety
/// The processor has the instructions of `V`; a group is readable at `x`, its codes writable at `codes`.
#[inline(always)]
unsafe fn group_e4m3<V: Lanes>(x: *const f32, codes: *mut u8) -> u8 {
    // SAFETY: by the caller's word.
    unsafe {
        let (a, b) = (V::load(x), V::load(x.add(16)));
        let byte = pow2_ceil_byte(amax_bits(a, b), 1e-4, BY_448);
        if byte == 255 {
            std::ptr::write_bytes(codes, NAN_CODE, GROUP);
        } else {
            let r = V::splat(reciprocal(byte));
            V::store_u8(codes::to_e4m3(a.mul(r)), codes);
            V::store_u8(codes::to_e4m3(b.mul(r)), codes.add(16));
        }
        byte
    }
}

/// Packs 16 e2m1 codes, the even one low.
///
/// # Safety
/// The processor has the instructions of `V`; 8 bytes are writable at `packed`.
#[inline(always)]
unsafe fn store_nibbles<V: Lanes>(codes: V::Int, packed: *mut u8) {
    let mut bytes = [0; 16];
    // SAFETY: by the caller's word.
    unsafe {
        V::store_u8(codes, bytes.as_mut_ptr());
        // In a 64-bit word: even bytes keep their place, odd bytes move to the nibble above; then squeeze.
        for half in 0..2 {
            let word = u64::from_le_bytes(bytes.as_ptr().add(8 * half).cast::<[u8; 8]>().read());
            let pairs = (word | word >> 4) & 0x00ff_00ff_00ff_00ff;
            let pairs = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
            let squeezed = (pairs | pairs >> 16) as u32;
            packed.add(4 * half).cast::<[u8; 4]>().write(squeezed.to_le_bytes());
        }
    }
}

/// # Safety
/// The processor has the instructions of `V`; a group is readable at `x`, 16 bytes are writable at `packed`.
#[inline(always)]
unsafe fn group_e2m1<V: Lanes>(x: *const f32, packed: *mut u8) -> u8 {
    // SAFETY: by the caller's word.
    unsafe {
        let (a, b) = (V::load(x), V::load(x.add(16)));
        let byte = pow2_ceil_byte(amax_bits(a, b), 6.0 * f32::MIN_POSITIVE, BY_6);
        if byte == 255 {
            std::ptr::write_bytes(packed, POISON, GROUP / 2);
        } else {
            let r = V::splat(reciprocal(byte));
            store_nibbles::<V>(codes::to_e2m1(a.mul(r)), packed);
            store_nibbles::<V>(codes::to_e2m1(b.mul(r)), packed.add(8));
        }
        byte
    }
}

/// The code of a number, clamped to ±448.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn to_e4m3_scalar<V: Lanes>(x: f32) -> u8 {
    // SAFETY: by the caller's word.
    unsafe { V::ints(codes::to_e4m3(V::splat(x)))[0] as u8 }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn quant_mx8<V: Lanes>(x: *const f32, n: usize, codes: *mut u8, scales: *mut u8) {
    for g in 0..n / GROUP {
        // SAFETY: by the caller's word.
        unsafe { *scales.add(g) = group_e4m3::<V>(x.add(g * GROUP), codes.add(g * GROUP)) };
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn quant_kv8<V: Lanes>(x: *const f32, n: usize, record: *mut u8) {
    // SAFETY: by the caller's word.
    unsafe { quant_mx8::<V>(x, n, record, record.add(n)) }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn quant_index4<V: Lanes>(x: *const f32, n: usize, record: *mut u8) {
    for g in 0..n / GROUP {
        // SAFETY: by the caller's word.
        unsafe { *record.add(n / 2 + g) = group_e2m1::<V>(x.add(g * GROUP), record.add(g * GROUP / 2)) };
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn quant_kv4<V: Lanes>(x: *const f32, n: usize, record: *mut u8) {
    for g in 0..n / 16 {
        // SAFETY: by the caller's word.
        unsafe {
            let v = V::load(x.add(g * 16));
            let amax = f32::from_bits(amax_bits(v, v));
            let floor = 6.0 / 512.0;
            let scale = if amax < floor { floor } else { amax } / 6.0;
            let packed = record.add(g * 8);
            let code = if scale.is_finite() { to_e4m3_scalar::<V>(scale) } else { NAN_CODE };
            if code == NAN_CODE {
                std::ptr::write_bytes(packed, POISON, 8);
            } else {
                let scale = V::splat(codes::e4m3_scalar(code));
                store_nibbles::<V>(codes::to_e2m1(v.div(scale)), packed);
            }
            *record.add(n / 2 + g) = code;
        }
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn unpack_mx8<V: Lanes>(
    codes: *const u8,
    scales: *const u8,
    n: usize,
    out_codes: *mut f32,
    out_scales: *mut f32,
) {
    for g in 0..n / GROUP {
        // SAFETY: by the caller's word.
        unsafe {
            for half in [g * GROUP, g * GROUP + 16] {
                codes::load_e4m3::<V>(codes.add(half)).store(out_codes.add(half));
            }
            *out_scales.add(g) = codes::e8m0_scalar(*scales.add(g));
        }
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn dequant_mx8<V: Lanes>(codes: *const u8, scales: *const u8, n: usize, out: *mut f32) {
    for g in 0..n / GROUP {
        // SAFETY: by the caller's word.
        unsafe {
            let scale = V::splat(codes::e8m0_scalar(*scales.add(g)));
            for half in [g * GROUP, g * GROUP + 16] {
                codes::load_e4m3::<V>(codes.add(half)).mul(scale).store(out.add(half));
            }
        }
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn dequant_kv8<V: Lanes>(record: *const u8, n: usize, out: *mut f32) {
    // SAFETY: by the caller's word.
    unsafe { dequant_mx8::<V>(record, record.add(n), n, out) }
}

/// Values of 16 packed e2m1 codes in order.
///
/// # Safety
/// The processor has the instructions of `V`; 8 bytes are readable at `packed`.
#[inline(always)]
unsafe fn load_nibbles<V: Lanes>(packed: *const u8) -> V {
    // SAFETY: by the caller's word.
    unsafe {
        // Spread the nibbles to one a byte; the low nibbles of the first 16 bytes are then in order.
        let mut bytes = [0u8; 32];
        for half in 0..2 {
            let four = u32::from_le_bytes(packed.add(4 * half).cast::<[u8; 4]>().read());
            let pairs = (u64::from(four) | u64::from(four) << 16) & 0x0000_ffff_0000_ffff;
            let pairs = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
            let spread = (pairs | pairs << 4) & 0x0f0f_0f0f_0f0f_0f0f;
            bytes.as_mut_ptr().add(8 * half).cast::<[u8; 8]>().write(spread.to_le_bytes());
        }
        let [values, ..] = V::load_e2m1(bytes.as_ptr());
        values
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn dequant_index4<V: Lanes>(record: *const u8, n: usize, out: *mut f32) {
    for g in 0..n / GROUP {
        // SAFETY: by the caller's word.
        unsafe {
            let scale = V::splat(codes::e8m0_scalar(*record.add(n / 2 + g)));
            for half in [g * GROUP, g * GROUP + 16] {
                load_nibbles::<V>(record.add(half / 2)).mul(scale).store(out.add(half));
            }
        }
    }
}

/// # Safety
/// See the entry point of the same name in `symbols.rs`.
#[inline(always)]
pub(crate) unsafe fn dequant_kv4<V: Lanes>(record: *const u8, n: usize, out: *mut f32) {
    for g in 0..n / 16 {
        // SAFETY: by the caller's word.
        unsafe {
            let scale = V::splat(codes::e4m3_scalar(*record.add(n / 2 + g)));
            load_nibbles::<V>(record.add(g * 8)).mul(scale).store(out.add(g * 16));
        }
    }
}
