//! `fuse-gate-up`: gate and up products of one input and the activation over them become one kernel.

use crate::groups::Groups;
use tessera_ir::graph::{Op, Value};
use tessera_kernels::Family;

/// Merges `swiglu(linear(x, w1), linear(x, w3))`, dense or by expert, where nothing else reads the products.
pub fn run(groups: &mut Groups<'_>) {
    let module = groups.module();
    for (n, node) in module.nodes.iter().enumerate() {
        let Op::SwiGlu { gate, up, .. } = node.op else { continue };
        let only_here = |v: Value| groups.readers(v) == [n] && !groups.is_output(v);
        if !only_here(gate) || !only_here(up) {
            continue;
        }
        let (Some(a), Some(b)) = (groups.producer(gate), groups.producer(up)) else { continue };
        let family = match (&module.nodes[a].op, &module.nodes[b].op) {
            (Op::Linear { x: xa, groups: 1, .. }, Op::Linear { x: xb, groups: 1, .. }) if xa == xb => {
                Family::Linear
            }
            (Op::MoeLinear { x: xa, experts: ea, .. }, Op::MoeLinear { x: xb, experts: eb, .. })
                if xa == xb && ea == eb =>
            {
                Family::MoeUp
            }
            _ => continue,
        };
        if groups.merge(a, b, family) {
            groups.merge(a, n, family);
        }
    }
}
