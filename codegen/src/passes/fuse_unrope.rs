//! `fuse-unrope`: the inverse rotation of an attention output joins the attention kernel.

use crate::groups::Groups;
use tessera_ir::graph::Op;
use tessera_kernels::Family;

/// Merges `rope(attention(…)) {inverse}` where nothing else reads the attention output.
pub fn run(groups: &mut Groups<'_>) {
    let module = groups.module();
    for (n, node) in module.nodes.iter().enumerate() {
        let Op::Rope { x, inverse: true, .. } = node.op else { continue };
        let Some(p) = groups.producer(x) else { continue };
        let family = groups.family(p);
        let attends = matches!(family, Family::Attention | Family::BlockAttention);
        if attends && groups.readers(x) == [n] && !groups.is_output(x) {
            groups.merge(p, n, family);
        }
    }
}
