//! The Graph IR interpreter: the oracle that every other execution of a module is compared with.
//!
//! It computes what the op table says, in plain loops over decoded values, with the roundings that are part of
//! each op's meaning and nothing else. What the table leaves open is settled here, the same for every row:
//!
//! * Inside an op numbers are f32. `dot` and sums of squares use 16 lanes with fused multiply-adds, then a tree;
//!   `linear`, `moe.linear` and the product in `hc.mix` use fused multiply-adds in blocks of K. Where the table
//!   writes a sum of a few products (`hc.*`, `rope`, `engram.gate`'s last step) they are rounded one by one.
//! * `linear` with scaled weights takes k + 1 before k in each pair of columns; plain weights ascend.
//! * Exponentials, logarithms and angles are evaluated in f64 and rounded to f32; the rest of sigmoid, SiLU and
//!   softmax is f32.
//! * A NaN never wins a selection (`topk`, `index.blocks`, `argmax`, and `router` while k numbers are left) and
//!   otherwise spreads: clamps and ReLU keep it, a softmax with one is all NaN.
//! * Indices out of range, ring positions that were overwritten and caches that are too short are errors that name
//!   op, value and index. State is read only at positions that a row may see, so what other slots hold is
//!   without effect.

mod attention;
mod dispatch;
mod engram;
mod error;
mod format;
mod hc;
mod index;
mod linear;
mod pointwise;
mod pool;
mod router;
mod rows;
pub(crate) mod sum;
mod tensor;

pub use error::{Error, Fault};
pub use format::round_trip;
pub use tensor::{Data, State, Tensor, Weights};

use super::{DeclKind, Effect, Module, Node, Value};
use crate::Verified;
use crate::types::Bindings;
use dispatch::Scope;
use std::collections::BTreeMap;
use std::sync::Arc;
use tensor::eval_shape;

/// Runs one step of `module` and gives its named outputs.
///
/// `inputs` must hold exactly the declared inputs, in the shapes that `bindings` give; reals must be exact in the
/// declared format. `state` must hold all declared states (it may hold those of other modules, too) and takes
/// their newest versions.
///
/// # Errors
/// See [`Error`]. After an error `state` is as it was.
pub fn run(
    module: &Verified<Module>,
    bindings: &Bindings,
    inputs: &BTreeMap<String, Tensor>,
    weights: &dyn Weights,
    state: &mut State,
) -> Result<BTreeMap<String, Tensor>, Error> {
    let module: &Module = module;
    let mut scope = open(module, bindings, inputs, weights, state)?;
    let mut newest: Vec<(usize, Value)> = Vec::new();
    for (i, decl) in module.decls.iter().enumerate() {
        if decl.kind == DeclKind::State {
            newest.push((i, Value(i as u32)));
        }
    }
    let last = last_uses(module);
    for (at, node) in module.nodes.iter().enumerate() {
        let wrap = |fault| Error::Node { value: node.first, op: node.op.mnemonic(), fault };
        let results = dispatch::eval(&mut scope, node).map_err(wrap)?;
        for (v, data) in node.results().zip(results) {
            let shape = scope.shapes[v.index()].clone();
            debug_assert_eq!(data.len(), shape.iter().product::<usize>(), "{v} = {}", node.op.mnemonic());
            scope.values[v.index()] = Some(Arc::new(Tensor { shape, data }));
        }
        if node.op.effect() == Effect::State {
            let old = first_operand(node);
            newest.iter_mut().filter(|(_, v)| Some(*v) == old).for_each(|(_, v)| *v = node.first);
        }
        let mut drop_unused = |v: Value| {
            if last[v.index()] <= at {
                scope.values[v.index()] = None;
            }
        };
        node.op.for_each_operand(|_, operand| operand.values().into_iter().for_each(&mut drop_unused));
    }
    let mut outputs = BTreeMap::new();
    for output in &module.outputs {
        let tensor = scope.values[output.value.index()].as_deref();
        let tensor = tensor.ok_or_else(|| Error::ReplacedOutput { name: output.name.clone() })?;
        outputs.insert(output.name.clone(), tensor.clone());
    }
    for (decl, v) in newest {
        if let Some(tensor) = scope.values[v.index()].take() {
            state.tensors.insert(module.decls[decl].name.clone(), tensor);
        }
    }
    Ok(outputs)
}

/// Checks what the caller gives and puts it under the declared values.
fn open<'a>(
    module: &'a Module,
    bindings: &Bindings,
    inputs: &BTreeMap<String, Tensor>,
    weights: &dyn Weights,
    state: &State,
) -> Result<Scope<'a>, Error> {
    let types = module.types();
    let shapes: Result<Vec<Vec<usize>>, Error> =
        types.iter().enumerate().map(|(i, ty)| eval_shape(Value(i as u32), ty, bindings)).collect();
    let shapes = shapes?;
    let declared = |name: &str| module.decl(name).is_some_and(|(_, d)| d.kind == DeclKind::Input);
    if let Some(name) = inputs.keys().find(|name| !declared(name)) {
        return Err(Error::UnknownInput { name: name.clone() });
    }
    let mut values = vec![None; types.len()];
    for (i, decl) in module.decls.iter().enumerate() {
        let missing = |kind| Error::Missing { kind, name: decl.name.clone() };
        let tensor = match decl.kind {
            DeclKind::Input => inputs.get(&decl.name).cloned().map(Arc::new).ok_or(missing("input"))?,
            DeclKind::Weight => weights.weight(decl)?,
            DeclKind::State => state.tensors.get(&decl.name).cloned().ok_or(missing("state"))?,
        };
        tensor.check(decl, &shapes[i])?;
        values[i] = Some(tensor);
    }
    Ok(Scope { types, shapes, values })
}

/// Last node that reads each value; states, outputs and results that nothing reads are kept.
fn last_uses(module: &Module) -> Vec<usize> {
    let mut last = vec![usize::MAX; module.value_count()];
    for (at, node) in module.nodes.iter().enumerate() {
        node.op
            .for_each_operand(|_, operand| operand.values().into_iter().for_each(|v| last[v.index()] = at));
    }
    let mut keep = |v: Value| last[v.index()] = usize::MAX;
    module.outputs.iter().for_each(|o| keep(o.value));
    for (i, decl) in module.decls.iter().enumerate() {
        if decl.kind == DeclKind::State {
            keep(Value(i as u32));
        }
    }
    let stores = module.nodes.iter().filter(|n| n.op.effect() == Effect::State);
    stores.for_each(|n| keep(n.first));
    last
}

/// The first operand of a node.
fn first_operand(node: &Node) -> Option<Value> {
    let mut first = None;
    node.op.for_each_operand(|_, operand| first = first.or(operand.values().first().copied()));
    first
}
