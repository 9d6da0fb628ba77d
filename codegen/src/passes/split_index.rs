//! `split-index`: the parts of an indexer as kernels of their own, with scores in memory between them; a selection from
//! candidate blocks takes the restriction into its kernel, so that restricted scores never reach memory.

use crate::groups::Groups;
use tessera_ir::graph::Op;
use tessera_kernels::Family;

/// Gives each part of an indexer its family, and merges `topk(index.restrict(…))` where nothing else reads the restriction.
pub fn run(groups: &mut Groups<'_>) {
    let module = groups.module();
    for (n, node) in module.nodes.iter().enumerate() {
        let family = match node.op {
            Op::IndexScores { .. } => Family::IndexScores,
            Op::IndexBlocks { .. } => Family::IndexBlocks,
            Op::IndexRestrict { .. } | Op::TopK { .. } => Family::TopK,
            _ => continue,
        };
        // A group merged with itself only changes its family.
        groups.merge(n, n, family);
        let Op::TopK { scores, .. } = node.op else { continue };
        let Some(p) = groups.producer(scores) else { continue };
        let restricts = matches!(module.nodes[p].op, Op::IndexRestrict { .. });
        if restricts && groups.readers(scores) == [n] && !groups.is_output(scores) {
            groups.merge(p, n, family);
        }
    }
}
