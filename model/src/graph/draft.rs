//! DSpark: absorbing the backbone's taps in `step`, and the module `draft` (V4.1 §2.11).

use tessera_ir::graph::{Module, Op, Value};
use tessera_ir::{Dim, Format};

use super::attention;
use super::block::{self, Stream};
use super::moe::Experts;
use super::net::{Net, Rows, slots};
use super::{Mode, step};
use crate::config::Config;
use crate::topology::Topology;

/// Stores the window entries that every stage makes of the taps `[T, n·d]`.
pub(super) fn absorb(net: &mut Net<'_>, stages: usize, taps: Value, at: Rows) {
    let x = net.dense(taps, "mtp.0.main_proj", &[net.text.hidden_size]);
    let x = net.rms_norm(x, "mtp.0.main_norm");
    for stage in 0..stages {
        let p = format!("mtp.{stage}");
        let rows = attention::window_rows(net, &p, x, at, net.rope_kind(0));
        net.store(&window_name(stage), &slots("R", net.text.head_dim), rows, at);
    }
}

pub(super) fn build(config: &Config, topology: &Topology, mode: Mode) -> Module {
    let t = &config.text;
    let net = &mut Net::new("draft", t, mode);
    let block = t.dspark_block_size;
    let rows = Dim::sym("Q").checked_times(block).unwrap_or(Dim::sym("Q"));
    let mut input = |name: &str| net.input(name, std::slice::from_ref(&rows), Format::I32);
    let tokens = input("tokens");
    let at = Rows { pos: input("pos"), seq: input("seq") };
    let lo = input("lo");
    let mut stream = block::open(net, tokens);
    let experts =
        Experts { count: t.dspark_n_routed_experts, chosen: t.dspark_num_experts_per_tok, trace: false };
    for stage in 0..topology.stages {
        stream = block::block(net, &format!("mtp.{stage}"), stream, experts, |net, x| {
            block_attention(net, stage, x, at, lo)
        });
    }
    heads(net, topology.stages.saturating_sub(1), stream, tokens);
    net.finish()
}

/// Attention of a stage: window entries before the block, then the whole block, future rows included.
fn block_attention(net: &mut Net<'_>, stage: usize, x: Value, at: Rows, lo: Value) -> Value {
    let p = format!("mtp.{stage}");
    let rope = net.rope_kind(0);
    let (_, q) = attention::queries(net, &p, x, at, rope);
    let rows = attention::window_rows(net, &p, x, at, rope);
    let window = net.state(&window_name(stage), &slots("R", net.text.head_dim), net.mode.window());
    let sink = attention::sink(net, &p);
    let op = Op::BlockAttention {
        q,
        window,
        rows,
        sink,
        seq: at.seq,
        pos: at.pos,
        lo,
        block: net.text.dspark_block_size,
        scale: attention::softmax_scale(net),
        round: net.mode.round(),
    };
    let o = net.emit_same(op, q, net.mode.activation());
    attention::output(net, &p, o, at, rope)
}

/// Logits biased by the token before, greedy drafts one after another, and confidences.
fn heads(net: &mut Net<'_>, last: usize, stream: Stream, tokens: Value) {
    let t = net.text;
    let p = format!("mtp.{last}");
    let (step, vocabulary) = (t.dspark_block_size, t.vocab_size);
    let h = block::collapse(net, stream);
    let logits = step::head(net, h, &format!("{p}.norm"));
    let sequences = Dim::sym("Q");
    let mut previous =
        net.emit(Op::EveryRow { x: tokens, step, offset: 0 }, std::slice::from_ref(&sequences), Format::I32);
    let (mut drafts, mut biased, mut embedded) = (Vec::new(), Vec::new(), Vec::new());
    for offset in 0..step {
        let shape = [sequences.clone(), Dim::from(vocabulary)];
        let a = net.emit(Op::EveryRow { x: logits, step, offset }, &shape, Format::F32);
        let e = net.embed(previous, &format!("{p}.markov_head.embed"), t.dspark_markov_rank);
        let b = net.project(e, &format!("{p}.markov_head.head"), vocabulary, Format::F32);
        let sum = net.emit(Op::Add { a, b }, &shape, Format::F32);
        previous = net.emit_rows(Op::Argmax { x: sum }, sum, &[], Format::I32);
        drafts.push(previous);
        biased.push(sum);
        embedded.push(e);
    }
    let mut interleave = |parts: Vec<Value>| {
        let mut shape = net.shape(parts[0]);
        shape[0] = net.rows(tokens);
        let format = net.format(parts[0]);
        net.emit(Op::InterleaveRows { parts }, &shape, format)
    };
    let (drafts, biased, embedded) = (interleave(drafts), interleave(biased), interleave(embedded));
    let features = net.concat(vec![h, embedded]);
    let confidence = net.project(features, &format!("{p}.confidence_head.proj"), 1, Format::F32);
    net.output("tokens", drafts);
    net.output("logits", biased);
    net.output("conf", confidence);
}

fn window_name(stage: usize) -> String {
    format!("mtp.{stage}.window")
}
