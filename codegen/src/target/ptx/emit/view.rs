//! Addresses of parameters in device memory, layout by layout.

use super::index::Ix;
use super::{Emitter, Result, unsupported};
use crate::target::ptx::isa::{Addr, Operand, Reg, Ty};
use tessera_ir::tile::{Access, Op, Stmt, Value};
use tessera_ir::{Elem, Format, Layout, TensorType};

/// Where a block of rows of a parameter lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// Address of the first row's first element or code.
    pub(super) codes: Reg,
    /// Bytes from row to row.
    pub(super) pitch: usize,
    /// Address of the first row's first scale, and bytes from row to row.
    pub(super) scales: Option<(Reg, usize)>,
    /// Format in memory.
    pub(super) format: Format,
    /// Alignment that addresses of rows have, bytes.
    pub(super) align: usize,
    /// Alignment of the first row, bytes.
    pub(super) start: usize,
    /// True for memory that the kernel only reads.
    pub(super) constant: bool,
}

/// Bytes from row to row of the planes of a type: codes, then scales and where they begin in the row.
pub(super) struct Pitches {
    pub(super) codes: usize,
    pub(super) scales: Option<Scales>,
}

/// Scales of a row.
pub(super) struct Scales {
    /// Plane they lie in.
    plane: usize,
    /// Bytes from row to row.
    pitch: usize,
    /// Bytes from the row's start.
    offset: usize,
}

/// How rows of `ty` lie; `None` for layouts that only the matrix unit reads.
pub(super) fn pitches(ty: &TensorType) -> Option<Pitches> {
    // A list has one row, whatever its length.
    let cols = match ty.shape.as_slice() {
        [length] => length.fixed().unwrap_or(0),
        [.., cols] => cols.fixed()?,
        [] => return None,
    };
    let format = ty.format;
    let codes = cols.checked_mul(format.elem.bits())?.div_ceil(8);
    let groups = format.group.map(|g| cols / g.cols);
    match ty.layout {
        Layout::Rows => match format.group {
            None => Some(Pitches { codes, scales: None }),
            Some(g) if g.rows != 1 => None,
            Some(_) if format.planes() == 2 => {
                let scales = groups.map(|n| Scales { plane: 1, pitch: n, offset: 0 });
                Some(Pitches { codes, scales })
            }
            Some(_) => {
                let pitch = format.row_bytes(cols)?;
                let scales = Some(Scales { plane: 0, pitch, offset: codes });
                Some(Pitches { codes: pitch, scales })
            }
        },
        Layout::Pitch16 => {
            let pitch = format.row_bytes(cols)?.next_multiple_of(16);
            let scales = groups.map(|_| Scales { plane: 0, pitch, offset: codes });
            Some(Pitches { codes: pitch, scales })
        }
        Layout::Split => {
            let scales = groups.map(|n| Scales { plane: 1, pitch: n.next_multiple_of(4), offset: 0 });
            Some(Pitches { codes: codes.next_multiple_of(16), scales })
        }
        Layout::Panels16 | Layout::Blocks128 | Layout::Split3 => None,
    }
}

/// Largest power of two that divides `n`, 16 at most.
fn power(n: usize) -> usize {
    1 << n.trailing_zeros().min(4)
}

impl Emitter<'_> {
    /// Rows of `view` from `at` on.
    pub(super) fn rows_at(&mut self, view: Value, at: &[Value]) -> Result<Rows> {
        let param = self.kernel.param_of(view).ok_or_else(|| unsupported("no parameter"))?;
        let (ty, constant) = (&param.ty, param.access == Access::Read);
        let lies = pitches(ty)
            .ok_or_else(|| unsupported(format!("reading or writing {} in vector code", param.ty)))?;
        let at = at.iter().map(|v| self.ix(*v)).collect::<Result<Vec<Ix>>>()?;
        let n = at.len();
        let (col, outer) = at.split_last().ok_or_else(|| unsupported("a scalar"))?;
        // Rows of all dimensions but the last, counted as one.
        let mut row = Ix::constant(0);
        for (i, ix) in outer.iter().enumerate() {
            let dim = self.dim(&ty.shape[i]);
            let down = self.ix_mul(row, dim);
            row = self.ix_add(down, *ix);
        }
        debug_assert_eq!(n, ty.shape.len());
        let format = ty.format;
        let (group, bits) = (format.group.map_or(1, |g| g.cols), format.elem.bits());
        let base = self.plane(view, 0)?;
        let codes = self.row_address(base, row, lies.codes);
        // Columns of a group begin together.
        let bytes = self.scaled(*col, bits);
        let codes = self.moved(codes, bytes);
        let along = (col.divisor() * bits / 8).clamp(1, 16);
        let align = power(lies.codes).min(along);
        let start = power(lies.codes.saturating_mul(row.divisor())).min(along);
        let scales = match lies.scales {
            None => None,
            Some(s) => {
                let base = self.plane(view, s.plane)?;
                let start = self.row_address(base, row, s.pitch);
                let along = self.ix_binary(tessera_ir::tile::IndexOp::Div, *col, Ix::constant(group as i64));
                let along = self.ix_add(along, Ix::constant(s.offset as i64));
                let address = self.moved(start, along);
                Some((address, s.pitch))
            }
        };
        Ok(Rows { codes, pitch: lies.codes, scales, format, align, start, constant })
    }

    /// `col` elements of `bits` bits in bytes.
    fn scaled(&mut self, col: Ix, bits: usize) -> Ix {
        if bits >= 8 {
            return self.ix_mul(col, Ix::constant(bits as i64 / 8));
        }
        self.ix_binary(tessera_ir::tile::IndexOp::Div, col, Ix::constant(8 / bits as i64))
    }
    /// `base + row · pitch`.
    fn row_address(&mut self, base: Reg, row: Ix, pitch: usize) -> Reg {
        match row.known() {
            Some(0) => base,
            Some(n) => self.asm.add_s64(base, n.wrapping_mul(pitch as i64)),
            None if row.narrow() && row.natural() && u32::try_from(pitch).is_ok() => {
                self.asm.element(base, row.low(), pitch as u32)
            }
            None => {
                let long = self.long(row);
                let long = self.asm.in_reg(Ty::B64, long);
                self.asm.mad_s64(long, pitch as i64, base)
            }
        }
    }
    /// `address + bytes`.
    fn moved(&mut self, address: Reg, bytes: Ix) -> Reg {
        match bytes.known() {
            Some(0) => address,
            Some(n) => self.asm.add_s64(address, n),
            None => {
                let long = self.long(bytes);
                self.asm.add_s64(address, long)
            }
        }
    }
    /// Address and format of one element of an unscaled row-major view, whose dimensions may all be symbolic.
    pub(super) fn plain_at(&mut self, view: Value, at: &[Value]) -> Result<(Reg, Format)> {
        let param = self.kernel.param_of(view).ok_or_else(|| unsupported("no parameter"))?;
        let ty = &param.ty;
        if ty.format.group.is_some() || ty.layout != Layout::Rows {
            return Err(unsupported(format!("elements of {ty}")));
        }
        let mut number = Ix::constant(0);
        for (v, dim) in at.iter().zip(&ty.shape) {
            let (ix, dim) = (self.ix(*v)?, self.dim(dim));
            let down = self.ix_mul(number, dim);
            number = self.ix_add(down, ix);
        }
        let bytes = self.ix_mul(number, Ix::constant(ty.format.elem.bits() as i64 / 8));
        let base = self.plane(view, 0)?;
        Ok((self.moved(base, bytes), ty.format))
    }
    /// One row of `view` from `at` on, whose dimensions may all be symbolic if it is unscaled and row-major.
    pub(super) fn one_row_at(&mut self, view: Value, at: &[Value]) -> Result<Rows> {
        let param = self.kernel.param_of(view).ok_or_else(|| unsupported("no parameter"))?;
        if pitches(&param.ty).is_some() {
            return self.rows_at(view, at);
        }
        let constant = param.access == Access::Read;
        let (codes, format) = self.plain_at(view, at)?;
        let align = format.elem.bits() / 8;
        Ok(Rows { codes, pitch: 0, scales: None, format, align, start: align, constant })
    }
    /// Element type and address of one element of an unscaled view.
    pub(super) fn element_at(&mut self, view: Value, at: &[Value]) -> Result<(Elem, Addr)> {
        let (address, format) = self.plain_at(view, at)?;
        Ok((format.elem, address.at(0)))
    }
    /// True if the kernel reads parameter `view` as indices.
    pub(super) fn is_read(&self, view: Value) -> bool {
        fn block(stmts: &[Stmt], view: Value) -> bool {
            stmts.iter().any(|stmt| match stmt {
                Stmt::Op(node) => matches!(&node.op, Op::IndexRead { view: v, .. } if *v == view),
                Stmt::For { body, .. } | Stmt::If { body, .. } => block(body, view),
            })
        }
        block(&self.kernel.roles[self.team.role].body, view)
    }
    /// A signed 32-bit number times bytes as a 64-bit offset.
    pub(super) fn offset(&mut self, n: impl Into<Operand>, bytes: u32) -> Reg {
        let n = self.asm.in_reg(Ty::U32, n);
        self.asm.mul_wide_u32(n, bytes)
    }
}
