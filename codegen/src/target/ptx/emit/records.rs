//! Gathers of raw cache records: whole rows, codes and scales, four in a bulk copy.
//!
//! Lane l brings rows 4l to 4l + 3 of a slot, which lie one after another; groups of four begin at multiples of 128 bytes. The
//! box is one record in words of 32 bits, because a box has at most 256 elements. Rows that are none are asked for at −1,
//! outside the tensor, where copies give zeros and count their bytes.

use super::{Emitter, Result, unsupported};
use crate::target::ptx::artifact::{MapElem, MapFill, MapSwizzle, TensorMapSpec};
use crate::target::ptx::emit::READ;
use crate::target::ptx::extent::Extent;
use crate::target::ptx::isa::{BulkLoad, Cmp, Operand, Reg, Symbol, Ty};
use std::collections::BTreeMap;
use tessera_ir::tile::{Node, Op, Param, Stmt, Value};
use tessera_ir::{Dim, Format, Layout};

/// Rows of one copy.
const QUAD: usize = 4;

/// Rows of records whose copies come next, by slot: this lane's four.
#[derive(Debug, Default)]
pub(super) struct Ahead(BTreeMap<Value, [Reg; QUAD]>);

/// Bytes from record to record, and from group to group, of a raw slot.
pub(super) fn pitches(format: Format, dim: usize) -> Option<(usize, usize)> {
    let record = format.row_bytes(dim)?.next_multiple_of(16);
    Some((record, (QUAD * record).next_multiple_of(128)))
}

impl Emitter<'_> {
    /// True for slots of raw records.
    pub(super) fn is_raw(&self, slot: Value) -> bool {
        self.held(slot).is_ok_and(|held| {
            let format = self.ring_held(held).slot.format;
            format == Format::KV8 || format == Format::KV4
        })
    }

    /// `copy.rows` and `copy.wrap` of records.
    pub(super) fn copy_records(&mut self, op: &Op) -> Result<()> {
        let (view, slot) = match op {
            Op::CopyRows { view, slot, per: 1, .. } | Op::CopyWrap { view, slot, .. } => (*view, *slot),
            other => {
                return Err(unsupported(format!(
                    "`{}` of records, several rows to an entry",
                    other.mnemonic()
                )));
            }
        };
        let held = self.held(slot)?;
        let ring = self.ring_held(held);
        let param = self.kernel.param_of(view).ok_or_else(|| unsupported("a copy of no parameter"))?;
        let dim = param.ty.shape.last().and_then(Dim::fixed);
        let dim = dim.filter(|d| ring.slot.cols.fixed() == Some(*d));
        let dim = dim.filter(|_| param.ty.layout == Layout::Pitch16 && param.ty.format == ring.slot.format);
        let (record, group) = dim
            .and_then(|d| pitches(ring.slot.format, d))
            .ok_or_else(|| unsupported("records that are not whole rows at multiples of 16 bytes"))?;
        let quads = ring.slot.rows.div_ceil(QUAD);
        if quads > 32 {
            return Err(unsupported("more than 128 records"));
        }
        let quad = match self.records.0.remove(&slot) {
            Some(quad) => quad,
            None => self.own_rows(op)?,
        };
        let map = self.map_of_records(param, record as u32);
        let bar = self.filled(held);
        let lane = self.team.lane;
        let asm = &mut self.asm;
        let dst = asm.mad_u32(lane, group, held.base);
        let mine = asm.setp(Cmp::Lt, Ty::U32, lane, quads);
        asm.guard(mine, |asm| {
            let map = asm.ld_param(map);
            asm.tma_gather4(
                BulkLoad::default(),
                dst.at(held.offset),
                map,
                0i64,
                quad.map(Operand::from),
                bar,
            );
        });
        Ok(())
    }

    /// Finds, before the role waits for a slot, the rows that the copy after it brings: entries of a list arrive meanwhile.
    pub(super) fn records_ahead(&mut self, node: &Node, next: Option<&Stmt>) -> Result<()> {
        let (Op::Acquire { ring }, Some((slot, _)), Some(Stmt::Op(next))) = (&node.op, &node.result, next)
        else {
            return Ok(());
        };
        let raw =
            self.kernel.ring_of(*ring).is_some_and(|r| matches!(r.slot.format, Format::KV8 | Format::KV4));
        let (Op::CopyRows { slot: into, .. } | Op::CopyWrap { slot: into, .. }) = &next.op else {
            return Ok(());
        };
        if raw && into == slot {
            self.asm.comment("rows of the copy after the wait");
            let quad = self.own_rows(&next.op)?;
            self.records.0.insert(*slot, quad);
        }
        Ok(())
    }

    /// Rows of the view that this lane brings.
    fn own_rows(&mut self, op: &Op) -> Result<[Reg; QUAD]> {
        match op {
            Op::CopyRows { view, outer, ids, at, rows, .. } => {
                let (first, _) = self.rows_under(*view, outer)?;
                self.listed(first, *ids, at, *rows)
            }
            Op::CopyWrap { view, outer, start, rows, .. } => {
                let (first, size) = self.rows_under(*view, outer)?;
                self.wrapped(first, size, *start, *rows)
            }
            other => Err(unsupported(format!("`{}` of records", other.mnemonic()))),
        }
    }

    /// First row of `view[outer…]`, rows of all dimensions but the last counted as one; and its number of rows.
    fn rows_under(&mut self, view: Value, outer: &[Value]) -> Result<(Operand, Operand)> {
        let param = self.kernel.param_of(view).ok_or_else(|| unsupported("a copy of no parameter"))?;
        let dims: Vec<Operand> = param.ty.shape.iter().map(|d| self.dim(d).low()).collect();
        let Some((rest, _)) = dims.get(outer.len()..).and_then(|d| d.split_last().map(|(last, d)| (d, last)))
        else {
            return Err(unsupported("rows of a view without rows"));
        };
        let mut first = Operand::Int(0);
        for (v, d) in outer.iter().zip(&dims) {
            let down = self.asm.fold_mul(first, *d);
            let n = self.ix(*v)?.low();
            first = self.asm.fold_add(down, n);
        }
        let rows = rest.iter().fold(Operand::Int(1), |all, d| self.asm.fold_mul(all, *d));
        Ok((self.asm.fold_mul(first, rows), rows))
    }

    /// Rows that a list names: this lane's four.
    fn listed(&mut self, first: Operand, ids: Value, at: &[Value], rows: Value) -> Result<[Reg; QUAD]> {
        let live = self.ix(rows)?.low();
        let list = self.rows_at(ids, at)?.codes;
        let asm = &mut self.asm;
        let own = asm.shl_b32(self.team.lane, 2);
        let from = asm.mad_wide_u32(own, 4, list);
        let mut quad = [own; QUAD];
        for (i, row) in quad.iter_mut().enumerate() {
            *row = asm.mov_b32(-1i64);
            let n = if i == 0 { own } else { asm.add_u32(own, i) };
            let inside = asm.setp(Cmp::Lt, Ty::S32, n, live);
            asm.guard(inside, |asm| asm.ld_hint_to(&[*row], READ, Ty::S32, from.at(4 * i as i64)));
        }
        for row in quad {
            let entry = asm.setp(Cmp::Ge, Ty::S32, row, 0);
            asm.guard(entry, |asm| asm.add_s32_to(row, row, first));
        }
        Ok(quad)
    }

    /// Rows that follow one another round a ring: this lane's four. At most as many as the ring has.
    fn wrapped(&mut self, first: Operand, size: Operand, start: Value, rows: Value) -> Result<[Reg; QUAD]> {
        let live = self.ix(rows)?.low();
        let start = self.ix(start)?.low();
        let asm = &mut self.asm;
        let start = asm.fold_rem(start, size);
        let own = asm.shl_b32(self.team.lane, 2);
        let mut quad = [own; QUAD];
        for (i, row) in quad.iter_mut().enumerate() {
            let n = if i == 0 { own } else { asm.add_u32(own, i) };
            let place = asm.add_s32(n, start);
            let over = asm.setp(Cmp::Ge, Ty::S32, place, size);
            asm.guard(over, |asm| asm.sub_s32_to(place, place, size));
            let place = asm.add_s32(place, first);
            let none = asm.mov_b32(-1i64);
            let inside = asm.setp(Cmp::Lt, Ty::S32, n, live);
            *row = asm.selp(Ty::B32, place, none, inside);
        }
        Ok(quad)
    }

    /// The map of records, all rows as one matrix.
    fn map_of_records(&mut self, param: &Param, record: u32) -> Symbol {
        let rows = match param.ty.shape.split_last() {
            Some((_, outer)) => outer.iter().fold(Extent::from(1u64), |all, d| all.mul(d.clone())),
            None => Extent::from(1u64),
        };
        self.declared_map(TensorMapSpec {
            param: String::new(),
            tensor: param.name.clone(),
            plane: 0,
            offset: 0,
            dtype: MapElem::U32,
            elem_strides: vec![1; 2],
            dims: vec![Extent::from(u64::from(record / 4)), rows],
            strides: vec![Extent::from(u64::from(record))],
            box_dims: vec![record / 4, 1],
            swizzle: MapSwizzle::None,
            fill: MapFill::Zero,
        })
    }
}
