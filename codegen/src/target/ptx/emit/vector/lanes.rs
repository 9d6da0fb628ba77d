//! Tiles as tensor memory has them: one thread for each row of an accumulator, or, transposed, for each column.
//!
//! A warp then holds 32 neighbouring columns of a row, which is what a scale stands for, and stores join neighbours'
//! elements to words: pairs of lanes exchange bf16 halves, four lanes turn a square of code bytes.

use super::super::index::Ix;
use super::super::slots::Held;
use super::super::view::pitches;
use super::super::{Emitter, Result, unsupported};
use super::flat::{Form, Shape};
use super::quant::{Rule, rule};
use super::{Data, Place, Source, Tile};
use crate::target::ptx::isa::{Addr, Cmp, Logic, Operand, Reduce, Reg, Space, TmemShape, Ty};
use tessera_ir::machine::sm100;
use tessera_ir::tile::{Class, Value};
use tessera_ir::{Dim, Elem, Format};

/// Lanes of a warp.
const WARP: usize = 32;
/// Bits of +∞.
const INFINITY: u32 = 0x7f80_0000;
/// Most rows of a tile that is scattered: a lane keeps the place of one.
const SCATTERED: usize = 32;

/// Codes of a tile with one thread for each column: words of four rows' codes, and each row's scale byte.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    format: Format,
    words: Vec<Reg>,
    scales: Vec<Reg>,
}

/// Where rows of a tile go.
#[derive(Clone, Copy, Debug)]
struct Rows {
    /// Address of row 0 of the view, or of the tile's first row.
    base: Reg,
    /// Bytes from row to row.
    pitch: usize,
}

/// The destination of a store.
#[derive(Clone, Copy, Debug)]
struct Target {
    codes: Rows,
    scales: Option<Rows>,
    /// Places of the rows in the view, one a lane; none where they follow each other.
    ids: Option<Reg>,
    /// Live rows.
    live: Operand,
    /// Columns that the view has from the tile's first one on; none where it has all of the tile's.
    cols: Option<Reg>,
    format: Format,
}

impl Emitter<'_> {
    /// The layout of tiles in roles that sum along rows within a thread: rows of whole tiles one a thread, else copies.
    pub(super) fn shape_by_threads(rows: usize, cols: usize, threads: usize, chunk: usize) -> Result<Shape> {
        let form = if rows == threads { Form::Lanes } else { Form::Copies };
        let shape = Shape { rows, cols, form, threads, chunk };
        if shape.held() > 128 {
            return Err(unsupported(format!("a tile {rows}x{cols} with one thread for each row")));
        }
        Ok(shape)
    }

    /// `slot.load` of a slot that came through a ring.
    pub(in super::super) fn held_load(
        &mut self,
        v: Value,
        held: Held,
        (row, col): (Value, Value),
        rows: usize,
        cols: &Dim,
    ) -> Result<()> {
        let cols = cols.fixed().ok_or_else(|| unsupported("a tile of a width not known when compiling"))?;
        let ring = self.ring_held(held);
        let (row, col) = (self.ix(row)?, self.ix(col)?);
        let format = ring.slot.format;
        match ring.class {
            Class::Accum => {
                let threads = WARP * self.team.warps as usize;
                if row.known() != Some(0)
                    || threads != sm100::TENSOR_LANES
                    || sm100::core_rows(&ring) != threads
                {
                    return Err(unsupported("a part of an accumulator that is not its first rows"));
                }
                let regs = self.accumulator(held, col, cols);
                let threads = threads * self.kernel.cluster;
                let shape = Shape { rows, cols, form: Form::Lanes, threads, chunk: 1 };
                self.bind_tile(v, Tile { shape, format: Format::F32, data: Data::Regs(regs) })
            }
            Class::Vec => {
                let width = ring.slot.cols.fixed().unwrap_or(1);
                let shape = self.shape(rows, cols)?;
                let at = Place { space: Space::Shared, base: held.base, offset: held.offset };
                let at = self.stepped_by(at, row.low(), (4 * width) as u32);
                let at = self.stepped_by(at, col.low(), 4);
                let source = Source { at, pitch: width, format, align: 4, constant: false };
                let regs = self.fetch(&shape, &source)?;
                self.bind_tile(v, Tile { shape, format: Format::F32, data: Data::Regs(regs) })
            }
            Class::Stage => {
                let shape = self.shape(rows, cols)?;
                if shape.form != Form::Lanes || format != Format::BF16 || cols != sm100::ROW / 2 {
                    return Err(unsupported(format!("a tile {rows}x{cols} of an operand in {format}")));
                }
                let regs = self.operand_row(held);
                self.bind_tile(v, Tile { shape, format: Format::F32, data: Data::Regs(regs) })
            }
        }
    }
    /// `cols` columns of an accumulator from `col` on, this thread's row.
    fn accumulator(&mut self, held: Held, col: Ix, cols: usize) -> Vec<Reg> {
        let asm = &mut self.asm;
        let lanes = asm.shl_b32(self.team.warp, 21);
        let base = asm.add_u32(lanes, held.base);
        let base = asm.add_u32(base, held.offset);
        let mut regs = Vec::with_capacity(cols);
        while regs.len() < cols {
            let left = cols - regs.len();
            let n = (1usize << left.ilog2()).min(64);
            let at = asm.fold_add(col.low(), regs.len() as i64);
            let at = asm.fold_add(base, at);
            let at = asm.in_reg(Ty::B32, at);
            regs.extend(asm.tmem_ld_f32(TmemShape::S32x32b, n, at));
        }
        asm.tmem_wait_ld();
        regs
    }
    /// This thread's row of a bf16 operand of 128 bytes a row in the 128-byte swizzle.
    fn operand_row(&mut self, held: Held) -> Vec<Reg> {
        let asm = &mut self.asm;
        let thread = self.team.thread;
        let row = asm.mad_u32(thread, sm100::ROW as u32, held.base);
        let row = asm.add_u32(row, held.offset);
        let turn = asm.and_b32(thread, 7u32);
        let turn = asm.shl_b32(turn, 4);
        let mut regs = Vec::with_capacity(sm100::ROW / 2);
        for chunk in 0..8u32 {
            let place = asm.xor_b32(turn, 16 * chunk);
            let at = asm.add_u32(row, place);
            for word in asm.ld_shared_vec(Ty::B32, 4, at) {
                regs.extend(asm.f32_bf16x2(word));
            }
        }
        regs
    }

    /// `transpose`: a row of each thread becomes a column of it.
    pub(in super::super) fn transpose(&mut self, v: Value, x: Value) -> Result<()> {
        let tile = self.tile_of(x)?;
        if tile.shape.form != Form::Lanes {
            return Err(unsupported("turning a tile that is no accumulator's"));
        }
        let shape = self.shape(tile.shape.cols, tile.shape.rows)?;
        if shape.form != Form::ByRows || shape.chunk != 1 || shape.passes() != 1 {
            return Err(unsupported(format!("turning a tile {}x{}", tile.shape.rows, tile.shape.cols)));
        }
        self.bind_tile(v, Tile { shape, ..tile })
    }

    /// True for tiles with one thread for each column.
    pub(super) fn by_columns(&self, shape: &Shape) -> bool {
        shape.form == Form::ByRows && shape.chunk == 1 && shape.passes() == 1
    }

    /// Quantises a tile with one thread for each column, a scale for each row of a warp.
    pub(super) fn quantised_columns(
        &mut self,
        shape: &Shape,
        regs: &[Reg],
        format: Format,
    ) -> Result<Columns> {
        if format != Format::MX8 || !shape.cols.is_multiple_of(WARP) || !shape.rows.is_multiple_of(4) {
            return Err(unsupported(format!("quantising a tile {}x{} to {format}", shape.rows, shape.cols)));
        }
        let Rule { floor, factor } = rule(format.elem);
        let mut columns = Columns { format, words: Vec::new(), scales: Vec::new() };
        for four in regs.chunks(4) {
            let mut quotients = [four[0]; 4];
            for (x, quotient) in four.iter().zip(&mut quotients) {
                let asm = &mut self.asm;
                let bits = asm.bits(*x);
                let magnitude = asm.and_b32(bits, 0x7fff_ffffu32);
                let largest = asm.redux(Reduce::Max, Ty::U32, magnitude);
                let at_least = asm.max_u32(largest, floor.to_bits());
                let at_least = asm.bits(at_least);
                let product = asm.mul_f32(at_least, factor);
                let bits = asm.bits(product);
                let nan = asm.setp(Cmp::Ge, Ty::U32, largest, INFINITY);
                let up = asm.add_u32(bits, 0x007f_ffffu32);
                let exponent = asm.shr_u32(up, 23u32);
                // The floor keeps the exponent above 0; the factor keeps it below 254, so that the reciprocal is normal.
                let minus = asm.neg_s32(exponent);
                let inverse = asm.add_s32(minus, 254);
                let inverse = asm.shl_b32(inverse, 23u32);
                // A NaN becomes the code of NaN.
                let inverse = asm.selp(Ty::B32, 0x7fff_ffffu32, inverse, nan);
                let inverse = asm.bits(inverse);
                *quotient = asm.mul_f32(*x, inverse);
                columns.scales.push(asm.selp(Ty::B32, 255u32, exponent, nan));
            }
            columns.words.push(self.asm.e4m3x4_f32(quotients));
        }
        Ok(columns)
    }

    /// `store.rows`.
    pub(in super::super) fn store_rows(
        &mut self,
        x: Value,
        view: Value,
        at: &[Value],
        rows: Value,
    ) -> Result<()> {
        let tile = self.tile_of(x)?;
        let lies = if tile.shape.rows == 1 { self.one_row_at(view, at)? } else { self.rows_at(view, at)? };
        let live = self.ix(rows)?.low();
        let col = at.last().map(|v| self.ix(*v)).transpose()?.unwrap_or(Ix::constant(0));
        let target = Target {
            codes: Rows { base: lies.codes, pitch: lies.pitch },
            scales: lies.scales.map(|(base, pitch)| Rows { base, pitch }),
            ids: None,
            live,
            cols: self.columns_left(view, col, tile.shape.cols)?,
            format: lies.format,
        };
        self.store_to(&tile, &target)
    }
    /// `store.scatter`.
    pub(in super::super) fn store_scatter(
        &mut self,
        x: Value,
        view: Value,
        (ids, at): (Value, &[Value]),
        col: Value,
        rows: Value,
    ) -> Result<()> {
        let tile = self.tile_of(x)?;
        if tile.shape.rows > SCATTERED {
            return Err(unsupported(format!("scattering {} rows at a time", tile.shape.rows)));
        }
        let ty =
            self.kernel.param_of(view).map(|p| p.ty.clone()).ok_or_else(|| unsupported("no parameter"))?;
        let lies = pitches(&ty).ok_or_else(|| unsupported(format!("writing {ty} in vector code")))?;
        let (col, live) = (self.ix(col)?, self.ix(rows)?.low());
        let cols = self.columns_left(view, col, tile.shape.cols)?;
        let along = |e: &mut Self, plane: usize, bits: usize| -> Result<Reg> {
            let base = e.plane(view, plane)?;
            let byte = e.asm.fold_mul(col.low(), bits as i64);
            let byte = e.asm.fold_div(byte, 8i64);
            Ok(e.asm.element(base, byte, 1))
        };
        let codes = along(self, 0, ty.format.elem.bits())?;
        let codes = Rows { base: codes, pitch: lies.codes };
        let scales = match ty.format.group {
            None => None,
            Some(g) => {
                let base = self.plane(view, 1)?;
                let group = self.asm.fold_div(col.low(), g.cols as i64);
                let base = self.asm.element(base, group, 1);
                Some(Rows { base, pitch: ty.shape.last().and_then(Dim::fixed).unwrap_or(0) / g.cols })
            }
        };
        // Lane l keeps the place of row l.
        let list = self.plane(ids, 0)?;
        let first = at.last().map(|v| self.ix(*v)).transpose()?.unwrap_or(Ix::constant(0));
        let asm = &mut self.asm;
        let lane = self.team.lane;
        let inside = asm.setp(Cmp::Lt, Ty::S32, lane, live);
        let place = asm.fold_add(lane, first.low());
        let from = asm.element(list, place, 4);
        let id = asm.mov_b32(0u32);
        asm.guard(inside, |asm| asm.ld_to(&[id], Space::Global, Ty::B32, from));
        let target = Target { codes, scales, ids: Some(id), live, cols, format: ty.format };
        self.store_to(&tile, &target)
    }
    /// Columns of a view from `col` on, if a tile of `width` there may hang over its edge.
    fn columns_left(&mut self, view: Value, col: Ix, width: usize) -> Result<Option<Reg>> {
        let ty = self.kernel.param_of(view).map(|p| &p.ty).ok_or_else(|| unsupported("no parameter"))?;
        let all = match ty.shape.last() {
            Some(Dim::Fixed(n)) => Ix::constant(*n as i64),
            Some(dim) => {
                let dim = dim.clone();
                self.dim(&dim)
            }
            None => return Ok(None),
        };
        let fits = match all.known() {
            Some(n) => match col.known() {
                Some(c) => c + width as i64 <= n,
                None => (n as usize).is_multiple_of(width) && col.divisor().is_multiple_of(width),
            },
            None => false,
        };
        if fits {
            return Ok(None);
        }
        let left = self.asm.fold_sub(all.low(), col.low());
        Ok(Some(self.asm.in_reg(Ty::S32, left)))
    }

    fn store_to(&mut self, tile: &Tile, target: &Target) -> Result<()> {
        let shape = tile.shape;
        if let Data::Columns(columns) = &tile.data {
            return self.store_codes(&shape, columns, target);
        }
        let regs = self.regs(tile)?;
        let elem = target.format.elem;
        if shape.form == Form::Lanes {
            return self.store_lanes(&shape, &regs, target);
        }
        if !self.by_columns(&shape) {
            return Err(unsupported(format!("storing rows of a tile {}x{}", shape.rows, shape.cols)));
        }
        match elem {
            Elem::Bf16 if shape.rows.is_multiple_of(2) && target.codes.pitch.is_multiple_of(4) => {
                self.store_pairs(&shape, &regs, target);
                Ok(())
            }
            Elem::Bf16 | Elem::F32 | Elem::I32 => {
                let thread = self.team.thread;
                let inside = self.inside(thread, &shape, target.cols);
                let bytes = (elem.bits() / 8) as u32;
                for (row, x) in regs.iter().enumerate() {
                    let live = self.live(Operand::Int(row as i64), target, inside);
                    let at = self.row_at(target, target.codes, (row, None), (thread, bytes));
                    let (ty, x) =
                        if elem == Elem::Bf16 { (Ty::U16, self.asm.bf16_f32(*x)) } else { (Ty::B32, *x) };
                    self.asm.guard(live, |asm| asm.st_global(ty, at, x));
                }
                Ok(())
            }
            Elem::I64 | Elem::E4m3 | Elem::E2m1 => Err(unsupported("a plain tile in a quantised format")),
        }
    }

    /// True where this thread's column, number `col` of the tile, lies inside tile and view; `None` if always.
    fn inside(&mut self, col: Reg, shape: &Shape, left: Option<Reg>) -> Option<Reg> {
        let asm = &mut self.asm;
        let tile = (shape.cols < shape.threads).then(|| asm.setp(Cmp::Lt, Ty::S32, col, shape.cols as i64));
        match (tile, left) {
            (None, None) => None,
            (Some(p), None) => Some(p),
            (None, Some(n)) => Some(asm.setp(Cmp::Lt, Ty::S32, col, n)),
            (Some(p), Some(n)) => {
                Some(asm.setp_with(Cmp::Lt, Ty::S32, [col.into(), n.into()], Logic::And, (p, true)))
            }
        }
    }
    /// True if row `row` is live and `inside` holds.
    fn live(&mut self, row: Operand, target: &Target, inside: Option<Reg>) -> Reg {
        let row = self.asm.in_reg(Ty::S32, row);
        match inside {
            None => self.asm.setp(Cmp::Lt, Ty::S32, row, target.live),
            Some(p) => self.asm.setp_with(Cmp::Lt, Ty::S32, [row.into(), target.live], Logic::And, (p, true)),
        }
    }
    /// Address of row `row` + `by` (a number of this lane), `bytes` · `step` from its start.
    fn row_at(
        &mut self,
        target: &Target,
        rows: Rows,
        (row, by): (usize, Option<Reg>),
        (step, bytes): (Reg, u32),
    ) -> Addr {
        let asm = &mut self.asm;
        match target.ids {
            None => {
                let along = asm.element(rows.base, step, bytes);
                let from = match by {
                    None => along,
                    Some(by) => asm.element(along, by, rows.pitch as u32),
                };
                from.at((row * rows.pitch) as i64)
            }
            Some(ids) => {
                let id = match by {
                    None => asm.shfl_idx(ids, row as u32),
                    Some(by) => {
                        let source = asm.add_u32(by, row as u32);
                        asm.shfl_idx(ids, source)
                    }
                };
                let along = asm.element(rows.base, step, bytes);
                asm.element(along, id, rows.pitch as u32).at(0)
            }
        }
    }

    /// bf16 columns: an even lane writes both columns of a pair in even rows, its neighbour in odd rows.
    fn store_pairs(&mut self, shape: &Shape, regs: &[Reg], target: &Target) {
        let thread = self.team.thread;
        let odd = self.asm.and_b32(thread, 1u32);
        let is_odd = self.asm.setp(Cmp::Ne, Ty::U32, odd, 0u32);
        let first = self.asm.sub_u32(thread, odd);
        let inside = self.inside(first, shape, target.cols);
        let last = match target.cols {
            // A view of an odd number of columns ends within a pair.
            Some(_) => Some(self.asm.add_u32(first, 1u32)),
            None => None,
        };
        let whole = match last {
            Some(last) => self.inside(last, shape, target.cols),
            None => inside,
        };
        for (i, pair) in regs.chunks(2).enumerate() {
            let asm = &mut self.asm;
            let (even_row, odd_row) = (pair[0], pair[1]);
            let sent = asm.selp(Ty::F32, even_row, odd_row, is_odd);
            let kept = asm.selp(Ty::F32, odd_row, even_row, is_odd);
            let got = asm.shfl_bfly(sent, 1u32);
            let low = asm.selp(Ty::F32, got, kept, is_odd);
            let high = asm.selp(Ty::F32, kept, got, is_odd);
            let word = asm.bf16x2_f32(high, low);
            let row = asm.add_u32(odd, 2 * i as u32);
            let live = self.live(row.into(), target, whole);
            let at = self.row_at(target, target.codes, (2 * i, Some(odd)), (first, 2));
            self.asm.guard(live, |asm| asm.st_global(Ty::B32, at, word));
        }
    }

    /// Codes of columns: four lanes turn squares of bytes, so that each writes four columns of one row of four; scales by
    /// the lane of the row's number.
    fn store_codes(&mut self, shape: &Shape, columns: &Columns, target: &Target) -> Result<()> {
        let scales = target.scales.ok_or_else(|| unsupported("scales that are nowhere"))?;
        if columns.format != target.format || shape.rows > WARP {
            return Err(unsupported("storing codes of another format"));
        }
        let thread = self.team.thread;
        let own = self.asm.and_b32(thread, 3u32);
        let first = self.asm.sub_u32(thread, own);
        let inside = self.inside(first, shape, target.cols);
        let one = self.asm.and_b32(thread, 1u32);
        let one = self.asm.setp(Cmp::Ne, Ty::U32, one, 0u32);
        let two = self.asm.and_b32(thread, 2u32);
        let two = self.asm.setp(Cmp::Ne, Ty::U32, two, 0u32);
        // Bytes of the own word and of the neighbour's: rows 0, 2 of both in even lanes, 1, 3 in odd ones.
        let by_one = self.asm.selp(Ty::B32, 0x3715u32, 0x6240u32, one);
        // Rows 0, 1 in lower lanes, 2, 3 in upper ones.
        let by_two = self.asm.selp(Ty::B32, 0x3276u32, 0x5410u32, two);
        for (i, word) in columns.words.iter().enumerate() {
            let asm = &mut self.asm;
            let other = asm.shfl_bfly(*word, 1u32);
            let half = asm.prmt(*word, other, by_one);
            let other = asm.shfl_bfly(half, 2u32);
            let whole = asm.prmt(half, other, by_two);
            let row = asm.add_u32(own, 4 * i as u32);
            let live = self.live(row.into(), target, inside);
            let at = self.row_at(target, target.codes, (4 * i, Some(own)), (first, 1));
            self.asm.guard(live, |asm| asm.st_global(Ty::B32, at, whole));
        }
        let lane = self.team.lane;
        let byte = self.asm.mov_b32(columns.scales[0]);
        for (row, scale) in columns.scales.iter().enumerate().skip(1) {
            let here = self.asm.setp(Cmp::Eq, Ty::U32, lane, row as u32);
            self.asm.selp_to(byte, Ty::B32, *scale, byte, here);
        }
        let inside = self.inside(thread, shape, target.cols);
        let rows = self.asm.setp(Cmp::Lt, Ty::U32, lane, shape.rows as u32);
        let inside = match inside {
            None => rows,
            Some(p) => self.asm.and_pred(p, rows),
        };
        let live = self.live(lane.into(), target, Some(inside));
        let warp = self.asm.shr_u32(thread, 5u32);
        let at = match target.ids {
            None => {
                let along = self.asm.element(scales.base, warp, 1);
                self.asm.element(along, lane, scales.pitch as u32)
            }
            Some(ids) => {
                let along = self.asm.element(scales.base, warp, 1);
                self.asm.element(along, ids, scales.pitch as u32)
            }
        };
        let byte = self.asm.u8_u32(byte);
        self.asm.guard(live, |asm| asm.st_global(Ty::U8, at, byte));
        Ok(())
    }

    /// Rows, one a thread.
    fn store_lanes(&mut self, shape: &Shape, regs: &[Reg], target: &Target) -> Result<()> {
        if target.format != Format::F32 || target.ids.is_some() || target.cols.is_some() {
            return Err(unsupported("storing rows one a thread, other than whole rows of f32"));
        }
        let thread = self.team.thread;
        let live = self.live(thread.into(), target, None);
        let at = self.asm.element(target.codes.base, thread, target.codes.pitch as u32);
        let wide = shape.cols.is_multiple_of(4) && target.codes.pitch.is_multiple_of(16);
        for (i, part) in regs.chunks(if wide { 4 } else { 1 }).enumerate() {
            let at = at.at((16 * i) as i64 / if wide { 1 } else { 4 });
            self.asm.guard(live, |asm| match part {
                [one] => asm.st_global(Ty::F32, at, *one),
                many => asm.st_global_vec(Ty::F32, at, many),
            });
        }
        Ok(())
    }
}
