//! Routed and shared experts (V4.1 §2.9).

use tessera_ir::graph::{Op, Value};
use tessera_ir::{Dim, Format};

use super::net::Net;

/// How many experts a block has and uses.
#[derive(Clone, Copy)]
pub(super) struct Experts {
    /// Experts of the block.
    pub(super) count: usize,
    /// Experts a row is sent to.
    pub(super) chosen: usize,
    /// The router's choice becomes an output.
    pub(super) trace: bool,
}

/// The expert layer called `p` on the normalised input `x: [T, d]`.
pub(super) fn experts(net: &mut Net<'_>, p: &str, x: Value, experts: Experts) -> Value {
    let (inner, width) = (net.text.moe_intermediate_size, net.text.hidden_size);
    let act = net.mode.activation();
    let (choice, weight) = route(net, p, x, experts);
    let routed = |net: &mut Net<'_>, x: Value, name: &str, out: usize, input: usize| {
        let shape = [experts.count, out, input];
        let weight = net.weight(&format!("{p}.experts.*.{name}.weight"), &shape, Format::MX4);
        let x = net.linear_input(x);
        let op = Op::MoeLinear { x, experts: choice, weight, offsets: None, pairs: None, rows: None };
        net.emit_rows(op, x, &[experts.chosen, out], act)
    };
    let gate = routed(net, x, "w1", inner, width);
    let up = routed(net, x, "w3", inner, width);
    let h = swiglu(net, gate, up, Some(weight));
    let parts = routed(net, h, "w2", width, inner);
    let gate = net.dense(x, &format!("{p}.shared_experts.w1"), &[inner]);
    let up = net.dense(x, &format!("{p}.shared_experts.w3"), &[inner]);
    let h = swiglu(net, gate, up, None);
    let shared = net.dense(h, &format!("{p}.shared_experts.w2"), &[width]);
    net.emit_same(Op::MoeCombine { parts, shared }, shared, act)
}

fn route(net: &mut Net<'_>, p: &str, x: Value, Experts { count, chosen, trace }: Experts) -> (Value, Value) {
    let logits = net.project(x, &format!("{p}.gate"), count, Format::F32);
    let bias = net.weight(&format!("{p}.gate.bias"), &[count], Format::F32);
    let shape = [net.rows(x), Dim::from(chosen)];
    let op = Op::Router { logits, bias, k: chosen, scale: net.text.routed_scaling_factor as f32 };
    let values = net.emit_all(op, &[(&shape, Format::I32), (&shape, Format::F32)]);
    if trace {
        // `p` is the block's name and `.ffn`; the golden files name the choice after the block.
        let block = p.trim_end_matches(".ffn");
        net.output(format!("{block}.route_idx"), values[0]);
        net.output(format!("{block}.route_w"), values[1]);
    }
    (values[0], values[1])
}

fn swiglu(net: &mut Net<'_>, gate: Value, up: Value, weight: Option<Value>) -> Value {
    let (limit, format) = (net.text.swiglu_limit as f32, net.mode.activation());
    net.emit_same(Op::SwiGlu { gate, up, weight, limit }, gate, format)
}
