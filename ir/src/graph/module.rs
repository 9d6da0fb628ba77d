//! A graph module: declarations, nodes in order, outputs; values are numbered in that order.

use super::ops::{Effect, Op};
use crate::types::TensorType;
use std::collections::BTreeMap;
use std::fmt;

/// An SSA value: declarations first, then node results, numbered in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub u32);

impl Value {
    /// The value's number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// Where a declared value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeclKind {
    /// Given anew for each step.
    Input,
    /// Constant for the life of the model.
    Weight,
    /// Kept from step to step.
    State,
}

/// A value that exists before the first node.
#[derive(Clone, Debug, PartialEq)]
pub struct Decl {
    /// Input, weight or state.
    pub kind: DeclKind,
    /// Unique name. A weight's name is its checkpoint name; `*` in it stands for the index of the first
    /// dimension (experts).
    pub name: String,
    /// Type of the value.
    pub ty: TensorType,
}

/// An op with its results, which are the values `first .. first + types.len()`.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// First result.
    pub first: Value,
    /// Types of the results.
    pub types: Vec<TensorType>,
}

impl Node {
    /// Result `i`.
    pub fn result(&self, i: usize) -> Value {
        Value(self.first.0.saturating_add(i as u32))
    }
    /// All results.
    pub fn results(&self) -> impl Iterator<Item = Value> + use<> {
        (self.first.0..self.first.0.saturating_add(self.types.len() as u32)).map(Value)
    }
}

/// A named value that leaves the module. The newest version of every state leaves it implicitly.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Unique name.
    pub name: String,
    /// The value.
    pub value: Value,
}

/// A graph module.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Module {
    /// Name after `@` in the text form.
    pub name: String,
    /// Declared values, numbered from 0.
    pub decls: Vec<Decl>,
    /// Nodes in execution order.
    pub nodes: Vec<Node>,
    /// Named results.
    pub outputs: Vec<Output>,
}

impl Module {
    /// Number of values.
    pub fn value_count(&self) -> usize {
        self.decls.len() + self.nodes.iter().map(|n| n.types.len()).sum::<usize>()
    }
    /// Types of all values, by value number.
    pub fn types(&self) -> Vec<&TensorType> {
        self.decls.iter().map(|d| &d.ty).chain(self.nodes.iter().flat_map(|n| &n.types)).collect()
    }
    /// For each version of a state, the declaration of which it is one.
    pub fn states(&self) -> BTreeMap<Value, Value> {
        let declared = self.decls.iter().enumerate().filter(|(_, d)| d.kind == DeclKind::State);
        let mut states: BTreeMap<Value, Value> =
            declared.map(|(i, _)| (Value(i as u32), Value(i as u32))).collect();
        for node in self.nodes.iter().filter(|n| n.op.effect() == Effect::State) {
            let replaced = node.op.operands().first().and_then(|v| states.get(v)).copied();
            states.extend(replaced.map(|root| (node.first, root)));
        }
        states
    }
    /// The declaration called `name`.
    pub fn decl(&self, name: &str) -> Option<(Value, &Decl)> {
        self.decls.iter().enumerate().find(|(_, d)| d.name == name).map(|(i, d)| (Value(i as u32), d))
    }
}

/// Builds a module in order. Declarations may be added between nodes; [`Builder::finish`] renumbers.
#[derive(Debug, Default)]
pub struct Builder {
    name: String,
    items: Vec<Item>,
    types: Vec<TensorType>,
    outputs: Vec<Output>,
}

#[derive(Debug)]
enum Item {
    Decl(Decl),
    Node(Node),
}

impl Builder {
    /// An empty module called `name`.
    pub fn new(name: &str) -> Self {
        Builder { name: name.to_owned(), ..Self::default() }
    }
    /// Declares a value.
    pub fn declare(&mut self, kind: DeclKind, name: impl Into<String>, ty: TensorType) -> Value {
        let v = Value(self.types.len() as u32);
        self.types.push(ty.clone());
        self.items.push(Item::Decl(Decl { kind, name: name.into(), ty }));
        v
    }
    /// Adds a node; its results have the given types.
    pub fn push(&mut self, op: Op, types: Vec<TensorType>) -> Vec<Value> {
        let first = Value(self.types.len() as u32);
        self.types.extend(types.iter().cloned());
        let node = Node { op, first, types };
        let results = node.results().collect();
        self.items.push(Item::Node(node));
        results
    }
    /// Types of all values so far, by the numbers they have while the module is built.
    pub fn types(&self) -> &[TensorType] {
        &self.types
    }
    /// Type of a value.
    pub fn ty(&self, v: Value) -> &TensorType {
        &self.types[v.index()]
    }
    /// Names `value` as a result.
    pub fn output(&mut self, name: impl Into<String>, value: Value) {
        self.outputs.push(Output { name: name.into(), value });
    }
    /// The module, declarations first, values renumbered to the canonical order.
    pub fn finish(self) -> Module {
        let mut map = vec![Value(0); self.types.len()];
        let (mut next_decl, mut at) = (0u32, 0u32);
        let decls = self.items.iter().filter(|i| matches!(i, Item::Decl(_))).count() as u32;
        let mut next_node = decls;
        for item in &self.items {
            let (n, next) = match item {
                Item::Decl(_) => (1, &mut next_decl),
                Item::Node(n) => (n.types.len() as u32, &mut next_node),
            };
            for _ in 0..n {
                map[at as usize] = Value(*next);
                *next += 1;
                at += 1;
            }
        }
        let mut module = Module { name: self.name, ..Module::default() };
        let mut first = decls;
        for item in self.items {
            match item {
                Item::Decl(d) => module.decls.push(d),
                Item::Node(mut n) => {
                    n.op.map_operands(|v| map[v.index()]);
                    n.first = Value(first);
                    first += n.types.len() as u32;
                    module.nodes.push(n);
                }
            }
        }
        module.outputs =
            self.outputs.into_iter().map(|o| Output { value: map[o.value.index()], ..o }).collect();
        module
    }
}
