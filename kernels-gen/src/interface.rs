//! A fragment's values as kernel parameters: declarations in order, then outputs that are not newer versions of a state.

use crate::error::Error;
use crate::family::Family;
use std::collections::BTreeMap;
use tessera_ir::graph::{Effect, Module, Node, Op, Value};
use tessera_ir::tile::{self, Access, KernelBuilder};
use tessera_ir::{Dim, TensorType};

/// What every schedule knows about its fragment.
pub(crate) struct Fragment<'f> {
    pub(crate) family: Family,
    pub(crate) module: &'f Module,
    types: Vec<&'f TensorType>,
    state: BTreeMap<Value, Value>,
}

impl<'f> Fragment<'f> {
    pub(crate) fn new(family: Family, module: &'f Module) -> Self {
        Fragment { family, module, types: module.types(), state: module.states() }
    }
    /// Type of a value.
    pub(crate) fn ty(&self, v: Value) -> &'f TensorType {
        self.types[v.index()]
    }
    /// Dimension `i` of a value as a number.
    pub(crate) fn fixed(&self, v: Value, i: usize) -> Result<usize, Error> {
        let dim = self.ty(v).shape.get(i).and_then(Dim::fixed);
        dim.ok_or_else(|| self.fault(format!("dimension {i} of {} is not a number", self.ty(v))))
    }
    /// The declaration that a state value is a version of.
    pub(crate) fn state(&self, v: Value) -> Option<Value> {
        self.state.get(&v).copied()
    }
    /// True if a node of the fragment reads `v`.
    pub(crate) fn is_read(&self, v: Value) -> bool {
        self.module.nodes.iter().any(|n| n.op.operands().contains(&v))
    }
    /// The node for which `pick` gives something, if there is exactly one.
    pub(crate) fn only<T>(&self, what: &str, pick: impl Fn(&'f Node) -> Option<T>) -> Result<T, Error> {
        let mut found: Vec<T> = self.module.nodes.iter().filter_map(pick).collect();
        match (found.len(), found.pop()) {
            (1, Some(t)) => Ok(t),
            (n, _) => Err(self.fault(format!("it has {n} nodes `{what}`, one is wanted"))),
        }
    }
    pub(crate) fn fault(&self, reason: String) -> Error {
        Error::Fragment { family: self.family.name(), fragment: self.module.name.clone(), reason }
    }
    /// A node of an op that this family does not compute.
    pub(crate) fn foreign(&self, op: &Op) -> Error {
        self.fault(format!("`{}` is not an op of this family", op.mnemonic()))
    }
}

/// Kernel parameters of a fragment's values.
pub(crate) struct Views(BTreeMap<Value, tile::Value>);

impl Views {
    /// Declares the parameters; `shape` may give a value another type over the same memory.
    pub(crate) fn declare(
        kb: &mut KernelBuilder,
        f: &Fragment<'_>,
        shape: impl Fn(Value, &TensorType) -> TensorType,
    ) -> Self {
        let mut views = BTreeMap::new();
        for (i, d) in f.module.decls.iter().enumerate() {
            let v = Value(i as u32);
            let stored =
                f.module.nodes.iter().any(|n| n.op.effect() == Effect::State && f.state(n.first) == Some(v));
            let access = if stored { Access::Update } else { Access::Read };
            views.insert(v, kb.param(d.name.clone(), shape(v, &d.ty), access));
        }
        for o in &f.module.outputs {
            if f.state(o.value).is_none() {
                views.insert(o.value, kb.param(o.name.clone(), shape(o.value, f.ty(o.value)), Access::Write));
            }
        }
        for (version, root) in &f.state {
            if let Some(view) = views.get(root).copied() {
                views.insert(*version, view);
            }
        }
        Views(views)
    }
    /// The parameter of a value, if it has one.
    pub(crate) fn get(&self, v: Value) -> Option<tile::Value> {
        self.0.get(&v).copied()
    }
    /// The parameter of a value that must be in memory.
    pub(crate) fn of(&self, f: &Fragment<'_>, v: Value) -> Result<tile::Value, Error> {
        self.get(v).ok_or_else(|| f.fault(format!("{v} is computed in the kernel but must be in memory")))
    }
}

/// `ty` as a matrix: first dimension, then all others as one.
pub(crate) fn as_matrix(ty: &TensorType) -> TensorType {
    match (ty.shape.first(), ty.fixed_tail(1)) {
        (Some(rows), Some(cols)) => {
            TensorType { shape: vec![rows.clone(), Dim::Fixed(cols)], format: ty.format, layout: ty.layout }
        }
        _ => ty.clone(),
    }
}
