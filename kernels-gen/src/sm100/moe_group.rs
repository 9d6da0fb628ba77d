//! Family `moe_group` on SM100: the choices of all rows sorted by expert, by one block of threads.

use crate::error::Error;
use crate::interface::{Fragment, Views};
use tessera_ir::graph::Op;
use tessera_ir::tile::{Kernel, KernelBuilder, Lanes, RoleKind, Target, Threads};

/// Schedules the sort of one router's choices.
pub(crate) fn schedule(f: &Fragment<'_>) -> Result<Kernel, Error> {
    let (node, experts, count) = f.only("moe.group", |n| match &n.op {
        Op::MoeGroup { experts, count } => Some((n, *experts, *count)),
        _ => None,
    })?;
    if let Some(other) = f.module.nodes.iter().find(|n| !matches!(n.op, Op::MoeGroup { .. })) {
        return Err(f.foreign(&other.op));
    }
    let mut kb = KernelBuilder::new(f.module.name.clone());
    kb.target(Target::Sm100);
    let views = Views::declare(&mut kb, f, |_, ty| ty.clone());
    kb.axis("all", 1usize, 1);
    let experts_view = views.of(f, experts)?;
    // The borders steer every product of experts; the other two lists may be unread.
    let offsets = views.of(f, node.result(0))?;
    let (pairs, rows) = (views.get(node.result(1)), views.get(node.result(2)));
    let threads = Threads { warps: 32, registers: None, lanes: Lanes { count: 1024, chunk: 1 } };
    kb.role_of(RoleKind::Vector, "sort", threads, |r| {
        r.sort_groups(experts_view, offsets, pairs, rows, count);
    });
    Ok(kb.finish()?)
}
