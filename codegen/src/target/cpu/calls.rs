//! The micro-kernels that emitted code may call: names and signatures as the runtime defines them.
//!
//! The compiler does not depend on the runtime, so it keeps this table of its own; a test of the workspace compares both.

/// Machine type of an argument or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arg {
    /// An address.
    Ptr,
    /// A size, count or stride: 64 bits.
    Size,
    /// A 32-bit integer.
    U32,
    /// An f32.
    F32,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $variant:ident = $name:literal ($($arg:ident)*) $(-> $ret:ident)?;)*) => {
        /// A micro-kernel.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Call { $($(#[$doc])* $variant,)* }

        impl Call {
            /// All of them, in table order.
            pub const ALL: &'static [Call] = &[$(Call::$variant),*];

            /// Name in [`tessera_ir::artifact::Kernel::imports`].
            pub const fn name(self) -> &'static str {
                match self { $(Call::$variant => $name),* }
            }
            /// Types of the arguments.
            pub const fn args(self) -> &'static [Arg] {
                match self { $(Call::$variant => &[$(Arg::$arg),*]),* }
            }
            /// Type of the result, if there is one.
            pub const fn result(self) -> Option<Arg> {
                match self { $(Call::$variant => calls!(@ret $($ret)?)),* }
            }
        }
    };
    (@ret) => { None };
    (@ret $ret:ident) => { Some(Arg::$ret) };
}

calls! {
    /// `out (+)= a · wᵀ` over w4 panels: m, panels, k, a, lda, a_scale or null, lds, w, panel stride, out, ldo, accumulate.
    MmaW4 = "tsr_mma_w4" (Size Size Size Ptr Size Ptr Size Ptr Size Ptr Size U32);
    /// The same over w8 panels.
    MmaW8 = "tsr_mma_w8" (Size Size Size Ptr Size Ptr Size Ptr Size Ptr Size U32);
    /// `out (+)= a · wᵀ` over bf16 panels: m, panels, k, a, lda, w, panel stride, out, ldo, accumulate.
    MmaBf16 = "tsr_mma_bf16" (Size Size Size Ptr Size Ptr Size Ptr Size U32);
    /// The same over f32 panels.
    MmaF32 = "tsr_mma_f32" (Size Size Size Ptr Size Ptr Size Ptr Size U32);
    /// mx8 codes and scales, apart, as f32: codes, scales, n, out_codes, out_scales.
    UnpackMx8 = "tsr_unpack_mx8" (Ptr Ptr Size Ptr Ptr);
    /// Quantises a row: x, n, codes, scales.
    QuantMx8 = "tsr_quant_mx8" (Ptr Size Ptr Ptr);
    /// Quantises a row into a record: x, n, record.
    QuantKv8 = "tsr_quant_kv8" (Ptr Size Ptr);
    /// Quantises a row into a record: x, n, record.
    QuantKv4 = "tsr_quant_kv4" (Ptr Size Ptr);
    /// Quantises a row into a record: x, n, record.
    QuantIndex4 = "tsr_quant_index4" (Ptr Size Ptr);
    /// Decodes a row: codes, scales, n, out.
    DequantMx8 = "tsr_dequant_mx8" (Ptr Ptr Size Ptr);
    /// Decodes a record: record, n, out.
    DequantKv8 = "tsr_dequant_kv8" (Ptr Size Ptr);
    /// Decodes a record: record, n, out.
    DequantKv4 = "tsr_dequant_kv4" (Ptr Size Ptr);
    /// Decodes a record: record, n, out.
    DequantIndex4 = "tsr_dequant_index4" (Ptr Size Ptr);
    /// bf16 words to f32: dst, src, n.
    LoadBf16 = "tsr_load_bf16" (Ptr Ptr Size);
    /// `eˣ` elementwise: dst, src, n; in place allowed, as for the next three.
    Exp = "tsr_exp" (Ptr Ptr Size);
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid = "tsr_sigmoid" (Ptr Ptr Size);
    /// `x / (1 + e⁻ˣ)`.
    Silu = "tsr_silu" (Ptr Ptr Size);
    /// `√ln(1 + eˣ)`.
    SoftplusSqrt = "tsr_softplus_sqrt" (Ptr Ptr Size);
    /// Cosines and sines of `pos[i] · freqs[j]`: pos, n, freqs, m, cos, sin.
    Sincos = "tsr_sincos" (Ptr Size Ptr Size Ptr Ptr);
    /// Σ x·y: x, y, n.
    Dot = "tsr_dot" (Ptr Ptr Size) -> F32;
    /// Σ x: x, n.
    Sum = "tsr_sum" (Ptr Size) -> F32;
    /// Σ x²: x, n.
    Sumsq = "tsr_sumsq" (Ptr Size) -> F32;
    /// Largest |x|: x, n.
    Absmax = "tsr_absmax" (Ptr Size) -> F32;
    /// Largest x: x, n.
    Max = "tsr_max" (Ptr Size) -> F32;
    /// Scaled products of heads and keys: q, h, d, keys, n, scale, out, ldo.
    AttnScores = "tsr_attn_scores" (Ptr Size Size Ptr Size F32 Ptr Size);
    /// Adds a block's weighted values: e, lde, h, n, v, d, out.
    AttnValues = "tsr_attn_values" (Ptr Size Size Size Ptr Size Ptr);
    /// Index scores of keys: q, w, h, d, keys, n, round, out.
    IndexScores = "tsr_index_scores" (Ptr Ptr Size Size Ptr Size U32 Ptr);
    /// Positions of the k best, ascending: scores, n, k, out, work (n words of 64 bits); returns how many.
    Topk = "tsr_topk" (Ptr Size Size Ptr Ptr) -> Size;
    /// Positions of the k best by rank: scores, n, k, out.
    TopkRanked = "tsr_topk_ranked" (Ptr Size Size Ptr);
    /// Maxima of blocks: scores, n, block, forced block, out.
    BlockMax = "tsr_block_max" (Ptr Size Size Size Ptr);
    /// Position of the largest: x, n.
    Argmax = "tsr_argmax" (Ptr Size) -> U32;
}
