//! Stations of several roles: who may write the slot that all of them hold.

use super::statements::Defs;
use super::target::slot_ring;
use super::touched::touched;
use super::{Event, MAX_NESTING, Report, Rule, walk};
use crate::tile::attrs::Part;
use crate::tile::kernel::{Ring, Stmt};
use std::collections::BTreeMap;

/// Checks each op that writes a slot.
pub(super) fn check<'k>(report: &mut Report<'k>, defs: &Defs<'k>) {
    let kernel = report.kernel;
    // By ring, which role fills which part at a first station of several roles.
    let mut filled: BTreeMap<&str, Vec<(usize, Part)>> = BTreeMap::new();
    for role in 0..kernel.roles.len() {
        walk(kernel, role, MAX_NESTING, |_, event| {
            let Event::Stmt(at) = event else { return };
            let Stmt::Op(node) = at.stmt else { return };
            let Some((slot, part)) = touched(&node.op).written else { return };
            let Some(ring) = slot_ring(defs, slot) else { return };
            let Some(station) = ring.station(role).filter(|s| ring.path[*s].roles.len() > 1) else { return };
            if station > 0 {
                let message = format!(
                    "roles {} hold a slot of %{} together here, so they may only read it; give the role that writes a \
                     station of its own",
                    names(report, ring, station),
                    ring.name
                );
                return report.add_at(Rule::SharedSlot, at, message);
            }
            let parts = filled.entry(ring.name.as_str()).or_default();
            let overlap = parts.iter().find(|(other, filled)| *other != role && overlaps(*filled, part));
            if let Some((other, _)) = overlap {
                let message = format!(
                    "role {} fills the same part of the slots of %{}; let one fill `codes`, the other `scales`",
                    report.role_name(*other),
                    ring.name
                );
                report.add_at(Rule::SharedSlot, at, message);
            }
            parts.push((role, part));
        });
    }
}

fn overlaps(a: Part, b: Part) -> bool {
    a == b || a == Part::All || b == Part::All
}

fn names(report: &Report<'_>, ring: &Ring, station: usize) -> String {
    let names: Vec<String> = ring.path[station].roles.iter().map(|r| report.role_name(*r)).collect();
    names.join(" and ")
}
