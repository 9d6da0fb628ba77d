//! Canonical text of a graph module: a function of the module alone, byte for byte.

use super::module::{DeclKind, Module, Node, Output, Value};
use crate::text::{Attr, OperandRef, is_word, print_body, quote};
use std::fmt::{self, Write};

/// First word of a graph module's text.
pub(super) const LEVEL: &str = "tessera.graph";
/// Version of the text form.
pub(super) const VERSION: u32 = 1;

impl DeclKind {
    /// The keyword of the text form.
    pub fn keyword(self) -> &'static str {
        match self {
            DeclKind::Input => "input",
            DeclKind::Weight => "weight",
            DeclKind::State => "state",
        }
    }
}

/// The text form of `module`, which [`super::parse`] reads back to an equal module if the module can be spelled:
/// values numbered in order and defined before use, symbols that are names, formats that have one.
pub fn print(module: &Module) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_module(&mut out, module);
    out
}

/// The line of one node in the text form, without its indentation.
pub fn print_node(node: &Node) -> String {
    let mut out = String::new();
    let _ = write_node(&mut out, node);
    out
}

/// The line of one declaration in the text form, without its indentation.
pub fn print_decl(module: &Module, index: usize) -> String {
    module.decls.get(index).map_or_else(String::new, |d| {
        format!("%{index} = {} {} : {}", d.kind.keyword(), quote(&d.name), d.ty)
    })
}

/// The line of one output in the text form, without its indentation.
pub fn print_output(output: &Output) -> String {
    format!("output {} = {}", quote(&output.name), output.value)
}

fn write_module(out: &mut String, module: &Module) -> fmt::Result {
    writeln!(out, "{LEVEL} {VERSION}")?;
    let word = is_word(&module.name);
    let name = if word { module.name.clone() } else { quote(&module.name) };
    writeln!(out, "module @{name} {{")?;
    for index in 0..module.decls.len() {
        writeln!(out, "  {}", print_decl(module, index))?;
    }
    for node in &module.nodes {
        out.push_str("  ");
        write_node(out, node)?;
        out.push('\n');
    }
    for output in &module.outputs {
        writeln!(out, "  {}", print_output(output))?;
    }
    out.push_str("}\n");
    Ok(())
}

fn write_node(out: &mut String, node: &Node) -> fmt::Result {
    for (i, result) in node.results().enumerate() {
        write!(out, "{}{result}", if i == 0 { "" } else { ", " })?;
    }
    let named = !node.types.is_empty();
    write!(out, "{}{}", if named { " = " } else { "" }, node.op.mnemonic())?;
    let mut operands: Vec<OperandRef<'_, Value>> = Vec::new();
    node.op.for_each_operand(|_, values| operands.push(values));
    let mut attrs: Vec<(&str, &dyn Attr)> = Vec::new();
    node.op.for_each_attr(|name, value| attrs.push((name, value)));
    print_body(out, &operands, &attrs)?;
    for (i, ty) in node.types.iter().enumerate() {
        write!(out, "{}{ty}", if i == 0 { " : " } else { ", " })?;
    }
    Ok(())
}
