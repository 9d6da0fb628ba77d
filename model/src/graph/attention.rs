//! Attention of backbone layers, and the pieces that DSpark stages share with them (V4.1 §2.6, §2.8).

use tessera_ir::graph::{Op, Rope, Value};
use tessera_ir::{Dim, Format};

use super::compressor;
use super::net::{Net, Rows, slots};
use crate::topology::LayerRole;

/// What later layers reuse of an indexer's work.
#[derive(Clone, Copy, Default)]
pub(super) struct Shared {
    /// The latest selection of compressed entries, `[T, k]`.
    selected: Option<Value>,
    /// The candidate blocks that restrict later indexers.
    blocks: Option<Value>,
}

/// A backbone layer where it is used.
#[derive(Clone, Copy)]
pub(super) struct Layer<'a> {
    pub(super) index: usize,
    pub(super) role: &'a LayerRole,
    pub(super) at: Rows,
    /// First visible window position of each row.
    pub(super) lo: Value,
    /// The layer's compressed entries were already stored, from more rows than it runs on.
    pub(super) compressed: bool,
    /// The selection becomes an output.
    pub(super) trace: bool,
}

/// Attention of a backbone layer on its normalised input `x: [T, d]`.
pub(super) fn attention(net: &mut Net<'_>, layer: Layer<'_>, shared: &mut Shared, x: Value) -> Value {
    let Layer { index, role, at, lo, .. } = layer;
    let p = format!("layers.{index}");
    let (rope, head) = (net.rope_kind(role.ratio), net.text.head_dim);
    let (low, q) = queries(net, &p, x, at, rope);
    let rows = window_rows(net, &p, x, at, rope);
    let window = net.store(&format!("{p}.window"), &slots("R", head), rows, at);
    if role.kv_source == Some(index) && !layer.compressed {
        compressor::store(net, index, role.ratio, x, at);
    }
    let cache = role.kv_source.map(|source| compressor::cache(net, source, role.ratio));
    if role.index_source == Some(index) {
        let selected = select(net, layer, shared, x, low);
        shared.selected = Some(selected);
    }
    let selected = cache.and(shared.selected);
    let sink = sink(net, &p);
    let (scale, round) = (softmax_scale(net), net.mode.round());
    let op = Op::Attention { q, window, cache, selected, sink, seq: at.seq, pos: at.pos, lo, scale, round };
    let o = net.emit_same(op, q, net.mode.activation());
    output(net, &p, o, at, rope)
}

/// The normalised low-rank query `[T, q_lora_rank]`, and from it the rotated queries `[T, heads, head_dim]`.
pub(super) fn queries(net: &mut Net<'_>, p: &str, x: Value, at: Rows, rope: Rope) -> (Value, Value) {
    let t = net.text;
    let low = net.dense(x, &format!("{p}.attn.wq_a"), &[t.q_lora_rank]);
    let low = net.rms_norm(low, &format!("{p}.attn.q_norm"));
    let q = net.dense(low, &format!("{p}.attn.wq_b"), &[t.num_attention_heads, t.head_dim]);
    (low, net.rope(q, rope, at.pos, 1, false))
}

/// Window entries of the rows: one vector that is key and value, in the window's format.
pub(super) fn window_rows(net: &mut Net<'_>, p: &str, x: Value, at: Rows, rope: Rope) -> Value {
    let kv = net.dense(x, &format!("{p}.attn.wkv"), &[net.text.head_dim]);
    let kv = net.rms_norm(kv, &format!("{p}.attn.kv_norm"));
    let kv = net.rope(kv, rope, at.pos, 1, false);
    net.quantize(kv, net.mode.window())
}

/// The heads' outputs turned back and projected to the stream width.
pub(super) fn output(net: &mut Net<'_>, p: &str, o: Value, at: Rows, rope: Rope) -> Value {
    let t = net.text;
    let o = net.rope(o, rope, at.pos, 1, true);
    let low = net.grouped(o, &format!("{p}.attn.wo_a"), t.o_groups, &[t.o_groups, t.o_lora_rank]);
    net.dense(low, &format!("{p}.attn.wo_b"), &[t.hidden_size])
}

/// The sink logits of block `p`.
pub(super) fn sink(net: &mut Net<'_>, p: &str) -> Value {
    net.weight(&format!("{p}.attn.attn_sink"), &[net.text.num_attention_heads], Format::F32)
}

/// `head_dim^-½`.
pub(super) fn softmax_scale(net: &Net<'_>) -> f32 {
    (net.text.head_dim as f64).powf(-0.5) as f32
}

/// The layer's own choice of compressed entries, from the low-rank queries `low` (V4.1 §2.8).
fn select(net: &mut Net<'_>, layer: Layer<'_>, shared: &mut Shared, x: Value, low: Value) -> Value {
    let Layer { index, role, at, .. } = layer;
    let t = net.text;
    let p = format!("layers.{index}.attn.indexer");
    let (heads, width, ratio) = (t.index_n_heads, t.index_head_dim, role.ratio);
    let source = role.kv_source.unwrap_or(index);
    let q = net.dense(low, &format!("{p}.wq_b"), &[heads, width]);
    let q = net.rope(q, net.rope_kind(ratio), at.pos, 1, false);
    let q = net.quantize(q, net.mode.index());
    let act = net.mode.activation();
    let weights = net.project(x, &format!("{p}.weights_proj"), heads, act);
    let factor = ((width as f64).powf(-0.5) * (heads as f64).powf(-0.5)) as f32;
    let weights = net.emit_same(Op::Scale { x: weights, factor }, weights, act);
    let keys = compressor::index_keys(net, source, ratio);
    let shape = [net.rows(x), Dim::sym(&format!("C{ratio}"))];
    let round = net.mode.round();
    let op = Op::IndexScores { q, weights, keys, seq: at.seq, pos: at.pos, ratio, round };
    let mut scores = net.emit(op, &shape, Format::F32);
    let block = t.candidate_block_size;
    if role.makes_candidates {
        let keep = t.candidate_topk_blocks;
        let op = Op::IndexBlocks { scores, pos: at.pos, ratio, block, keep };
        shared.blocks = Some(net.emit_rows(op, scores, &[keep], Format::I32));
    } else if let Some(blocks) = shared.blocks.filter(|_| role.candidate_source.is_some()) {
        scores = net.emit_same(Op::IndexRestrict { scores, blocks, block }, scores, Format::F32);
    }
    let selected = net.emit_rows(Op::TopK { scores, k: t.index_topk }, scores, &[t.index_topk], Format::I32);
    if layer.trace {
        net.output(format!("topk.{index}"), selected);
    }
    selected
}
