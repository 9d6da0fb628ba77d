//! Addresses in parameters; loads and stores of tiles.

use super::ix::Ix;
use super::lane::shift_of;
use super::tile::{Mem, Node, Place, Tile};
use super::write::Dst;
use super::{Emitter, Result, too_large, unsupported};
use cranelift_codegen::ir::Value as Ssa;
use std::rc::Rc;
use tessera_ir::tile::Value;
use tessera_ir::types::Layout;
use tessera_ir::{Dim, Format, TensorType};

/// Rows of a view, in any format: where the first one starts.
pub(super) struct Rows {
    /// The parameter.
    pub(super) param: usize,
    /// Format in memory.
    pub(super) format: Format,
    /// Number of the first row, rows of all leading dimensions counted through.
    pub(super) row: Ix,
    /// First column.
    pub(super) col: Ix,
}

/// One row of a quantised view: where codes and scales (or the whole record) start.
#[derive(Clone, Copy)]
pub(super) struct Coded {
    /// Codes, or the record.
    pub(super) codes: Ssa,
    /// Scales where they have a plane of their own.
    pub(super) scales: Option<Ssa>,
}

impl Emitter<'_> {
    /// Type of a parameter.
    pub(super) fn view_type(&self, view: Value) -> Result<&TensorType> {
        self.kernel
            .params
            .get(view.index())
            .map(|p| &p.ty)
            .ok_or_else(|| unsupported("a view that is no parameter"))
    }

    /// The rows of a view that start at `at`, one index for each dimension.
    pub(super) fn rows_at(&mut self, view: Value, at: &[Ix]) -> Result<Rows> {
        let (leading, col) = match at.split_last() {
            Some((col, leading)) => (leading, *col),
            None => (at, Ix::Const(0)),
        };
        let row = self.row_number(view, leading);
        Ok(Rows { param: view.index(), format: self.view_type(view)?.format, row, col })
    }

    /// The rows behind the prefix `outer` of a view's dimensions, all dimensions between it and the last counted through.
    pub(super) fn rows_behind(&mut self, view: Value, outer: &[Ix]) -> Result<Rows> {
        let rank = self.view_type(view)?.shape.len();
        let mut at = outer.to_vec();
        at.resize(rank.max(1), Ix::Const(0));
        self.rows_at(view, &at)
    }

    /// Number of the row at the indices of all dimensions but the last.
    fn row_number(&mut self, view: Value, leading: &[Ix]) -> Ix {
        let mut row = Ix::Const(0);
        for (i, x) in leading.iter().enumerate() {
            let extent = self.extent(view, i);
            row = self.mul(row, extent);
            row = self.add(row, *x);
        }
        row
    }

    /// Length of dimension `i` of a view.
    pub(super) fn extent(&self, view: Value, i: usize) -> Ix {
        self.views.get(view.index()).and_then(|v| v.shape.get(i)).copied().unwrap_or(Ix::Const(1))
    }

    /// Length of the last dimension.
    fn last_dim(&self, param: usize) -> Dim {
        self.kernel.params[param].ty.shape.last().cloned().unwrap_or(Dim::Fixed(1))
    }

    /// Bytes from row to row in the data plane.
    fn row_stride(&mut self, param: usize, format: Format) -> Result<Ix> {
        let cols = self.last_dim(param);
        if format.group.is_none() {
            let n = self.dim(&cols);
            return Ok(self.mul(n, Ix::Const(1 << shift_of(format.elem))));
        }
        let Dim::Fixed(n) = cols else {
            return Err(unsupported(format!("{format} rows of a length that is not known when compiling")));
        };
        let bytes =
            format.row_bytes(n).ok_or_else(|| unsupported(format!("{format} rows of {n} elements")))?;
        Ok(Self::size(bytes))
    }

    /// A block of a plain view in memory.
    pub(super) fn view_block(&mut self, view: Value, at: &[Ix]) -> Result<Mem> {
        let rows = self.rows_at(view, at)?;
        let mut m = self.plain_rows(&rows)?;
        m.at = Some(Rc::from(at));
        Ok(m)
    }

    /// Plain rows in memory.
    pub(super) fn plain_rows(&mut self, rows: &Rows) -> Result<Mem> {
        let format = rows.format;
        if format.group.is_some() || self.kernel.params[rows.param].ty.layout != Layout::Rows {
            return Err(unsupported(format!("reading {} as plain rows", self.kernel.params[rows.param].ty)));
        }
        let stride = self.row_stride(rows.param, format)?;
        let down = self.mul(rows.row, stride);
        let right = self.mul(rows.col, Ix::Const(1 << shift_of(format.elem)));
        let by = self.add(down, right);
        let ptr = self.offset(self.views[rows.param].planes[0], by);
        let place = Place::Param(rows.param);
        Ok(Mem { ptr, stride, elem: format.elem, place, at: None, hold: None })
    }

    /// Row `rows.row + i` of a quantised view, from column `rows.col`, `n` columns long.
    pub(super) fn coded_row(&mut self, rows: &Rows, i: Ix, n: &Dim) -> Result<Coded> {
        let (param, format) = (rows.param, rows.format);
        let layout = self.kernel.params[param].ty.layout;
        let Some(group) = format.group else {
            return Err(unsupported(format!("{format} as quantised rows")));
        };
        if layout != Layout::Rows || group.rows != 1 {
            return Err(unsupported(format!("rows of {}", self.kernel.params[param].ty)));
        }
        let stride = self.row_stride(param, format)?;
        let row = self.add(rows.row, i);
        let down = self.mul(row, stride);
        let planes = self.views[param].planes.clone();
        match planes.as_slice() {
            [codes, scales] => {
                // Scales of a row follow those of the row before.
                let cols = i64::try_from(group.cols).map_err(|_| too_large())?;
                let full = self.dim(&self.last_dim(param));
                let per_row = self.div_const(full, cols);
                let bits = i64::try_from(format.elem.bits()).map_err(|_| too_large())?;
                let across = self.mul(rows.col, Ix::Const(bits));
                let across = self.div_const(across, 8);
                let right = self.div_const(rows.col, cols);
                let scales_down = self.mul(row, per_row);
                let (a, b) = (self.add(down, across), self.add(scales_down, right));
                Ok(Coded { codes: self.offset(*codes, a), scales: Some(self.offset(*scales, b)) })
            }
            [record] => {
                if rows.col != Ix::Const(0) || *n != self.last_dim(param) {
                    return Err(unsupported(format!("a part of a {format} record (take whole rows)")));
                }
                Ok(Coded { codes: self.offset(*record, down), scales: None })
            }
            _ => Err(unsupported(format!("{format} in {} memory planes", planes.len()))),
        }
    }

    /// `load`.
    pub(super) fn load(
        &mut self,
        v: Value,
        view: Value,
        at: &[Value],
        rows: usize,
        cols: &Dim,
    ) -> Result<()> {
        if self.uses.get(v.index()).copied().unwrap_or(0) == 0 {
            return Ok(());
        }
        let at = self.indices(at)?;
        let format = self.view_type(view)?.format;
        let (node, format) = match (format.group, format.elem) {
            (Some(_), _) => {
                let from = self.rows_at(view, &at)?;
                let mem = self.temp(rows, cols, tessera_ir::Elem::F32)?;
                self.decode_rows(&from, Self::size(rows), &mem, cols)?;
                (Node::Mem(mem), Format::F32)
            }
            (None, tessera_ir::Elem::I32) => (Node::Mem(self.view_block(view, &at)?), Format::I32),
            (None, tessera_ir::Elem::I64) => return Err(unsupported("an i64 tile (use index.read)")),
            (None, _) => (Node::Mem(self.view_block(view, &at)?), Format::F32),
        };
        self.bind_tile(v, Tile { rows, cols: cols.clone(), format, node })
    }

    /// `store`.
    pub(super) fn store(&mut self, x: Value, view: Value, at: &[Value]) -> Result<()> {
        let at = self.indices(at)?;
        let format = self.view_type(view)?.format;
        let t = self.tile(x)?;
        if let Node::Quantised(m) = &t.node {
            let to = self.rows_at(view, &at)?;
            return self.encode_rows(&t, m, &to);
        }
        if format.group.is_some() {
            return Err(unsupported(format!("storing a plain tile as {format} (cast it)")));
        }
        let block = self.view_block(view, &at)?;
        let t = self.safe_to_write(t, &block)?;
        self.write(&t, Dst { ptr: block.ptr, stride: block.stride, elem: block.elem })
    }
}
