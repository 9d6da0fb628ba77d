//! The compressor of a source layer: its entries and index keys (V4.1 §2.7).

use tessera_ir::Format;
use tessera_ir::graph::{Op, Value};

use super::net::{Net, Rows, slots};

/// Makes the entries that end at the rows of `x` (the layer's attention input) and stores them.
pub(super) fn store(net: &mut Net<'_>, layer: usize, ratio: usize, x: Value, at: Rows) {
    let t = net.text;
    let p = format!("layers.{layer}.attn.compressor");
    let act = net.mode.activation();
    let pooled = if ratio == 1 {
        net.project(x, &format!("{p}.wkv"), t.head_dim, act)
    } else {
        // A group may straddle two steps, so its rows go through rings.
        let tail = slots("G", t.head_dim);
        let kv = net.project(x, &format!("{p}.wkv"), t.head_dim, Format::F32);
        let gate = net.project(x, &format!("{p}.wgate"), t.head_dim, Format::F32);
        let values = net.store(&format!("layers.{layer}.tail_kv"), &tail, kv, at);
        let gates = net.store(&format!("layers.{layer}.tail_gate"), &tail, gate, at);
        let op = Op::CompressPool { values, gates, seq: at.seq, pos: at.pos, ratio };
        net.emit_rows(op, x, &[t.head_dim], act)
    };
    let latent = net.rms_norm(pooled, &format!("{p}.norm"));
    let rope = net.rope_kind(ratio);
    let key = net.project(latent, &format!("layers.{layer}.attn.indexer.wk"), t.index_head_dim, act);
    let key = net.rms_norm(key, &format!("layers.{layer}.attn.indexer.k_norm"));
    let key = net.rope(key, rope, at.pos, ratio, false);
    let key = net.quantize(key, net.mode.index());
    let entry = net.rope(latent, rope, at.pos, ratio, false);
    let entry = net.quantize(entry, net.mode.cache());
    let capacity = capacity(ratio);
    net.append(&index_name(layer), &slots(&capacity, t.index_head_dim), key, at, ratio);
    net.append(&cache_name(layer), &slots(&capacity, t.head_dim), entry, at, ratio);
}

/// The newest version of the entries of source layer `source`.
pub(super) fn cache(net: &mut Net<'_>, source: usize, ratio: usize) -> Value {
    let (width, format) = (net.text.head_dim, net.mode.cache());
    net.state(&cache_name(source), &slots(&capacity(ratio), width), format)
}

/// The newest version of the index keys of source layer `source`.
pub(super) fn index_keys(net: &mut Net<'_>, source: usize, ratio: usize) -> Value {
    let (width, format) = (net.text.index_head_dim, net.mode.index());
    net.state(&index_name(source), &slots(&capacity(ratio), width), format)
}

fn cache_name(layer: usize) -> String {
    format!("layers.{layer}.cache")
}

fn index_name(layer: usize) -> String {
    format!("layers.{layer}.index")
}

fn capacity(ratio: usize) -> String {
    format!("C{ratio}")
}
