//! `fuse-rows`: chains of row-local ops become one kernel that keeps its values on chip.
//!
//! Only reals fuse: an integer that one op computes and the next uses as an address goes through memory.

use crate::groups::Groups;
use tessera_ir::graph::Op;
use tessera_kernels::Family;

/// Merges row-local kernels along the values they pass, where both run over the same rows. State edges don't fuse:
/// a row may read what another row stored.
pub fn run(groups: &mut Groups<'_>) {
    let module = groups.module();
    let types = module.types();
    for (n, node) in module.nodes.iter().enumerate() {
        if groups.family(n) != Family::Rows || !local(&node.op) {
            continue;
        }
        for v in node.op.operands() {
            let Some(p) = groups.producer(v) else { continue };
            let fits = groups.family(p) == Family::Rows
                && groups.state(v).is_none()
                && types[v.index()].format.is_float()
                && groups.row_dim(p) == groups.row_dim(n);
            if fits {
                groups.merge(p, n, Family::Rows);
            }
        }
    }
}

/// Ops whose row t reads row t of every activation: those that pick other rows can begin a chain but not join one.
fn local(op: &Op) -> bool {
    !matches!(op, Op::SelectRows { .. } | Op::EveryRow { .. } | Op::InterleaveRows { .. })
}
