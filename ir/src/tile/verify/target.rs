//! What the machine that a kernel names has: ops, layouts, products, widths.

use super::statements::Defs;
use super::{At, Event, MAX_NESTING, Place, Report, Rule, walk};
use crate::tile::attrs::Part;
use crate::tile::kernel::{
    Class, Kernel, Lanes, Node, Param, Ring, RoleKind, SlotType, Stmt, Target, Type, Value,
};
use crate::tile::ops::Op;
use crate::tile::typing::{Scope, infer};
use crate::types::{Format, Layout};

/// Columns of an accumulator that the matrix unit of SM100 computes at once.
const COLUMNS: usize = 16;

/// Checks a kernel against its machine.
pub(super) fn check<'k>(report: &mut Report<'k>, defs: &Defs<'k>) {
    let kernel = report.kernel;
    match kernel.target {
        Target::Cpu => cpu(report, kernel),
        Target::Sm100 => sm100(report, kernel),
    }
    for role in 0..kernel.roles.len() {
        walk(kernel, role, MAX_NESTING, |_, event| {
            let Event::Stmt(at) = event else { return };
            let Stmt::Op(node) = at.stmt else { return };
            if let Some(message) = op_fault(kernel, defs, at, node) {
                report.add_at(Rule::Target, at, message);
            }
        });
    }
}

/// What a core of a host processor has not.
fn cpu(report: &mut Report<'_>, kernel: &Kernel) {
    if kernel.cluster != 1 {
        let message = "cores of cpu share no tile; leave out `cluster`".to_owned();
        report.add(Rule::Target, Place::Kernel, message);
    }
    if kernel.persistent.is_some() {
        let message = "cpu hands out tiles by itself; leave out `persistent`".to_owned();
        report.add(Rule::Target, Place::Kernel, message);
    }
    for (i, axis) in kernel.grid.iter().enumerate() {
        if axis.groups.is_some() {
            let message = "cpu has no grouped axes; loop over the groups in the roles".to_owned();
            report.add(Rule::Target, Place::Axis(i), message);
        }
    }
    for (i, role) in kernel.roles.iter().enumerate() {
        if role.warps != 1 || role.registers.is_some() || role.lanes != Lanes::CANONICAL {
            let message = "cpu has no warps; leave out `warps`, `registers` and `lanes`".to_owned();
            report.add(Rule::Target, Place::Role(i), message);
        }
    }
    layouts(report, kernel, &[Layout::Rows, Layout::Panels16]);
}

/// What SM100 has not.
fn sm100(report: &mut Report<'_>, kernel: &Kernel) {
    layouts(
        report,
        kernel,
        &[Layout::Rows, Layout::Blocks128, Layout::Pitch16, Layout::Split, Layout::Split3],
    );
    for (i, ring) in kernel.rings.iter().enumerate() {
        if ring.slot.cols.fixed().is_none() {
            let message =
                format!("slots on sm100 have a fixed width, not {}; walk the row in blocks", ring.slot.cols);
            report.add(Rule::Target, Place::Ring(i), message);
        }
    }
}

fn layouts(report: &mut Report<'_>, kernel: &Kernel, known: &[Layout]) {
    for (i, param) in kernel.params.iter().enumerate() {
        if !known.contains(&param.ty.layout) {
            let names: Vec<&str> = known.iter().map(|l| l.name()).collect();
            let message = format!(
                "{} is no layout of {}; it has {}",
                param.ty.layout.name(),
                kernel.target.name(),
                names.join(", ")
            );
            report.add(Rule::Target, Place::Param(i), message);
        }
    }
}

fn op_fault<'k>(kernel: &Kernel, defs: &Defs<'k>, at: At<'k>, node: &Node) -> Option<String> {
    let op = &node.op;
    let (there, instead) = on(kernel.target, op);
    if !there {
        let name = kernel.target.name();
        return Some(format!("`{}` is no op of {name}; {instead}", op.mnemonic()));
    }
    match kernel.target {
        Target::Cpu => None,
        // What breaks a typing rule is reported as that alone.
        Target::Sm100 => infer(op, defs).ok().and_then(|_| on_sm100(kernel, defs, at, op)),
    }
}

/// Whether a machine has an op, and what to do where it has not.
fn on(target: Target, op: &Op) -> (bool, &'static str) {
    let (cpu, sm100) = match op {
        Op::IndexConst { .. }
        | Op::IndexDim { .. }
        | Op::IndexTile { .. }
        | Op::IndexBinary { .. }
        | Op::IndexRead { .. }
        | Op::IndexWrite { .. }
        | Op::Acquire { .. }
        | Op::Take { .. }
        | Op::Pass { .. }
        | Op::Release { .. }
        | Op::Load { .. }
        | Op::Store { .. }
        | Op::SlotLoad { .. }
        | Op::SlotStore { .. }
        | Op::SlotFill { .. }
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
        | Op::TopRanked { .. }
        | Op::PickCols { .. }
        | Op::Argmax { .. } => (None, None),
        Op::Copy { .. } => (None, Some("use `copy.tile`, which fills what is outside the view with zeros")),
        Op::CopyRing { .. } => (None, Some("use `copy.wrap`")),
        Op::CopyGather { .. } => (None, Some("use `copy.rows`")),
        Op::Mma { .. } => (None, Some("use `mma.tile`")),
        Op::MmaScores { .. } | Op::MmaValues { .. } | Op::MmaIndex { .. } => {
            (None, Some("use `mma.tile` and tile arithmetic on its accumulator"))
        }
        Op::TopK { .. } => (None, Some("use `topk.view` on scores in memory")),
        Op::BlockMax { .. } => (None, Some("use `topk.view` with a block")),
        Op::Restrict { .. } => (None, Some("use `topk.listed`")),
        Op::CopyTile { .. } => (Some("use `copy` with the number of rows inside the view"), None),
        Op::CopyRows { .. } => (Some("use `copy.gather`"), None),
        Op::CopyWrap { .. } => (Some("use `copy.ring`"), None),
        Op::Decode { .. } => (Some("let the copy decode into a plain slot"), None),
        Op::MmaTile { .. } => (Some("use `mma`, `mma.scores` or `mma.values`"), None),
        Op::StoreRows { .. } | Op::StoreScatter { .. } => (Some("use `store` row by row"), None),
        Op::IndexGroup { .. } | Op::IndexEnd { .. } => (Some("loop over the groups in the roles"), None),
        Op::Return { .. } => (Some("let one role hold the slot"), None),
        Op::Transpose { .. } | Op::MaskCols { .. } | Op::MaskIds { .. } | Op::Any { .. } => {
            (Some("loop over the live columns"), None)
        }
        Op::TopKView { .. } | Op::TopKListed { .. } => (Some("load the row and use `topk`"), None),
        Op::SortGroups { .. } => (Some("sort by `index.read` and `index.write`"), None),
    };
    let without = match target {
        Target::Cpu => cpu,
        Target::Sm100 => sm100,
    };
    (without.is_none(), without.unwrap_or_default())
}

/// Limits of SM100's units that the general typing of an op does not know.
fn on_sm100(kernel: &Kernel, defs: &Defs<'_>, at: At<'_>, op: &Op) -> Option<String> {
    let ring = |v: Value| slot_ring(defs, v);
    if let Some(message) = weight_read_otherwise(kernel, op) {
        return Some(message);
    }
    if let Op::MmaTile { acc, a, b, trans, .. } = op {
        return product(ring(*acc)?, ring(*a)?, ring(*b)?, *trans);
    }
    if let Op::CopyTile { slot, part, .. } | Op::CopyRows { slot, part, .. } = op {
        let format = ring(*slot)?.slot.format;
        let whole = [Format::KV8, Format::KV4].contains(&format) && *part != Part::All;
        return whole.then(|| format!("records of {format} are copied whole; leave `part = all`"));
    }
    if let Op::Decode { from, to, .. } = op {
        let (from, to) = (ring(*from)?, ring(*to)?);
        let fine = to.class == Class::Stage
            && to.slot.format == Format::BF16
            && [Format::KV8, Format::KV4].contains(&from.slot.format);
        return (!fine).then(|| {
            format!(
                "sm100 decodes kv8 and kv4 into stage slots of bf16, not {} into {} slots of {}",
                from.slot.format,
                to.class.name(),
                to.slot.format
            )
        });
    }
    if matches!(op, Op::SlotFill { .. }) && kernel.roles.get(at.role)?.kind == RoleKind::Matrix {
        let message =
            "the matrix unit of sm100 fills no slot; let the first product overwrite the accumulator";
        return Some(message.to_owned());
    }
    None
}

/// Weights that lie as the matrix unit wants them are only copied.
fn weight_read_otherwise(kernel: &Kernel, op: &Op) -> Option<String> {
    let weight = |v: &Value| {
        kernel.param_of(*v).filter(|p| p.ty.layout == Layout::Blocks128 || p.ty.layout == Layout::Split3)
    };
    if matches!(op, Op::CopyTile { .. }) {
        return None;
    }
    let (read, written) = super::views::views(op);
    let param: &Param = read.iter().chain(&written).find_map(weight)?;
    let layout = param.ty.layout.name();
    Some(format!("`{}` lies in {layout}, which only `copy.tile` reads", param.name))
}

/// The ring of a slot.
pub(super) fn slot_ring<'a>(defs: &'a Defs<'_>, v: Value) -> Option<&'a Ring> {
    match defs.ty(v)? {
        Type::Slot { ring } => defs.ring(*ring),
        Type::View | Type::Ring | Type::Index | Type::Tile { .. } => None,
    }
}

/// Why the matrix unit has no such product.
fn product(acc: &Ring, a: &Ring, b: &Ring, trans: bool) -> Option<String> {
    for (name, ring) in [("a", a), ("b", b)] {
        if ring.class != Class::Stage {
            return Some(format!(
                "operand `{name}` is a slot of class {}, but the matrix unit reads stage slots",
                ring.class.name()
            ));
        }
    }
    let (x, y): (&SlotType, &SlotType) = (&a.slot, &b.slot);
    let mx = [Format::MX8, Format::W8, Format::MX4];
    let deep = if mx.contains(&x.format) && mx.contains(&y.format) {
        32
    } else if (x.format, y.format) == (Format::INDEX4, Format::INDEX4) {
        64
    } else if [(Format::BF16, Format::BF16), (Format::BF16, Format::F32), (Format::F32, Format::BF16)]
        .contains(&(x.format, y.format))
    {
        16
    } else {
        return Some(format!(
            "the matrix unit has no product of {} and {}; it has mx8, w8 and mx4 with each other, index4 with index4, \
             and bf16 with bf16 or f32",
            x.format, y.format
        ));
    };
    let k = x.cols.fixed()?;
    if !k.is_multiple_of(deep) {
        return Some(format!(
            "the depth is {k}, but the matrix unit multiplies {} and {} in steps of {deep}; pad the slots",
            x.format, y.format
        ));
    }
    if trans && y.format != Format::BF16 {
        return Some(format!("the matrix unit reads bf16 in columns, not {}", y.format));
    }
    let columns = acc.slot.cols.fixed()?;
    (!columns.is_multiple_of(COLUMNS)).then(|| {
        format!(
            "the accumulator has {columns} columns, but the matrix unit has whole steps of {COLUMNS}; pad it"
        )
    })
}
