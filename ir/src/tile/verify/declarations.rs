//! Rules of parameters, grid, rings and roles, apart from what the roles do.

use super::{Place, Report, Rule};
use crate::graph::type_fault;
use crate::text::is_word;
use crate::tile::kernel::{Access, Class, Kernel, Node, Ring, Stmt, Type, Value};
use crate::tile::operands::in_groups;
use crate::tile::ops::Op;
use crate::types::{Dim, Elem, Format, Layout, Sym};
use std::collections::{BTreeMap, BTreeSet};

/// Checks what concerns declarations alone.
pub(super) fn check(report: &mut Report<'_>) {
    let kernel = report.kernel;
    names(report, kernel);
    for (i, p) in kernel.params.iter().enumerate() {
        if let Some(message) = type_fault(&p.ty) {
            report.add(Rule::Type, Place::Param(i), message);
        }
        let what = match p.ty.layout {
            Layout::Panels16 => Some("panels"),
            Layout::Blocks128 | Layout::Split3 => Some(p.ty.layout.name()),
            Layout::Rows | Layout::Pitch16 | Layout::Split => None,
        };
        if let Some(layout) = what.filter(|_| p.access != Access::Read) {
            let message = format!("a parameter in {layout} is a weight; declare it `read`");
            report.add(Rule::Type, Place::Param(i), message);
        }
    }
    let grouped = kernel.grid.iter().enumerate().filter_map(|(i, a)| Some((i, a.groups?)));
    for (n, (i, list)) in grouped.enumerate() {
        if n > 0 {
            let message = "there is a grouped axis already; group one axis at most".to_owned();
            report.add(Rule::Grouped, Place::Axis(i), message);
        }
        if let Some(message) = borders_fault(kernel, list) {
            report.add(Rule::Grouped, Place::Axis(i), message);
        }
    }
    for (i, axis) in kernel.grid.iter().enumerate() {
        if axis.tile == 0 {
            report.add(
                Rule::Grid,
                Place::Axis(i),
                "a tile covers no element; give it at least one".to_owned(),
            );
        }
    }
    for (i, ring) in kernel.rings.iter().enumerate() {
        for message in ring_faults(ring) {
            report.add(Rule::Ring, Place::Ring(i), message);
        }
        let mut seen = BTreeSet::new();
        if ring.path.is_empty() {
            report.add(Rule::Path, Place::Ring(i), "no role is on the path; name at least one".to_owned());
        }
        if ring.path.iter().any(|hop| hop.roles.is_empty()) {
            report.add(Rule::Path, Place::Ring(i), "a station has no role; name at least one".to_owned());
        }
        for role in ring.path.iter().flat_map(|hop| &hop.roles) {
            if *role >= kernel.roles.len() {
                let message = format!("there is no role {role}; the kernel has {}", kernel.roles.len());
                report.add(Rule::Path, Place::Ring(i), message);
            } else if !seen.insert(*role) {
                let message = format!("role {} is on the path twice", kernel.roles[*role].name);
                report.add(Rule::Path, Place::Ring(i), message);
            }
        }
    }
    if kernel.roles.is_empty() {
        report.add(Rule::Role, Place::Kernel, "there is no role, so the kernel does nothing".to_owned());
    }
    symbols(report, kernel);
}

/// Why a value is no list of a grouped axis' borders.
fn borders_fault(kernel: &Kernel, list: Value) -> Option<String> {
    let Some(p) = kernel.param_of(list) else {
        return Some("the groups' borders are no parameter; name one".to_owned());
    };
    let length = match p.ty.shape.as_slice() {
        [length] => Some(length),
        _ => None,
    };
    if p.ty.format != Format::I32 || length.is_none() {
        return Some(format!("the groups' borders are a list of i32, but %{} is {}", p.name, p.ty));
    }
    if length.and_then(Dim::fixed).is_none_or(|n| n < 2) {
        let message = "holds no number of groups known here; give it groups + 1 elements";
        return Some(format!("the list %{} {message}", p.name));
    }
    (p.access != Access::Read).then(|| {
        format!(
            "the list %{} is declared `{}`; tiles are counted before they run: declare it `read`",
            p.name,
            p.access.name()
        )
    })
}

fn names(report: &mut Report<'_>, kernel: &Kernel) {
    let params = kernel.params.iter().enumerate().map(|(i, p)| (Place::Param(i), p.name.as_str()));
    let rings = kernel.rings.iter().enumerate().map(|(i, r)| (Place::Ring(i), r.name.as_str()));
    unique(report, params.chain(rings).collect(), "parameter or ring");
    let axes = kernel.grid.iter().enumerate().map(|(i, a)| (Place::Axis(i), a.name.as_str()));
    unique(report, axes.collect(), "axis");
    let roles = kernel.roles.iter().enumerate().map(|(i, r)| (Place::Role(i), r.name.as_str()));
    unique(report, roles.collect(), "role");
}

fn unique(report: &mut Report<'_>, names: Vec<(Place, &str)>, what: &str) {
    let mut seen = BTreeSet::new();
    for (place, name) in names {
        if !is_word(name) {
            let message =
                format!("{name:?} is no name: letters, digits, `_` and `.` after a first letter or `_`");
            report.add(Rule::Names, place, message);
        } else if !seen.insert(name) {
            let message = format!("there is another {what} called {name}; rename one of them");
            report.add(Rule::Names, place, message);
        }
    }
}

fn ring_faults(ring: &Ring) -> Vec<String> {
    let mut faults = Vec::new();
    if ring.depth == 0 {
        faults.push("a ring of depth 0 has no slot; give it at least one".to_owned());
    }
    let (cols, format) = (&ring.slot.cols, ring.slot.format);
    let empty = ring.slot.rows == 0
        || match cols {
            Dim::Fixed(n) => *n == 0,
            Dim::Sym { times, .. } => *times == 0,
        };
    if empty {
        faults.push("a slot has no elements; rows and columns are at least 1".to_owned());
    }
    if let Err(fault) = in_groups(format, cols) {
        faults.push(fault.to_string());
    }
    let (fits, wants) = match ring.class {
        Class::Accum => (format == Format::F32, "f32"),
        Class::Vec => (format.group.is_none() && format.elem != Elem::I64, "f32, bf16 or i32"),
        Class::Stage => (format.elem != Elem::I64, "any format but i64"),
    };
    if !fits || format.name().is_none() {
        faults.push(format!("slots of class {} hold {wants}, not {format}", ring.class.name()));
    }
    faults
}

/// Every symbol must be one that a parameter's shape binds.
fn symbols(report: &mut Report<'_>, kernel: &Kernel) {
    let mut bound: BTreeSet<&Sym> = BTreeSet::new();
    for dim in kernel.params.iter().flat_map(|p| &p.ty.shape) {
        bound.extend(symbol(dim));
    }
    // The first place of each unbound symbol.
    let mut unbound: BTreeMap<&Sym, Place> = BTreeMap::new();
    let mut used = |dim, place| {
        if let Some(sym) = symbol(dim)
            && !bound.contains(sym)
        {
            unbound.entry(sym).or_insert(place);
        }
    };
    for (i, axis) in kernel.grid.iter().enumerate() {
        used(&axis.extent, Place::Axis(i));
    }
    for (i, ring) in kernel.rings.iter().enumerate() {
        used(&ring.slot.cols, Place::Ring(i));
    }
    for (i, role) in kernel.roles.iter().enumerate() {
        let mut blocks = vec![&role.body];
        while let Some(block) = blocks.pop() {
            for stmt in block {
                match stmt {
                    Stmt::For { body, .. } | Stmt::If { body, .. } => blocks.push(body),
                    Stmt::Op(Node { op, result }) => {
                        if let Op::IndexDim { dim }
                        | Op::Load { cols: dim, .. }
                        | Op::SlotLoad { cols: dim, .. } = op
                        {
                            used(dim, Place::Role(i));
                        }
                        if let Some((_, Type::Tile { cols, .. })) = result {
                            used(cols, Place::Role(i));
                        }
                    }
                }
            }
        }
    }
    for (sym, place) in unbound {
        let message = format!("no parameter has the symbol {sym} in its shape, so nothing would bind it");
        report.add(Rule::Symbol, place, message);
    }
}

fn symbol(dim: &Dim) -> Option<&Sym> {
    match dim {
        Dim::Fixed(_) => None,
        Dim::Sym { sym, .. } => Some(sym),
    }
}
