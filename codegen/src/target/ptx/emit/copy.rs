//! Copies into slots: boxes and gathered rows by bulk copies, scales and small lists by ordinary loads.
//!
//! Scales of rows lie row-major in memory; the matrix unit wants those of 128 rows × 128 columns as 512 bytes, row m's
//! four at byte `(m mod 32)·16 + m/32·4`. So lane l takes rows l, l + 32, l + 64 and l + 96, whose scales are sixteen
//! neighbouring bytes there.

use super::index::Ix;
use super::maps::{BLOCK_BYTES, Boxed, blocks_of};
use super::rings::{begun, copies_into, nodes_of, ring_of_slot, slot_of};
use super::slots::Held;
use super::{Emitter, Result, unsupported};
use crate::target::ptx::isa::{Asm, BulkLoad, Class, Cmp, Logic, Operand, Reg, Space, Ty};
use std::collections::BTreeMap;
use tessera_ir::machine::sm100::core_rows;
use tessera_ir::tile::{IndexOp, Kernel, Op, Param, Part, Ring, Stmt, Value};
use tessera_ir::{Dim, Format, Layout};

/// Rows that one gathering copy brings.
const QUAD: usize = 4;
/// Bytes of a row of an operand in shared memory.
const ROW: usize = 128;

/// View and part of a copy of this machine.
fn copied(op: &Op) -> Option<(Value, Part)> {
    let (Op::CopyTile { view, part, .. } | Op::CopyRows { view, part, .. }) = op else {
        let Op::CopyWrap { view, .. } = op else { return None };
        return Some((*view, Part::All));
    };
    Some((*view, *part))
}

/// True for copies whose lanes load and store by themselves: scales that lie row-major, and lists of plain numbers.
pub(super) fn by_threads(kernel: &Kernel, op: &Op) -> bool {
    let Some((view, part)) = copied(op) else { return true };
    let Some(param) = kernel.param_of(view) else { return true };
    match part {
        Part::Scales => true,
        Part::Codes => false,
        Part::All => {
            let list = param.ty.format == Format::F32 && param.ty.layout != Layout::Split3;
            list || matches!(param.ty.format, Format::I32 | Format::I64)
        }
    }
}

/// Bytes that count as transferred into one slot of `ring` by the bulk copies of `role`.
pub(super) fn bulk_bytes(kernel: &Kernel, role: usize, ring: usize) -> u32 {
    let slots: usize = begun(kernel, role, ring).iter().sum();
    let of = &kernel.rings[ring];
    let all: u32 = copies_into(kernel, role, ring)
        .into_iter()
        .filter(|op| !by_threads(kernel, op))
        .map(|op| copied_bytes(kernel, op, of))
        .sum();
    all.checked_div(slots as u32).unwrap_or_default()
}

/// True if the scales of a row are whole words.
fn in_words(param: &Param) -> bool {
    let groups = param.ty.format.group.map_or(1, |g| g.cols);
    param.ty.shape.last().and_then(Dim::fixed).is_some_and(|cols| (cols / groups).is_multiple_of(4))
}

/// Bytes that count as transferred by one bulk copy.
fn copied_bytes(kernel: &Kernel, op: &Op, ring: &Ring) -> u32 {
    let Some((view, part)) = copied(op) else { return 0 };
    let format = ring.slot.format;
    if matches!(format, Format::KV8 | Format::KV4) {
        // Whole records, in groups of four with a pitch of their own.
        let pitch = ring.slot.cols.fixed().and_then(|c| format.row_bytes(c)).unwrap_or_default();
        return (ring.slot.rows.next_multiple_of(QUAD) * pitch.next_multiple_of(16)) as u32;
    }
    let Some(boxed) = Boxed::of(format) else { return 0 };
    let parts = if format == Format::F32 { 3 } else { 1 };
    let tiles = ring.slot.cols.fixed().unwrap_or_default().div_ceil(boxed.cols as usize) as u32;
    let codes = core_rows(ring) as u32 * boxed.row_bytes * parts * tiles;
    let blocked = kernel.param_of(view).is_some_and(|p| p.ty.layout == Layout::Blocks128);
    let scales = if blocked && part == Part::All { BLOCK_BYTES * tiles } else { 0 };
    codes + scales
}

/// Bytes from one row's scales to the next row's.
fn scale_pitch(param: &Param) -> usize {
    let cols = param.ty.shape.last().and_then(Dim::fixed).unwrap_or(1);
    let count = param.ty.format.group.map_or(0, |g| cols / g.cols);
    match param.ty.layout {
        Layout::Split => count.next_multiple_of(4),
        Layout::Rows | Layout::Panels16 | Layout::Blocks128 | Layout::Pitch16 | Layout::Split3 => count,
    }
}

/// The key of a list of gathered rows: list, place in it, live rows, rows of the slot, rows an entry stands for.
type Key = (Value, Vec<Value>, Value, usize, usize);

/// Row numbers that a role gathers, in registers across its loop over K; −1 for none.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Rows 4l … 4l + 3 of lane l, and those 128 further on.
    quads: BTreeMap<Key, Vec<[Reg; QUAD]>>,
    /// Rows l, l + 32, … of lane l.
    rows: BTreeMap<Key, Vec<Reg>>,
    /// Scales that were loaded a round of the loop before they are wanted, by the slot that they go to.
    ahead: BTreeMap<Value, Ahead>,
}

/// Scales on their way.
#[derive(Clone, Debug)]
struct Ahead {
    rows: Vec<Reg>,
    words: Vec<Reg>,
    /// Columns from round to round.
    step: i64,
}

impl Copies {
    /// Forgets what was loaded for a tile.
    pub(super) fn forget(&mut self) {
        self.quads.clear();
        self.rows.clear();
        self.ahead.clear();
    }
}

impl Emitter<'_> {
    fn copied_param(&self, view: Value) -> Result<Param> {
        self.kernel.param_of(view).cloned().ok_or_else(|| unsupported("a copy of no parameter"))
    }
    fn places(&self, at: &[Value]) -> Result<Vec<Operand>> {
        at.iter().map(|v| Ok(self.ix(*v)?.low())).collect()
    }
    /// Runs `body` in the lane that speaks for the warp.
    pub(super) fn once(&mut self, body: impl FnOnce(&mut Asm)) {
        match self.leader {
            Some(p) => self.asm.guard(p, body),
            None => body(&mut self.asm),
        }
    }

    /// `copy.tile`.
    pub(super) fn copy_tile(&mut self, view: Value, at: &[Value], slot: Value, part: Part) -> Result<()> {
        let (param, held, at) = (self.copied_param(view)?, self.held(slot)?, self.places(at)?);
        let ring = self.ring_held(held);
        match part {
            Part::Scales => {
                let [outer @ .., row, col] = at.as_slice() else {
                    return Err(unsupported("scales of a list"));
                };
                let plane = self.plane(view, 1)?;
                let plane = self.matrix_at(plane, &param, outer);
                let rows = match self.copies.ahead.get(&slot) {
                    Some(ahead) => ahead.rows.clone(),
                    None => self.rows_from(&param, *row, ring.slot.rows),
                };
                self.scales_of_rows(plane, &param, &rows, *col, (slot, held), &ring)
            }
            Part::Codes => self.box_of(&param, &at, held, &ring),
            Part::All if param.ty.format.group.is_none() || param.ty.layout == Layout::Blocks128 => {
                self.box_of(&param, &at, held, &ring)?;
                if param.ty.layout == Layout::Blocks128 {
                    self.scale_block(view, &param, &at, held, &ring)?;
                }
                Ok(())
            }
            Part::All => Err(unsupported("codes and scales by one role; let another role copy the scales")),
        }
    }
    /// `copy.rows`.
    pub(super) fn copy_rows(&mut self, op: &Op) -> Result<()> {
        let Op::CopyRows { view, ids, at, col, slot, rows, per, part, .. } = op else { return Ok(()) };
        let (param, held) = (self.copied_param(*view)?, self.held(*slot)?);
        let ring = self.ring_held(held);
        let key = (*ids, at.clone(), *rows, ring.slot.rows, *per);
        let col = self.ix(*col)?.low();
        if !by_threads(self.kernel, op) {
            let quads = self.lane_quads(&key)?;
            return self.gather(&param, &quads, col, held, &ring);
        }
        let rows = self.lane_rows(&key)?;
        match part {
            Part::Scales => {
                let plane = self.plane(*view, 1)?;
                self.scales_of_rows(plane, &param, &rows, col, (*slot, held), &ring)
            }
            Part::All | Part::Codes => self.list_of_rows(*view, &param, &rows, col, held, &ring),
        }
    }
    /// Loads, ahead of a loop over `var` from `lo` on, the row numbers that its body gathers, and the scales that its first
    /// round copies; each round then loads those of the next one, so that a round's time hides the latency of memory.
    pub(super) fn copies_before_loop(
        &mut self,
        (var, lo, step): (Value, Ix, usize),
        body: &[Stmt],
    ) -> Result<()> {
        for node in nodes_of(body) {
            if let Op::CopyRows { ids, at, rows, slot, per, .. } = &node.op
                && at.iter().chain([rows]).all(|v| self.ix(*v).is_ok())
                && let Some(ring) = ring_of_slot(self.kernel, *slot)
            {
                let key = (*ids, at.clone(), *rows, self.kernel.rings[ring].slot.rows, *per);
                if by_threads(self.kernel, &node.op) {
                    self.lane_rows(&key)?;
                } else {
                    self.lane_quads(&key)?;
                }
            }
        }
        for stmt in body {
            let Stmt::Op(node) = stmt else { continue };
            let (view, slot, col, rows) = if let Op::CopyTile { view, at, slot, part: Part::Scales } =
                &node.op
            {
                let [row, col] = at.as_slice() else { continue };
                let Ok(row) = self.ix(*row) else { continue };
                let Some(ring) = ring_of_slot(self.kernel, *slot) else { continue };
                let param = self.copied_param(*view)?;
                let count = self.kernel.rings[ring].slot.rows;
                (*view, *slot, *col, self.rows_from(&param, row.low(), count))
            } else if let Op::CopyRows { view, ids, at, col, slot, rows, per, part: Part::Scales, .. } =
                &node.op
            {
                let Some(ring) = ring_of_slot(self.kernel, *slot) else { continue };
                let key = (*ids, at.clone(), *rows, self.kernel.rings[ring].slot.rows, *per);
                let Some(rows) = self.copies.rows.get(&key) else { continue };
                (*view, *slot, *col, rows.clone())
            } else {
                continue;
            };
            let Some(col) = self.first_round(body, col, (var, lo)) else { continue };
            let param = self.copied_param(view)?;
            if !in_words(&param) {
                continue;
            }
            let plane = self.plane(view, 1)?;
            let words = rows.iter().map(|_| self.asm.reg(Class::B32)).collect::<Vec<_>>();
            self.load_scales(plane, &param, &rows, col.low(), &words)?;
            let ahead = Ahead { rows, words, step: step as i64 };
            self.copies.ahead.insert(slot, ahead);
        }
        Ok(())
    }
    /// The value of `v` in the first round of a loop, if sums of the counter and of what is known before give it.
    fn first_round(&mut self, body: &[Stmt], v: Value, (var, lo): (Value, Ix)) -> Option<Ix> {
        if v == var {
            return Some(lo);
        }
        if let Ok(ix) = self.ix(v) {
            return Some(ix);
        }
        let op = body.iter().find_map(|stmt| match stmt {
            Stmt::Op(node) if node.result.as_ref().is_some_and(|(r, _)| *r == v) => Some(&node.op),
            Stmt::Op(_) | Stmt::For { .. } | Stmt::If { .. } => None,
        })?;
        if let Op::IndexConst { value } = op {
            return Some(Ix::constant(*value));
        }
        let Op::IndexBinary { a, b, f: IndexOp::Add } = op else { return None };
        let (a, b) = (self.first_round(body, *a, (var, lo))?, self.first_round(body, *b, (var, lo))?);
        Some(self.ix_add(a, b))
    }

    fn lane_rows(&mut self, key: &Key) -> Result<Vec<Reg>> {
        if let Some(rows) = self.copies.rows.get(key) {
            return Ok(rows.clone());
        }
        let lane = self.team.lane;
        let mut found = Vec::new();
        for i in 0..key.3.div_ceil(32) {
            let n = self.asm.add_u32(lane, (32 * i) as i64);
            found.push(self.entry(key, n)?);
        }
        self.copies.rows.insert(key.clone(), found.clone());
        Ok(found)
    }
    fn lane_quads(&mut self, key: &Key) -> Result<Vec<[Reg; QUAD]>> {
        if let Some(quads) = self.copies.quads.get(key) {
            return Ok(quads.clone());
        }
        let first = self.asm.shl_b32(self.team.lane, 2);
        let mut found = Vec::new();
        for round in 0..key.3.div_ceil(32 * QUAD) {
            let mut quad = [first; QUAD];
            for (i, row) in quad.iter_mut().enumerate() {
                let n = self.asm.add_u32(first, (32 * QUAD * round + i) as i64);
                *row = self.entry(key, n)?;
            }
            found.push(quad);
        }
        self.copies.quads.insert(key.clone(), found.clone());
        Ok(found)
    }
    /// Entry `n` of a list of rows, −1 from the live ones on.
    fn entry(&mut self, (ids, at, rows, _, per): &Key, n: Reg) -> Result<Reg> {
        let live = self.ix(*rows)?.low();
        let at = self.places(at)?;
        let list = self.plane(*ids, 0)?;
        let first = at.last().copied().unwrap_or(Operand::Int(0));
        let per = *per as i64;
        let asm = &mut self.asm;
        let inside = asm.setp(Cmp::Lt, Ty::S32, n, live);
        let row = asm.mov_b32(-1i64);
        let place = asm.fold_div(n, per);
        let place = asm.fold_add(place, first);
        let from = asm.element(list, place, 4);
        asm.guard(inside, |asm| asm.ld_to(&[row], Space::Global, Ty::B32, from.at(0)));
        if per == 1 {
            return Ok(row);
        }
        let of = asm.rem_u32(n, per);
        let flat = asm.mad_u32(row, per, of);
        let dead = asm.setp(Cmp::Lt, Ty::S32, row, 0i64);
        let none = asm.mov_b32(-1i64);
        Ok(asm.selp(Ty::B32, none, flat, dead))
    }
    /// Rows l, l + 32, … from `first` on, −1 outside the view.
    fn rows_from(&mut self, param: &Param, first: Operand, rows: usize) -> Vec<Reg> {
        let end = match param.ty.shape.as_slice() {
            [.., rows, _] => self.dim(rows).low(),
            _ => Operand::Int(1),
        };
        let lane = self.team.lane;
        let asm = &mut self.asm;
        let none = asm.mov_b32(-1i64);
        (0..rows.div_ceil(32))
            .map(|i| {
                let n = asm.add_u32(lane, (32 * i) as i64);
                let row = asm.add_u32(n, first);
                let inside = asm.setp(Cmp::Lt, Ty::S32, row, end);
                asm.selp(Ty::B32, row, none, inside)
            })
            .collect()
    }

    /// Where boxes go: to this block, and their bytes to the barrier of the pair's first one.
    fn bulk(&self) -> BulkLoad {
        let pair = self.pair.is_some();
        BulkLoad { cluster: pair, pair, ..BulkLoad::default() }
    }
    /// A box of codes or plain elements.
    fn box_of(&mut self, param: &Param, at: &[Operand], held: Held, ring: &Ring) -> Result<()> {
        let format = ring.slot.format;
        let boxed = Boxed::of(format).ok_or_else(|| unsupported(format!("boxes of {format}")))?;
        let rows = core_rows(ring);
        let map = self.map_of(param, boxed, rows as u32);
        let bar = self.filled(held);
        let mut coords: Vec<Operand> = at.iter().rev().copied().collect();
        if let (Some(pair), Some(row)) = (self.pair, coords.get_mut(1)) {
            // The second block brings the second half.
            *row = self.asm.mad_u32(pair.rank, rows as u32, *row).into();
        }
        if param.ty.layout == Layout::Split3 {
            coords.push(Operand::Int(0));
        }
        let tiles = ring.slot.cols.fixed().unwrap_or_default().div_ceil(boxed.cols as usize);
        let parts = if format == Format::F32 { 3 } else { 1 };
        for t in 0..tiles {
            let bytes = t * parts * rows.next_multiple_of(8) * ROW;
            let dst = self.held_at(held, bytes as i64);
            let mut coords = coords.clone();
            coords[0] = self.asm.fold_add(coords[0], (t * boxed.cols as usize) as i64);
            let map = self.asm.ld_param(map);
            let to = self.bulk();
            self.once(|asm| asm.tma_load(to, dst, map, &coords, bar));
        }
        Ok(())
    }
    /// The block of scales beside a weight's box.
    fn scale_block(
        &mut self,
        view: Value,
        param: &Param,
        at: &[Operand],
        held: Held,
        ring: &Ring,
    ) -> Result<()> {
        let slot = slot_of(ring)?;
        let (rows, cols) = blocks_of(param);
        let [outer @ .., row, col] = at else { return Err(unsupported("scales of a list")) };
        let (row, col, outer) = (*row, *col, outer.first().copied());
        let plane = self.plane(view, 1)?;
        let (bar, dst) = (self.filled(held), self.held_at(held, slot.data as i64));
        let asm = &mut self.asm;
        // A box that lies past the last column holds zeros; any scale will do for it.
        let k = match asm.fold_div(col, 128i64) {
            Operand::Int(k) => Operand::Int(k.min(cols as i64 - 1)),
            k => {
                let k = asm.in_reg(Ty::U32, k);
                asm.min_u32(k, cols as i64 - 1).into()
            }
        };
        let mut n = asm.fold_div(row, 128i64);
        if let Some(pair) = self.pair {
            n = asm.fold_add(n, pair.rank);
        }
        if let Some(matrix) = outer {
            let before = asm.fold_mul(matrix, rows as i64);
            n = asm.fold_add(before, n);
        }
        let line = asm.fold_mul(n, cols as i64);
        let block = asm.fold_add(line, k);
        if self.pair.is_some() {
            // Plain bytes complete barriers of the block they come to only; a box may complete its neighbour's.
            let map = self.blocks_map(param);
            let map = self.asm.ld_param(map);
            let to = self.bulk();
            self.once(|asm| asm.tma_load(to, dst, map, &[Operand::Int(0), block], bar));
            return Ok(());
        }
        let src = asm.element(plane, block, BLOCK_BYTES);
        self.once(|asm| asm.bulk_load(BulkLoad::default(), dst, src.at(0), i64::from(BLOCK_BYTES), bar));
        Ok(())
    }
    /// Gathered rows of codes, four in a copy.
    fn gather(
        &mut self,
        param: &Param,
        quads: &[[Reg; QUAD]],
        col: Operand,
        held: Held,
        ring: &Ring,
    ) -> Result<()> {
        let format = ring.slot.format;
        let boxed = Boxed::of(format).ok_or_else(|| unsupported(format!("boxes of {format}")))?;
        let map = self.map_of(param, boxed, 1);
        let bar = self.filled(held);
        let lane = self.team.lane;
        let all = ring.slot.rows.div_ceil(QUAD);
        let asm = &mut self.asm;
        let own = asm.mad_u32(lane, (QUAD * ROW) as i64, held.base);
        for (round, quad) in quads.iter().enumerate() {
            let live = (all - 32 * round).min(32);
            let dst = own.at(held.offset + (round * 32 * QUAD * ROW) as i64);
            let rows = quad.map(Operand::from);
            let copy = |asm: &mut Asm| {
                let map = asm.ld_param(map);
                asm.tma_gather4(BulkLoad::default(), dst, map, col, rows, bar);
            };
            if live == 32 {
                copy(asm);
            } else {
                let inside = asm.setp(Cmp::Lt, Ty::U32, lane, live as i64);
                asm.guard(inside, copy);
            }
        }
        Ok(())
    }
    /// Address of the scales of matrix `outer` of a list of matrices.
    fn matrix_at(&mut self, plane: Reg, param: &Param, outer: &[Operand]) -> Reg {
        let dims = &param.ty.shape;
        let mut number = Operand::Int(0);
        for (at, dim) in outer.iter().zip(dims) {
            let dim = self.dim(dim).low();
            number = self.asm.fold_mul(number, dim);
            number = self.asm.fold_add(number, *at);
        }
        if number.int() == Some(0) {
            return plane;
        }
        let rows = self.dim(&dims[outer.len()]).low();
        let asm = &mut self.asm;
        let rows = asm.in_reg(Ty::U32, rows);
        let bytes = asm.mul_wide_u32(rows, scale_pitch(param) as u32);
        let number = asm.u64_u32(number);
        asm.mad_s64(number, bytes, plane)
    }
    /// Scales of the rows in `rows` for one block of 128 columns from `col` on.
    fn scales_of_rows(
        &mut self,
        plane: Reg,
        param: &Param,
        rows: &[Reg],
        col: Operand,
        (slot, held): (Value, Held),
        ring: &Ring,
    ) -> Result<()> {
        let place = slot_of(ring)?;
        let ahead = self.copies.ahead.get(&slot).cloned();
        let words = match &ahead {
            Some(ahead) => ahead.words.clone(),
            None => {
                let words = rows.iter().map(|_| self.asm.reg(Class::B32)).collect::<Vec<_>>();
                self.load_scales(plane, param, rows, col, &words)?;
                words
            }
        };
        let lane = self.team.lane;
        let asm = &mut self.asm;
        for (block, words) in words.chunks(4).enumerate() {
            let zero = asm.mov_b32(0i64);
            let four: Vec<Reg> = (0..4).map(|i| words.get(i).copied().unwrap_or(zero)).collect();
            let at = asm.mad_u32(lane, 16i64, held.base);
            let offset = held.offset + (place.data + block * BLOCK_BYTES as usize) as i64;
            asm.st_shared_vec(Ty::B32, at.at(offset), &four);
        }
        if let Some(ahead) = ahead {
            let next = self.asm.fold_add(col, ahead.step);
            self.load_scales(plane, param, rows, next, &words)?;
        }
        Ok(())
    }
    /// The scales of 128 columns from `col` on of each row, in a word; 0 for no row and past the last column.
    fn load_scales(
        &mut self,
        plane: Reg,
        param: &Param,
        rows: &[Reg],
        col: Operand,
        words: &[Reg],
    ) -> Result<()> {
        let group = param.ty.format.group.ok_or_else(|| unsupported("scales of a plain format"))?;
        let cols = param.ty.shape.last().and_then(Dim::fixed).unwrap_or(1);
        let (count, pitch) = (cols / group.cols, scale_pitch(param));
        let asm = &mut self.asm;
        let first = asm.fold_div(col, group.cols as i64);
        // Whole words where rows of scales are made of them, else byte by byte.
        let whole = in_words(param);
        for (row, word) in rows.iter().zip(words) {
            asm.mov_to(*word, 0i64);
            let live = asm.setp(Cmp::Ge, Ty::S32, *row, 0i64);
            let start = asm.element(plane, *row, pitch as u32);
            let from = asm.element(start, first, 1);
            for j in 0..if whole { 1 } else { 4 } {
                let n = asm.fold_add(first, j);
                let n = asm.in_reg(Ty::U32, n);
                let there = [n.into(), Operand::Int(count as i64)];
                let there = asm.setp_with(Cmp::Lt, Ty::U32, there, Logic::And, (live, true));
                if whole {
                    asm.guard(there, |asm| asm.ld_to(&[*word], Space::Global, Ty::B32, from.at(0)));
                } else {
                    asm.guard(there, |asm| {
                        let byte = asm.ld_global(Ty::U8, from.at(j));
                        let byte = asm.u32_u8(byte);
                        let up = asm.shl_b32(byte, 8 * j);
                        asm.or_b32_to(*word, *word, up);
                    });
                }
            }
        }
        Ok(())
    }
    /// Plain numbers of the rows in `rows`, one column each.
    fn list_of_rows(
        &mut self,
        view: Value,
        param: &Param,
        rows: &[Reg],
        col: Operand,
        held: Held,
        ring: &Ring,
    ) -> Result<()> {
        if ring.slot.cols.fixed() != Some(1) {
            return Err(unsupported("gathered rows of several plain numbers"));
        }
        let width = param.ty.shape.last().and_then(Dim::fixed).unwrap_or(1);
        let plane = self.plane(view, 0)?;
        let lane = self.team.lane;
        let asm = &mut self.asm;
        for (i, row) in rows.iter().enumerate() {
            let word = asm.mov_b32(0i64);
            let live = asm.setp(Cmp::Ge, Ty::S32, *row, 0i64);
            let start = asm.element(plane, *row, 4 * width as u32);
            let from = asm.element(start, col, 4);
            asm.guard(live, |asm| asm.ld_to(&[word], Space::Global, Ty::B32, from.at(0)));
            let n = asm.add_u32(lane, (32 * i) as i64);
            let at = asm.mad_u32(n, 4i64, held.base);
            let inside = asm.setp(Cmp::Lt, Ty::U32, n, ring.slot.rows as i64);
            asm.guard(inside, |asm| asm.st_shared(Ty::B32, at.at(held.offset), word));
        }
        Ok(())
    }
}
