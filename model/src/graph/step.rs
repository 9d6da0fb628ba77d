//! The module `step`: the backbone on the rows of a step, caches and all, and DSpark's absorption of its taps.

use tessera_ir::graph::{Module, Op, Value};
use tessera_ir::{Dim, Format};

use super::attention::{self, Layer, Shared};
use super::block::{self, Stream};
use super::moe::Experts;
use super::net::{Net, Rows};
use super::{BuildOptions, compressor, draft, engram};
use crate::config::Config;
use crate::topology::Topology;

pub(super) fn build(config: &Config, topology: &Topology, options: BuildOptions) -> Module {
    let t = &config.text;
    let net = &mut Net::new("step", t, options.mode);
    let tokens = row_input(net, "tokens", "T");
    let mut at = Rows { pos: row_input(net, "pos", "T"), seq: row_input(net, "seq", "T") };
    let lo = row_input(net, "lo", "T");
    let mut decoder_lo = row_input(net, "decoder_lo", "T");
    let logit_rows = row_input(net, "logit_rows", "L");
    let history = net.store("history", &engram::history_shape(), tokens, at);
    let constants = engram::constants(config);

    let mut stream = block::open(net, tokens);
    let mut shared = Shared::default();
    let mut taps = Vec::new();
    for (index, role) in topology.layers.iter().enumerate() {
        let p = format!("layers.{index}");
        if options.teacher && index > 0 {
            stream = teach(net, index - 1, stream);
        }
        if let Some(place) = role.engram
            && let Some(constants) = constants.get(place)
        {
            let trace = options.trace.then(|| format!("engram_hash.{place}"));
            stream = engram::engram(net, index, constants, stream, (history, at), trace);
        }
        let bound = options.replay && index == topology.decoder_start;
        if bound {
            let x = block::attention_input(net, &p, stream);
            compressor::store(net, index, role.ratio, x, at);
            let kept = row_input(net, "kept_rows", "K");
            stream = Stream { x: net.select_rows(stream.x, kept), pre: net.select_rows(stream.pre, kept) };
            at = Rows { pos: row_input(net, "kept_pos", "K"), seq: row_input(net, "kept_seq", "K") };
            decoder_lo = row_input(net, "kept_lo", "K");
        }
        if role.tap.is_some() {
            let x = stream.x;
            taps.push(net.emit_rows(Op::HcMean { x }, x, &[t.hidden_size], options.mode.activation()));
        }
        let layer = Layer {
            index,
            role,
            at,
            lo: if role.ratio == 1 { decoder_lo } else { lo },
            compressed: bound,
            trace: options.trace,
        };
        let experts =
            Experts { count: t.n_routed_experts, chosen: t.num_experts_per_tok, trace: options.trace };
        stream =
            block::block(net, &p, stream, experts, |net, x| attention::attention(net, layer, &mut shared, x));
        if options.trace {
            net.output(format!("hidden.{index}"), stream.x);
            net.output(format!("pre.{index}"), stream.pre);
        }
    }
    let taps = net.concat(taps);
    if options.trace {
        net.output("taps", taps);
    }
    draft::absorb(net, topology.stages, taps, at);
    let stream =
        Stream { x: net.select_rows(stream.x, logit_rows), pre: net.select_rows(stream.pre, logit_rows) };
    let h = block::collapse(net, stream);
    let logits = head(net, h, "norm");
    net.output("logits", logits);
    net.finish()
}

fn row_input(net: &mut Net<'_>, name: &str, rows: &str) -> Value {
    net.input(name, &[Dim::sym(rows)], Format::I32)
}

/// Logits of collapsed rows: the norm called `norm`, then the vocabulary matrix, in f32.
pub(super) fn head(net: &mut Net<'_>, h: Value, norm: &str) -> Value {
    let h = net.rms_norm(h, norm);
    net.project(h, "head", net.text.vocab_size, Format::F32)
}

/// Replaces the output of block `index` by inputs of the same shape.
fn teach(net: &mut Net<'_>, index: usize, stream: Stream) -> Stream {
    let (x, pre) = (net.shape(stream.x), net.shape(stream.pre));
    let x = net.input(&format!("teacher.hidden.{index}"), &x, Format::F32);
    let pre = net.input(&format!("teacher.pre.{index}"), &pre, Format::F32);
    Stream { x: net.cast(x), pre }
}
