//! The sizes of an operator, by name.

use std::fmt;
use tessera_ir::graph::{Module, Op, Value};
use tessera_ir::{Dim, TensorType};

/// Sizes of an operator that its code depends on, by name, in one order. Sizes that a step decides are symbols and not here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape(Vec<(&'static str, usize)>);

/// Every name, with what it counts.
const NAMES: &[(&str, &str)] = &[
    ("n", "columns of a product's result"),
    ("k", "terms of a product"),
    ("groups", "groups of a product"),
    ("e", "experts"),
    ("h", "heads"),
    ("d", "elements of a row, of a head where there are heads"),
    ("streams", "residual streams"),
    ("top", "entries or experts that are chosen"),
];

impl Shape {
    /// Every name of a size.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// The value of a size.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.0.iter().copied()
    }

    /// The shape of what a fragment computes.
    pub fn of(fragment: &Module) -> Shape {
        let types = fragment.types();
        let ty = |v: &Value| types.get(v.index()).copied();
        let mut found = Shape::default();
        for node in &fragment.nodes {
            let op = &node.op;
            if let Op::Linear { weight, groups, .. } = op {
                found.dims(ty(weight), &["n", "k"]);
                found.set("groups", (*groups > 1).then_some(*groups));
            }
            if let Op::MoeLinear { weight, experts, .. } = op {
                found.dims(ty(weight), &["e", "n", "k"]);
                found.set("top", ty(experts).and_then(|t| t.shape.get(1)?.fixed()));
            }
            if let Op::MoeGroup { experts, count } = op {
                found.set("e", Some(*count));
                found.set("top", ty(experts).and_then(|t| t.shape.get(1)?.fixed()));
            }
            if let Op::Router { logits, k, .. } = op {
                found.set("e", ty(logits).and_then(|t| t.shape.get(1)?.fixed()));
                found.set("top", Some(*k));
            }
            if let Op::HcMix { x, .. } = op {
                found.dims(ty(x), &["", "streams", "d"]);
            }
            if let Op::Attention { q, selected, .. } = op {
                found.dims(ty(q), &["", "h", "d"]);
                found.set("top", selected.as_ref().and_then(ty).and_then(|t| t.shape.get(1)?.fixed()));
            }
            if let Op::BlockAttention { q, .. } = op {
                found.dims(ty(q), &["", "h", "d"]);
            }
            if let Op::IndexScores { q, .. } = op {
                found.dims(ty(q), &["", "h", "d"]);
            }
            if let Op::TopK { k, .. } = op {
                found.set("top", Some(*k));
            }
        }
        if found.0.is_empty() {
            let first = fragment.outputs.first().and_then(|output| ty(&output.value));
            found.set("d", first.and_then(|t| t.shape.last()?.fixed()));
        }
        found.0.sort_by_key(|(name, _)| NAMES.iter().position(|(known, _)| known == name));
        found
    }

    /// Sets sizes from the dimensions of a tensor; an empty name skips one.
    fn dims(&mut self, ty: Option<&TensorType>, names: &[&'static str]) {
        let dims = ty.into_iter().flat_map(|ty| &ty.shape);
        for (name, dim) in names.iter().zip(dims).filter(|(name, _)| !name.is_empty()) {
            self.set(name, Dim::fixed(dim));
        }
    }

    /// The first value of a name stays.
    fn set(&mut self, name: &'static str, value: Option<usize>) {
        if let Some(value) = value.filter(|_| self.get(name).is_none()) {
            self.0.push((name, value));
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&sizes.join(","))
    }
}
