//! One transformer block on mHC streams, shared by the backbone and the DSpark stages (V4.1 §2.3).

use tessera_ir::graph::{Op, Value};
use tessera_ir::{Dim, Format};

use super::moe::{self, Experts};
use super::net::Net;

/// The streams of every row and the coefficients that collapse them for the next sublayer.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    /// `[T, hc, d]`.
    pub(super) x: Value,
    /// `[T, hc]` f32.
    pub(super) pre: Value,
}

/// Streams of freshly embedded tokens.
pub(super) fn open(net: &mut Net<'_>, tokens: Value) -> Stream {
    let (streams, width) = (net.text.hc_mult, net.text.hidden_size);
    let x = net.embed(tokens, "embed", width);
    let rows = net.rows(x);
    let pre = [rows, Dim::from(streams)];
    let copies = [pre[0].clone(), pre[1].clone(), Dim::from(width)];
    let results = [(copies.as_slice(), net.mode.activation()), (pre.as_slice(), Format::F32)];
    let values = net.emit_all(Op::HcOpen { x, streams }, &results);
    Stream { x: values[0], pre: values[1] }
}

/// `Σ pre·x`: one vector a row.
pub(super) fn collapse(net: &mut Net<'_>, Stream { x, pre }: Stream) -> Value {
    let (width, format) = (net.text.hidden_size, net.mode.activation());
    net.emit_rows(Op::HcCollapse { x, pre }, x, &[width], format)
}

/// The input of the attention of block `p`: its collapsed and normalised streams.
pub(super) fn attention_input(net: &mut Net<'_>, p: &str, stream: Stream) -> Value {
    let h = collapse(net, stream);
    net.rms_norm(h, &format!("{p}.attn_norm"))
}

/// The block called `p`: attention, then experts, each inside a hyper-connection.
pub(super) fn block(
    net: &mut Net<'_>,
    p: &str,
    stream: Stream,
    experts: Experts,
    attention: impl FnOnce(&mut Net<'_>, Value) -> Value,
) -> Stream {
    let mixed = mix(net, &format!("{p}.hc_attn"), stream.x);
    let h = attention_input(net, p, stream);
    let y = attention(net, h);
    let stream = expand(net, y, stream.x, mixed);
    let mixed = mix(net, &format!("{p}.hc_ffn"), stream.x);
    let h = collapse(net, stream);
    let h = net.rms_norm(h, &format!("{p}.ffn_norm"));
    let y = moe::experts(net, &format!("{p}.ffn"), h, experts);
    expand(net, y, stream.x, mixed)
}

/// Coefficients of one sublayer.
struct Mixed {
    pre: Value,
    post: Value,
    comb: Value,
}

fn mix(net: &mut Net<'_>, name: &str, x: Value) -> Mixed {
    let t = net.text;
    let (n, d, iters) = (t.hc_mult, t.hidden_size, t.hc_sinkhorn_iters);
    let (eps, norm_eps) = (t.hc_eps as f32, t.rms_norm_eps as f32);
    let coefficients = n * (n + 2);
    let function = net.weight(&format!("{name}_fn"), &[coefficients, n * d], Format::F32);
    let base = net.weight(&format!("{name}_base"), &[coefficients], Format::F32);
    let scale = net.weight(&format!("{name}_scale"), &[3], Format::F32);
    let (rows, n) = (net.rows(x), Dim::from(n));
    let vector = [rows.clone(), n.clone()];
    let matrix = [rows, n.clone(), n];
    let results = [
        (vector.as_slice(), Format::F32),
        (vector.as_slice(), Format::F32),
        (matrix.as_slice(), Format::F32),
    ];
    let op = Op::HcMix { x, function, base, scale, iters, eps, norm_eps };
    let values = net.emit_all(op, &results);
    Mixed { pre: values[0], post: values[1], comb: values[2] }
}

fn expand(net: &mut Net<'_>, y: Value, x: Value, Mixed { pre, post, comb }: Mixed) -> Stream {
    let format = net.format(x);
    Stream { x: net.emit_same(Op::HcExpand { y, x, post, comb }, x, format), pre }
}
