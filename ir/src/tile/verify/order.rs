//! The order of sums: a function of the row's own operands, never of the number of rows or the row's place among them.

use super::{At, Event, MAX_NESTING, Report, Rule, walk};
use crate::tile::kernel::{Access, Kernel, Node, Stmt, Type, Value};
use crate::tile::ops::Op;
use crate::tile::print::print_stmt;
use crate::types::Dim;
use std::collections::BTreeMap;

/// Why an index says more about the batch than about the row.
#[derive(Clone, Debug, PartialEq)]
enum Cause {
    /// It is made from a size of the batch.
    Size(String),
    /// It is made from the tile's or row's place. What is read from memory at that place is an operand of the row.
    Place(String),
}

impl Cause {
    fn text(&self) -> &str {
        match self {
            Cause::Size(text) | Cause::Place(text) => text,
        }
    }
}

/// One role's walk.
struct Walk<'k> {
    kernel: &'k Kernel,
    causes: BTreeMap<Value, Cause>,
    /// Constants.
    consts: BTreeMap<Value, i64>,
    /// Loops and conditions around the statement, outermost first.
    around: Vec<At<'k>>,
    /// How many of them were around the `acquire` of a slot.
    acquired: BTreeMap<Value, usize>,
}

/// Checks each sum into an accumulator.
pub(super) fn check(report: &mut Report<'_>) {
    let kernel = report.kernel;
    for role in 0..kernel.roles.len() {
        let mut w = Walk {
            kernel,
            causes: BTreeMap::new(),
            consts: BTreeMap::new(),
            around: Vec::new(),
            acquired: BTreeMap::new(),
        };
        walk(kernel, role, MAX_NESTING, |_, event| match event {
            Event::Stmt(at) => {
                if let Some(message) = w.statement(at) {
                    report.add_at(Rule::Order, at, message);
                }
            }
            Event::End(_) => {
                w.around.pop();
            }
        });
    }
}

impl<'k> Walk<'k> {
    fn statement(&mut self, at: At<'k>) -> Option<String> {
        match at.stmt {
            Stmt::Op(node) => {
                let fault = self.sum_fault(node);
                self.define(node);
                fault
            }
            Stmt::For { var, lo, hi, .. } => {
                // Of a loop over the batch the counter is a place in it.
                if let Some(cause) = self.cause(&[*lo, *hi]) {
                    self.causes.insert(*var, Cause::Place(cause.text().to_owned()));
                }
                self.around.push(at);
                None
            }
            Stmt::If { .. } => {
                self.around.push(at);
                None
            }
        }
    }

    /// The first cause among values.
    fn cause(&self, values: &[Value]) -> Option<&Cause> {
        let of = |v: &Value| self.causes.get(v);
        values.iter().filter_map(of).find(|c| matches!(c, Cause::Size(_))).or(values.iter().find_map(of))
    }

    /// True for multiples of a symbol along which the tiles lie, or the rows of a result. Sizes of caches are none: they
    /// bound what a row reads.
    fn counts_rows(&self, dim: &Dim) -> bool {
        let Dim::Sym { sym, .. } = dim else { return false };
        let results = self.kernel.params.iter().filter(|p| p.access == Access::Write);
        let rows = results.filter_map(|p| p.ty.shape.first());
        let mut counts = self.kernel.grid.iter().map(|a| &a.extent).chain(rows);
        counts.any(|d| matches!(d, Dim::Sym { sym: s, .. } if s == sym))
    }

    fn define(&mut self, node: &Node) {
        let Some((v, ty)) = &node.result else { return };
        let axis = |axis: usize| self.kernel.grid.get(axis);
        let cause = match &node.op {
            Op::IndexConst { value } => {
                self.consts.insert(*v, *value);
                None
            }
            Op::Acquire { .. } => {
                self.acquired.insert(*v, self.around.len());
                None
            }
            Op::IndexDim { dim } if self.counts_rows(dim) => {
                Some(Cause::Size(format!("the dimension {dim}")))
            }
            Op::IndexEnd { .. } => {
                Some(Cause::Size("the number of rows of the group (`index.end`)".to_owned()))
            }
            Op::IndexTile { axis: n } => axis(*n)
                .filter(|a| a.extent.fixed().is_none() || a.groups.is_some())
                .map(|a| Cause::Place(format!("the place of the tile along `{}`", a.name))),
            Op::IndexBinary { a, b, .. } => self.cause(&[*a, *b]).cloned(),
            Op::IndexRead { view, at } => {
                let operand = self.kernel.param_of(*view).is_some_and(|p| p.access == Access::Read);
                self.cause(at).filter(|c| !operand || matches!(c, Cause::Size(_))).cloned()
            }
            Op::IndexDim { .. } | Op::IndexGroup { .. } | Op::Any { .. } => None,
            // Of an index that is none of these nothing is known.
            op => (*ty == Type::Index).then(|| Cause::Size(format!("`{}`", op.mnemonic()))),
        };
        if let Some(cause) = cause {
            self.causes.insert(*v, cause);
        }
    }

    /// Why the order of a sum is not the row's own.
    fn sum_fault(&self, node: &Node) -> Option<String> {
        let (acc, first) = match &node.op {
            Op::Mma { acc, init: false, .. } | Op::MmaValues { acc, .. } => (*acc, None),
            Op::MmaTile { acc, first, .. } if self.consts.get(first).is_none_or(|n| *n == 0) => {
                (*acc, Some(*first))
            }
            _ => return None,
        };
        let fixed = "the order of a sum is a function of the row's own operands; use a fixed number, or one read from \
                     memory for the row";
        // A slot that was taken, not acquired, may hold the sum of all that is around.
        let inside = self.acquired.get(&acc).copied().unwrap_or(0);
        let around = self.around.get(inside..).unwrap_or_default().iter().find_map(|at| {
            let (what, values) = match at.stmt {
                Stmt::For { lo, hi, .. } => ("whose bounds depend", vec![*lo, *hi]),
                Stmt::If { cond, .. } => ("which depends", vec![*cond]),
                Stmt::Op(_) => return None,
            };
            let cause = self.cause(&values)?;
            let head = print_stmt(self.kernel, at.stmt);
            Some(format!("the sum runs in `{head}`, {what} on {}; {fixed}", cause.text()))
        });
        around.or_else(|| {
            let cause = self.cause(&[first?])?;
            Some(format!("whether the sum begins anew depends on {}; {fixed}", cause.text()))
        })
    }
}
