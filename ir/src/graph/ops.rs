//! The table of graph ops: one row holds an op's meaning, mnemonic, operands, attributes and effect.

use super::attrs::{Engram, Rope, Round};
use super::module::Value;
use crate::text::op_table;

/// What an op does beside giving results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Results depend on operands only.
    Pure,
    /// Takes the newest version of its first operand, a state, and gives the next version.
    State,
}

macro_rules! ops {
    ($( $(#[$doc:meta])* $name:ident = $mnemonic:literal
        ( $($operand:ident : $oty:ty),* ) { $($attr:ident : $aty:ty),* } $effect:ident; )*) => {
        op_table! {
            /// An operation on whole tensors.
            Op over Value;
            $( $(#[$doc])* $name = $mnemonic ( $($operand : $oty),* ) { $($attr : $aty),* }; )*
        }

        impl Op {
            /// What the op does beside giving results.
            pub fn effect(&self) -> Effect {
                match self { $(Op::$name { .. } => Effect::$effect),* }
            }
        }
    };
}

ops! {
    /// Row `tokens[t]` of `table`.
    ///
    /// Typing: `table: [V, d]` bf16 or f32, `tokens: [T] i32` in `0..V`; result `[T, d]` bf16 or f32.
    Embed = "embed" (table: Value, tokens: Value) {} Pure;
    /// The value of `x` in another plain format, rounded to nearest even where that is narrower.
    ///
    /// Typing: plain float to plain float of the same shape.
    Cast = "cast" (x: Value) {} Pure;
    /// `x` through the quantiser of the result's format (V4.1 §3.2, §3.3), along the last dimension.
    ///
    /// Typing: `x` bf16 or f32; result of the same shape in `mx8`, `kv8`, `kv4` or `index4`.
    Quantize = "quantize" (x: Value) {} Pure;
    /// `x · factor` in f32, rounded once to the result's format.
    ///
    /// Typing: `x` and result plain floats of one shape.
    Scale = "scale" (x: Value) { factor: f32 } Pure;
    /// `a + b` in f32, rounded once to the result's format.
    ///
    /// Typing: plain floats of one shape.
    Add = "add" (a: Value, b: Value) {} Pure;
    /// Parts side by side along the last dimension.
    ///
    /// Typing: plain tensors of one format that differ in the last dimension only.
    Concat = "concat" (parts: Vec<Value>) {} Pure;
    /// `weight · (x · rsqrt(mean(x²) + eps))` over the last dimension, f32, rounded once (V4.1 §2.1).
    /// The sum of squares is taken in 16 lanes (element i in lane i mod 16), the lanes added as a binary tree.
    ///
    /// Typing: `x: [T, …, d]` plain float, `weight: [d]`; result of the shape of `x`, bf16 or f32.
    RmsNorm = "rmsnorm" (x: Value, weight: Value) { eps: f32 } Pure;
    /// `x @ weightᵀ` (V4.1 §2.2), trailing dimensions of `x` flattened to K; with `groups` g > 1 the K of `x`
    /// is cut into g pieces, piece i meets the i-th g-th of the weight's rows.
    /// Order: blocks of 32 (scaled weights; products of codes summed exactly as listed, then scaled) or 64
    /// (plain weights) along K, ascending.
    ///
    /// Typing: `x: [T, …]` in `mx8`, bf16 or f32, `weight: [N, K/groups]` in `w8`, `mx4`, bf16 or f32;
    /// result `[T, …]` whose trailing dimensions multiply to N, bf16 or f32.
    Linear = "linear" (x: Value, weight: Value) { groups: usize } Pure;
    /// Rows `rows[l]` of `x`.
    ///
    /// Typing: `x: [T, …]` plain, `rows: [L] i32` in `0..T`; result `[L, …]`.
    SelectRows = "rows.select" (x: Value, rows: Value) {} Pure;
    /// Rows `offset, offset + step, …` of `x`.
    ///
    /// Typing: `x: [step·Q, …]` plain; result `[Q, …]`.
    EveryRow = "rows.every" (x: Value) { step: usize, offset: usize } Pure;
    /// Rows of n parts dealt in turn: row `n·q + i` of the result is row q of part i.
    ///
    /// Typing: n plain tensors `[Q, …]` of one type; result `[n·Q, …]`.
    InterleaveRows = "rows.interleave" (parts: Vec<Value>) {} Pure;
    /// Index of the largest element of each row; equal values: the lower index; NaN never wins.
    ///
    /// Typing: `x: [T, n]` f32 or bf16; result `[T] i32`.
    Argmax = "argmax" (x: Value) {} Pure;
    /// `cos` then `sin` of `p·θ_m` for the row's rotary position p = `(pos / stride)·stride` (V4.1 §2.5): the
    /// product in f32, the functions correctly rounded to f32.
    ///
    /// Typing: `pos: [T] i32`; result `[T, rope.dim] f32`, cosines first.
    RopeTable = "rope.table" (pos: Value) { rope: Rope, stride: usize } Pure;
    /// Rotates the last `m·2` channels of each row by the row's angles, adjacent pairs as complex numbers;
    /// `inverse` conjugates. Other channels pass through. f32, one rounding.
    ///
    /// Typing: `x: [T, …, d]` bf16 or f32, `table: [T, 2m]` with `2m ≤ d`; result of the shape of `x`.
    Rope = "rope" (x: Value, table: Value) { inverse: bool } Pure;
    /// `streams` copies of each row, and `pre` = (1, 0, …) (V4.1 §2.0).
    ///
    /// Typing: `x: [T, d]`; results `[T, streams, d]` of the format of `x` and `[T, streams] f32`.
    HcOpen = "hc.open" (x: Value) { streams: usize } Pure;
    /// Mixing coefficients of a stream: `pre`, `post` and the doubly stochastic `comb` (V4.1 §2.3), all f32.
    /// `z = (function @ v)·rsqrt(mean(v²) + norm_eps)` over the n·d values of a row; Sinkhorn with `iters`
    /// column normalisations.
    ///
    /// Typing: `x: [T, n, d]`, `function: [n·(n+2), n·d]`, `base: [n·(n+2)]`, `scale: [3]`;
    /// results `[T, n]`, `[T, n]`, `[T, n, n]`, all f32.
    HcMix = "hc.mix" (x: Value, function: Value, base: Value, scale: Value) { iters: usize, eps: f32, norm_eps: f32 } Pure;
    /// `Σ_j pre[j]·x[j]`, j ascending, f32, rounded once.
    ///
    /// Typing: `x: [T, n, d]`, `pre: [T, n] f32`; result `[T, d]`.
    HcCollapse = "hc.collapse" (x: Value, pre: Value) {} Pure;
    /// `post[k]·y + Σ_j comb[j, k]·x[j]`, j ascending, f32, rounded once.
    ///
    /// Typing: `y: [T, d]`, `x: [T, n, d]`, `post: [T, n]`, `comb: [T, n, n]`; result of the type of `x`.
    HcExpand = "hc.expand" (y: Value, x: Value, post: Value, comb: Value) {} Pure;
    /// Mean of the streams, f32 sum ascending, times 1/n, rounded once.
    ///
    /// Typing: `x: [T, n, d]`; result `[T, d]`.
    HcMean = "hc.mean" (x: Value) {} Pure;
    /// Writes row t to slot `pos[t] mod R` of ring `seq[t]`.
    ///
    /// Typing: `ring: [S, R, …]`, `rows: [T, …]` of the same tail and format, `seq, pos: [T] i32`; result of the type of `ring`.
    RingStore = "ring.store" (ring: Value, rows: Value, seq: Value, pos: Value) {} State;
    /// Table rows of the n-grams that end at each position (V4.1 §2.4): the raw ids of the last positions come
    /// from the history ring, `map` compresses them, positions before 0 count as the pad token.
    ///
    /// Typing: `history: [S, R] i32`, `map: [V] i32`, `seq, pos: [T] i32`; result `[T, columns] i64`.
    EngramHash = "engram.hash" (history: Value, map: Value, seq: Value, pos: Value) { engram: Engram } Pure;
    /// Looked-up rows side by side, in column order.
    ///
    /// Typing: `table: [rows, h]` in `mx8`, `ids: [T, c] i64`; result `[T, c·h]`, bf16 or f32 (both exact).
    EngramLookup = "engram.lookup" (table: Value, ids: Value) {} Pure;
    /// Adds the gated n-gram value to each stream (V4.1 §2.4, "Lookup"). Sums in 16 lanes as in `rmsnorm`.
    ///
    /// Typing: `x: [T, n, d]`, `kv: [T, (n+1)·d]`, `q_weight, k_weight: [n, d]`; result of the type of `x`.
    EngramGate = "engram.gate" (x: Value, kv: Value, q_weight: Value, k_weight: Value) { eps: f32 } Pure;
    /// Per channel softmax over the gates of the `ratio` tokens of the group that ends at `pos`, applied to their
    /// values (V4.1 §2.7). Rows whose position does not end a group give zeros.
    ///
    /// Typing: `values, gates: [S, R, D] f32` rings holding the group; result `[T, D]`, bf16 or f32.
    CompressPool = "compress.pool" (values: Value, gates: Value, seq: Value, pos: Value) { ratio: usize } Pure;
    /// Writes row t to entry `pos[t] / ratio` of cache `seq[t]` if `pos[t]` ends a group, else nothing.
    ///
    /// Typing: `cache: [S, C, D]`, `rows: [T, D]` of the same format, `seq, pos: [T] i32`; result of the type of `cache`.
    CacheAppend = "cache.append" (cache: Value, rows: Value, seq: Value, pos: Value) { ratio: usize } State;
    /// `Σ_h relu(q_h·k_n)·w_h`, h ascending, for the visible entries n < (pos+1)/ratio, −∞ for others (V4.1 §2.8).
    /// Dots in 16 lanes as in `rmsnorm`; `round` applies to each dot, each product and the sum.
    ///
    /// Typing: `q: [T, H, D]` in `index4`, bf16 or f32, `weights: [T, H]`, `keys: [S, C, D]`; result `[T, C] f32`.
    IndexScores = "index.scores" (q: Value, weights: Value, keys: Value, seq: Value, pos: Value) { ratio: usize, round: Round } Pure;
    /// The `keep` best blocks of `block` scores by their maxima, the block of the newest visible entry always
    /// among them, blocks without a visible entry never; equal maxima: the lower block. Ascending, −1 padded.
    ///
    /// Typing: `scores: [T, C] f32`, `pos: [T] i32`; result `[T, keep] i32`.
    IndexBlocks = "index.blocks" (scores: Value, pos: Value) { ratio: usize, block: usize, keep: usize } Pure;
    /// `scores` with −∞ outside the listed blocks.
    ///
    /// Typing: `scores: [T, C] f32`, `blocks: [T, keep] i32`; result of the type of `scores`.
    IndexRestrict = "index.restrict" (scores: Value, blocks: Value) { block: usize } Pure;
    /// Positions of the k largest scores, ascending, −1 padded; equal scores: the lower position; −∞ and NaN never.
    ///
    /// Typing: `scores: [T, C] f32`; result `[T, k] i32`.
    TopK = "topk" (scores: Value) { k: usize } Pure;
    /// Attention of each row over window entries `lo..=pos` by ascending position, then the selected cache
    /// entries in list order (−1 skipped), K = V, with a sink in the denominator only (V4.1 §2.6):
    /// `s = (q·k)·scale`, `m = max s`, `e = exp(s − m)`, `o = Σ e·k / (Σ e + exp(sink − m))`.
    /// Dots in 16 lanes; denominator and value sum in blocks of 64 keys, ascending, those of the window from `lo` on, those
    /// of the list anew; within a block the denominator in 16 lanes, the values one key after another by fused
    /// multiply-adds from 0. `round` rounds e to bf16 for the value sum only. Without keys: zeros.
    ///
    /// Typing: `q: [T, H, D]`, `window: [S, R, D]`, `cache: [S, C, D]` with `selected: [T, k] i32` or both absent,
    /// `sink: [H] f32`, `seq, pos, lo: [T] i32`; result of the shape of `q`, bf16 or f32.
    Attention = "attention" (q: Value, window: Value, cache: Option<Value>, selected: Option<Value>, sink: Value, seq: Value, pos: Value, lo: Value) { scale: f32, round: Round } Pure;
    /// [`Op::Attention`] of a draft block: rows come in blocks of `block` consecutive positions of one sequence;
    /// each row sees window entries `lo..first position of its block` and then all rows of its block.
    ///
    /// Typing: as `attention`, `rows: [T, D]` in the window's format.
    BlockAttention = "attention.block" (q: Value, window: Value, rows: Value, sink: Value, seq: Value, pos: Value, lo: Value) { block: usize, scale: f32, round: Round } Pure;
    /// Router (V4.1 §2.9): `s = sqrt(softplus(logits))`, the k best of `s + bias` in order of rank (equal: the lower
    /// expert), weights `s / (Σ selected s + 1e-20) · scale`, the sum in order of rank.
    ///
    /// Typing: `logits: [T, E] f32`, `bias: [E] f32`; results `[T, k] i32` and `[T, k] f32`.
    Router = "router" (logits: Value, bias: Value) { k: usize, scale: f32 } Pure;
    /// The choices of all rows sorted by expert, stable: choice (t, j) is number `t·k + j`. `offsets[e] .. offsets[e+1]` are
    /// the places of expert e in `pairs` (the choice numbers) and in `rows` (their rows t). How a machine groups the
    /// rows of an expert; no arithmetic depends on it.
    ///
    /// Typing: `experts: [T, k] i32` in `0..count`; results `[count + 1] i32`, `[k·T] i32`, `[k·T] i32`.
    MoeGroup = "moe.group" (experts: Value) { count: usize } Pure;
    /// `x @ weight[experts[t, j]]ᵀ` for each choice j of each row; order as `linear`. `offsets`, `pairs` and `rows` are the
    /// `moe.group` of `experts`, all or none, and change nothing.
    ///
    /// Typing: `x: [T, K]` (shared by the choices) or `[T, k, K]`, `experts: [T, k] i32`, `weight: [E, N, K]`;
    /// result `[T, k, N]`, bf16 or f32.
    MoeLinear = "moe.linear" (x: Value, experts: Value, weight: Value, offsets: Option<Value>, pairs: Option<Value>, rows: Option<Value>) {} Pure;
    /// `silu(min(gate, limit)) · clamp(up, ±limit)`, times the row's weight if given (V4.1 §2.9), f32, rounded once.
    ///
    /// Typing: `gate, up` of one shape `[T, …, n]`, `weight` of the shape without n; result of the shape of `gate`.
    SwiGlu = "swiglu" (gate: Value, up: Value, weight: Option<Value>) { limit: f32 } Pure;
    /// `Σ_j parts[j] + shared`, j in order of choice, f32, rounded once.
    ///
    /// Typing: `parts: [T, k, d]`, `shared: [T, d]`; result `[T, d]`.
    MoeCombine = "moe.combine" (parts: Value, shared: Value) {} Pure;
}
