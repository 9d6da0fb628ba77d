//! `fuse-quantise`: the quantiser of an activation joins the kernel that computes it.

use crate::groups::Groups;
use tessera_ir::graph::Op;
use tessera_kernels::Family;

/// Merges `quantize(swiglu(…))` into the gate-and-up kernel: its column tiles are whole scale groups.
pub fn run(groups: &mut Groups<'_>) {
    let module = groups.module();
    for (n, node) in module.nodes.iter().enumerate() {
        let Op::Quantize { x } = node.op else { continue };
        let Some(p) = groups.producer(x) else { continue };
        let family = groups.family(p);
        let gated = matches!(module.nodes[p].op, Op::SwiGlu { .. });
        if gated && matches!(family, Family::Linear | Family::MoeUp) {
            groups.merge(p, n, family);
        }
    }
}
