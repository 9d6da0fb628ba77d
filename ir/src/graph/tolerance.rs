//! How far a target's result of an op may lie from the oracle's, given equal operands.
//!
//! The figures are worst-case bounds of floating-point analysis, with u = 2⁻²⁴ the unit of f32 rounding; none is
//! fitted to a result. A sum in which every term passes through at most n additions is off by at most
//! n·u·Σ|terms| (Higham, "Accuracy and Stability of Numerical Algorithms", §4.2), on each of the two sides. Targets keep
//! the canonical order of blocks and may permute inside a block, so n is the length of a block plus the number
//! of blocks, and not K.

use super::{Op, Round, Value};
use crate::types::{Elem, Format};

/// How two results of an op are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Equal bits (any NaN equals any NaN): moves, selections, integer arithmetic, and single f32 operations
    /// whose rounding IEEE 754 fixes.
    Exact,
    /// Each element within [`Tolerance::bound`] of the oracle's.
    Near {
        /// Roundings of both sides together, in units of 2⁻²⁴ of `magnitude`.
        roundings: f64,
        /// What they are relative to.
        magnitude: Magnitude,
    },
    /// Indices that the op ranks by numbers of its own: equal, except that two candidates whose ranks differ by at
    /// most `roundings`·2⁻²⁴ of the larger magnitude may change places.
    Ranked {
        /// Roundings of both sides together.
        roundings: f64,
    },
}

/// What the roundings of an element are relative to. Values are the op's operands for that element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magnitude {
    /// `|result|`: nothing cancels.
    Result,
    /// 1: cosines and sines.
    One,
    /// The sum of the absolute values of all products that are summed: for products and weighted sums what the
    /// oracle gives for the absolute values of the operands.
    Terms,
    /// The largest magnitude in the row of `x`: for rotations, whose two products may cancel.
    Row,
    /// For `hc.mix`: `1 + max_i ‖function_i‖₂·√(n·d)·max|scale|`, which bounds the argument of its sigmoids and
    /// exponentials (Cauchy–Schwarz; the statistic makes ‖v‖ drop out).
    Mixing,
    /// For attention: `max_n |k_n[c]| · (1 + max_n Σ|q·k_n|·scale)`. An error δ of a score changes its
    /// exponential by the factor e^δ.
    Attention,
    /// For `engram.gate`: `|x| + |value|·(1 + S/8·10³)` with `S = Σ|x·q·k·key|·norms/√d`. The slope of
    /// σ(±√|dot|) is at most 1/4 · 1/(2·10⁻³) above the floor of 10⁻⁶. Where |dot| itself is below
    /// `roundings`·2⁻²⁴·S its sign is open, which moves the result by another |value|·5·10⁻⁴.
    Gate,
}

impl Tolerance {
    /// Largest allowed `|a − b|` for an element that the oracle gives as `oracle` in `format`: the op's roundings,
    /// and one step of the format where it is narrower than f32, since a tie may round to either side.
    pub fn bound(self, magnitude: f64, oracle: f64, format: Format) -> f64 {
        match self {
            Tolerance::Exact | Tolerance::Ranked { .. } => 0.0,
            Tolerance::Near { roundings, .. } => roundings * UNIT * magnitude + step(format, oracle),
        }
    }
}

/// 2⁻²⁴, the largest relative error of one f32 rounding.
pub const UNIT: f64 = 1.0 / (1 << 24) as f64;
/// One bf16 step in [`UNIT`]s: 2⁻⁷ of the value at most.
const BF16_STEP: f64 = (1 << 17) as f64;
/// Errors of a target's exponential, logarithm, root or quotient together, in [`UNIT`]s; approximations of the
/// machines are within 2 ulp each.
const FUNCTION: f64 = 16.0;
/// Terms of a 16-lane reduction pass 4 additions of the tree after those of their lane.
const TREE: f64 = 4.0;

/// Distance of neighbouring numbers of a plain format at `value`; 0 for f32, whose roundings are counted.
pub fn step(format: Format, value: f64) -> f64 {
    let digits = match format.elem {
        Elem::F32 | Elem::I32 | Elem::I64 => return 0.0,
        Elem::Bf16 => 7,
        Elem::E4m3 => 3,
        Elem::E2m1 => 1,
    };
    // The exponent of the binade, not below the smallest normal number of f32 (the range of scales).
    let exponent = if value == 0.0 { -126 } else { (value.abs().log2().floor() as i32).max(-126) };
    2f64.powi(exponent - digits)
}

/// Additions a term passes in a product over `k` columns that are summed in blocks of `block`.
fn depth(k: usize, block: usize) -> f64 {
    (k.min(block) + k.div_ceil(block)) as f64
}

/// Additions a term passes in a 16-lane reduction of `k` elements.
fn lanes(k: usize) -> f64 {
    k.div_ceil(16) as f64 + TREE
}

/// The tolerance of each result of `op`; `shape` gives the dimensions of its operands.
///
/// | ops | bound |
/// |---|---|
/// | `embed`, `cast`, `quantize`, `scale`, `add`, `concat`, `rows.*`, `argmax`, `hc.open`, stores, `engram.hash`, `engram.lookup`, `index.blocks`, `index.restrict`, `topk`, `moe.group` | exact |
/// | `rmsnorm` | K terms of one sign, halved by the root; norm, two products |
/// | `linear`, `moe.linear` | 2·depth·u·Σ\|x·w\|, depth of the weight's blocks |
/// | `rope.table` | one ulp of a cosine or sine: relative to 1 |
/// | `rope` | two products and a sum a side |
/// | `hc.mix` | the logits' error, times 4 for the two ends of softmax and Sinkhorn (both nonexpansive in Hilbert's metric), plus the divisions |
/// | `hc.collapse`, `hc.expand`, `hc.mean`, `moe.combine` | n products and sums a side |
/// | `engram.gate` | three reductions, then the slope of the gate |
/// | `compress.pool` | convex weights: the functions and sums over the group |
/// | `index.scores` | dots and a sum over heads; bf16 steps where those are rounded |
/// | `attention` | errors of scores and exponentials, sums in blocks of 64 keys; a bf16 step where weights are rounded |
/// | `router` | root of softplus, a sum of k; ids by rank |
/// | `swiglu` | an exponential, a quotient, two products |
pub fn tolerance(op: &Op, shape: &dyn Fn(Value) -> Vec<usize>) -> Vec<Tolerance> {
    let dim = |v: Value, i: usize| shape(v).get(i).copied().unwrap_or(1);
    let last = |v: Value| shape(v).last().copied().unwrap_or(1);
    let near = |roundings: f64, magnitude| vec![Tolerance::Near { roundings: 2.0 * roundings, magnitude }];
    let exact = |results: usize| vec![Tolerance::Exact; results];
    let rounded = |round: &Round, steps: f64| match round {
        Round::None => 0.0,
        Round::Bf16 => steps * BF16_STEP,
    };
    match op {
        Op::Embed { .. }
        | Op::Cast { .. }
        | Op::Quantize { .. }
        | Op::Scale { .. }
        | Op::Add { .. }
        | Op::Concat { .. }
        | Op::SelectRows { .. }
        | Op::EveryRow { .. }
        | Op::InterleaveRows { .. }
        | Op::Argmax { .. }
        | Op::RingStore { .. }
        | Op::CacheAppend { .. }
        | Op::EngramHash { .. }
        | Op::EngramLookup { .. }
        | Op::IndexBlocks { .. }
        | Op::IndexRestrict { .. }
        | Op::TopK { .. } => exact(1),
        Op::HcOpen { .. } => exact(2),
        Op::MoeGroup { .. } => exact(3),
        Op::RmsNorm { weight, .. } => near(lanes(last(*weight)) / 2.0 + FUNCTION, Magnitude::Result),
        // The block of a scaled weight is 32, of a plain one 64: the longer bounds both in-block sums, the shorter
        // the number of blocks.
        Op::Linear { weight, .. } | Op::MoeLinear { weight, .. } => {
            let k = last(*weight);
            near(depth(k, 64).max(depth(k, 32)), Magnitude::Terms)
        }
        Op::RopeTable { .. } => near(2.0, Magnitude::One),
        Op::Rope { .. } => near(4.0, Magnitude::Row),
        Op::HcMix { x, iters, .. } => {
            let (n, d) = (dim(*x, 1), dim(*x, 2));
            let logits = depth(n * d, 64) + lanes(n * d) / 2.0 + FUNCTION;
            let coefficient = near(logits, Magnitude::Mixing);
            let divisions = (2 * iters * (n + 2)) as f64;
            [coefficient.clone(), coefficient, near(4.0 * logits + divisions, Magnitude::Mixing)].concat()
        }
        Op::HcCollapse { x, .. } | Op::HcMean { x } => near(dim(*x, 1) as f64 + 1.0, Magnitude::Terms),
        Op::HcExpand { x, .. } => near(dim(*x, 1) as f64 + 2.0, Magnitude::Terms),
        Op::EngramGate { x, .. } => near(2.0 * lanes(dim(*x, 2)) + 2.0 * FUNCTION, Magnitude::Gate),
        Op::CompressPool { ratio, .. } => near(2.0 * (*ratio as f64) + 2.0 * FUNCTION, Magnitude::Terms),
        Op::IndexScores { q, round, .. } => {
            let sums = lanes(dim(*q, 2)) + dim(*q, 1) as f64 + 1.0;
            near(sums + rounded(round, 3.0), Magnitude::Terms)
        }
        Op::Attention { q, window, selected, round, .. } => {
            let keys = dim(*window, 1) + selected.map_or(0, last);
            let sums = 2.0 * depth(keys, 64) + lanes(dim(*q, 2)) * 2.0 + 2.0 * FUNCTION;
            near(sums + rounded(round, 1.0), Magnitude::Attention)
        }
        Op::BlockAttention { q, window, block, round, .. } => {
            let keys = dim(*window, 1) + block;
            let sums = 2.0 * depth(keys, 64) + lanes(dim(*q, 2)) * 2.0 + 2.0 * FUNCTION;
            near(sums + rounded(round, 1.0), Magnitude::Attention)
        }
        Op::Router { k, .. } => {
            let ids = Tolerance::Ranked { roundings: 2.0 * FUNCTION };
            [vec![ids], near(*k as f64 + 2.0 * FUNCTION, Magnitude::Result)].concat()
        }
        Op::SwiGlu { .. } => near(FUNCTION + 3.0, Magnitude::Result),
        Op::MoeCombine { parts, .. } => near(dim(*parts, 1) as f64 + 1.0, Magnitude::Terms),
    }
}
