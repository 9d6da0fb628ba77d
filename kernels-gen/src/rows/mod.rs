//! Family `rows`: any chain of row-local ops; one grid tile is one row, values inside the chain never leave the chip.

mod arith;
mod caches;
mod engram;
mod router;
mod streams;

pub(crate) use arith::gated;

use crate::error::Error;
use crate::interface::{Fragment, Views};
use std::collections::BTreeMap;
use tessera_ir::graph::{Effect, Op, Value};
use tessera_ir::tile::{
    self, Class, IndexOp, Kernel, KernelBuilder, RoleBuilder, RoleKind, SlotType, Target, Threads,
};
use tessera_ir::{Dim, Format, TensorType};

/// The machine that a chain is scheduled for.
pub(crate) struct Machine {
    /// Which one.
    pub(crate) target: Target,
    /// Threads that share a row.
    pub(crate) threads: Threads,
    /// How it wants a tensor to lie in memory.
    pub(crate) lies: fn(&TensorType) -> TensorType,
    /// Loops over the pieces of a row are written out, so that all loads are under way at once.
    pub(crate) unrolled: bool,
}

/// Schedules a chain of row-local ops for a processor's core.
pub(crate) fn schedule(f: &Fragment<'_>) -> Result<Kernel, Error> {
    let (target, threads) = (Target::Cpu, Threads::default());
    schedule_for(f, &Machine { target, threads, lies: TensorType::clone, unrolled: false })
}

/// Schedules a chain of row-local ops.
pub(crate) fn schedule_for(f: &Fragment<'_>, machine: &Machine) -> Result<Kernel, Error> {
    let mut kb = KernelBuilder::new(f.module.name.clone());
    kb.target(machine.target);
    let views = Views::declare(&mut kb, f, |_, ty| (machine.lies)(ty));
    let rows = row_dim(f).ok_or_else(|| f.fault("it has no rows".to_owned()))?;
    let axis = kb.axis("row", rows, 1);
    // Values that are put together piece by piece need a buffer; one role alone uses each of these rings.
    let mut rings = BTreeMap::new();
    for node in &f.module.nodes {
        for v in node.results().filter(|v| assembled(&node.op, f, *v)) {
            let (rows, cols) = extent(f, v)?;
            let slot = SlotType { rows, cols: Dim::Fixed(cols), format: Format::F32 };
            rings.insert(v, kb.ring(format!("v{}", v.0), Class::Vec, slot, 1, &[0]));
        }
    }
    kb.role_of(RoleKind::Vector, "rows", machine.threads, |r| {
        let row = r.index_tile(axis);
        let zero = r.index_const(0);
        let mut lower = Lower {
            f,
            views: &views,
            rings: &rings,
            r,
            row,
            zero,
            unrolled: machine.unrolled,
            tiles: BTreeMap::new(),
            held: Vec::new(),
        };
        for node in &f.module.nodes {
            lower.node(node)?;
        }
        for slot in std::mem::take(&mut lower.held) {
            lower.r.release(slot);
        }
        Ok::<(), Error>(())
    })?;
    Ok(kb.finish()?)
}

/// The dimension that counts the chain's rows.
fn row_dim(f: &Fragment<'_>) -> Option<Dim> {
    let node = f.module.nodes.first()?;
    let of = match node.op.effect() {
        Effect::Pure => node.first,
        Effect::State => node.op.operands().get(1).copied()?,
    };
    f.ty(of).shape.first().cloned()
}

/// True for results that are written piece by piece before they are read.
fn assembled(op: &Op, f: &Fragment<'_>, v: Value) -> bool {
    match op {
        Op::Concat { .. } | Op::EngramLookup { .. } | Op::CompressPool { .. } | Op::HcOpen { .. } => true,
        Op::InterleaveRows { .. } => f.ty(v).format.is_float(),
        // The streams are stored one by one; only a reader in the chain needs them together.
        Op::HcExpand { .. } => f.is_read(v),
        _ => false,
    }
}

/// Rows and columns of the tile that holds one row of a value: `[T, d]` is 1×d, `[T, a, b]` is a×b.
pub(crate) fn extent(f: &Fragment<'_>, v: Value) -> Result<(usize, usize), Error> {
    match f.ty(v).shape.len() {
        1 => Ok((1, 1)),
        2 => Ok((1, f.fixed(v, 1)?)),
        3 => Ok((f.fixed(v, 1)?, f.fixed(v, 2)?)),
        n => Err(f.fault(format!("a value of {n} dimensions has no row tile"))),
    }
}

/// Lowers the nodes of a chain for one row.
struct Lower<'f, 'r, 'k> {
    f: &'f Fragment<'f>,
    views: &'r Views,
    rings: &'r BTreeMap<Value, tile::Value>,
    r: &'r mut RoleBuilder<'k>,
    /// The row's number.
    row: tile::Value,
    zero: tile::Value,
    /// Loops over pieces of the row are written out.
    unrolled: bool,
    /// Tiles of values that were loaded or computed.
    tiles: BTreeMap<Value, tile::Value>,
    /// Slots to release at the end.
    held: Vec<tile::Value>,
}

impl Lower<'_, '_, '_> {
    fn node(&mut self, node: &tessera_ir::graph::Node) -> Result<(), Error> {
        let out = node.first;
        match &node.op {
            Op::Embed { table, tokens } => self.embed(*table, *tokens, out),
            Op::Cast { x } | Op::Quantize { x } => {
                let x = self.tile(*x)?;
                self.define(out, x)
            }
            Op::Scale { x, factor } => self.scale(*x, *factor, out),
            Op::Add { a, b } => self.add(*a, *b, out),
            Op::Concat { parts } => self.concat(parts, out),
            Op::RmsNorm { x, weight, eps } => self.rmsnorm(*x, *weight, *eps, out),
            Op::SelectRows { x, rows } => self.select_row(*x, *rows, out),
            Op::EveryRow { x, step, offset } => self.every_row(*x, *step, *offset, out),
            Op::InterleaveRows { parts } => self.interleave(parts, out),
            Op::Argmax { x } => {
                let x = self.tile(*x)?;
                let best = self.r.argmax(x);
                self.define(out, best)
            }
            Op::RopeTable { pos, rope, stride } => self.rope_table(*pos, rope, *stride, out),
            Op::Rope { x, table, inverse } => {
                let (x, table) = (self.tile(*x)?, self.tile(*table)?);
                let y = self.r.rotate(x, table, *inverse);
                self.define(out, y)
            }
            Op::SwiGlu { gate, up, weight, limit } => self.swiglu(*gate, *up, *weight, *limit, out),
            Op::HcOpen { x, streams } => self.hc_open(*x, *streams, out, node.result(1)),
            Op::HcCollapse { x, pre } => self.hc_collapse(*x, *pre, out),
            Op::HcExpand { y, x, post, comb } => self.hc_expand(*y, *x, *post, *comb, out),
            Op::HcMean { x } => self.hc_mean(*x, out),
            Op::RingStore { ring, rows, seq, pos } => self.ring_store(*ring, *rows, *seq, *pos),
            Op::CacheAppend { cache, rows, seq, pos, ratio } => {
                self.cache_append(*cache, *rows, *seq, *pos, *ratio)
            }
            Op::CompressPool { values, gates, seq, pos, ratio } => {
                self.compress_pool(*values, *gates, *seq, *pos, *ratio, out)
            }
            Op::EngramHash { history, map, seq, pos, engram } => {
                self.engram_hash(*history, *map, *seq, *pos, engram, out)
            }
            Op::EngramLookup { table, ids } => self.engram_lookup(*table, *ids, out),
            Op::EngramGate { x, kv, q_weight, k_weight, eps } => {
                self.engram_gate(*x, *kv, *q_weight, *k_weight, *eps, out)
            }
            Op::Router { logits, bias, k, scale } => {
                self.router(*logits, *bias, *k, *scale, out, node.result(1))
            }
            Op::MoeCombine { parts, shared } => self.combine(*parts, *shared, out),
            Op::Linear { .. }
            | Op::HcMix { .. }
            | Op::IndexScores { .. }
            | Op::IndexBlocks { .. }
            | Op::IndexRestrict { .. }
            | Op::TopK { .. }
            | Op::Attention { .. }
            | Op::BlockAttention { .. }
            | Op::MoeGroup { .. }
            | Op::MoeLinear { .. } => Err(self.f.foreign(&node.op)),
        }
    }

    /// The tile of this row of `v`, loaded if it is not on chip yet.
    fn tile(&mut self, v: Value) -> Result<tile::Value, Error> {
        if let Some(t) = self.tiles.get(&v) {
            return Ok(*t);
        }
        let row = self.row;
        let t = self.load_row(v, row)?;
        self.tiles.insert(v, t);
        Ok(t)
    }

    /// The tile of row `row` of a value in memory.
    fn load_row(&mut self, v: Value, row: tile::Value) -> Result<tile::Value, Error> {
        let view = self.views.of(self.f, v)?;
        let (rows, cols) = extent(self.f, v)?;
        let at = self.at(self.f.ty(v), row);
        Ok(self.r.load(view, &at, rows, cols))
    }

    /// A constant of the model as a tile: `[d]` is 1×d, `[n, d]` is n×d.
    fn weight(&mut self, v: Value) -> Result<tile::Value, Error> {
        if let Some(t) = self.tiles.get(&v) {
            return Ok(*t);
        }
        let view = self.views.of(self.f, v)?;
        let z = self.zero;
        let t = match self.f.ty(v).shape.len() {
            1 => {
                let cols = self.f.fixed(v, 0)?;
                self.r.load(view, &[z], 1, cols)
            }
            2 => {
                let (rows, cols) = (self.f.fixed(v, 0)?, self.f.fixed(v, 1)?);
                self.r.load(view, &[z, z], rows, cols)
            }
            n => return Err(self.f.fault(format!("a weight of {n} dimensions is no vector"))),
        };
        self.tiles.insert(v, t);
        Ok(t)
    }

    /// This row's element of an integer input.
    fn read(&mut self, v: Value) -> Result<tile::Value, Error> {
        let view = self.views.of(self.f, v)?;
        let row = self.row;
        Ok(self.r.index_read(view, &[row]))
    }

    /// `x` as the value `out`: rounded or quantised to its format, and stored if it leaves the kernel.
    fn define(&mut self, out: Value, x: tile::Value) -> Result<(), Error> {
        let x = self.rounded(out, x);
        self.tiles.insert(out, x);
        self.store(out, x)
    }

    /// `x` in the format of `out`.
    fn rounded(&mut self, out: Value, x: tile::Value) -> tile::Value {
        let want = self.f.ty(out).format;
        match self.r.ty(x) {
            Some(tile::Type::Tile { format, .. }) if *format != want && want.is_float() => {
                self.r.cast(x, want)
            }
            _ => x,
        }
    }

    /// Stores the tile of `out` if it leaves the kernel.
    fn store(&mut self, out: Value, x: tile::Value) -> Result<(), Error> {
        if let Some(view) = self.views.get(out) {
            let row = self.row;
            let at = self.at(self.f.ty(out), row);
            self.r.store(x, view, &at);
        }
        Ok(())
    }

    /// Coordinates of the beginning of row `row` of a tensor of this type.
    fn at(&self, ty: &TensorType, row: tile::Value) -> Vec<tile::Value> {
        (0..ty.shape.len()).map(|i| if i == 0 { row } else { self.zero }).collect()
    }

    /// The buffer in which `v` is put together.
    fn buffer(&mut self, v: Value) -> Result<tile::Value, Error> {
        let ring = self.rings.get(&v).copied();
        let ring = ring.ok_or_else(|| self.f.fault(format!("{v} has no buffer")))?;
        let slot = self.r.acquire(ring);
        self.held.push(slot);
        Ok(slot)
    }

    /// The value put together in `slot`, as the value `out`.
    fn define_buffer(&mut self, out: Value, slot: tile::Value) -> Result<(), Error> {
        let (rows, cols) = extent(self.f, out)?;
        let z = self.zero;
        let x = self.r.slot_load(slot, z, z, rows, cols);
        self.define(out, x)
    }

    fn constant(&mut self, n: usize) -> tile::Value {
        self.r.index_const(n as i64)
    }
    fn index(&mut self, f: IndexOp, a: tile::Value, b: usize) -> tile::Value {
        let b = self.constant(b);
        self.r.index(f, a, b)
    }
}
