//! The table of micro-kernels: names, contracts, signatures and addresses.

use super::isa::Isa;
use super::{attention, math, mma, quant, reduce, select};

/// Hands the table to another macro: `documentation, Variant, module::function(arguments) -> result`.
macro_rules! kernel_table {
    ($use:ident $($with:tt)*) => { $use! { [$($with)*]
        /// `out[m][16·panels] (+)= a[m][k] · w4ᵀ`, each block of 32 scaled by `a_scale` and the weight's scales.
        /// `a_scale` may be null: unscaled activations. K is a multiple of 32. Without `accumulate` (0) `out` is
        /// only written.
        MmaW4 = mma::mma_w4(m: usize, panels: usize, k: usize, a: *const f32, lda: usize, a_scale: *const f32,
            lds: usize, w: *const u8, panel_stride_bytes: usize, out: *mut f32, ldo: usize, accumulate: u32);
        /// The same with w8 panels.
        MmaW8 = mma::mma_w8(m: usize, panels: usize, k: usize, a: *const f32, lda: usize, a_scale: *const f32,
            lds: usize, w: *const u8, panel_stride_bytes: usize, out: *mut f32, ldo: usize, accumulate: u32);
        /// `out[m][16·panels] (+)= a[m][k] · bf16ᵀ`; any K.
        MmaBf16 = mma::mma_bf16(m: usize, panels: usize, k: usize, a: *const f32, lda: usize, w: *const u8,
            panel_stride_bytes: usize, out: *mut f32, ldo: usize, accumulate: u32);
        /// `out[m][16·panels] (+)= a[m][k] · f32ᵀ`; any K.
        MmaF32 = mma::mma_f32(m: usize, panels: usize, k: usize, a: *const f32, lda: usize, w: *const u8,
            panel_stride_bytes: usize, out: *mut f32, ldo: usize, accumulate: u32);

        /// Values of `n` e4m3 codes and of their `n/32` e8m0 scales, apart; `n` is a multiple of 32.
        UnpackMx8 = quant::unpack_mx8(codes: *const u8, scales: *const u8, n: usize, out_codes: *mut f32,
            out_scales: *mut f32);
        /// Quantises `n` values to e4m3 with an e8m0 scale per 32 (V4.1 §3.2); `n` is a multiple of 32.
        QuantMx8 = quant::quant_mx8(x: *const f32, n: usize, codes: *mut u8, scales: *mut u8);
        /// The same into a record of `n` codes and `n/32` scales (V4.1 §3.4).
        QuantKv8 = quant::quant_kv8(x: *const f32, n: usize, record: *mut u8);
        /// Quantises to e2m1 with an e4m3 scale per 16 into a record of `n/2` and `n/16` bytes (V4.1 §3.3); `n` is a
        /// multiple of 16.
        QuantKv4 = quant::quant_kv4(x: *const f32, n: usize, record: *mut u8);
        /// Quantises to e2m1 with an e8m0 scale per 32 into a record of `n/2` and `n/32` bytes (V4.1 §3.3); `n` is a
        /// multiple of 32.
        QuantIndex4 = quant::quant_index4(x: *const f32, n: usize, record: *mut u8);
        /// Values of codes and scales as `tsr_quant_mx8` writes them.
        DequantMx8 = quant::dequant_mx8(codes: *const u8, scales: *const u8, n: usize, out: *mut f32);
        /// Values of a record of `tsr_quant_kv8`.
        DequantKv8 = quant::dequant_kv8(record: *const u8, n: usize, out: *mut f32);
        /// Values of a record of `tsr_quant_kv4`.
        DequantKv4 = quant::dequant_kv4(record: *const u8, n: usize, out: *mut f32);
        /// Values of a record of `tsr_quant_index4`.
        DequantIndex4 = quant::dequant_index4(record: *const u8, n: usize, out: *mut f32);

        /// `dst[i]` = `src[i]` rounded to bf16, kept as f32. The elementwise kernels may work in place.
        Bf16Round = math::bf16_round(dst: *mut f32, src: *const f32, n: usize);
        /// bf16 words to f32.
        LoadBf16 = math::load_bf16(dst: *mut f32, src: *const u16, n: usize);
        /// f32 to the nearest bf16 words, ties to even.
        StoreBf16 = math::store_bf16(dst: *mut u16, src: *const f32, n: usize);
        /// e^x.
        Exp = math::exp(dst: *mut f32, src: *const f32, n: usize);
        /// 1 / (1 + e^−x).
        Sigmoid = math::sigmoid(dst: *mut f32, src: *const f32, n: usize);
        /// x / (1 + e^−x).
        Silu = math::silu(dst: *mut f32, src: *const f32, n: usize);
        /// √ln(1 + e^x), √x above 20 (V4.1 §2.9).
        SoftplusSqrt = math::softplus_sqrt(dst: *mut f32, src: *const f32, n: usize);
        /// Cosine and sine of the f32 product `pos[i] · freqs[j]`, `[n][m]` each, taken in f64 and rounded to f32.
        Sincos = math::sincos(pos: *const i32, n: usize, freqs: *const f32, m: usize, out_cos: *mut f32,
            out_sin: *mut f32);

        /// Σ x·y in the order of rows.
        Dot = reduce::dot(x: *const f32, y: *const f32, n: usize) -> f32;
        /// Σ x in the order of rows.
        Sum = reduce::sum(x: *const f32, n: usize) -> f32;
        /// Σ x² in the order of rows.
        Sumsq = reduce::sumsq(x: *const f32, n: usize) -> f32;
        /// Largest |x|; 0 for n = 0, NaN if any is NaN.
        Absmax = reduce::absmax(x: *const f32, n: usize) -> f32;
        /// Largest x; −∞ for n = 0, NaN if any is NaN.
        Max = reduce::max(x: *const f32, n: usize) -> f32;

        /// `out[h][n] = (q[h] · keys[n]) · scale`, dots in the order of rows; rows of `out` are `ldo` apart.
        AttnScores = attention::attn_scores(q: *const f32, h: usize, d: usize, keys: *const f32, n: usize,
            scale: f32, out: *mut f32, ldo: usize);
        /// `out[h][d]` += p, where p starts at +0 and takes `e[h][n] · v[n][d]` by `fma` in ascending n. Callers cut
        /// their keys into blocks of at most 64; rows of `e` are `lde` apart.
        AttnValues = attention::attn_values(e: *const f32, lde: usize, h: usize, n: usize, v: *const f32, d: usize,
            out: *mut f32);
        /// Index scores of `n` keys (V4.1 §2.8): Σ over heads, ascending, of `relu(q[h] · key) · w[h]`, dots in the order
        /// of rows. With `round` (not 0) dots, products and sums are rounded to bf16. NaN stays NaN.
        IndexScores = attention::index_scores(q: *const f32, w: *const f32, h: usize, d: usize, keys: *const f32,
            n: usize, round: u32, out: *mut f32);

        /// The `k` best of `n` scores, as ascending positions; −1 in the slots left over. Never selects −∞ or NaN.
        /// Returns how many were selected. `work` has room for `n` words; n is below 2³¹.
        Topk = select::topk(scores: *const f32, n: usize, k: usize, out: *mut i32, work: *mut u64) -> usize;
        /// The `k` best of `n` scores in order of rank, −1 in the slots left over. NaN ranks last, behind −∞. Time is
        /// n·k at worst: for routers.
        TopkRanked = select::topk_ranked(scores: *const f32, n: usize, k: usize, out: *mut i32);
        /// Largest score of each block of `block` positions, NaN ignored (−∞ if nothing is left); +∞ for
        /// `forced_block`, if there is such a block.
        BlockMax = select::block_max(scores: *const f32, n: usize, block: usize, forced_block: usize, out: *mut f32);
        /// Position of the largest value, the lowest of equals; NaN only if there is nothing else; 0 for n = 0.
        Argmax = select::argmax(x: *const f32, n: usize) -> u32;
    }};
}

macro_rules! define_symbols {
    ([] $($(#[$doc:meta])* $variant:ident = $module:ident::$name:ident
        ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        /// A micro-kernel, by what it does. Generated code refers to it by [`Symbol::name`].
        ///
        /// Sizes and strides count elements unless they say bytes. Matrices are row-major; `ld*` is the distance of
        /// rows. Pointers need the alignment of what they point to (weight panels none). Inputs and outputs do not
        /// overlap, but for the elementwise kernels, whose `dst` may be `src`. Any size may be 0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Symbol {
            $($(#[$doc])* $variant,)*
        }

        impl Symbol {
            /// All symbols, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The stable name in artifacts.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!("tsr_", stringify!($name)),)*
                }
            }
        }

        /// Function types of the kernels, for Rust callers.
        pub mod abi {
            $($(#[$doc])* pub type $variant = unsafe extern "C" fn($($arg: $ty),*) $(-> $ret)?;)*
        }

        /// The kernels of one instruction set.
        ///
        /// Calling one is `unsafe`: the operands must be readable and writable as its contract ([`Symbol`]) says.
        #[derive(Debug)]
        pub struct Kernels {
            $($(#[$doc])* pub $name: abi::$variant,)*
        }

        impl Kernels {
            fn address(&self, symbol: Symbol) -> *const u8 {
                match symbol {
                    $(Symbol::$variant => self.$name as *const u8,)*
                }
            }
        }
    };
}

kernel_table!(define_symbols);

macro_rules! define_entries {
    ([$entries:ident, $lanes:ty, $feature:meta] $($(#[$doc:meta])* $variant:ident = $module:ident::$name:ident
        ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        mod $entries {
            use super::*;

            $(
                /// # Safety
                /// The contract of the symbol, on a processor with the instructions.
                #[$feature]
                #[allow(clippy::too_many_arguments, reason = "the calling convention of generated code")]
                unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller keeps the contract, and this function's features are those of its lanes.
                    unsafe { $module::$name::<$lanes>($($arg),*) }
                }
            )*

            pub(super) static KERNELS: Kernels = Kernels { $($name),* };
        }
    };
}

kernel_table!(define_entries portable, crate::micro::lanes_portable::Portable, inline(never));
#[cfg(target_arch = "x86_64")]
kernel_table!(define_entries avx2, crate::micro::lanes_avx2::Avx2, target_feature(enable = "avx2,fma,f16c"));
#[cfg(target_arch = "x86_64")]
kernel_table!(define_entries avx512, crate::micro::lanes_avx512::Avx512,
    target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq"));

impl Symbol {
    /// The symbol of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|symbol| symbol.name() == name)
    }
}

impl Kernels {
    /// The kernels of an instruction set, if this processor runs it.
    pub fn of(isa: Isa) -> Option<&'static Self> {
        if !isa.available() {
            return None;
        }
        match isa {
            Isa::Portable => Some(&portable::KERNELS),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Some(&avx2::KERNELS),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Some(&avx512::KERNELS),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => None,
        }
    }
}

/// The address of a kernel; null if this processor does not run the instruction set.
pub fn resolve(symbol: Symbol, isa: Isa) -> *const u8 {
    Kernels::of(isa).map_or(std::ptr::null(), |kernels| kernels.address(symbol))
}
