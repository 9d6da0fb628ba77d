//! Rules of statements on their own: numbering, scoping, types, loops, kinds of roles.

use super::{At, Event, MAX_NESTING, Report, Rule, walk};
use crate::tile::kernel::{Axis, Kernel, Node, Param, Ring, RoleKind, Stmt, Type, Value};
use crate::tile::ops::Op;
use crate::tile::print::{line, names, write_type};
use crate::tile::typing::{Scope, infer};

/// A value that a statement defines.
pub(super) struct Def<'k> {
    ty: &'k Type,
    role: usize,
    /// Number of the block that holds the definition; blocks are numbered as they open, in all roles together.
    block: usize,
}

/// Types and scopes of the values after parameters and rings, by number.
pub(super) struct Defs<'k> {
    kernel: &'k Kernel,
    first: usize,
    list: Vec<Def<'k>>,
}

impl Defs<'_> {
    fn get(&self, v: Value) -> Option<&Def<'_>> {
        self.list.get(v.index().checked_sub(self.first)?)
    }
}

impl Scope for Defs<'_> {
    fn ty(&self, v: Value) -> Option<&Type> {
        match (self.param(v), self.ring(v)) {
            (Some(_), _) => Some(&Type::View),
            (None, Some(_)) => Some(&Type::Ring),
            (None, None) => self.get(v).map(|d| d.ty),
        }
    }
    fn param(&self, v: Value) -> Option<&Param> {
        self.kernel.param_of(v)
    }
    fn ring(&self, v: Value) -> Option<&Ring> {
        self.kernel.ring_of(v)
    }
    fn grid(&self) -> &[Axis] {
        &self.kernel.grid
    }
}

/// Numbers of the blocks that are open, outermost first. Blocks are numbered as they open, in all roles together.
#[derive(Default)]
struct Blocks {
    open: Vec<usize>,
    count: usize,
}

impl Blocks {
    fn enter(&mut self) {
        self.open.push(self.count);
        self.count += 1;
    }
    fn leave(&mut self) {
        self.open.pop();
    }
    fn innermost(&self) -> usize {
        self.open.last().copied().unwrap_or(0)
    }
}

/// Checks numbering and nesting and gives the defined values; `None` if their numbers mean nothing.
pub(super) fn number<'k>(report: &mut Report<'k>) -> Option<Defs<'k>> {
    let kernel = report.kernel;
    let before = report.faults.len();
    let mut defs = Defs { kernel, first: kernel.params.len() + kernel.rings.len(), list: Vec::new() };
    let mut blocks = Blocks::default();
    let mut in_order = true;
    for role in 0..kernel.roles.len() {
        blocks.enter();
        walk(kernel, role, MAX_NESTING + 1, |depth, event| {
            let at = match event {
                Event::End(_) => return blocks.leave(),
                Event::Stmt(at) => at,
            };
            let defined = match at.stmt {
                Stmt::Op(Node { result, .. }) => result.as_ref().map(|(v, ty)| (*v, ty)),
                Stmt::For { var, .. } => Some((*var, &Type::Index)),
                Stmt::If { .. } => None,
            };
            if matches!(at.stmt, Stmt::For { .. } | Stmt::If { .. }) {
                // A counter belongs to the body.
                blocks.enter();
                if depth == MAX_NESTING {
                    let message = format!("blocks are nested more than {MAX_NESTING} deep");
                    report.add_at(Rule::Nesting, at, message);
                }
            }
            let Some((v, ty)) = defined else { return };
            let want = defs.first + defs.list.len();
            if v.index() != want && in_order {
                // What follows is off by as much, and no news.
                in_order = false;
                let message = format!("defines {v}, but the next value in text order is %{want}");
                report.add_at(Rule::Numbering, at, message);
            }
            defs.list.push(Def { ty, role, block: blocks.innermost() });
        });
    }
    (report.faults.len() == before).then_some(defs)
}

/// Checks each statement.
pub(super) fn check<'k>(report: &mut Report<'k>, defs: &Defs<'k>) {
    let kernel = report.kernel;
    let mut blocks = Blocks::default();
    let mut next = defs.first;
    for role in 0..kernel.roles.len() {
        blocks.enter();
        walk(kernel, role, MAX_NESTING, |_, event| {
            let at = match event {
                Event::End(_) => return blocks.leave(),
                Event::Stmt(at) => at,
            };
            let uses = Uses { defs, open: &blocks.open, next };
            match at.stmt {
                Stmt::Op(node) => {
                    check_op(report, &uses, at, node);
                    next += usize::from(node.result.is_some());
                }
                Stmt::For { lo, hi, step, .. } => {
                    for (name, v) in [("the first value", *lo), ("the end", *hi)] {
                        check_index(report, &uses, at, name, v);
                    }
                    if *step == 0 {
                        report.add_at(Rule::Loop, at, "step 0 never ends; steps are at least 1".to_owned());
                    }
                    next += 1;
                    blocks.enter();
                }
                Stmt::If { cond, .. } => {
                    check_index(report, &uses, at, "the condition", *cond);
                    blocks.enter();
                }
            }
        });
    }
}

/// What a statement may use.
struct Uses<'a, 'k> {
    defs: &'a Defs<'k>,
    /// Blocks that are open.
    open: &'a [usize],
    /// Number of the next value.
    next: usize,
}

impl Uses<'_, '_> {
    /// Why a value is not visible.
    fn fault(&self, role: usize, v: Value) -> Option<String> {
        if v.index() < self.defs.first {
            return None;
        }
        match self.defs.get(v) {
            Some(def) if v.index() < self.next => {
                if def.role != role {
                    let owner = &self.defs.kernel.roles[def.role].name;
                    Some(format!(
                        "{v} is a value of role {owner}; roles share no values, so compute it here, too"
                    ))
                } else if !self.open.contains(&def.block) {
                    Some(format!("{v} is defined in a block that has ended; define it outside that block"))
                } else {
                    None
                }
            }
            Some(_) => Some(format!("{v} is used before it is defined")),
            None => Some(format!("{v} is not defined")),
        }
    }
}

fn check_index<'k>(report: &mut Report<'k>, uses: &Uses<'_, 'k>, at: At<'k>, name: &str, v: Value) {
    if let Some(message) = uses.fault(at.role, v) {
        report.add_at(Rule::Scope, at, message);
    } else if uses.defs.ty(v) != Some(&Type::Index) {
        let message = format!("{name} is {}, which is no index", names(report.kernel)(v));
        report.add_at(Rule::Loop, at, message);
    }
}

fn check_op<'k>(report: &mut Report<'k>, uses: &Uses<'_, 'k>, at: At<'k>, node: &'k Node) {
    let mut visible = true;
    node.op.for_each_operand(|name, operand| {
        for message in operand.values().into_iter().filter_map(|v| uses.fault(at.role, v)) {
            visible = false;
            report.add_at(Rule::Scope, at, format!("operand `{name}`: {message}"));
        }
    });
    if let Some(message) = unit_fault(&node.op, report.kernel.roles[at.role].kind) {
        report.add_at(Rule::Unit, at, message);
    }
    if !visible {
        return;
    }
    let message = match (infer(&node.op, uses.defs), &node.result) {
        (Err(fault), _) => return report.add_at(Rule::Operands, at, fault.to_string()),
        (Ok(None), None) => return,
        (Ok(Some(want)), Some((_, found))) if want == *found => return,
        (Ok(None), Some((v, _))) => format!("the op has no result, so it cannot define {v}"),
        (Ok(Some(want)), None) => {
            format!("the op has a result; name it, and its type {}", shown(report.kernel, &want))
        }
        (Ok(Some(want)), Some(_)) => {
            format!("the result has the type {}; write that", shown(report.kernel, &want))
        }
    };
    report.add_at(Rule::Result, at, message);
}

fn shown(kernel: &Kernel, ty: &Type) -> String {
    line(|out| write_type(out, ty, &*names(kernel)))
}

/// The hardware an op needs.
enum Unit {
    /// Every role has it.
    Any,
    /// Copies between memory and slots: copy roles, and vector roles by their own loads.
    Copy,
    /// Matrix ops and the clearing of their accumulators: matrix roles, and vector roles by their own arithmetic.
    Matrix,
    /// Tiles: vector roles.
    Vector,
}

fn unit(op: &Op) -> Unit {
    match op {
        Op::IndexConst { .. }
        | Op::IndexDim { .. }
        | Op::IndexTile { .. }
        | Op::IndexGroup { .. }
        | Op::IndexEnd { .. }
        | Op::IndexBinary { .. }
        | Op::IndexRead { .. }
        | Op::Acquire { .. }
        | Op::Take { .. }
        | Op::Pass { .. }
        | Op::Return { .. }
        | Op::Release { .. } => Unit::Any,
        Op::Copy { .. }
        | Op::CopyRing { .. }
        | Op::CopyGather { .. }
        | Op::CopyTile { .. }
        | Op::CopyRows { .. }
        | Op::CopyWrap { .. } => Unit::Copy,
        Op::Mma { .. }
        | Op::MmaTile { .. }
        | Op::MmaScores { .. }
        | Op::MmaValues { .. }
        | Op::MmaIndex { .. }
        | Op::SlotFill { .. } => Unit::Matrix,
        Op::IndexWrite { .. }
        | Op::Load { .. }
        | Op::Store { .. }
        | Op::StoreRows { .. }
        | Op::StoreScatter { .. }
        | Op::Decode { .. }
        | Op::Transpose { .. }
        | Op::MaskCols { .. }
        | Op::MaskIds { .. }
        | Op::Any { .. }
        | Op::TopKView { .. }
        | Op::TopKListed { .. }
        | Op::SortGroups { .. }
        | Op::SlotLoad { .. }
        | Op::SlotStore { .. }
        | Op::Splat { .. }
        | Op::Map { .. }
        | Op::Zip { .. }
        | Op::Reduce { .. }
        | Op::Dot { .. }
        | Op::Slice { .. }
        | Op::Reshape { .. }
        | Op::Cast { .. }
        | Op::Rotate { .. }
        | Op::Angles { .. }
        | Op::TopK { .. }
        | Op::TopRanked { .. }
        | Op::PickCols { .. }
        | Op::BlockMax { .. }
        | Op::Restrict { .. }
        | Op::Argmax { .. } => Unit::Vector,
    }
}

fn unit_fault(op: &Op, kind: RoleKind) -> Option<String> {
    let wants = match (unit(op), kind) {
        (Unit::Any, _)
        | (Unit::Copy, RoleKind::Copy)
        | (Unit::Matrix, RoleKind::Matrix)
        | (Unit::Copy | Unit::Matrix | Unit::Vector, RoleKind::Vector) => return None,
        (Unit::Copy, RoleKind::Matrix) => "a copy or vector role",
        (Unit::Matrix, RoleKind::Copy) => "a matrix or vector role",
        (Unit::Vector, RoleKind::Copy | RoleKind::Matrix) => "a vector role",
    };
    Some(format!("`{}` needs {wants}, and this one is a {} role; move it", op.mnemonic(), kind.name()))
}
