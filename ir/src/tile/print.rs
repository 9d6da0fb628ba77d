//! Canonical text of a kernel: a function of the kernel alone, byte for byte.

use super::kernel::{Axis, Block, Kernel, Lanes, Node, Param, Ring, Role, Scope, Stmt, Target, Type, Value};
use super::ops::Op;
use crate::text::{Attr, OperandRef, is_word, print_body, quote};
use std::fmt::{self, Write};

/// First word of a kernel's text.
pub(super) const LEVEL: &str = "tessera.tile";
/// Version of the text form.
pub(super) const VERSION: u32 = 1;

/// A value as the text form shows it: parameters and rings by name, others by number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown<'a> {
    Name(&'a str),
    Number(Value),
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Name(name) => write!(f, "%{name}"),
            Shown::Number(v) => write!(f, "{v}"),
        }
    }
}

/// How values are shown.
pub(super) type Names<'a> = dyn Fn(Value) -> Shown<'a> + 'a;

/// How the values of `kernel` are shown.
pub(super) fn names(kernel: &Kernel) -> Box<Names<'_>> {
    Box::new(|v| match (kernel.param_of(v), kernel.ring_of(v)) {
        (Some(p), _) => Shown::Name(&p.name),
        (None, Some(r)) => Shown::Name(&r.name),
        (None, None) => Shown::Number(v),
    })
}

/// The text form of `kernel`, which [`super::parse`] reads back to an equal kernel if the kernel can be spelled:
/// values numbered in order and defined before use, names that are words, formats that have a name.
pub fn print(kernel: &Kernel) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_kernel(&mut out, kernel);
    out
}

/// The line of one op in the text form, without its indentation.
pub fn print_node(kernel: &Kernel, node: &Node) -> String {
    line(|out| write_node(out, node, &*names(kernel)))
}

/// The first line of a statement in the text form, without its indentation.
pub fn print_stmt(kernel: &Kernel, stmt: &Stmt) -> String {
    line(|out| write_head(out, stmt, &*names(kernel)))
}

/// The line of one parameter in the text form, without its indentation.
pub fn print_param(param: &Param) -> String {
    format!("param %{} : {} {}", param.name, param.ty, param.access.name())
}

/// One grid axis in the text form.
pub fn print_axis(kernel: &Kernel, axis: &Axis) -> String {
    let Axis { name, extent, tile, groups } = axis;
    let groups = groups.map(|offsets| format!(" groups {}", names(kernel)(offsets)));
    format!("{name} {extent} by {tile}{}", groups.unwrap_or_default())
}

/// The line of one ring in the text form, without its indentation.
pub fn print_ring(kernel: &Kernel, ring: &Ring) -> String {
    let slot = &ring.slot;
    let mut out = format!(
        "ring %{} : {} tile<{}x{}, {}> depth {}{} path",
        ring.name,
        ring.class.name(),
        slot.rows,
        slot.cols,
        slot.format,
        ring.depth,
        match ring.scope {
            Scope::Core => "",
            Scope::Pair => " scope pair",
        }
    );
    for (i, hop) in ring.path.iter().enumerate() {
        for (j, role) in hop.roles.iter().enumerate() {
            out.push_str(match (i, j) {
                (0, 0) => " ",
                (_, 0) => " -> ",
                (_, _) => " + ",
            });
            match kernel.roles.get(*role) {
                Some(role) => out.push_str(&role.name),
                None => out.push_str(&format!("?{role}")),
            }
        }
    }
    out
}

pub(super) fn line(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut out = String::new();
    let _ = write(&mut out);
    out
}

fn write_kernel(out: &mut String, kernel: &Kernel) -> fmt::Result {
    writeln!(out, "{LEVEL} {VERSION}")?;
    let name = if is_word(&kernel.name) { kernel.name.clone() } else { quote(&kernel.name) };
    write!(out, "kernel @{name}")?;
    match kernel.target {
        Target::Cpu => {}
        Target::Sm100 => write!(out, " for {}", kernel.target.name())?,
    }
    out.push_str(" {\n");
    for param in &kernel.params {
        writeln!(out, "  {}", print_param(param))?;
    }
    if !kernel.grid.is_empty() {
        out.push_str("  grid ");
        for (i, axis) in kernel.grid.iter().enumerate() {
            write!(out, "{}{}", if i == 0 { "" } else { ", " }, print_axis(kernel, axis))?;
        }
        out.push('\n');
    }
    if let Some(n) = kernel.persistent {
        writeln!(out, "  persistent {n}")?;
    }
    if kernel.cluster != 1 {
        writeln!(out, "  cluster {}", kernel.cluster)?;
    }
    for ring in &kernel.rings {
        writeln!(out, "  {}", print_ring(kernel, ring))?;
    }
    let names = names(kernel);
    for Role { kind, name, warps, registers, lanes, body } in &kernel.roles {
        write!(out, "  role {} {name}", kind.name())?;
        if *warps != 1 {
            write!(out, " warps {warps}")?;
        }
        if let Some(n) = registers {
            write!(out, " registers {n}")?;
        }
        if *lanes != Lanes::CANONICAL {
            write!(out, " lanes {lanes}")?;
        }
        out.push_str(" {\n");
        write_block(out, body, &*names)?;
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    Ok(())
}

/// Writes the body of a role. Its nesting is kept on a list, since a kernel may be nested deeper than the stack.
fn write_block<'k>(out: &mut String, body: &'k Block, names: &Names<'_>) -> fmt::Result {
    let mut open: Vec<std::slice::Iter<'k, Stmt>> = vec![body.iter()];
    while let Some(block) = open.last_mut() {
        let Some(stmt) = block.next() else {
            open.pop();
            if !open.is_empty() {
                writeln!(out, "{}}}", "  ".repeat(open.len() + 1))?;
            }
            continue;
        };
        let indent = "  ".repeat(open.len() + 1);
        out.push_str(&indent);
        write_head(out, stmt, names)?;
        match stmt {
            Stmt::Op(_) => out.push('\n'),
            Stmt::For { body, .. } | Stmt::If { body, .. } => {
                out.push_str(" {\n");
                open.push(body.iter());
            }
        }
    }
    Ok(())
}

fn write_head(out: &mut String, stmt: &Stmt, names: &Names<'_>) -> fmt::Result {
    match stmt {
        Stmt::Op(node) => write_node(out, node, names),
        Stmt::For { var, lo, hi, step, body: _ } => {
            write!(out, "for {} = {} to {} step {step}", names(*var), names(*lo), names(*hi))
        }
        Stmt::If { cond, body: _ } => write!(out, "if {}", names(*cond)),
    }
}

pub(super) fn write_node(out: &mut String, node: &Node, names: &Names<'_>) -> fmt::Result {
    if let Some((value, _)) = &node.result {
        write!(out, "{} = ", names(*value))?;
    }
    write_op(out, &node.op, names)?;
    match &node.result {
        Some((_, ty)) => {
            out.push_str(" : ");
            write_type(out, ty, names)
        }
        None => Ok(()),
    }
}

/// Writes mnemonic, operands and attributes.
pub(super) fn write_op(out: &mut String, op: &Op, names: &Names<'_>) -> fmt::Result {
    out.push_str(op.mnemonic());
    let mut shown: Vec<(bool, Vec<Shown<'_>>)> = Vec::new();
    op.for_each_operand(|_, operand| {
        let many = matches!(operand, OperandRef::Many(_));
        shown.push((many, operand.values().into_iter().map(names).collect()));
    });
    let operands: Vec<OperandRef<'_, Shown<'_>>> = shown
        .iter()
        .map(|(many, values)| match (many, values.first()) {
            (true, _) => OperandRef::Many(values),
            (false, value) => OperandRef::Maybe(value.copied()),
        })
        .collect();
    let mut attrs: Vec<(&str, &dyn Attr)> = Vec::new();
    op.for_each_attr(|name, value| attrs.push((name, value)));
    print_body(out, &operands, &attrs)
}

pub(super) fn write_type(out: &mut String, ty: &Type, names: &Names<'_>) -> fmt::Result {
    match ty {
        Type::View => out.write_str("view"),
        Type::Ring => out.write_str("ring"),
        Type::Slot { ring } => write!(out, "slot {}", names(*ring)),
        Type::Index => out.write_str("index"),
        Type::Tile { rows, cols, format } => write!(out, "tile<{rows}x{cols}, {format}>"),
    }
}
