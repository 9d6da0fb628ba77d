//! The model as Graph IR: (configuration, topology, options) → the modules `step` and `draft`.
//!
//! A *step* feeds rows (tokens) of any number of sequences through the backbone, updates every cache and gives logits
//! for the rows that want them; a *draft* lets the DSpark stages propose a block of tokens a sequence.
//!
//! | symbol | counts |
//! |---|---|
//! | `T` | rows of this step |
//! | `L` | rows that want logits |
//! | `K` | rows kept by bounded replay (only with [`BuildOptions::replay`]) |
//! | `Q` | sequences that draft; the rows of `draft` are `B·Q`, B = `dspark_block_size` |
//! | `S` | sequence slots |
//! | `R` | rows of a window ring |
//! | `G` | rows of the token history and of the compressors' tails |
//! | `C1`, `C2` | entries of a cache of ratio 1, of ratio 2 |
//!
//! **`step` inputs**, all i32: `tokens`, `pos` (absolute), `seq` (slot), `lo` (first visible window position of layers
//! of ratio 0 and 2), `decoder_lo` (the same for ratio 1, which bounded replay may raise), all `[T]`; `logit_rows [L]`.
//! With [`BuildOptions::replay`] also `kept_rows`, `kept_pos`, `kept_seq`, `kept_lo`, all `[K]`; `logit_rows` then
//! counts kept rows. With [`BuildOptions::teacher`] also `teacher.hidden.N [T, hc, d] f32` and `teacher.pre.N [T, hc]
//! f32` for every layer N but the last (`K` rows where layer N works on kept rows).
//!
//! **`draft` inputs**, all `[B·Q] i32`: `tokens` (the last sampled token, then noise, for each sequence), `pos`, `seq`,
//! `lo` (first visible position of the stage windows).
//!
//! **States**: `history [S, G] i32`; `layers.N.window [S, R, hd]`; for compressed sources `layers.N.cache [S, C, hd]`,
//! `layers.N.index [S, C, id]` and, at ratio 2, `layers.N.tail_kv` and `layers.N.tail_gate [S, G, hd] f32`;
//! `mtp.N.window [S, R, hd]`, written by `step` and only read by `draft`.
//!
//! **Weights** bear their checkpoint names (V4.1 §4) without a leading `model.`; a `.scale` belongs to the format of
//! its `.weight`. Experts are stacked: `layers.3.ffn.experts.*.w1.weight [E, I, d]`. `token_map [V] i32` is Engram's
//! compression of token ids.
//!
//! **Outputs** of `step`: `logits [L, V] f32`; with [`BuildOptions::trace`] also `hidden.N [T, hc, d]` and `pre.N
//! [T, hc]` (what block N hands on), `topk.N [T, k]`, `engram_hash.I [T, columns]` (I counts Engram layers),
//! `layers.N.route_idx` and `layers.N.route_w [T, k]`, `taps [T, n·d]`. Outputs of `draft`: `tokens [B·Q] i32`, `logits
//! [B·Q, V] f32` (Markov-biased), `conf [B·Q, 1] f32`.

mod attention;
mod block;
mod compressor;
mod draft;
mod engram;
mod moe;
mod net;
mod step;

use tessera_ir::Format;
use tessera_ir::graph::{Module, Round};

use crate::config::Config;
use crate::topology::Topology;

/// A numeric mode: which of the released roundings a module keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// The released arithmetic: bf16 activations, mx8 inputs of scaled linears, quantised caches.
    #[default]
    Ref,
    /// All quantisers, but activations in f32.
    F32q,
    /// Quantised caches only.
    F32kvq,
    /// Plain f32 mathematics.
    F32,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 4] = [Mode::Ref, Mode::F32q, Mode::F32kvq, Mode::F32];

    /// The mode's name in flags and golden files.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Ref => "ref",
            Mode::F32q => "f32q",
            Mode::F32kvq => "f32kvq",
            Mode::F32 => "f32",
        }
    }
    /// The mode called `name`.
    pub fn from_name(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }
    /// Format of activations between ops.
    pub fn activation(self) -> Format {
        match self {
            Mode::Ref => Format::BF16,
            Mode::F32q | Mode::F32kvq | Mode::F32 => Format::F32,
        }
    }
    /// Whether the inputs of linears with scaled weights go through the mx8 quantiser.
    pub fn quantizes_inputs(self) -> bool {
        match self {
            Mode::Ref | Mode::F32q => true,
            Mode::F32kvq | Mode::F32 => false,
        }
    }
    /// Whether caches are quantised, and with them the index queries that meet quantised keys.
    pub fn quantizes_caches(self) -> bool {
        match self {
            Mode::Ref | Mode::F32q | Mode::F32kvq => true,
            Mode::F32 => false,
        }
    }
    /// Rounding at the inner points of ops.
    pub fn round(self) -> Round {
        match self {
            Mode::Ref => Round::Bf16,
            Mode::F32q | Mode::F32kvq | Mode::F32 => Round::None,
        }
    }
    /// Format of a window ring.
    pub fn window(self) -> Format {
        if self.quantizes_caches() { Format::KV8 } else { Format::F32 }
    }
    /// Format of a compressed key/value cache.
    pub fn cache(self) -> Format {
        if self.quantizes_caches() { Format::KV4 } else { Format::F32 }
    }
    /// Format of an index key cache and of index queries.
    pub fn index(self) -> Format {
        if self.quantizes_caches() { Format::INDEX4 } else { Format::F32 }
    }
}

/// What a module is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct BuildOptions {
    /// Numeric mode.
    pub mode: Mode,
    /// Inner values become outputs.
    pub trace: bool,
    /// The input of every block but the first comes from inputs.
    pub teacher: bool,
    /// The decoder half runs on kept rows only (V4.1 §5.4, compact mode).
    pub replay: bool,
}

/// The module `step` of a checked configuration.
pub fn step(config: &Config, topology: &Topology, options: BuildOptions) -> Module {
    step::build(config, topology, options)
}

/// The module `draft` of a checked configuration in `mode`.
pub fn draft(config: &Config, topology: &Topology, mode: Mode) -> Module {
    draft::build(config, topology, mode)
}
