//! Rules of declarations and outputs: names, types, fixed weights, row symbols.

use super::super::fault::{Rule, Subject};
use super::super::module::{DeclKind, Module};
use super::super::typing::type_fault;
use super::{Place, Report};
use crate::types::{Dim, Sym};
use std::collections::HashMap;

/// Checks what concerns declarations and names alone.
pub(super) fn check(report: &mut Report<'_>) {
    let module = report.module;
    let rows = row_symbols(module);
    for (i, decl) in module.decls.iter().enumerate() {
        let mut add = |rule, message| report.add(rule, Place::Decl(i), Subject::Node, message);
        if let Some(message) = type_fault(&decl.ty) {
            add(Rule::Type, message);
        }
        // Leading dimensions of states count slots, so no place in them is for rows.
        let (fixed, first_checked) = match decl.kind {
            DeclKind::Input => (false, 1),
            DeclKind::Weight => (true, 1),
            DeclKind::State => (false, 0),
        };
        if fixed && decl.ty.shape.iter().any(|d| d.fixed().is_none()) {
            add(Rule::Weight, format!("has type {}; a weight's dimensions are numbers", decl.ty));
        } else if let Some(message) = row_fault(&rows, &decl.ty.shape, first_checked) {
            add(Rule::Rows, message);
        }
    }
    let names: Vec<&str> = module.decls.iter().map(|d| d.name.as_str()).collect();
    unique(report, &names, Place::Decl);
    let names: Vec<&str> = module.outputs.iter().map(|o| o.name.as_str()).collect();
    unique(report, &names, Place::Output);
}

fn unique(report: &mut Report<'_>, names: &[&str], place: fn(usize) -> Place) {
    let mut first: HashMap<&str, usize> = HashMap::new();
    for (i, name) in names.iter().enumerate() {
        if name.is_empty() {
            report.add(Rule::Names, place(i), Subject::Node, "has an empty name".to_owned());
        } else if let Some(earlier) = first.get(name) {
            let message = format!("has the name of number {earlier}; give one of them another name");
            report.add(Rule::Names, place(i), Subject::Node, message);
        } else {
            first.insert(name, i);
        }
    }
}

/// Symbols that count rows: those that lead an input's shape.
pub(super) fn row_symbols(module: &Module) -> Vec<&Sym> {
    let mut rows: Vec<&Sym> = Vec::new();
    for decl in module.decls.iter().filter(|d| d.kind == DeclKind::Input) {
        if let Some(Dim::Sym { sym, .. }) = decl.ty.shape.first()
            && !rows.contains(&sym)
        {
            rows.push(sym);
        }
    }
    rows
}

/// A row symbol in the dimensions from `from` on.
pub(super) fn row_fault(rows: &[&Sym], shape: &[Dim], from: usize) -> Option<String> {
    let symbol = shape.iter().skip(from).find_map(|d| match d {
        Dim::Sym { sym, .. } if rows.contains(&sym) => Some(sym),
        Dim::Sym { .. } | Dim::Fixed(_) => None,
    })?;
    let place = if from == 0 { "a state's shape" } else { "dimensions after the first" };
    Some(format!(
        "uses {symbol}, which counts rows (it leads an input's shape); {place} cannot depend on that"
    ))
}
