//! `copy`, `copy.ring`, `copy.gather`: rows from memory into slots.

use super::ix::Ix;
use super::slot::{PANEL_ROWS, SCALE_COLS, Slot, Storage};
use super::tile::Mem;
use super::view::Rows;
use super::{Emitter, FLAGS, Result, too_large, unsupported};
use crate::target::cpu::calls::Call;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::F32;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{BlockArg, InstBuilder};
use tessera_ir::tile::Value;
use tessera_ir::types::panel_bytes;
use tessera_ir::{Dim, Elem, Format};

impl Emitter<'_> {
    /// `copy`.
    pub(super) fn copy(&mut self, view: Value, at: &[Value], slot: Value, rows: Value) -> Result<()> {
        let (at, n) = (self.indices(at)?, self.index(rows)?);
        let slot = self.slot(slot)?;
        if let Storage::Panels { param, first, count } = slot.storage {
            if param != view.index() {
                return Err(unsupported("panels of two parameters in one ring"));
            }
            let (address, panels) = self.panels(view, &at, n)?;
            self.b.def_var(first, address);
            self.b.def_var(count, panels);
            return Ok(());
        }
        let from = self.rows_at(view, &at)?;
        self.repeat(Ix::Const(0), n, 1, &mut |e, i| e.copy_row(&from, i, &slot, i))
    }

    /// Address of the panel that starts at `at`, and how many panels hold `rows` rows.
    fn panels(
        &mut self,
        view: Value,
        at: &[Ix],
        rows: Ix,
    ) -> Result<(cranelift_codegen::ir::Value, cranelift_codegen::ir::Value)> {
        let ty = self.view_type(view)?.clone();
        let (rank, format) = (ty.shape.len(), ty.format);
        let Some((depth, depth_dim)) = at.last().copied().zip(ty.shape.last()).filter(|_| rank >= 2) else {
            return Err(unsupported(format!("panels of a view {ty}")));
        };
        let stride = depth_dim
            .fixed()
            .and_then(|k| panel_bytes(format, k))
            .ok_or_else(|| unsupported(format!("panels of {ty}")))?;
        let extent = self.extent(view, rank - 2);
        const LANES: i64 = PANEL_ROWS as i64;
        let per_matrix = self.div_ceil_const(extent, LANES);
        let mut outer = Ix::Const(0);
        for (i, x) in at[..rank - 2].iter().enumerate() {
            let extent = self.extent(view, i);
            outer = self.mul(outer, extent);
            outer = self.add(outer, *x);
        }
        let before = self.mul(outer, per_matrix);
        let inside = self.div_const(at[rank - 2], LANES);
        let number = self.add(before, inside);
        let down = self.mul(number, Self::size(stride));
        // Along K a panel is a sequence of whole blocks.
        let block = format.group.map_or(1, |g| g.cols);
        let block_bytes = panel_bytes(format, block).ok_or_else(too_large)?;
        let blocks = self.div_const(depth, i64::try_from(block).map_err(|_| too_large())?);
        let right = self.mul(blocks, Self::size(block_bytes));
        let by = self.add(down, right);
        let address = self.offset(self.views[view.index()].planes[0], by);
        let left = self.sub(extent, at[rank - 2]);
        let rows = self.min(rows, left);
        let count = self.div_ceil_const(rows, LANES);
        Ok((address, self.val(count)))
    }

    /// `copy.ring`.
    pub(super) fn copy_ring(
        &mut self,
        view: Value,
        outer: &[Value],
        start: Value,
        slot: Value,
        rows: Value,
    ) -> Result<()> {
        let (outer, start, n) = (self.indices(outer)?, self.index(start)?, self.index(rows)?);
        let rank = self.view_type(view)?.shape.len();
        let slot = self.slot(slot)?;
        // The ring is all rows behind the leading indices.
        let mut length = Ix::Const(1);
        for i in outer.len()..rank.saturating_sub(1) {
            let extent = self.extent(view, i);
            length = self.mul(length, extent);
        }
        // A ring of no rows has nothing to copy; the remainder must not trap.
        let length = self.max(length, Ix::Const(1));
        let from = self.rows_behind(view, &outer)?;
        let (start, length) = (self.val(start), self.val(length));
        self.repeat(Ix::Const(0), n, 1, &mut |e, i| {
            let at = e.add(start.into(), i);
            let at = e.val(at);
            let at = e.b.ins().urem(at, length);
            e.copy_row(&from, at.into(), &slot, i)
        })
    }

    /// `copy.gather`; `ids` is the view of row numbers and where they start in it.
    pub(super) fn copy_gather(
        &mut self,
        view: Value,
        outer: &[Value],
        ids: (Value, &[Value]),
        slot: Value,
        rows: Value,
    ) -> Result<()> {
        let (outer, at, n) = (self.indices(outer)?, self.indices(ids.1)?, self.index(rows)?);
        let slot = self.slot(slot)?;
        let from = self.rows_behind(view, &outer)?;
        let list = self.view_block(ids.0, &at)?;
        self.repeat(Ix::Const(0), n, 1, &mut |e, i| {
            let (ptr, offset) = e.element(list.ptr, 0, i, list.elem);
            let id = match list.elem {
                Elem::I64 => e.b.ins().load(I64, FLAGS, ptr, offset),
                Elem::I32 | Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 => {
                    e.b.ins().sload32(FLAGS, ptr, offset)
                }
            };
            let present = e.b.create_block();
            let absent = e.b.create_block();
            let after = e.b.create_block();
            let negative = e.b.ins().icmp_imm_s(IntCC::SignedLessThan, id, 0);
            let none: [BlockArg; 0] = [];
            e.b.ins().brif(negative, absent, &none, present, &none);
            e.b.switch_to_block(present);
            let copied = e.copy_row(&from, id.into(), &slot, i);
            e.b.ins().jump(after, &none);
            e.b.switch_to_block(absent);
            let cleared = e.clear_row(&slot, i);
            e.b.ins().jump(after, &none);
            e.b.switch_to_block(after);
            copied.and(cleared)
        })
    }

    /// Row `i` of a slot's region.
    fn slot_row(&mut self, m: &Mem, i: Ix) -> cranelift_codegen::ir::Value {
        let down = self.mul(i, m.stride);
        self.offset(m.ptr, down)
    }

    /// Codes and scales of a slot that has them apart.
    pub(super) fn coded_slot(&mut self, slot: &Slot) -> Result<(Mem, Mem)> {
        let (Storage::Coded(codes, scales), Dim::Fixed(cols)) = (&slot.storage, &slot.ty.cols) else {
            return Err(unsupported(format!("a slot of {} as codes", slot.ty.format)));
        };
        let (codes, scales) = (self.region(codes), self.region(scales));
        let rows = |ptr, cols: usize| Mem {
            ptr,
            stride: Self::size(cols * 4),
            elem: Elem::F32,
            place: slot.place,
            at: None,
            hold: None,
        };
        Ok((rows(codes, *cols), rows(scales, cols / SCALE_COLS)))
    }

    /// Copies row `from + r` of a view into row `i` of a slot.
    fn copy_row(&mut self, from: &Rows, r: Ix, slot: &Slot, i: Ix) -> Result<()> {
        let cols = slot.ty.cols.clone();
        let n = self.dim(&cols);
        if let Storage::Coded(..) = slot.storage {
            let (codes, scales) = self.coded_slot(slot)?;
            let row = self.coded_row(from, r, &cols)?;
            let Some(row_scales) = row.scales.filter(|_| from.format == Format::MX8) else {
                return Err(unsupported(format!("{} rows in an mx8 slot", from.format)));
            };
            let (out, out_scales) = (self.slot_row(&codes, i), self.slot_row(&scales, i));
            let n = self.val(n);
            self.call(Call::UnpackMx8, &[row.codes, row_scales, n, out, out_scales]);
            return Ok(());
        }
        let to = self.slot_rows(slot)?;
        let out = self.slot_row(&to, i);
        if from.format.group.is_some() {
            let row = self.coded_row(from, r, &cols)?;
            return self.decode(from.format, row, out, &cols);
        }
        let m = self.plain_rows(from)?;
        let down = self.mul(r, m.stride);
        let src = self.offset(m.ptr, down);
        match m.elem {
            Elem::Bf16 => {
                let n = self.val(n);
                self.call(Call::LoadBf16, &[out, src, n]);
                Ok(())
            }
            Elem::F32 | Elem::I32 => self.columns(n, &mut |e, c, w| {
                let (from, offset) = e.element(src, 0, c, m.elem);
                let x = e.load_elem(from, offset, m.elem, w);
                let (to, offset) = e.element(out, 0, c, m.elem);
                e.store_elem(x, to, offset, m.elem, w);
            }),
            Elem::I64 | Elem::E4m3 | Elem::E2m1 => {
                Err(unsupported(format!("{} rows in a slot of {}", from.format, slot.ty.format)))
            }
        }
    }

    /// Sets row `i` of a slot to zeros.
    fn clear_row(&mut self, slot: &Slot, i: Ix) -> Result<()> {
        let zero = self.b.ins().f32const(0.0);
        debug_assert_eq!(self.b.func.dfg.value_type(zero), F32);
        let parts = match &slot.storage {
            Storage::Coded(..) => {
                let (codes, scales) = self.coded_slot(slot)?;
                vec![codes, scales]
            }
            Storage::Plain(..) | Storage::Panels { .. } => vec![self.slot_rows(slot)?],
        };
        for m in parts {
            let out = self.slot_row(&m, i);
            let n = match m.stride {
                Ix::Const(bytes) => Ix::Const(bytes / 4),
                Ix::Val(..) => self.dim(&slot.ty.cols),
            };
            self.fill(out, n, zero)?;
        }
        Ok(())
    }
}
