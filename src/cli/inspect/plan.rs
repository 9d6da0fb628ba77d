//! The fused plan of a program: which kernels run in which order, and the bytes they touch.

use crate::cli::output;
use serde::Serialize;
use std::collections::BTreeSet;
use tessera::codegen::Plan;
use tessera::ir::graph::{DeclKind, Module};
use tessera::ir::{Bindings, TensorType};

#[derive(Serialize)]
pub(super) struct PlanReport {
    program: String,
    kernels: usize,
    calls: Vec<Call>,
    weight_bytes: usize,
}

#[derive(Serialize)]
struct Call {
    kernel: String,
    family: &'static str,
    /// Ops in order, each once.
    ops: Vec<&'static str>,
    /// Bytes of the weights it reads; of the experts' all, though a step reads only those that are chosen.
    weight_bytes: usize,
    /// Bytes of its inputs and outputs a row.
    row_bytes: usize,
}

/// The plan of the program called `program`.
pub(super) fn report(plan: &Plan, program: &str) -> PlanReport {
    let mut out = PlanReport { program: program.to_owned(), kernels: 0, calls: Vec::new(), weight_bytes: 0 };
    let Some((_, fused, kernel_of)) = plan.modules.iter().find(|(name, _, _)| name == program) else {
        return out;
    };
    let mut weights = BTreeSet::new();
    let mut kernels = BTreeSet::new();
    for call in &fused.calls {
        let scheduled = &plan.kernels[kernel_of[call.fragment]];
        kernels.insert(kernel_of[call.fragment]);
        let fragment: &Module = &scheduled.fragment;
        let types = fragment.types();
        let (mut weight_bytes, mut row_bytes) = (0, 0);
        for ((decl, value), param) in fragment.decls.iter().zip(&call.args).zip(&scheduled.kernel.params) {
            match decl.kind {
                DeclKind::Weight => {
                    weight_bytes += bytes(&param.ty);
                    if weights.insert(*value) {
                        out.weight_bytes += bytes(&param.ty);
                    }
                }
                DeclKind::Input => row_bytes += bytes(&decl.ty),
                DeclKind::State => {}
            }
        }
        let states = |value: usize| {
            fragment.nodes.iter().any(|node| {
                node.op.effect() == tessera::ir::graph::Effect::State && node.first.index() == value
            })
        };
        let outputs = fragment.outputs.iter().map(|o| o.value.index()).filter(|value| !states(*value));
        row_bytes += outputs.map(|value| bytes(types[value])).sum::<usize>();
        let mut ops: Vec<&'static str> = fragment.nodes.iter().map(|node| node.op.mnemonic()).collect();
        let mut seen = BTreeSet::new();
        ops.retain(|op| seen.insert(*op));
        let kernel = scheduled.kernel.name.clone();
        out.calls.push(Call { kernel, family: scheduled.family.name(), ops, weight_bytes, row_bytes });
    }
    out.kernels = kernels.len();
    out
}

/// Bytes of a tensor with one row.
fn bytes(ty: &TensorType) -> usize {
    let mut one = Bindings::new();
    for symbol in ["T", "L", "K", "Q"] {
        one.set(symbol, 1);
    }
    ty.plane_bytes(&one).map_or(0, |planes| planes.iter().sum())
}

impl PlanReport {
    pub(super) fn text(&self) -> String {
        let row = |(at, call): (usize, &Call)| {
            vec![
                at.to_string(),
                call.kernel.clone(),
                call.ops.join(" "),
                output::bytes(call.weight_bytes as u64),
                output::bytes(call.row_bytes as u64),
            ]
        };
        let rows: Vec<Vec<String>> = self.calls.iter().enumerate().map(row).collect();
        let head = ["call", "kernel", "ops", "weights", "a row"];
        format!(
            "program {}: {} calls of {} kernels, {} of weights\n{}",
            self.program,
            self.calls.len(),
            self.kernels,
            output::bytes(self.weight_bytes as u64),
            output::table(&head, &rows, 3)
        )
    }
}
