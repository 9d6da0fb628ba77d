//! Groups of nodes that will become one kernel each: what fusion passes merge.

use std::collections::{BTreeMap, BTreeSet};
use tessera_ir::graph::{Effect, Module, Node, Op, Value};
use tessera_ir::{Dim, Verified};
use tessera_kernels::Family;

/// A partition of a module's nodes into kernels. Passes merge groups; a merge that would make a cycle, or let a
/// kernel read a state it writes, is refused.
#[derive(Clone, Debug)]
pub struct Groups<'m> {
    module: &'m Verified<Module>,
    /// Group of each node.
    of: Vec<usize>,
    /// Family of each group (stale for groups that were merged away).
    family: Vec<Family>,
    /// Nodes that must run before each node: producers of its operands, and readers of a state version it replaces.
    before: Vec<Vec<usize>>,
    /// Node that defines each value, if a node does.
    defined_by: Vec<Option<usize>>,
    /// The declaration of which each state value is a version.
    states: BTreeMap<Value, Value>,
    /// Nodes that read each value, ascending.
    readers: Vec<Vec<usize>>,
    /// Nodes of each group, ascending; empty for groups that were merged away.
    members: Vec<Vec<usize>>,
    /// Dimension that counts the rows of each node.
    row_dims: Vec<Option<&'m Dim>>,
}

impl<'m> Groups<'m> {
    /// One group per node, families by op.
    pub fn new(module: &'m Verified<Module>) -> Self {
        let count = module.value_count();
        let mut defined_by = vec![None; count];
        for (n, node) in module.nodes.iter().enumerate() {
            for v in node.results() {
                defined_by[v.index()] = Some(n);
            }
        }
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut before = vec![Vec::new(); module.nodes.len()];
        for (n, node) in module.nodes.iter().enumerate() {
            for v in node.op.operands() {
                before[n].extend(defined_by[v.index()]);
                if readers[v.index()].last() != Some(&n) {
                    readers[v.index()].push(n);
                }
            }
        }
        for (n, node) in module.nodes.iter().enumerate() {
            if node.op.effect() == Effect::State
                && let Some(v) = node.op.operands().first()
            {
                before[n].extend(readers[v.index()].iter().filter(|r| **r != n));
            }
        }
        let module_ref: &'m Module = module;
        let types = module_ref.types();
        let row_dim = |node: &'m Node| match node.op.effect() {
            Effect::Pure => node.types.first()?.shape.first(),
            Effect::State => types.get(node.op.operands().get(1)?.index())?.shape.first(),
        };
        let nodes = module.nodes.len();
        Groups {
            module,
            of: (0..nodes).collect(),
            family: module.nodes.iter().map(|n| seed_family(&n.op)).collect(),
            before,
            defined_by,
            states: module.states(),
            readers,
            members: (0..nodes).map(|n| vec![n]).collect(),
            row_dims: module_ref.nodes.iter().map(row_dim).collect(),
        }
    }

    /// The module.
    pub fn module(&self) -> &'m Verified<Module> {
        self.module
    }
    /// Group of node `n`.
    pub fn group(&self, n: usize) -> usize {
        self.of[n]
    }
    /// Family of the group of node `n`.
    pub fn family(&self, n: usize) -> Family {
        self.family[self.of[n]]
    }
    /// Nodes of group `g`, ascending.
    pub fn nodes(&self, g: usize) -> &[usize] {
        &self.members[g]
    }
    /// The node that defines `v`.
    pub fn producer(&self, v: Value) -> Option<usize> {
        self.defined_by[v.index()]
    }
    /// The state declaration that `v` is a version of.
    pub fn state(&self, v: Value) -> Option<Value> {
        self.states.get(&v).copied()
    }
    /// Nodes that read `v`.
    pub fn readers(&self, v: Value) -> &[usize] {
        &self.readers[v.index()]
    }
    /// True if `v` leaves the module under a name.
    pub fn is_output(&self, v: Value) -> bool {
        self.module.outputs.iter().any(|o| o.value == v)
    }
    /// First dimension of a node's first result: the rows it runs over. State ops run over the rows they store.
    pub fn row_dim(&self, n: usize) -> Option<&'m Dim> {
        self.row_dims[n]
    }

    /// Merges the groups of `a` and `b` into one of family `family`. False, and nothing changes, if a path between them
    /// runs through a third group, or if the merged kernel would read a state version that it writes.
    pub fn merge(&mut self, a: usize, b: usize, family: Family) -> bool {
        let (ga, gb) = (self.of[a], self.of[b]);
        if ga == gb {
            self.family[ga] = family;
            return true;
        }
        let inside = |n: usize| self.of[n] == ga || self.of[n] == gb;
        for &n in self.members[ga].iter().chain(&self.members[gb]) {
            let stores = self.module.nodes[n].op.effect() == Effect::State;
            for v in self.module.nodes[n].op.operands() {
                let written_here =
                    self.states.contains_key(&v) && self.defined_by[v.index()].is_some_and(inside);
                if written_here {
                    return false;
                }
            }
            // A reader of the version that a store of the same kernel replaces would race with it.
            if stores && self.before[n].iter().any(|r| inside(*r) && self.reads_replaced(*r, n)) {
                return false;
            }
        }
        if self.path_outside(ga, gb) {
            return false;
        }
        let (keep, gone) = (ga.min(gb), ga.max(gb));
        let moved = std::mem::take(&mut self.members[gone]);
        moved.iter().for_each(|n| self.of[*n] = keep);
        self.members[keep].extend(moved);
        self.members[keep].sort_unstable();
        self.family[keep] = family;
        true
    }

    fn reads_replaced(&self, reader: usize, store: usize) -> bool {
        let replaced = self.module.nodes[store].op.operands().first().copied();
        replaced.is_some_and(|v| self.module.nodes[reader].op.operands().contains(&v))
    }

    /// True if a dependency path leaves `ga ∪ gb`, and comes back.
    fn path_outside(&self, ga: usize, gb: usize) -> bool {
        let inside = |g: usize| g == ga || g == gb;
        let mut seen = vec![false; self.of.len()];
        let mut work: Vec<usize> = Vec::new();
        for &n in self.members[ga].iter().chain(&self.members[gb]) {
            work.extend(self.before[n].iter().copied().filter(|p| !inside(self.of[*p])));
        }
        while let Some(n) = work.pop() {
            let g = self.of[n];
            if inside(g) {
                return true;
            }
            if std::mem::replace(&mut seen[g], true) {
                continue;
            }
            for &m in self.nodes(g) {
                work.extend(self.before[m].iter().copied().filter(|p| self.of[*p] != g));
            }
        }
        false
    }

    /// Groups in an order that respects every dependency, ties by lowest node.
    pub fn in_order(&self) -> Vec<usize> {
        let mut waits: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        let mut after: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (n, g) in self.of.iter().enumerate() {
            let waits = waits.entry(*g).or_default();
            for p in self.before[n].iter().map(|p| self.of[*p]).filter(|p| p != g) {
                if waits.insert(p) {
                    after.entry(p).or_default().push(*g);
                }
            }
        }
        let mut ready: BTreeSet<usize> =
            waits.iter().filter(|(_, w)| w.is_empty()).map(|(g, _)| *g).collect();
        let mut order = Vec::with_capacity(waits.len());
        // Merges keep the group graph free of cycles, so every group becomes ready.
        while let Some(g) = ready.pop_first() {
            order.push(g);
            for next in after.get(&g).into_iter().flatten() {
                if let Some(w) = waits.get_mut(next) {
                    w.remove(&g);
                    if w.is_empty() {
                        ready.insert(*next);
                    }
                }
            }
        }
        order
    }
}

/// The family of a kernel made of this op alone.
fn seed_family(op: &Op) -> Family {
    match op {
        Op::Linear { .. } => Family::Linear,
        Op::MoeGroup { .. } => Family::MoeGroup,
        Op::MoeLinear { .. } => Family::MoeLinear,
        Op::HcMix { .. } => Family::HcMix,
        Op::IndexScores { .. } | Op::IndexBlocks { .. } | Op::IndexRestrict { .. } | Op::TopK { .. } => {
            Family::IndexSelect
        }
        Op::Attention { .. } => Family::Attention,
        Op::BlockAttention { .. } => Family::BlockAttention,
        Op::Embed { .. }
        | Op::Cast { .. }
        | Op::Quantize { .. }
        | Op::Scale { .. }
        | Op::Add { .. }
        | Op::Concat { .. }
        | Op::RmsNorm { .. }
        | Op::SelectRows { .. }
        | Op::EveryRow { .. }
        | Op::InterleaveRows { .. }
        | Op::Argmax { .. }
        | Op::RopeTable { .. }
        | Op::Rope { .. }
        | Op::HcOpen { .. }
        | Op::HcCollapse { .. }
        | Op::HcExpand { .. }
        | Op::HcMean { .. }
        | Op::RingStore { .. }
        | Op::EngramHash { .. }
        | Op::EngramLookup { .. }
        | Op::EngramGate { .. }
        | Op::CompressPool { .. }
        | Op::CacheAppend { .. }
        | Op::Router { .. }
        | Op::SwiGlu { .. }
        | Op::MoeCombine { .. } => Family::Rows,
    }
}
