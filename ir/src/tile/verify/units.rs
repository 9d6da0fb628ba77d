//! Rules of warps, lanes and clusters: how many units work together.

use super::{Place, Report, Rule};
use crate::tile::kernel::{Class, Kernel, Lanes, Ring, Role, RoleKind, Scope, Target};

/// Lanes of a warp.
const WARP: usize = 32;
/// Warps that see all lanes of tensor memory together, each a quarter.
const WARPGROUP: usize = 4;

/// Checks each role and ring.
pub(super) fn check(report: &mut Report<'_>) {
    let kernel = report.kernel;
    for (i, role) in kernel.roles.iter().enumerate() {
        if let Some(message) = role_fault(kernel, i, role) {
            report.add(Rule::Warps, Place::Role(i), message);
        }
        if let Some(message) = lanes_fault(role.lanes) {
            report.add(Rule::Warps, Place::Role(i), message);
        }
    }
    if !(1..=2).contains(&kernel.cluster) {
        let message =
            format!("{} cores share a tile, but only 1 or 2 can; write `cluster 2`", kernel.cluster);
        report.add(Rule::Cluster, Place::Kernel, message);
    }
    if kernel.persistent == Some(0) {
        let message = "no core takes the tiles; `persistent` is at least 1".to_owned();
        report.add(Rule::Cluster, Place::Kernel, message);
    }
    for (i, ring) in kernel.rings.iter().enumerate() {
        if let Some(message) = pair_fault(kernel, ring) {
            report.add(Rule::Cluster, Place::Ring(i), message);
        }
    }
}

fn role_fault(kernel: &Kernel, number: usize, role: &Role) -> Option<String> {
    if role.warps == 0 {
        return Some("no warp runs the role; give it at least one".to_owned());
    }
    if kernel.target == Target::Cpu {
        return None;
    }
    let accumulator = kernel.rings.iter().find(|r| r.class == Class::Accum && r.station(number).is_some());
    match (role.kind, accumulator) {
        (RoleKind::Copy | RoleKind::Matrix, _) if role.warps != 1 => Some(format!(
            "a {} role of sm100 has one warp, not {}; leave out `warps`",
            role.kind.name(),
            role.warps
        )),
        (RoleKind::Vector, Some(ring)) if !role.warps.is_multiple_of(WARPGROUP) => Some(format!(
            "{} warps cannot reach all lanes of %{} in tensor memory, a quarter of which each warp of {WARPGROUP} sees; \
             give the role a multiple of {WARPGROUP} warps",
            role.warps, ring.name
        )),
        (RoleKind::Copy | RoleKind::Matrix | RoleKind::Vector, _) => None,
    }
}

fn lanes_fault(Lanes { count, chunk }: Lanes) -> Option<String> {
    if chunk == 0 {
        return Some("no element follows another in a lane; a chunk has at least one".to_owned());
    }
    let tree = count.is_power_of_two() && count <= WARP;
    let warps = count != 0 && count.is_multiple_of(WARP);
    (!tree && !warps)
        .then(|| format!("{count} lanes have no binary tree; take 1, 2, 4, 8, 16 or a multiple of {WARP}"))
}

fn pair_fault(kernel: &Kernel, ring: &Ring) -> Option<String> {
    let rows = ring.slot.rows;
    if ring.scope == Scope::Pair {
        if kernel.cluster != 2 {
            return Some(
                "the two cores of a pair share its slots, but the kernel has none; write `cluster 2`"
                    .to_owned(),
            );
        }
        if !rows.is_multiple_of(2) {
            return Some(format!("{rows} rows have no halves for the two cores of a pair; make them even"));
        }
    }
    None
}
