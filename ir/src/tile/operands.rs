//! Checks of single operands, shared by the typing rules of all ops.

use super::fault::TypeFault;
use super::kernel::{Access, Class, Param, Ring, SlotType, Type, Value};
use super::typing::Scope;
use crate::types::{Dim, Format, Layout};
use std::fmt;

/// How an op uses a view.
#[derive(Clone, Copy)]
pub(super) enum Need {
    /// Reads it.
    Read,
    /// Reads it, and may read what the same tile wrote to it.
    ReadBack,
    /// Writes it.
    Write,
}

/// A tile's type, taken apart.
pub(super) struct TileType {
    pub(super) rows: usize,
    pub(super) cols: Dim,
    pub(super) format: Format,
}

impl fmt::Display for TileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile<{}x{}, {}>", self.rows, self.cols, self.format)
    }
}

/// Looks operands up in a scope and refuses those of the wrong kind.
pub(super) struct Rule<'a>(pub(super) &'a dyn Scope);

impl<'a> Rule<'a> {
    fn ty(&self, operand: &'static str, value: Value) -> Result<&'a Type, TypeFault> {
        self.0.ty(value).ok_or(TypeFault::Undefined { operand, value })
    }
    fn kind(&self, operand: &'static str, want: &'static str, found: &Type) -> TypeFault {
        let found = match found {
            Type::View => "a parameter".to_owned(),
            Type::Ring => "a ring".to_owned(),
            Type::Slot { ring } => {
                self.0.ring(*ring).map_or("a slot".to_owned(), |r| format!("a slot of %{}", r.name))
            }
            Type::Index => "an index".to_owned(),
            Type::Tile { rows, cols, format } => format!("a tile<{rows}x{cols}, {format}>"),
        };
        TypeFault::Kind { operand, want, found }
    }

    pub(super) fn index(&self, operand: &'static str, v: Value) -> Result<(), TypeFault> {
        match self.ty(operand, v)? {
            Type::Index => Ok(()),
            ty @ (Type::View | Type::Ring | Type::Slot { .. } | Type::Tile { .. }) => {
                Err(self.kind(operand, "an index", ty))
            }
        }
    }

    pub(super) fn ring(&self, operand: &'static str, v: Value) -> Result<&'a Ring, TypeFault> {
        let ty = self.ty(operand, v)?;
        self.0.ring(v).ok_or_else(|| self.kind(operand, "a ring", ty))
    }

    pub(super) fn view(&self, operand: &'static str, v: Value, need: Need) -> Result<&'a Param, TypeFault> {
        let ty = self.ty(operand, v)?;
        let p = self.0.param(v).ok_or_else(|| self.kind(operand, "a parameter", ty))?;
        let fault = |verb, want| {
            Err(TypeFault::Access { operand, name: p.name.clone(), declared: p.access.name(), verb, want })
        };
        match (need, p.access) {
            (Need::Read, Access::Read | Access::Update)
            | (Need::ReadBack, _)
            | (Need::Write, Access::Write | Access::Update) => Ok(p),
            (Need::Read, Access::Write) => fault("reads", "update"),
            (Need::Write, Access::Read) => fault("writes", "write` or `update"),
        }
    }

    /// A view that is read as rows: of rank 2 at least, in rows.
    pub(super) fn rows_view(&self, operand: &'static str, v: Value) -> Result<&'a Param, TypeFault> {
        let p = self.view(operand, v, Need::Read)?;
        if p.ty.layout == Layout::Panels16 {
            return Err(TypeFault::Layout { operand, format: p.ty.format });
        }
        if p.ty.shape.len() < 2 {
            return Err(TypeFault::Shape(format!(
                "the view {} has no rows; it needs 2 dimensions or more",
                p.ty
            )));
        }
        Ok(p)
    }

    /// One index for each dimension of a view, which has one at least.
    pub(super) fn at(&self, operand: &'static str, at: &[Value], p: &Param) -> Result<(), TypeFault> {
        let want = p.ty.shape.len();
        if want == 0 || at.len() != want {
            let want = if want == 0 { "a dimension".to_owned() } else { want.to_string() };
            return Err(TypeFault::Rank { operand, view: p.ty.to_string(), want, found: at.len() });
        }
        at.iter().try_for_each(|v| self.index(operand, *v))
    }

    /// Indices of leading dimensions that leave rows and columns.
    pub(super) fn outer(&self, operand: &'static str, outer: &[Value], p: &Param) -> Result<(), TypeFault> {
        let most = p.ty.shape.len().saturating_sub(2);
        if outer.len() > most {
            let want = format!("at most {most} here, leaving rows and columns");
            return Err(TypeFault::Rank { operand, view: p.ty.to_string(), want, found: outer.len() });
        }
        outer.iter().try_for_each(|v| self.index(operand, *v))
    }

    pub(super) fn slot(&self, operand: &'static str, v: Value) -> Result<&'a Ring, TypeFault> {
        match self.ty(operand, v)? {
            Type::Slot { ring } => self.0.ring(*ring).ok_or(TypeFault::Undefined { operand, value: *ring }),
            ty @ (Type::View | Type::Ring | Type::Index | Type::Tile { .. }) => {
                Err(self.kind(operand, "a slot", ty))
            }
        }
    }

    /// An f32 slot of one of `classes`.
    pub(super) fn accumulator(
        &self,
        operand: &'static str,
        v: Value,
        classes: &[Class],
        want: &'static str,
    ) -> Result<&'a SlotType, TypeFault> {
        let ring = self.slot(operand, v)?;
        if !classes.contains(&ring.class) {
            return Err(TypeFault::Class { operand, want, found: ring.class });
        }
        if ring.slot.format != Format::F32 {
            return Err(TypeFault::Format { operand, want: "f32".into(), found: ring.slot.format });
        }
        Ok(&ring.slot)
    }

    /// A slot of reals in any format.
    pub(super) fn real_slot(&self, operand: &'static str, v: Value) -> Result<&'a SlotType, TypeFault> {
        let slot = &self.slot(operand, v)?.slot;
        if !slot.format.is_float() {
            return Err(TypeFault::Format { operand, want: "a format of reals".into(), found: slot.format });
        }
        Ok(slot)
    }

    /// An f32 slot of one row.
    pub(super) fn row_slot(&self, operand: &'static str, v: Value) -> Result<&'a SlotType, TypeFault> {
        let slot = &self.slot(operand, v)?.slot;
        if slot.format != Format::F32 {
            return Err(TypeFault::Format { operand, want: "f32".into(), found: slot.format });
        }
        one_row(operand, slot.rows)?;
        Ok(slot)
    }

    pub(super) fn tile(&self, operand: &'static str, v: Value) -> Result<TileType, TypeFault> {
        match self.ty(operand, v)? {
            Type::Tile { rows, cols, format } => {
                Ok(TileType { rows: *rows, cols: cols.clone(), format: *format })
            }
            ty @ (Type::View | Type::Ring | Type::Slot { .. } | Type::Index) => {
                Err(self.kind(operand, "a tile", ty))
            }
        }
    }

    /// A tile without scales.
    pub(super) fn plain(&self, operand: &'static str, v: Value) -> Result<TileType, TypeFault> {
        let t = self.tile(operand, v)?;
        if t.format.group.is_some() {
            return Err(TypeFault::Format { operand, want: "a plain format".into(), found: t.format });
        }
        Ok(t)
    }

    /// A tile of plain reals.
    pub(super) fn real(&self, operand: &'static str, v: Value) -> Result<TileType, TypeFault> {
        let t = self.tile(operand, v)?;
        if t.format.group.is_some() || !t.format.is_float() {
            return Err(TypeFault::Format { operand, want: "f32 or bf16".into(), found: t.format });
        }
        Ok(t)
    }

    /// A one-row tile of plain reals.
    pub(super) fn row(&self, operand: &'static str, v: Value) -> Result<TileType, TypeFault> {
        let t = self.real(operand, v)?;
        one_row(operand, t.rows)?;
        Ok(t)
    }

    /// A one-row tile of integers.
    pub(super) fn id_row(&self, operand: &'static str, v: Value) -> Result<TileType, TypeFault> {
        let t = self.tile(operand, v)?;
        if t.format != Format::I32 {
            return Err(TypeFault::Format { operand, want: "i32".into(), found: t.format });
        }
        one_row(operand, t.rows)?;
        Ok(t)
    }
}

fn one_row(operand: &'static str, rows: usize) -> Result<(), TypeFault> {
    if rows == 1 {
        return Ok(());
    }
    Err(TypeFault::Shape(format!("operand `{operand}` has {rows} rows, but should have one")))
}

/// False where `inner` is certainly longer than `outer`.
pub(super) fn fits(inner: &Dim, outer: &Dim) -> bool {
    match (inner, outer) {
        (Dim::Fixed(a), Dim::Fixed(b)) => a <= b,
        (Dim::Sym { sym: a, times: m }, Dim::Sym { sym: b, times: n }) => a != b || m <= n,
        (Dim::Fixed(_), Dim::Sym { .. }) | (Dim::Sym { .. }, Dim::Fixed(_)) => true,
    }
}

/// Refuses lengths that are not the same expression; `what` names both.
pub(super) fn equal(what: &str, a: &Dim, b: &Dim) -> Result<(), TypeFault> {
    if a == b { Ok(()) } else { Err(TypeFault::Shape(format!("{what} must be equal, but are {a} and {b}"))) }
}

/// Refuses columns that are not whole scale groups of `format`.
pub(super) fn in_groups(format: Format, cols: &Dim) -> Result<(), TypeFault> {
    let width = match cols {
        Dim::Fixed(n) => *n,
        // Whether a symbol is a multiple is known when it is bound.
        Dim::Sym { .. } => 0,
    };
    match format.group {
        Some(g) if g.cols != 0 && width % g.cols != 0 => {
            Err(TypeFault::Shape(format!("{width} columns are not whole groups of {} ({format})", g.cols)))
        }
        Some(_) | None => Ok(()),
    }
}

/// Shape of an elementwise result; a length of 1 is repeated.
pub(super) fn broadcast(a: &TileType, b: &TileType) -> Result<(usize, Dim), TypeFault> {
    fn common(a: &Dim, b: &Dim) -> Option<Dim> {
        match (a, b) {
            (a, b) if a == b => Some(a.clone()),
            (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => Some(other.clone()),
            (_, _) => None,
        }
    }
    let rows = common(&a.rows.into(), &b.rows.into()).and_then(|d| d.fixed());
    match (rows, common(&a.cols, &b.cols)) {
        (Some(rows), Some(cols)) => Ok((rows, cols)),
        (_, _) => Err(TypeFault::Shape(format!("{a} and {b} do not match; a length of 1 would be repeated"))),
    }
}
