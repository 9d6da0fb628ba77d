//! Rules of use: which values are shared, which are states and how new they are, what a grouping is for.

use super::super::fault::{Rule, Subject};
use super::super::module::{DeclKind, Module, Value};
use super::super::ops::{Effect, Op};
use super::super::typing::{Role, Use};
use super::{Place, Report};

/// What a value is beside its type.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Nature {
    /// Given or computed anew for the rows of the step.
    Fresh,
    /// A weight, or computed from weights alone.
    Constant,
    /// A version of the state with this declaration number.
    State(usize),
    /// A result of the `moe.group` with this node number.
    Grouping(usize),
}

/// Follows values from node to node.
pub(super) struct Flow<'m> {
    module: &'m Module,
    natures: Vec<Nature>,
    /// Newest version of each state, by declaration number; the others' entries are not used.
    newest: Vec<Value>,
}

impl<'m> Flow<'m> {
    /// Before the first node.
    pub(super) fn new(module: &'m Module) -> Self {
        let nature = |(i, kind)| match kind {
            DeclKind::Input => Nature::Fresh,
            DeclKind::Weight => Nature::Constant,
            DeclKind::State => Nature::State(i),
        };
        let natures = module.decls.iter().map(|d| d.kind).enumerate().map(nature).collect();
        let newest = (0..module.decls.len()).map(|i| Value(i as u32)).collect();
        Flow { module, natures, newest }
    }

    /// Checks the uses of a node and takes note of its results.
    pub(super) fn node(&mut self, report: &mut Report<'_>, index: usize, uses: &[Use]) {
        for u in uses {
            // A value that is not defined yet is a fault of its own.
            let Some(nature) = self.natures.get(u.value.index()).copied() else { continue };
            if let Some((rule, message)) = self.use_fault(u, nature) {
                report.add(rule, Place::Node(index), Subject::Operand(u.operand), message);
            }
        }
        let node = &self.module.nodes[index];
        self.grouping(report, index, &node.op);
        let nature = self.result_nature(index, uses);
        self.natures.resize(self.natures.len() + node.types.len(), nature);
        if let (Nature::State(state), Some(first)) = (nature, node.results().next()) {
            self.newest[state] = first;
        }
    }

    fn use_fault(&self, u: &Use, nature: Nature) -> Option<(Rule, String)> {
        let value = u.value;
        match (u.role, nature) {
            (Role::State, Nature::State(state)) => self.version_fault(value, state),
            (Role::State, Nature::Fresh | Nature::Constant | Nature::Grouping(_)) => {
                Some((Rule::State, format!("is {value}, which is no state; declare it with `state`")))
            }
            (Role::Rows | Role::Shared | Role::Grouping, Nature::State(state)) => {
                let message = format!(
                    "is {value}, a version of state {:?}; a state goes only to operands addressed by slot",
                    self.module.decls[state].name
                );
                Some((Rule::State, message))
            }
            (Role::Shared, Nature::Fresh | Nature::Grouping(_)) => {
                let message = format!(
                    "is {value}, which is given or computed per step; all rows share this operand, so it must be a weight"
                );
                Some((Rule::Shared, message))
            }
            (Role::Rows, Nature::Grouping(_)) => {
                let message = format!("is {value}, a result of `moe.group`; that goes to `moe.linear` only");
                Some((Rule::Grouping, message))
            }
            // A fragment is given the lists by another one; the interpreter compares them with the experts.
            (Role::Grouping, Nature::Fresh) if value.index() < self.module.decls.len() => None,
            (Role::Grouping, Nature::Fresh | Nature::Constant) => {
                Some((Rule::Grouping, format!("is {value}, which is no result of `moe.group`")))
            }
            (Role::Shared, Nature::Constant)
            | (Role::Rows, Nature::Fresh | Nature::Constant)
            | (Role::Grouping, Nature::Grouping(_)) => None,
        }
    }

    fn version_fault(&self, value: Value, state: usize) -> Option<(Rule, String)> {
        let newest = self.newest[state];
        (newest != value).then(|| {
            let name = &self.module.decls[state].name;
            let message = format!(
                "is {value}, a version of state {name:?} that {newest} has replaced; use {newest}, or move the use up"
            );
            (Rule::Version, message)
        })
    }

    /// The results of a `moe.group` stand in their order and belong to the experts and matrices they are used with.
    fn grouping(&self, report: &mut Report<'_>, index: usize, op: &Op) {
        let Op::MoeLinear { experts, offsets: Some(offsets), pairs: Some(pairs), rows: Some(rows), .. } = op
        else {
            return;
        };
        let uses = [("offsets", *offsets), ("pairs", *pairs), ("rows", *rows)];
        for (i, (name, value)) in uses.into_iter().enumerate() {
            let Some(Nature::Grouping(group)) = self.natures.get(value.index()) else { continue };
            let node = &self.module.nodes[*group];
            let Op::MoeGroup { experts: grouped, .. } = &node.op else { continue };
            if grouped != experts || node.result(i) != value {
                let message = format!("is {value}, expected result {i} of a `moe.group` of {experts}");
                report.add(Rule::Grouping, Place::Node(index), Subject::Operand(name), message);
            }
        }
    }

    fn result_nature(&self, index: usize, uses: &[Use]) -> Nature {
        let op = &self.module.nodes[index].op;
        let of = |u: &Use| self.natures.get(u.value.index()).copied();
        match (op.effect(), uses.first().and_then(of)) {
            (Effect::State, Some(Nature::State(state))) => Nature::State(state),
            (Effect::State, _) => Nature::Fresh,
            (Effect::Pure, _) if matches!(op, Op::MoeGroup { .. }) => Nature::Grouping(index),
            (Effect::Pure, _) => {
                let constant = !uses.is_empty() && uses.iter().all(|u| of(u) == Some(Nature::Constant));
                if constant { Nature::Constant } else { Nature::Fresh }
            }
        }
    }

    /// Checks what leaves the module.
    pub(super) fn outputs(&self, report: &mut Report<'_>) {
        for (i, output) in self.module.outputs.iter().enumerate() {
            let value = output.value;
            let fault = match self.natures.get(value.index()) {
                None => Some((Rule::Defined, format!("is {value}, which the module does not define"))),
                Some(Nature::State(state)) => self.version_fault(value, *state),
                Some(Nature::Fresh | Nature::Constant | Nature::Grouping(_)) => None,
            };
            if let Some((rule, message)) = fault {
                report.add(rule, Place::Output(i), Subject::Node, message);
            }
        }
    }
}
