//! Matrix ops: calls of micro-kernels on slots.

use super::ix::Ix;
use super::slot::Storage;
use super::tile::Mem;
use super::{Emitter, Result, unsupported};
use crate::target::cpu::calls::Call;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::Value as Ssa;
use cranelift_codegen::ir::types::{I32, I64};
use tessera_ir::Format;
use tessera_ir::graph::Round;
use tessera_ir::tile::Value;
use tessera_ir::types::panel_bytes;

impl Emitter<'_> {
    /// Rows of a decoded slot, the distance from row to row in columns, and how many there are.
    fn rows(&mut self, slot: Value) -> Result<(Mem, Ssa, usize)> {
        let slot = self.slot(slot)?;
        let m = self.slot_rows(&slot)?;
        let width = match &slot.storage {
            Storage::Plain(_, width) => self.dim(width),
            Storage::Coded(..) | Storage::Panels { .. } => self.dim(&slot.ty.cols),
        };
        Ok((m, self.val(width), slot.ty.rows))
    }

    /// The same of a slot whose rows have no gaps, so that the distance is the number of columns.
    fn rows_and_cols(&mut self, slot: Value) -> Result<(Mem, Ssa, usize)> {
        let s = self.slot(slot)?;
        match &s.storage {
            Storage::Plain(_, width) if *width != s.ty.cols => {
                Err(unsupported(format!("a product of {} columns as an operand of another", s.ty.cols)))
            }
            Storage::Plain(..) | Storage::Coded(..) | Storage::Panels { .. } => self.rows(slot),
        }
    }

    fn number(&mut self, n: usize) -> Ssa {
        self.val(Self::size(n))
    }

    /// Column `col` of the first row of a slot.
    fn column(&mut self, m: &Mem, col: Ix) -> Ssa {
        let by = self.mul(col, Ix::Const(4));
        self.offset(m.ptr, by)
    }

    /// `mma`.
    pub(super) fn mma(&mut self, acc: Value, a: Value, b: Value, rows: Value, init: bool) -> Result<()> {
        let m = self.index(rows)?;
        let (a_value, a, b) = (a, self.slot(a)?, self.slot(b)?);
        let Storage::Panels { param, first, count } = b.storage else {
            return Err(unsupported(format!("weights in {} that do not lie in panels", b.ty.format)));
        };
        let depth = &self.kernel.params[param].ty;
        let stride = depth.shape.last().and_then(|k| panel_bytes(b.ty.format, k.fixed()?));
        let stride = stride.ok_or_else(|| unsupported(format!("panels of {depth}")))?;
        let call = match b.ty.format {
            f if f == Format::W8 => Call::MmaW8,
            f if f == Format::MX4 => Call::MmaW4,
            f if f == Format::BF16 => Call::MmaBf16,
            f if f == Format::F32 => Call::MmaF32,
            f => return Err(unsupported(format!("weights in {f}"))),
        };
        let scaled = b.ty.format.group.is_some();
        let (a_rows, lda, a_scales) = match a.storage {
            Storage::Coded(..) if scaled => {
                let (codes, scales) = self.coded_slot(&a)?;
                let lda = self.dim(&a.ty.cols);
                (codes, self.val(lda), Some(scales))
            }
            Storage::Coded(..) | Storage::Plain(..) | Storage::Panels { .. } => {
                let (rows, lda, _) = self.rows(a_value)?;
                (rows, lda, None)
            }
        };
        let (acc, ldo, _) = self.rows(acc)?;
        let k = self.dim(&a.ty.cols);
        let k = self.val(k);
        let m = self.val(m);
        let panels = self.b.use_var(count);
        let weights = self.b.use_var(first);
        let stride = self.number(stride);
        let more = self.b.ins().iconst(I32, i64::from(!init));
        let mut args = vec![m, panels, k, a_rows.ptr, lda];
        if scaled {
            let scales = match &a_scales {
                Some(scales) => scales.ptr,
                None => self.b.ins().iconst(I64, 0),
            };
            let lds = a_scales.map_or(Ix::Const(0), |s| s.stride);
            let lds = self.div_const(lds, 4);
            let lds = self.val(lds);
            args.extend([scales, lds]);
        }
        args.extend([weights, stride, acc.ptr, ldo, more]);
        self.call(call, &args);
        Ok(())
    }

    /// `mma.scores`; `part` is the first column and the number of keys.
    pub(super) fn mma_scores(
        &mut self,
        acc: Value,
        q: Value,
        keys: Value,
        part: (Value, Value),
        scale: f32,
    ) -> Result<()> {
        let (col, n) = (self.index(part.0)?, self.index(part.1)?);
        let (q, d, heads) = self.rows_and_cols(q)?;
        let (keys, _, _) = self.rows_and_cols(keys)?;
        let (acc, ldo, _) = self.rows(acc)?;
        let out = self.column(&acc, col);
        let heads = self.number(heads);
        let n = self.val(n);
        let scale = self.b.ins().f32const(scale);
        self.call(Call::AttnScores, &[q.ptr, heads, d, keys.ptr, n, scale, out, ldo]);
        Ok(())
    }

    /// `mma.values`.
    pub(super) fn mma_values(
        &mut self,
        acc: Value,
        e: Value,
        values: Value,
        part: (Value, Value),
    ) -> Result<()> {
        let (col, n) = (self.index(part.0)?, self.index(part.1)?);
        let (e, lde, heads) = self.rows(e)?;
        let (values, d, _) = self.rows_and_cols(values)?;
        let (acc, _, _) = self.rows_and_cols(acc)?;
        let weights = self.column(&e, col);
        let heads = self.number(heads);
        let n = self.val(n);
        self.call(Call::AttnValues, &[weights, lde, heads, n, values.ptr, d, acc.ptr]);
        Ok(())
    }

    /// `mma.index`; `queries` are the heads and their weights.
    pub(super) fn mma_index(
        &mut self,
        acc: Value,
        queries: (Value, Value),
        keys: Value,
        part: (Value, Value),
        round: Round,
    ) -> Result<()> {
        let (col, n) = (self.index(part.0)?, self.index(part.1)?);
        let (q, d, heads) = self.rows_and_cols(queries.0)?;
        let (w, _, _) = self.rows_and_cols(queries.1)?;
        let (keys, _, _) = self.rows_and_cols(keys)?;
        let (acc, _, _) = self.rows_and_cols(acc)?;
        let out = self.column(&acc, col);
        let heads = self.number(heads);
        let n = self.val(n);
        let round = match round {
            Round::None => 0,
            Round::Bf16 => 1,
        };
        let round = self.b.ins().iconst(I32, round);
        self.call(Call::IndexScores, &[q.ptr, w.ptr, heads, d, keys.ptr, n, round, out]);
        Ok(())
    }
}
