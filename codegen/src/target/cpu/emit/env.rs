//! What the values of the kernel are while code is emitted, and when tiles that wait to be evaluated must be.
//!
//! A tile with one use waits until that use, so that chains of elementwise ops become one loop. It is evaluated earlier
//! if the memory it reads is about to change, or if its use lies in a loop.

use super::ix::Ix;
use super::tile::{Mem, Node, Place, Tile};
use super::{Emitter, Result, unsupported};
use std::rc::Rc;
use tessera_ir::Dim;
use tessera_ir::tile::{Op, Stmt, Value};

/// What a value is.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// An index.
    Index(Ix),
    /// A tile.
    Tile(Tile),
    /// The result of an op that could not be emitted.
    Nothing,
}

/// A value in scope.
#[derive(Debug)]
pub(super) struct Entry {
    bound: Bound,
    /// Nesting depth of the block that defines it.
    depth: usize,
    /// Uses not emitted yet.
    left: usize,
}

/// Counts the uses of every value in a block and the blocks inside it.
pub(super) fn count_uses(body: &[Stmt], uses: &mut Vec<usize>) {
    each_use(body, &mut |v| {
        if uses.len() <= v.index() {
            uses.resize(v.index() + 1, 0);
        }
        uses[v.index()] += 1;
    });
}

/// Calls `f` for every use of a value in a block and the blocks inside it.
fn each_use(body: &[Stmt], f: &mut dyn FnMut(Value)) {
    for s in body {
        match s {
            Stmt::Op(node) => operands(&node.op, f),
            Stmt::For { var: _, lo, hi, step: _, body } => {
                f(*lo);
                f(*hi);
                each_use(body, f);
            }
            Stmt::If { cond, body } => {
                f(*cond);
                each_use(body, f);
            }
        }
    }
}

/// Calls `f` for every operand of an op.
pub(super) fn operands(op: &Op, f: &mut dyn FnMut(Value)) {
    op.for_each_operand(|_, operand| operand.values().into_iter().for_each(&mut *f));
}

/// Calls `f` for every op in a block and the blocks inside it.
pub(super) fn each_op<'k>(body: &'k [Stmt], f: &mut dyn FnMut(&'k tessera_ir::tile::Node)) {
    for s in body {
        match s {
            Stmt::Op(node) => f(node),
            Stmt::For { body, .. } | Stmt::If { body, .. } => each_op(body, f),
        }
    }
}

impl Emitter<'_> {
    /// Binds an index.
    pub(super) fn bind_index(&mut self, v: Value, x: Ix) {
        self.bind(v, Bound::Index(x));
    }

    /// Binds the result of an op that could not be emitted.
    pub(super) fn bind_nothing(&mut self, v: Value) {
        self.bind(v, Bound::Nothing);
    }

    fn bind(&mut self, v: Value, bound: Bound) {
        let left = self.uses.get(v.index()).copied().unwrap_or(0);
        if left == 0 {
            return;
        }
        if self.values.len() <= v.index() {
            self.values.resize_with(v.index() + 1, || None);
        }
        self.values[v.index()] = Some(Entry { bound, depth: self.depth, left });
    }

    /// Binds a tile: in registers if small, waiting if it has one use, else in memory.
    pub(super) fn bind_tile(&mut self, v: Value, t: Tile) -> Result<()> {
        let uses = self.uses.get(v.index()).copied().unwrap_or(0);
        if uses == 0 {
            return Ok(());
        }
        let t = if t.small().is_some() && !matches!(t.node, Node::Const(_) | Node::Quantised(_)) {
            let regs = self.regs(&t)?;
            Tile { node: Node::Regs(regs), ..t }
        } else if t.is_leaf() || uses == 1 {
            t
        } else {
            self.settled(&t)?
        };
        self.bind(v, Bound::Tile(t));
        Ok(())
    }

    /// `t` evaluated into memory that nothing else writes.
    fn settled(&mut self, t: &Tile) -> Result<Tile> {
        let node = match &t.node {
            Node::Quantised(m) => {
                let mem = self.snapshot(t, m)?;
                Node::Quantised(mem)
            }
            Node::Const(_)
            | Node::Regs(_)
            | Node::Mem(_)
            | Node::Map(..)
            | Node::Zip(..)
            | Node::Round(_)
            | Node::Part(..)
            | Node::Fold(..) => Node::Mem(self.materialise(t)?),
        };
        Ok(Tile { node, ..t.clone() })
    }

    fn snapshot(&mut self, t: &Tile, m: &Mem) -> Result<Mem> {
        let plain = Tile { format: tessera_ir::Format::F32, node: Node::Mem(m.clone()), ..t.clone() };
        self.materialise(&plain)
    }

    fn bound(&self, v: Value) -> Option<&Bound> {
        self.values.get(v.index())?.as_ref().map(|e| &e.bound)
    }

    /// True if an operand of `op` could not be emitted.
    pub(super) fn has_nothing(&self, op: &Op) -> bool {
        let mut any = false;
        operands(op, &mut |v| any |= matches!(self.bound(v), Some(Bound::Nothing)));
        any
    }

    /// True if `v` could not be emitted.
    pub(super) fn is_nothing(&self, v: Value) -> bool {
        matches!(self.bound(v), Some(Bound::Nothing))
    }

    /// The index `v`.
    pub(super) fn index(&self, v: Value) -> Result<Ix> {
        match self.bound(v) {
            Some(Bound::Index(x)) => Ok(*x),
            Some(Bound::Tile(_) | Bound::Nothing) | None => Err(unsupported("a value that is no index here")),
        }
    }

    /// The indices `vs`.
    pub(super) fn indices(&self, vs: &[Value]) -> Result<Vec<Ix>> {
        vs.iter().map(|v| self.index(*v)).collect()
    }

    /// The tile `v`.
    pub(super) fn tile(&self, v: Value) -> Result<Tile> {
        match self.bound(v) {
            Some(Bound::Tile(t)) => Ok(t.clone()),
            Some(Bound::Index(_) | Bound::Nothing) | None => Err(unsupported("a value that is no tile here")),
        }
    }

    /// The tile `v` in memory as f32 (or i32); later uses find it there.
    pub(super) fn tile_in_memory(&mut self, v: Value, gapless: bool) -> Result<(Tile, Mem)> {
        let t = self.tile(v)?;
        let mem = if gapless { self.contiguous(&t)? } else { self.in_memory(&t)? };
        let settled = Tile { node: Node::Mem(mem.clone()), ..t.clone() };
        let depth = self.depth;
        if t.small().is_none()
            && let Some(Some(e)) = self.values.get_mut(v.index())
            && e.depth == depth
        {
            e.bound = Bound::Tile(settled.clone());
        }
        Ok((settled, mem))
    }

    /// Counts the operands of an emitted statement as used, and lets go of values without uses left.
    pub(super) fn used(&mut self, v: Value) {
        let depth = self.depth;
        if let Some(slot) = self.values.get_mut(v.index())
            && let Some(e) = slot
        {
            e.left = e.left.saturating_sub(1);
            // A value from outside a loop is needed in the next round.
            if e.left == 0 && e.depth == depth {
                *slot = None;
            }
        }
    }

    /// Evaluates what must be before a block inside the current one is entered.
    pub(super) fn enter(&mut self, body: &[Stmt]) -> Result<()> {
        let mut inside = Vec::new();
        count_uses(body, &mut inside);
        let written = self.written(body);
        for i in 0..self.values.len() {
            let Some(Entry { bound: Bound::Tile(t), left, .. }) = &self.values[i] else { continue };
            let used_inside = inside.get(i).copied().unwrap_or(0) > 0;
            let changes = *left > 0 && written.iter().any(|p| t.reads(*p));
            if changes || (used_inside && !t.is_leaf()) {
                let t = t.clone();
                self.settle(i, &t)?;
            }
        }
        self.depth += 1;
        Ok(())
    }

    /// Leaves a block: its values go, and those that were only used in it.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
        for slot in &mut self.values {
            if slot.as_ref().is_some_and(|e| e.depth > self.depth || (e.left == 0 && e.depth == self.depth)) {
                *slot = None;
            }
        }
    }

    fn settle(&mut self, i: usize, t: &Tile) -> Result<()> {
        let settled = self.settled(t)?;
        if let Some(e) = &mut self.values[i] {
            e.bound = Bound::Tile(settled);
        }
        Ok(())
    }

    /// Evaluates the waiting tiles that read `place`, which is about to be written; `x` (the tile that is
    /// written, if any) is dealt with by the caller.
    pub(super) fn before_write(&mut self, place: Place, x: Option<Value>) -> Result<()> {
        for i in 0..self.values.len() {
            let Some(Entry { bound: Bound::Tile(t), left, .. }) = &self.values[i] else { continue };
            let last = x.is_some_and(|x| x.index() == i && *left == 1);
            if *left > 0 && !last && t.reads(place) {
                let t = t.clone();
                self.settle(i, &t)?;
            }
        }
        Ok(())
    }

    /// `t` in a form that may be written to `block` while it is evaluated.
    pub(super) fn safe_to_write(&mut self, t: Tile, block: &Mem) -> Result<Tile> {
        let at = block.at.as_deref().unwrap_or(&[]);
        if t.in_place(block.place, at) { Ok(t) } else { self.settled(&t) }
    }

    /// A tile, ready to be repeated over more rows: evaluated once if that costs anything.
    pub(super) fn cheap(&mut self, t: Tile, rows: usize) -> Result<Rc<Tile>> {
        let repeated = t.rows == 1 && rows > 1 && t.cols != Dim::Fixed(1);
        Ok(Rc::new(if repeated && !t.is_leaf() { self.settled(&t)? } else { t }))
    }
}
