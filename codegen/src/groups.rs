//! Groups of nodes that will become one kernel each: what fusion passes merge.

use std::collections::BTreeMap;
use tessera_ir::graph::{DeclKind, Effect, Module, Op, Value};
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
    /// For each value the declaration of the state it is a version of.
    state_of: Vec<Option<usize>>,
}

impl<'m> Groups<'m> {
    /// One group per node, families by op.
    pub fn new(module: &'m Verified<Module>) -> Self {
        let count = module.value_count();
        let mut defined_by = vec![None; count];
        let mut state_of = vec![None; count];
        for (i, d) in module.decls.iter().enumerate() {
            if d.kind == DeclKind::State {
                state_of[i] = Some(i);
            }
        }
        for (n, node) in module.nodes.iter().enumerate() {
            for v in node.results() {
                defined_by[v.index()] = Some(n);
            }
            if node.op.effect() == Effect::State {
                state_of[node.first.index()] = operands(&node.op).first().and_then(|v| state_of[v.index()]);
            }
        }
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut before = vec![Vec::new(); module.nodes.len()];
        for (n, node) in module.nodes.iter().enumerate() {
            for v in operands(&node.op) {
                before[n].extend(defined_by[v.index()]);
                readers[v.index()].push(n);
            }
        }
        for (n, node) in module.nodes.iter().enumerate() {
            if node.op.effect() == Effect::State
                && let Some(v) = operands(&node.op).first()
            {
                before[n].extend(readers[v.index()].iter().filter(|r| **r != n));
            }
        }
        let family = module.nodes.iter().map(|n| seed_family(&n.op)).collect();
        Groups { module, of: (0..module.nodes.len()).collect(), family, before, defined_by, state_of }
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
    pub fn nodes(&self, g: usize) -> Vec<usize> {
        (0..self.of.len()).filter(|n| self.of[*n] == g).collect()
    }
    /// The node that defines `v`.
    pub fn producer(&self, v: Value) -> Option<usize> {
        self.defined_by[v.index()]
    }
    /// The state declaration that `v` is a version of.
    pub fn state(&self, v: Value) -> Option<usize> {
        self.state_of[v.index()]
    }
    /// Nodes that read `v`.
    pub fn readers(&self, v: Value) -> Vec<usize> {
        (0..self.module.nodes.len()).filter(|n| operands(&self.module.nodes[*n].op).contains(&v)).collect()
    }
    /// True if `v` leaves the module under a name.
    pub fn is_output(&self, v: Value) -> bool {
        self.module.outputs.iter().any(|o| o.value == v)
    }
    /// First dimension of a node's first result: the rows it runs over. State ops run over the rows they store.
    pub fn row_dim(&self, n: usize) -> Option<&'m Dim> {
        let module: &'m Module = self.module;
        let node = &module.nodes[n];
        match node.op.effect() {
            Effect::Pure => node.types.first()?.shape.first(),
            Effect::State => {
                let types = module.types();
                let rows = operands(&node.op).get(1).copied()?;
                types.get(rows.index()).copied()?.shape.first()
            }
        }
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
        for n in (0..self.of.len()).filter(|n| inside(*n)) {
            let stores = self.module.nodes[n].op.effect() == Effect::State;
            for v in operands(&self.module.nodes[n].op) {
                let written_here =
                    self.state_of[v.index()].is_some() && self.defined_by[v.index()].is_some_and(inside);
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
        self.of.iter_mut().filter(|g| **g == gone).for_each(|g| *g = keep);
        self.family[keep] = family;
        true
    }

    fn reads_replaced(&self, reader: usize, store: usize) -> bool {
        let replaced = operands(&self.module.nodes[store].op).first().copied();
        replaced.is_some_and(|v| operands(&self.module.nodes[reader].op).contains(&v))
    }

    /// True if a dependency path leaves `ga ∪ gb`, and comes back.
    fn path_outside(&self, ga: usize, gb: usize) -> bool {
        let inside = |g: usize| g == ga || g == gb;
        let mut seen = vec![false; self.of.len()];
        let mut work: Vec<usize> = Vec::new();
        for n in (0..self.of.len()).filter(|n| inside(self.of[*n])) {
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
            for m in self.nodes(g) {
                work.extend(self.before[m].iter().copied().filter(|p| self.of[*p] != g));
            }
        }
        false
    }

    /// Groups in an order that respects every dependency, ties by lowest node.
    pub fn in_order(&self) -> Vec<usize> {
        let mut waits: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (n, g) in self.of.iter().enumerate() {
            let e = waits.entry(*g).or_default();
            e.extend(self.before[n].iter().map(|p| self.of[*p]).filter(|p| p != g));
        }
        let mut order = Vec::with_capacity(waits.len());
        let mut done = vec![false; self.of.len()];
        while !waits.is_empty() {
            let ready = waits.iter().find(|(_, w)| w.iter().all(|p| done[*p])).map(|(g, _)| *g);
            // Merges keep the group graph free of cycles, so some group is always ready.
            let Some(g) = ready else { break };
            waits.remove(&g);
            done[g] = true;
            order.push(g);
        }
        order
    }
}

/// All operand values of an op, in table order.
pub fn operands(op: &Op) -> Vec<Value> {
    let mut all = Vec::new();
    op.for_each_operand(|_, o| all.extend(o.values()));
    all
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
