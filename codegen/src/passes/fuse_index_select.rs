//! `fuse-index-select`: scores, candidate blocks and top-k of one indexer become one kernel, so that scores never
//! reach memory.

use crate::groups::Groups;
use tessera_ir::graph::Op;
use tessera_kernels::Family;

/// Merges every consumer of an indexer's scores into the kernel that computes them.
pub fn run(groups: &mut Groups<'_>) {
    let module = groups.module();
    for (n, node) in module.nodes.iter().enumerate() {
        let scores = match node.op {
            Op::IndexBlocks { scores, .. } | Op::IndexRestrict { scores, .. } | Op::TopK { scores, .. } => {
                scores
            }
            _ => continue,
        };
        if let Some(p) = groups.producer(scores) {
            groups.merge(p, n, Family::IndexSelect);
        }
    }
}
