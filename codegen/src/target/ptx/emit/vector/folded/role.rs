//! A role whose tiles are folded: its tiles, the slots it keeps in registers, and its ops.
//!
//! A piece of a slot in tensor memory is loaded where it is used, in turns of 32 registers where it only passes through (to its
//! own place again, or to memory), and whole where something else wants it or the slot is given away.

use super::math;
use super::tensor::{self, Piece, Scalar, Step};
use super::{EXCHANGE_BYTES, Fold, PIECE, ROWS, Team, Words, memory, rotate};
use crate::target::ptx::emit::view::Rows;
use crate::target::ptx::emit::{Bound, Emitter, Result, index::Ix, unsupported};
use crate::target::ptx::isa::{Asm, Cmp, Reg, Ty};
use std::collections::BTreeMap;
use tessera_ir::machine::sm100;
use tessera_ir::tile::{Binary, Class, Node, Op, Reduce, Ring, Stmt, Type, Unary, Value};
use tessera_ir::{Dim, Format};

/// A tile of the role.
#[derive(Clone, Debug)]
enum Item {
    /// In registers.
    Fold(Fold),
    /// Still in its slot (the value), with what is done to it, and rounded to bf16 at the end or not.
    Piece(Value, Piece, bool),
    /// One number for every place.
    Number(f32),
    /// A row of memory that is loaded where it is used: address and columns.
    Row(Reg, usize),
}

/// The state of a role with folded tiles.
#[derive(Debug)]
pub(in crate::target::ptx::emit) struct Folded {
    team: Team,
    tiles: BTreeMap<Value, Item>,
    /// Uses of each tile that are still to come in the text.
    uses: BTreeMap<Value, usize>,
    /// Registers of rings that live in them, by ring.
    rings: BTreeMap<Value, Vec<Reg>>,
    /// The same by slot.
    kept: BTreeMap<Value, Vec<Reg>>,
    /// Lists whose entries a mask will want, loaded at the start of the loop's body.
    ids: BTreeMap<(Value, Vec<Value>), Vec<Reg>>,
}

impl Folded {
    /// The state at the start of a role with these statements.
    fn new(team: Team, body: &[Stmt]) -> Self {
        let mut uses = BTreeMap::new();
        count_uses(body, &mut uses);
        Folded {
            team,
            tiles: BTreeMap::new(),
            uses,
            rings: BTreeMap::new(),
            kept: BTreeMap::new(),
            ids: BTreeMap::new(),
        }
    }

    /// Names `slot` the slot of a ring that lives in registers, `cols` wide.
    fn acquire(&mut self, asm: &mut Asm, ring: Value, cols: usize, slot: Value) {
        let regs = self.rings.entry(ring).or_insert_with(|| Fold::slot(asm, cols));
        self.kept.insert(slot, regs.clone());
    }

    /// Before a slot changes or goes: what still lies in it comes to registers.
    fn leave_slot(&mut self, asm: &mut Asm, slot: Value) {
        let pending: Vec<Value> = self
            .tiles
            .iter()
            .filter(|(_, item)| matches!(item, Item::Piece(of, ..) if *of == slot))
            .map(|(v, _)| *v)
            .collect();
        for v in pending {
            if let Ok(t) = self.fold(asm, v) {
                self.tiles.insert(v, Item::Fold(t));
            }
        }
    }

    /// A tile in registers.
    fn fold(&self, asm: &mut Asm, v: Value) -> Result<Fold> {
        match self.tiles.get(&v) {
            Some(Item::Fold(t)) => Ok(t.clone()),
            Some(Item::Piece(_, piece, rounded)) => {
                let t = piece.load(asm, &self.team);
                Ok(if *rounded { Fold { words: Words::Bf16(t.bf16(asm)), ..t } } else { t })
            }
            Some(Item::Number(_) | Item::Row(..)) | None => Err(unsupported(format!("{v} as a folded tile"))),
        }
    }
    /// What is the same for all elements of a thread, if the tile is.
    fn scalar(&self, v: Value) -> Option<Scalar> {
        match self.tiles.get(&v)? {
            Item::Number(n) => Some(Scalar::Number(*n)),
            Item::Fold(t) if t.cols == 1 => Some(Scalar::Column(t.clone())),
            Item::Fold(_) | Item::Piece(..) | Item::Row(..) => None,
        }
    }

    /// `zip`.
    fn zip(&self, asm: &mut Asm, f: Binary, a: Value, b: Value) -> Result<Item> {
        let passing = |v: Value| match self.tiles.get(&v) {
            Some(Item::Piece(slot, piece, false)) => Some((*slot, piece.clone())),
            _ => None,
        };
        let step = match (passing(a), self.scalar(b), passing(b), self.scalar(a)) {
            (Some((slot, piece)), Some(with), _, _) => Some((slot, piece, Step { f, with, second: false })),
            (_, _, Some((slot, piece)), Some(with)) => Some((slot, piece, Step { f, with, second: true })),
            (_, _, _, _) => None,
        };
        if let Some((slot, mut piece, step)) = step {
            piece.steps.push(step);
            return Ok(Item::Piece(slot, piece, false));
        }
        let term = |asm: &mut Asm, v: Value| match self.tiles.get(&v) {
            Some(Item::Number(n)) => Ok(Scalar::Number(*n)),
            _ => Ok(Scalar::Column(self.fold(asm, v)?)),
        };
        let (a, b) = (term(asm, a)?, term(asm, b)?);
        Ok(Item::Fold(math::zip(asm, f, &a.term(), &b.term())))
    }

    /// The text has passed a use of each operand.
    fn used(&mut self, op: &Op) {
        for v in op.operands() {
            if let Some(n) = self.uses.get_mut(&v) {
                *n = n.saturating_sub(1);
                if *n == 0 {
                    self.tiles.remove(&v);
                }
            }
        }
    }
}

fn count_uses(body: &[Stmt], uses: &mut BTreeMap<Value, usize>) {
    for stmt in body {
        match stmt {
            Stmt::Op(node) => node.op.operands().into_iter().for_each(|v| *uses.entry(v).or_default() += 1),
            Stmt::For { body, .. } | Stmt::If { body, .. } => count_uses(body, uses),
        }
    }
}

/// Columns of a tile that `body` defines.
fn width_of(body: &[Stmt], tile: Value) -> Option<usize> {
    body.iter().find_map(|stmt| match stmt {
        Stmt::Op(Node { result: Some((v, Type::Tile { cols, .. })), .. }) if *v == tile => cols.fixed(),
        Stmt::Op(_) | Stmt::For { .. } | Stmt::If { .. } => None,
    })
}

/// Whether an op works on tiles.
pub(in crate::target::ptx::emit) fn on_tiles(node: &Node) -> bool {
    let kept =
        matches!(node.op, Op::SlotFill { .. } | Op::SlotStore { .. } | Op::Store { .. } | Op::Any { .. });
    kept || matches!(node.result, Some((_, Type::Tile { .. })))
}

/// Whether a tile is a whole slot that the matrix unit reads.
fn operand(ring: &Ring, t: &Fold) -> bool {
    ring.slot.format == Format::BF16
        && ring.slot.rows == ROWS
        && t.rows == ROWS
        && ring.slot.cols.fixed() == Some(t.cols)
        && t.cols <= 128
}

impl<'k> Emitter<'k> {
    /// Starts a role with folded tiles.
    pub(in crate::target::ptx::emit) fn folded_start(&mut self) {
        let offset = self.shared.take(EXCHANGE_BYTES as u32, 16);
        let exchange = self.asm.add_u32(self.smem, offset);
        let team = Team::new(&mut self.asm, self.team.thread, self.team.barrier, exchange);
        self.folded = Some(Folded::new(team, &self.role().body));
    }

    /// Loads, at the start of a loop's body, the list entries that its masks want: they arrive while the role waits for slots.
    pub(in crate::target::ptx::emit) fn folded_enter(&mut self, body: &'k [Stmt]) -> Result<()> {
        let Some(mut own) = self.folded.take() else { return Ok(()) };
        for stmt in body {
            if let Stmt::Op(node) = stmt
                && let Op::MaskIds { x, ids, at, value: _ } = &node.op
                && at.iter().all(|v| self.ix(*v).is_ok())
                && let Some(cols) = width_of(body, *x)
            {
                let loaded = self.folded_ids(&own, *ids, at, cols)?;
                own.ids.insert((*ids, at.clone()), loaded);
            }
        }
        self.folded = Some(own);
        Ok(())
    }
    /// The end of a loop's body: lists belong to one round.
    pub(in crate::target::ptx::emit) fn folded_leave(&mut self) {
        if let Some(own) = &mut self.folded {
            own.ids.clear();
        }
    }
    /// Names `slot` a slot in registers; false if the ring has none.
    pub(in crate::target::ptx::emit) fn folded_acquire(&mut self, ring: Value, slot: Value) -> bool {
        let Some(of) = self.kernel.ring_of(ring).filter(|r| sm100::in_registers(self.kernel, r)) else {
            return false;
        };
        let cols = of.slot.cols.fixed().unwrap_or(1);
        match &mut self.folded {
            Some(own) => {
                own.acquire(&mut self.asm, ring, cols, slot);
                true
            }
            None => false,
        }
    }
    /// Before a slot is given away: what still lies in it comes to registers. True if the slot is in registers itself.
    pub(in crate::target::ptx::emit) fn folded_give(&mut self, slot: Value) -> bool {
        match &mut self.folded {
            Some(own) => {
                own.leave_slot(&mut self.asm, slot);
                own.kept.remove(&slot).is_some()
            }
            None => false,
        }
    }

    /// Entries of a list for the columns of a tile.
    fn folded_ids(&mut self, own: &Folded, ids: Value, at: &[Value], cols: usize) -> Result<Vec<Reg>> {
        let param = self.kernel.param_of(ids).ok_or_else(|| unsupported("no list"))?;
        let length = param
            .ty
            .shape
            .last()
            .and_then(Dim::fixed)
            .ok_or_else(|| unsupported("a list of symbolic length"))?;
        let Some((first, _)) = at.split_last() else { return Err(unsupported("a scalar list")) };
        let first = self.ix(*first)?;
        let codes = self.rows_at(ids, at)?.codes;
        Ok(tensor::live_ids(&mut self.asm, &own.team, cols, (codes, length), first.low()))
    }

    /// Emits one op that works on folded tiles.
    pub(in crate::target::ptx::emit) fn folded_node(&mut self, node: &'k Node) -> Result<()> {
        let Some(mut own) = self.folded.take() else {
            return Err(unsupported("folded tiles in another role"));
        };
        let item = self.folded_op(&own, node);
        own.used(&node.op);
        if let (Ok(Some(item)), Some((v, _))) = (&item, &node.result) {
            own.tiles.insert(*v, item.clone());
        }
        self.folded = Some(own);
        item.map(|_| ())
    }

    fn folded_op(&mut self, own: &Folded, node: &'k Node) -> Result<Option<Item>> {
        let team = own.team;
        let item = match &node.op {
            Op::Splat { value } => Item::Number(*value),
            Op::Load { view, at, rows: 1, cols } => {
                let cols = cols.fixed().ok_or_else(|| unsupported("a row of symbolic length"))?;
                let Rows { codes, format, .. } = self.rows_at(*view, at)?;
                if format != Format::F32 {
                    return Err(unsupported(format!("a row in {format}")));
                }
                Item::Row(codes, cols)
            }
            Op::Reshape { x, rows, cols: 1 } => match own.tiles.get(x) {
                Some(Item::Row(at, n)) if n == rows && Fold::fits(*rows, 1) => {
                    Item::Fold(memory::load_column(&mut self.asm, &team, *at, *rows))
                }
                Some(_) | None => return Err(unsupported("a column of anything but memory")),
            },
            Op::SlotFill { slot, value } => {
                let regs = own.kept.get(slot).cloned();
                let regs = regs.ok_or_else(|| unsupported("filling a slot that is not in registers"))?;
                regs.iter().for_each(|r| self.asm.mov_to(*r, *value));
                return Ok(None);
            }
            Op::SlotLoad { slot, row, col, rows, cols } => {
                let cols = cols.fixed().ok_or_else(|| unsupported("a tile of symbolic width"))?;
                self.folded_load(own, *slot, (*row, *col), (*rows, cols))?
            }
            Op::SlotStore { x, slot, row, col } => {
                self.folded_store_slot(own, *x, *slot, (*row, *col))?;
                return Ok(None);
            }
            Op::Zip { a, b, f } => own.zip(&mut self.asm, *f, *a, *b)?,
            Op::Map { x, f: Unary::Exp } => {
                let x = own.fold(&mut self.asm, *x)?;
                Item::Fold(math::exp(&mut self.asm, &x))
            }
            Op::Reduce { x, f, axis: 1 } => {
                let t = own.fold(&mut self.asm, *x)?;
                let lanes = self.role().lanes;
                if *f == Reduce::Sum && t.cols > 1 && !math::in_halves(lanes, t.cols) {
                    return Err(unsupported(format!("adding {} columns in {lanes} lanes", t.cols)));
                }
                Item::Fold(math::reduce(&mut self.asm, &team, *f, &t))
            }
            Op::MaskCols { x, n, value } => {
                let (n, t) = (self.ix(*n)?, own.fold(&mut self.asm, *x)?);
                Item::Fold(tensor::mask_cols(&mut self.asm, &team, &t, n.low(), *value))
            }
            Op::MaskIds { x, ids, at, value } => {
                let t = own.fold(&mut self.asm, *x)?;
                let loaded = match own.ids.get(&(*ids, at.clone())) {
                    Some(loaded) => loaded.clone(),
                    None => self.folded_ids(own, *ids, at, t.cols)?,
                };
                Item::Fold(tensor::mask_ids(&mut self.asm, &t, &loaded, *value))
            }
            Op::Any { x } => {
                let t = own.fold(&mut self.asm, *x)?;
                let found = math::any(&mut self.asm, &team, &t);
                if let Some((v, _)) = &node.result {
                    self.bind(*v, Bound::Index(Ix::word(found, 0, 1)));
                }
                return Ok(None);
            }
            Op::Cast { x, format } => self.folded_cast(own, *x, *format)?,
            Op::Rotate { x, table, inverse } => {
                let Some(Item::Row(table, width)) = own.tiles.get(table).cloned() else {
                    return Err(unsupported("a rotation by a table that is not in memory"));
                };
                let t = own.fold(&mut self.asm, *x)?;
                if !width.is_multiple_of(8) || width > t.cols {
                    return Err(unsupported(format!("rotating {width} of {} columns", t.cols)));
                }
                Item::Fold(rotate::rotate(&mut self.asm, &team, &t, table, width / 2, *inverse))
            }
            Op::Store { x, view, at } => {
                self.folded_store(own, *x, *view, at)?;
                return Ok(None);
            }
            other => return Err(unsupported(format!("`{}` of folded tiles", other.mnemonic()))),
        };
        Ok(Some(item))
    }

    fn folded_cast(&mut self, own: &Folded, x: Value, format: Format) -> Result<Item> {
        match (own.tiles.get(&x), format) {
            (Some(Item::Piece(slot, piece, false)), Format::BF16) => {
                Ok(Item::Piece(*slot, piece.clone(), true))
            }
            (_, Format::BF16 | Format::F32) => {
                let t = own.fold(&mut self.asm, x)?;
                let words = match format {
                    Format::BF16 => Words::Bf16(t.bf16(&mut self.asm)),
                    _ => Words::F32(t.floats(&mut self.asm)),
                };
                Ok(Item::Fold(Fold { words, ..t }))
            }
            (_, _) => Err(unsupported(format!("folded tiles in {format}"))),
        }
    }

    /// A constant place in a slot.
    fn place(&self, v: Value) -> Result<usize> {
        let n = self.ix(v)?.known().and_then(|n| usize::try_from(n).ok());
        n.ok_or_else(|| unsupported("a place in a slot that is not constant"))
    }

    fn folded_load(
        &mut self,
        own: &Folded,
        slot: Value,
        (row, col): (Value, Value),
        (rows, cols): (usize, usize),
    ) -> Result<Item> {
        let (row, col) = (self.place(row)?, self.place(col)?);
        if row != 0 || !Fold::fits(rows, cols) {
            return Err(unsupported(format!("the {rows}x{cols} block at row {row} as a folded tile")));
        }
        if let Some(regs) = own.kept.get(&slot).cloned() {
            if col != 0 || Fold::width(cols) != regs.len() {
                return Err(unsupported("a part of a slot in registers"));
            }
            return Ok(Item::Fold(Fold::copied(&mut self.asm, rows, cols, &regs)));
        }
        let (base, offset) = self.tensor_piece(slot, col, cols)?;
        Ok(Item::Piece(slot, Piece { base, offset, rows, cols, steps: Vec::new() }, false))
    }

    fn folded_store_slot(
        &mut self,
        own: &Folded,
        x: Value,
        slot: Value,
        (row, col): (Value, Value),
    ) -> Result<()> {
        let (row, col) = (self.place(row)?, self.place(col)?);
        if row != 0 {
            return Err(unsupported("storing below a slot's first row"));
        }
        let team = own.team;
        if let Some(regs) = own.kept.get(&slot).cloned() {
            let t = own.fold(&mut self.asm, x)?;
            let from = t.floats(&mut self.asm);
            if col != 0 || from.len() != regs.len() {
                return Err(unsupported("a part of a slot in registers"));
            }
            regs.iter().zip(from).for_each(|(r, v)| self.asm.mov_to(*r, v));
            return Ok(());
        }
        let held = self.held(slot)?;
        let ring = self.ring_held(held);
        match ring.class {
            Class::Accum => {
                // In place: each turn is loaded, changed and stored before the next.
                if let Some(Item::Piece(from, piece, false)) = own.tiles.get(&x).cloned()
                    && from == slot
                    && self.tensor_piece(slot, col, piece.cols)?.1 == piece.offset
                {
                    let to = (piece.base, piece.offset);
                    piece.stream(&mut self.asm, &team, |asm, part, first| {
                        tensor::store(asm, &team, to, &part, first)
                    });
                    self.asm.tmem_wait_st();
                    return Ok(());
                }
                let t = own.fold(&mut self.asm, x)?;
                let to = self.tensor_piece(slot, col, t.cols)?;
                tensor::store(&mut self.asm, &team, to, &t, 0);
                self.asm.tmem_wait_st();
                Ok(())
            }
            Class::Stage => {
                let t = own.fold(&mut self.asm, x)?;
                if col != 0 || !operand(&ring, &t) {
                    return Err(unsupported("filling anything but a whole bf16 operand of 64 rows"));
                }
                let to = if held.offset == 0 { held.base } else { self.asm.add_u32(held.base, held.offset) };
                memory::store_operand(&mut self.asm, &team, to, &t);
                Ok(())
            }
            Class::Vec => Err(unsupported("a working slot in shared memory as a folded tile")),
        }
    }

    /// First column and offset of a piece of a slot in tensor memory.
    fn tensor_piece(&mut self, slot: Value, col: usize, cols: usize) -> Result<(Reg, usize)> {
        let held = self.held(slot)?;
        let ring = self.ring_held(held);
        let width = ring.slot.cols.fixed().unwrap_or(0);
        if ring.class != Class::Accum || ring.slot.rows != ROWS {
            return Err(unsupported("folded tiles of anything but accumulators of 64 rows"));
        }
        let offset = tensor::piece(width, col, cols).ok_or_else(|| {
            unsupported(format!("{cols} columns from {col}, not a piece of {}", width.min(PIECE)))
        })?;
        Ok((held.base, held.offset as usize + offset))
    }

    /// `store`.
    fn folded_store(&mut self, own: &Folded, x: Value, view: Value, at: &[Value]) -> Result<()> {
        let team = own.team;
        let Rows { codes, pitch, format, .. } = self.rows_at(view, at)?;
        let write = |asm: &mut Asm, part: Reg, inside: Option<Reg>, t: &Fold, first: usize| match inside {
            Some(p) => asm.guard(p, |asm| memory::store_part(asm, part, t, first)),
            None => memory::store_part(asm, part, t, first),
        };
        let item = own.tiles.get(&x).cloned();
        let (rows, cols) = match &item {
            Some(Item::Piece(_, p, _)) => (p.rows, p.cols),
            Some(Item::Fold(t)) => (t.rows, t.cols),
            Some(Item::Number(_) | Item::Row(..)) | None => {
                return Err(unsupported("storing no folded tile"));
            }
        };
        if cols == 1 {
            return Err(unsupported("storing a column"));
        }
        let asm = &mut self.asm;
        let inside = (rows < ROWS).then(|| asm.setp(Cmp::Lt, Ty::U32, team.row, rows));
        let bytes = Fold::width(cols) * format.elem.bits() / 8;
        let part = memory::row_part(asm, &team, codes, pitch, bytes);
        if let Some(Item::Piece(_, piece, rounded)) = &item {
            piece.stream(asm, &team, |asm, t, first| {
                let t = if *rounded { Fold { words: Words::Bf16(t.bf16(asm)), ..t } } else { t };
                write(asm, part, inside, &t, first);
            });
            return Ok(());
        }
        let t = own.fold(&mut self.asm, x)?;
        write(&mut self.asm, part, inside, &t, 0);
        Ok(())
    }
}
