//! The verifier of Graph IR: every rule of the level, all faults at once.
//!
//! It enforces, for any module whatever its origin, each [`Rule`]:
//!
//! * `numbering`: values are numbered in order, declarations from 0, then the results of each node;
//! * `defined`: operands and outputs name values that are defined before;
//! * `names`: names of declarations are unique and not empty, and so are names of outputs;
//! * `type`: each type is well formed on its own;
//! * `weight`: weights have fixed shapes;
//! * `rows`: a symbol that counts rows leads shapes and stands nowhere else, so rows are never summed or mixed;
//! * `operands`, `format`, `shape`, `attribute`, `result`: the typing rule of each op (see the op table);
//! * `shared`: operands that all rows share are weights or computed from weights alone, so no row sees another;
//! * `state`: operands addressed by slot are versions of states, and states are used nowhere else; so effects fall on
//!   states only;
//! * `version`: a state's version is read, replaced or put out only while it is the newest, and replaced once;
//! * `grouping`: rows sorted by expert serve `moe.linear` over the same experts and nothing else; they may enter and
//!   leave a module.
//!
//! Where numbering is broken, numbers say nothing: then only declarations are checked beside it.

mod decls;
mod flow;

use super::fault::{Rule, Subject, TypeFault};
use super::module::Module;
use super::print::{print_decl, print_node, print_output};
use super::typing::check;
use crate::verified::Verified;
use std::fmt;

/// Where in a module a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The module as a whole.
    Module,
    /// A declaration, by its number.
    Decl(usize),
    /// A node, by its number, from 0.
    Node(usize),
    /// An output, by its number.
    Output(usize),
}

/// One fault of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule that is broken.
    pub rule: Rule,
    /// Where.
    pub place: Place,
    /// The op's name in the text form, for nodes.
    pub mnemonic: Option<&'static str>,
    /// The part of a node that is at fault.
    pub subject: Subject,
    /// What is wrong and what to do; goes on from the subject's name.
    pub message: String,
    /// The line at fault in the text form; empty for the module as a whole.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.place, self.mnemonic) {
            (Place::Module, _) => f.write_str("the module ")?,
            (Place::Decl(i), _) => write!(f, "declaration {i} ")?,
            (Place::Output(i), _) => write!(f, "output {i} ")?,
            (Place::Node(i), mnemonic) => {
                write!(f, "node {i} ({})", mnemonic.unwrap_or("?"))?;
                match self.subject {
                    Subject::Node => f.write_str(" ")?,
                    Subject::Operand(_) | Subject::Attribute(_) | Subject::Result(_) => {
                        write!(f, ": {} ", self.subject)?;
                    }
                }
            }
        }
        write!(f, "{} [{}]", self.message, self.rule)?;
        if self.text.is_empty() { Ok(()) } else { write!(f, "\n    {}", self.text) }
    }
}

/// All faults of a module, by place and then by rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct VerifyErrors {
    /// The module's name.
    pub module: String,
    /// The faults; at least one.
    pub faults: Vec<Fault>,
}

impl fmt::Display for VerifyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.faults.len();
        write!(f, "module @{}: {n} {}", self.module, if n == 1 { "fault" } else { "faults" })?;
        for fault in &self.faults {
            write!(f, "\n{fault}")?;
        }
        Ok(())
    }
}

/// Checks every rule of the level and marks the module as verified.
///
/// # Errors
/// All faults, by place and then by rule.
pub fn verify(module: Module) -> Result<Verified<Module>, VerifyErrors> {
    let mut report = Report { module: &module, faults: Vec::new() };
    decls::check(&mut report);
    if numbering(&mut report) {
        nodes(&mut report);
    }
    let mut faults = report.faults;
    faults.sort_by_key(|f| (f.place, f.rule));
    if faults.is_empty() {
        return Ok(Verified::new(module));
    }
    Err(VerifyErrors { module: module.name, faults })
}

/// Collects faults of one module.
struct Report<'m> {
    module: &'m Module,
    faults: Vec<Fault>,
}

impl Report<'_> {
    fn add(&mut self, rule: Rule, place: Place, subject: Subject, message: String) {
        let (mnemonic, text) = match place {
            Place::Module => (None, String::new()),
            Place::Decl(i) => (None, print_decl(self.module, i)),
            Place::Node(i) => {
                let node = self.module.nodes.get(i);
                (node.map(|n| n.op.mnemonic()), node.map(print_node).unwrap_or_default())
            }
            Place::Output(i) => (None, self.module.outputs.get(i).map(print_output).unwrap_or_default()),
        };
        self.faults.push(Fault { rule, place, mnemonic, subject, message, text });
    }
    fn add_type(&mut self, node: usize, fault: TypeFault) {
        self.add(fault.rule, Place::Node(node), fault.subject, fault.message);
    }
}

/// Checks that values are numbered in order; false if their numbers mean nothing.
fn numbering(report: &mut Report<'_>) -> bool {
    let before = report.faults.len();
    let module = report.module;
    let mut next = module.decls.len();
    for (i, node) in module.nodes.iter().enumerate() {
        if node.first.index() != next {
            let message = format!("starts its results at {}, but the next value is %{next}", node.first);
            report.add(Rule::Numbering, Place::Node(i), Subject::Node, message);
        }
        next = next.saturating_add(node.types.len());
    }
    if u32::try_from(next).is_err() {
        let message = format!("has {next} values, more than 32-bit numbers can name");
        report.add(Rule::Numbering, Place::Module, Subject::Node, message);
    }
    report.faults.len() == before
}

fn nodes(report: &mut Report<'_>) {
    let module = report.module;
    let types = module.types();
    let rows = decls::row_symbols(module);
    let mut flow = flow::Flow::new(module);
    for (i, node) in module.nodes.iter().enumerate() {
        let found = check(&node.op, &types[..node.first.index()], &node.types);
        flow.node(report, i, &found.uses);
        for fault in found.faults {
            report.add_type(i, fault);
        }
        for (r, ty) in node.types.iter().enumerate() {
            if let Some(message) = decls::row_fault(&rows, &ty.shape, 1) {
                report.add(Rule::Rows, Place::Node(i), Subject::Result(r), message);
            }
        }
    }
    flow.outputs(report);
}
