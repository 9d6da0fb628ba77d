//! Rules of slots: the borrow checker of on-chip memory.

use super::touched::{Touched, touched};
use super::{At, Event, MAX_NESTING, Report, Rule, walk};
use crate::tile::kernel::{Kernel, Node, Ring, Stmt, Type, Value};
use crate::tile::ops::Op;
use crate::tile::print::{names, print_stmt};
use std::collections::BTreeMap;

/// A slot that a role holds.
struct Held<'k> {
    /// The statement that got it.
    at: At<'k>,
    /// Nesting of the block that statement is in.
    depth: usize,
}

/// Slots of one role.
struct Owner<'k> {
    held: BTreeMap<Value, Held<'k>>,
    /// Slots that are held no more, with the statement that gave them away or the end of their block.
    gone: BTreeMap<Value, String>,
}

/// Checks each role.
pub(super) fn check(report: &mut Report<'_>) {
    let kernel = report.kernel;
    for role in 0..kernel.roles.len() {
        let mut owner = Owner { held: BTreeMap::new(), gone: BTreeMap::new() };
        walk(kernel, role, MAX_NESTING, |depth, event| match event {
            Event::Stmt(at) => {
                if let Stmt::Op(node) = at.stmt {
                    owner.statement(report, depth, at, node);
                }
            }
            Event::End(head) => owner.end(report, depth, head),
        });
    }
}

impl<'k> Owner<'k> {
    fn statement(&mut self, report: &mut Report<'k>, depth: usize, at: At<'k>, node: &'k Node) {
        let kernel = report.kernel;
        match &node.op {
            Op::Acquire { ring } | Op::Take { ring } => {
                // An operand that is no ring is reported as such.
                let Some(ring) = kernel.ring_of(*ring) else { return };
                if let Some(message) = get_fault(kernel, ring, at.role, &node.op) {
                    report.add_at(Rule::PathOrder, at, message);
                }
                if let Some((v, _)) = &node.result {
                    self.held.insert(*v, Held { at, depth });
                }
            }
            Op::Pass { slot } | Op::Release { slot } | Op::Return { slot } => {
                self.give(report, depth, at, node, *slot);
            }
            op => {
                op.for_each_operand(|name, operand| {
                    for v in operand.values() {
                        self.used(report, at, name, v);
                    }
                });
                if let Some(message) = alias(kernel, op) {
                    report.add_at(Rule::Alias, at, message);
                }
            }
        }
    }

    fn used(&self, report: &mut Report<'k>, at: At<'k>, name: &str, v: Value) {
        if let Some(how) = self.gone.get(&v) {
            let message = format!("operand `{name}` is {v}, which {how}; use it before that");
            report.add_at(Rule::Owned, at, message);
        }
    }

    fn give(&mut self, report: &mut Report<'k>, depth: usize, at: At<'k>, node: &Node, slot: Value) {
        self.used(report, at, "slot", slot);
        let Some(held) = self.held.remove(&slot) else { return };
        self.gone.insert(slot, format!("the role gave away by `{}`", print_stmt(report.kernel, at.stmt)));
        if held.depth != depth {
            let message = format!(
                "{slot} was taken outside this block by `{}`; give it away there, where that happens exactly once",
                print_stmt(report.kernel, held.at.stmt)
            );
            report.add_at(Rule::Returned, at, message);
        }
        let Some(ring) = slot_ring(report.kernel, &held) else { return };
        let last = ring.is_last(at.role);
        let message = match (&node.op, last) {
            (Op::Return { .. }, _) => match ring.station(at.role) {
                Some(0) => {
                    format!("the role begins the path of %{}; there is no station to return to", ring.name)
                }
                Some(place) if ring.path[place].roles.len() > 1 || ring.path[place - 1].roles.len() > 1 => {
                    format!("stations of %{} with several roles hand nothing back; pass it on", ring.name)
                }
                Some(_) | None => return,
            },
            (Op::Pass { .. }, true) => {
                format!("the role is the last on the path of %{}; release the slot", ring.name)
            }
            (Op::Release { .. }, false) => {
                format!("the role is not the last on the path of %{}; pass the slot on", ring.name)
            }
            (_, _) => return,
        };
        report.add_at(Rule::PathOrder, at, message);
    }

    /// At the end of a block: what was taken in it must be gone.
    fn end(&mut self, report: &mut Report<'k>, depth: usize, head: Option<At<'k>>) {
        let kept: Vec<Value> = self.held.iter().filter(|(_, h)| h.depth >= depth).map(|(v, _)| *v).collect();
        let block = match head.map(|at| at.stmt) {
            Some(Stmt::For { .. }) => "the iteration ends",
            Some(Stmt::If { .. }) => "the condition's block ends",
            Some(Stmt::Op(_)) | None => "the tile ends",
        };
        for v in kept {
            let Some(held) = self.held.remove(&v) else { continue };
            let verb = match slot_ring(report.kernel, &held) {
                Some(ring) if !ring.is_last(held.at.role) => "pass it on",
                Some(_) | None => "release it",
            };
            report.add_at(
                Rule::Returned,
                held.at,
                format!("{v} is still held when {block}; {verb} before that"),
            );
            self.gone.insert(v, "was lost at the end of its block".to_owned());
        }
    }
}

/// The ring of a held slot.
fn slot_ring<'k>(kernel: &'k Kernel, held: &Held<'k>) -> Option<&'k Ring> {
    let Stmt::Op(Node { op: Op::Acquire { ring } | Op::Take { ring }, .. }) = held.at.stmt else {
        return None;
    };
    kernel.ring_of(*ring)
}

/// Why a role cannot get a slot of a ring by this op.
fn get_fault(kernel: &Kernel, ring: &Ring, role: usize, op: &Op) -> Option<String> {
    let comes_back = returns(kernel, ring);
    match (ring.station(role), op) {
        (None, _) => {
            let name = kernel.roles.get(role).map_or("", |r| r.name.as_str());
            Some(format!("role {name} is not on the path of %{}; add it there", ring.name))
        }
        (Some(0), Op::Take { .. }) if !comes_back => {
            Some(format!("the role is the first on the path of %{}; acquire the slot", ring.name))
        }
        (Some(place), Op::Acquire { .. }) if place > 0 => {
            Some(format!("only the first role on the path of %{} acquires; take the slot", ring.name))
        }
        (Some(_), _) => None,
    }
}

/// True if a role gives slots of `ring` back to the station before.
fn returns(kernel: &Kernel, ring: &Ring) -> bool {
    let of_ring = |v: Value| match def_ring(kernel, v) {
        Some(r) => std::ptr::eq(r, ring),
        None => false,
    };
    fn any(block: &[Stmt], of_ring: &dyn Fn(Value) -> bool) -> bool {
        block.iter().any(|stmt| match stmt {
            Stmt::Op(Node { op: Op::Return { slot }, .. }) => of_ring(*slot),
            Stmt::Op(_) => false,
            Stmt::For { body, .. } | Stmt::If { body, .. } => any(body, of_ring),
        })
    }
    kernel.roles.iter().any(|r| any(&r.body, &of_ring))
}

/// The ring of the slot that `v` names.
fn def_ring(kernel: &Kernel, v: Value) -> Option<&Ring> {
    fn find(block: &[Stmt], v: Value) -> Option<Value> {
        block.iter().find_map(|stmt| match stmt {
            Stmt::Op(Node { result: Some((r, Type::Slot { ring })), .. }) if *r == v => Some(*ring),
            Stmt::Op(_) => None,
            Stmt::For { body, .. } | Stmt::If { body, .. } => find(body, v),
        })
    }
    kernel.ring_of(kernel.roles.iter().find_map(|r| find(&r.body, v))?)
}

/// Why an op cannot work on the slots it is given: it would overwrite what it reads.
fn alias(kernel: &Kernel, op: &Op) -> Option<String> {
    let Touched { written, read } = touched(op);
    let (written, _) = written?;
    read.contains(&written)
        .then(|| format!("the op writes {} and reads it, too; write to another slot", names(kernel)(written)))
}
