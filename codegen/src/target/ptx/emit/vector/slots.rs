//! Buffers that one role keeps to itself: registers where every access names a fixed place, shared memory else.

use super::super::{Emitter, Result, foreign, unsupported};
use super::flat::{Form, Shape};
use super::{Bound, Data, Place, Source, Tile};
use crate::target::ptx::isa::{Class, Reg};
use std::collections::BTreeMap;
use tessera_ir::machine::sm100;
use tessera_ir::tile::{Op, Stmt, Type, Value};
use tessera_ir::{Dim, Elem, Format};

/// A slot of a ring of one role.
#[derive(Clone, Debug)]
pub(in super::super) struct OwnSlot {
    rows: usize,
    cols: usize,
    format: Format,
    room: Room,
}

#[derive(Clone, Debug)]
enum Room {
    /// One register for each element that a thread holds.
    Regs(Shape, Vec<Reg>),
    /// Rows one after another, in shared memory.
    Shared(u32),
}

/// A block of a slot.
#[derive(Clone, Copy, Debug)]
struct Block {
    row: i64,
    col: i64,
    rows: usize,
    cols: usize,
}

/// What the accesses of a role to its own slots look like.
struct Accesses {
    consts: BTreeMap<Value, i64>,
    sizes: BTreeMap<Value, (usize, usize)>,
    slots: Vec<Value>,
    /// Blocks that are read and written; `None` for a place that is not fixed.
    reads: Vec<Option<Block>>,
    writes: Vec<Option<Block>>,
}

impl Accesses {
    fn of(body: &[Stmt], ring: Value) -> Accesses {
        let mut a = Accesses {
            consts: BTreeMap::new(),
            sizes: BTreeMap::new(),
            slots: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
        };
        a.walk(body, ring);
        a
    }
    fn walk(&mut self, body: &[Stmt], ring: Value) {
        for stmt in body {
            let node = match stmt {
                Stmt::Op(node) => node,
                Stmt::For { body, .. } | Stmt::If { body, .. } => {
                    self.walk(body, ring);
                    continue;
                }
            };
            if let Some((v, Type::Tile { rows, cols, .. })) = &node.result
                && let Some(cols) = cols.fixed()
            {
                self.sizes.insert(*v, (*rows, cols));
            }
            if let Some((v, Type::Slot { ring: of })) = &node.result
                && *of == ring
            {
                self.slots.push(*v);
            }
            if let (Op::IndexConst { value }, Some((v, _))) = (&node.op, &node.result) {
                self.consts.insert(*v, *value);
            }
            let place = |a: &Self, row: &Value, col: &Value| Some((*a.consts.get(row)?, *a.consts.get(col)?));
            if let Op::SlotLoad { slot, row, col, rows, cols } = &node.op
                && self.slots.contains(slot)
            {
                let block = place(self, row, col).zip(cols.fixed());
                self.reads.push(block.map(|((row, col), cols)| Block { row, col, rows: *rows, cols }));
            }
            if let Op::SlotStore { x, slot, row, col } = &node.op
                && self.slots.contains(slot)
            {
                let block = place(self, row, col).zip(self.sizes.get(x).copied());
                self.writes.push(block.map(|((row, col), (rows, cols))| Block { row, col, rows, cols }));
            }
        }
    }
}

impl Emitter<'_> {
    /// `acquire` of a ring that this role alone uses.
    pub(in super::super) fn own_slot(&mut self, v: Value, ring: Value) -> Result<()> {
        let of = self.kernel.ring_of(ring).ok_or_else(|| unsupported("no ring"))?;
        if of.path.len() != 1 || of.path[0].roles != [self.team.role] {
            return Err(unsupported("a ring of several roles"));
        }
        let (rows, format) = (of.slot.rows, of.slot.format);
        let cols = of.slot.cols.fixed().ok_or_else(|| unsupported("a slot of symbolic width"))?;
        if format != Format::F32 {
            return Err(unsupported(format!("a working slot of {format}")));
        }
        let accesses = Accesses::of(&self.role().body, ring);
        let room = match self.in_registers(&accesses, rows, cols) {
            Some(shape) => {
                let regs = self.asm.regs(Class::F32, shape.held());
                Room::Regs(shape, regs)
            }
            None => {
                let slot = sm100::shared_slot(of).ok_or_else(|| unsupported("a slot without a size"))?;
                Room::Shared(self.shared.take(slot.data as u32, 16))
            }
        };
        self.bind(v, Bound::Own(OwnSlot { rows, cols, format, room }));
        Ok(())
    }

    /// The layout in registers of a slot whose accesses all name fixed places of that layout.
    fn in_registers(&self, a: &Accesses, rows: usize, cols: usize) -> Option<Shape> {
        let shape = self.shape(rows, cols).ok()?;
        let fits = |block: &Option<Block>| {
            let Some(b) = block else { return false };
            let Ok(own) = self.shape(b.rows, b.cols) else { return false };
            let inside = b.row >= 0 && b.row as usize + b.rows <= rows;
            match (shape.form, own.form) {
                (Form::Copies, Form::Copies) => inside && b.col >= 0 && b.col as usize + b.cols <= cols,
                (Form::ByRows, Form::ByRows) => inside && b.col == 0 && b.cols == cols,
                (Form::Packed, Form::Packed) => b.row == 0 && b.col == 0 && own == shape,
                (Form::Lanes, Form::Lanes) => b.row == 0 && b.col >= 0 && b.col as usize + b.cols <= cols,
                (Form::Copies | Form::ByRows | Form::Packed | Form::Lanes, _) => false,
            }
        };
        (a.slots.len() == 1 && a.reads.iter().chain(&a.writes).all(fits)).then_some(shape)
    }

    fn own(&self, slot: Value) -> Result<OwnSlot> {
        match self.values.get(slot.index()) {
            Some(Some(Bound::Own(own))) => Ok(own.clone()),
            Some(_) | None => Err(unsupported(format!("{slot} is no slot of this role alone"))),
        }
    }

    /// `release` of such a slot.
    pub(in super::super) fn own_given(&mut self, slot: Value, op: &Op) -> Result<()> {
        self.own(slot).map(|_| ()).map_err(|_| foreign(op))
    }

    /// Registers of the slot that a block of shape `part` at (row, col) takes, in the block's order.
    fn registers_of(&self, shape: &Shape, regs: &[Reg], part: &Shape, row: usize, col: usize) -> Vec<Reg> {
        match shape.form {
            Form::Copies => (0..part.rows)
                .flat_map(|r| (0..part.cols).map(move |c| (row + r) * shape.cols + col + c))
                .map(|i| regs[i])
                .collect(),
            Form::ByRows => {
                let from = shape.at(row, 0, 0);
                regs[from..from + part.held()].to_vec()
            }
            Form::Packed => regs.to_vec(),
            Form::Lanes => regs[col..col + part.cols].to_vec(),
        }
    }

    fn fixed_place(&self, row: Value, col: Value) -> Result<(usize, usize)> {
        let known = |v| self.ix(v).map(|ix| ix.known().and_then(|n| usize::try_from(n).ok()));
        known(row)?.zip(known(col)?).ok_or_else(|| unsupported("a place that is not fixed"))
    }

    /// The place of element (row, col) of a slot in shared memory, and how it is aligned.
    fn slot_place(&mut self, own: &OwnSlot, offset: u32, row: Value, col: Value) -> Result<(Place, usize)> {
        let (row, col) = (self.ix(row)?, self.ix(col)?);
        let bytes = |n: usize| (n * 4).clamp(4, 16);
        let align = bytes(col.divisor()).min(1 << (own.cols * 4).trailing_zeros().min(4));
        let mut at = Place::shared(self.smem, offset);
        at = self.stepped_by(at, row.low(), (own.cols * 4) as u32);
        at = self.stepped_by(at, col.low(), 4);
        Ok((at, align))
    }

    /// `slot.load`.
    pub(in super::super) fn slot_load(
        &mut self,
        v: Value,
        slot: Value,
        (row, col): (Value, Value),
        rows: usize,
        cols: &Dim,
    ) -> Result<()> {
        let own = self.own(slot)?;
        let cols = cols.fixed().ok_or_else(|| unsupported("a tile of a width not known when compiling"))?;
        let shape = self.shape(rows, cols)?;
        let regs = match &own.room {
            Room::Regs(of, regs) => {
                let (row, col) = self.fixed_place(row, col)?;
                // The slot may be written again while the tile lives.
                let regs = self.registers_of(of, regs, &shape, row, col);
                regs.into_iter().map(|r| self.asm.mov_f32(r)).collect()
            }
            Room::Shared(offset) => {
                let (at, align) = self.slot_place(&own, *offset, row, col)?;
                let source = Source { at, pitch: own.cols, format: own.format, align, constant: false };
                self.fetch(&shape, &source)?
            }
        };
        self.bind_tile(v, Tile { shape, format: own.format, data: Data::Regs(regs) })
    }

    /// `slot.store`.
    pub(in super::super) fn slot_store(
        &mut self,
        x: Value,
        slot: Value,
        row: Value,
        col: Value,
    ) -> Result<()> {
        let own = self.own(slot)?;
        let tile = self.tile_of(x)?;
        let regs = self.regs(&tile)?;
        match &own.room {
            Room::Regs(of, into) => {
                let (row, col) = self.fixed_place(row, col)?;
                let into = self.registers_of(of, into, &tile.shape, row, col);
                for (to, from) in into.into_iter().zip(regs) {
                    self.asm.mov_to(to, from);
                }
            }
            Room::Shared(offset) => {
                let (from, bytes) = match self.fixed_place(row, col) {
                    Ok((row, col)) => {
                        let part = (tile.shape.rows - 1) * own.cols + tile.shape.cols;
                        (*offset + 4 * (row * own.cols + col) as u32, 4 * part as u32)
                    }
                    Err(_) => (*offset, 4 * (own.rows * own.cols) as u32),
                };
                let (at, align) = self.slot_place(&own, *offset, row, col)?;
                self.before_write(from, bytes);
                self.write_at(&tile.shape, &regs, at, (own.cols * 4, 4), (Elem::F32, align))?;
            }
        }
        Ok(())
    }

    /// `slot.fill`.
    pub(in super::super) fn slot_fill(&mut self, slot: Value, value: f32) -> Result<()> {
        let own = self.own(slot)?;
        match &own.room {
            Room::Regs(_, into) => {
                for to in into {
                    self.asm.mov_to(*to, value);
                }
            }
            Room::Shared(offset) => {
                let shape = self.shape(own.rows, own.cols)?;
                let r = self.asm.mov_f32(value);
                let regs = vec![r; shape.held()];
                self.before_write(*offset, 4 * (own.rows * own.cols) as u32);
                let at = Place::shared(self.smem, *offset);
                let align = 1 << (own.cols * 4).trailing_zeros().min(4);
                self.write_at(&shape, &regs, at, (own.cols * 4, 4), (Elem::F32, align))?;
            }
        }
        Ok(())
    }
}
