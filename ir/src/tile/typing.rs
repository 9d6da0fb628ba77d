//! Typing of tile ops: which operands an op takes and what it gives. The verifier and the builder both ask here.
//!
//! Sizes that only a binding settles (a symbol against a number) pass; the kernel's user must keep blocks inside
//! views and slots, and the interpreter refuses those that are not.

use super::attrs::Part;
use super::fault::TypeFault;
use super::kernel::{Axis, Class, Param, Ring, SlotType, Type, Value};
use super::operands::{Need, Rule, TileType, broadcast, equal, fits, in_groups};
use super::ops::Op;
use crate::types::{Dim, Format, Layout};

/// What is known about the values that an op may name.
pub trait Scope {
    /// Type of a value.
    fn ty(&self, v: Value) -> Option<&Type>;
    /// The parameter that a value stands for.
    fn param(&self, v: Value) -> Option<&Param>;
    /// The ring that a value stands for.
    fn ring(&self, v: Value) -> Option<&Ring>;
    /// The grid.
    fn grid(&self) -> &[Axis];
}

/// Type of the result of `op`, `None` if it has none.
///
/// # Errors
/// The first rule that its operands or attributes break.
pub fn infer(op: &Op, scope: &dyn Scope) -> Result<Option<Type>, TypeFault> {
    let r = Rule(scope);
    match op {
        Op::IndexConst { value: _ } => Ok(Some(Type::Index)),
        Op::IndexDim { dim: _ } => Ok(Some(Type::Index)),
        Op::IndexTile { axis } => {
            let axes = scope.grid().len();
            if *axis >= axes {
                return Err(attr("axis", axis, format!("the grid has {axes} axes, counted from 0")));
            }
            Ok(Some(Type::Index))
        }
        Op::IndexGroup { axis } | Op::IndexEnd { axis } => {
            if scope.grid().get(*axis).is_none_or(|a| a.groups.is_none()) {
                return Err(attr("axis", axis, "it must be a grouped axis of the grid".into()));
            }
            Ok(Some(Type::Index))
        }
        Op::IndexBinary { a, b, f: _ } => {
            r.index("a", *a)?;
            r.index("b", *b)?;
            Ok(Some(Type::Index))
        }
        Op::IndexRead { view, at } => {
            let p = r.view("view", *view, Need::ReadBack)?;
            integers("view", p)?;
            r.at("at", at, p)?;
            Ok(Some(Type::Index))
        }
        Op::IndexWrite { value, view, at } => {
            r.index("value", *value)?;
            let p = r.view("view", *view, Need::Write)?;
            integers("view", p)?;
            r.at("at", at, p)?;
            Ok(None)
        }
        Op::Acquire { ring } | Op::Take { ring } => {
            r.ring("ring", *ring)?;
            Ok(Some(Type::Slot { ring: *ring }))
        }
        Op::Pass { slot } | Op::Release { slot } | Op::Return { slot } => {
            r.slot("slot", *slot)?;
            Ok(None)
        }
        Op::Copy { view, at, slot, rows } => {
            let p = r.view("view", *view, Need::Read)?;
            r.at("at", at, p)?;
            let slot = r.slot("slot", *slot)?;
            if p.ty.layout == Layout::Panels16 && p.ty.format != slot.slot.format {
                return Err(TypeFault::Layout { operand: "view", format: p.ty.format });
            }
            copies(p, slot)?;
            if p.ty.shape.len() == 1 && slot.slot.rows != 1 {
                return Err(shape(format!("a rank-1 view has one row, but the slot has {}", slot.slot.rows)));
            }
            r.index("rows", *rows)?;
            Ok(None)
        }
        Op::CopyRing { view, outer, start, slot, rows } => {
            let p = r.rows_view("view", *view)?;
            r.outer("outer", outer, p)?;
            r.index("start", *start)?;
            copies(p, r.slot("slot", *slot)?)?;
            r.index("rows", *rows)?;
            Ok(None)
        }
        Op::CopyGather { view, outer, ids, at, slot, rows } => {
            let p = r.rows_view("view", *view)?;
            r.outer("outer", outer, p)?;
            let list = r.view("ids", *ids, Need::Read)?;
            integers("ids", list)?;
            r.at("at", at, list)?;
            copies(p, r.slot("slot", *slot)?)?;
            r.index("rows", *rows)?;
            Ok(None)
        }
        Op::Mma { acc, a, b, rows, init: _ } => {
            let acc = r.accumulator("acc", *acc, &[Class::Accum], "`accum`")?;
            let (a, b) = (&r.slot("a", *a)?.slot, &r.slot("b", *b)?.slot);
            one_of("a", a.format, &[Format::MX8, Format::BF16, Format::F32])?;
            one_of("b", b.format, &[Format::W8, Format::MX4, Format::BF16, Format::F32])?;
            equal("rows of `acc` and of `a`", &acc.rows.into(), &a.rows.into())?;
            equal("columns of `acc` and rows of `b`", &acc.cols, &b.rows.into())?;
            equal("columns of `a` and of `b`", &a.cols, &b.cols)?;
            r.index("rows", *rows)?;
            Ok(None)
        }
        Op::CopyTile { view, at, slot, part } => {
            let p = r.view("view", *view, Need::Read)?;
            r.at("at", at, p)?;
            blocks("view", p, r.slot("slot", *slot)?, *part)?;
            Ok(None)
        }
        Op::CopyRows { view, outer, ids, at, col, slot, rows, per, part } => {
            let p = r.rows_view("view", *view)?;
            r.outer("outer", outer, p)?;
            let list = r.view("ids", *ids, Need::Read)?;
            integers("ids", list)?;
            r.at("at", at, list)?;
            r.index("col", *col)?;
            blocks("view", p, r.slot("slot", *slot)?, *part)?;
            r.index("rows", *rows)?;
            at_least_one("per", *per)?;
            Ok(None)
        }
        Op::CopyWrap { view, outer, start, slot, rows } => {
            let p = r.rows_view("view", *view)?;
            r.outer("outer", outer, p)?;
            r.index("start", *start)?;
            blocks("view", p, r.slot("slot", *slot)?, Part::All)?;
            r.index("rows", *rows)?;
            Ok(None)
        }
        Op::Decode { from, to, row } => {
            let (from, to) = (&r.slot("from", *from)?.slot, &r.slot("to", *to)?.slot);
            if from.format.group.is_none() {
                return Err(wrong_format("from", "a format with scales", from.format));
            }
            one_of("to", to.format, &[Format::BF16, Format::F32])?;
            equal("columns of `from` and of `to`", &from.cols, &to.cols)?;
            if from.rows > to.rows {
                return Err(shape(format!("`from` has {} rows, `to` only {}", from.rows, to.rows)));
            }
            r.index("row", *row)?;
            Ok(None)
        }
        Op::MmaTile { acc, a, b, n, first, trans } => {
            let acc = r.accumulator("acc", *acc, &[Class::Accum], "`accum`")?;
            let (a, b) = (&r.slot("a", *a)?.slot, &r.slot("b", *b)?.slot);
            one_of("a", a.format, OPERANDS)?;
            one_of("b", b.format, OPERANDS)?;
            if a.format.group.is_some() != b.format.group.is_some() {
                return Err(wrong_format("b", "a format with scales exactly if `a` has them", b.format));
            }
            equal("rows of `acc` and of `a`", &acc.rows.into(), &a.rows.into())?;
            let (k, cols) = if *trans { (b.rows.into(), &b.cols) } else { (b.cols.clone(), &b.rows.into()) };
            equal("columns of `acc` and of the product", &acc.cols, cols)?;
            equal("depths of `a` and of `b`", &a.cols, &k)?;
            if *trans && b.format.group.is_some() {
                return Err(wrong_format("b", "a plain format, read in columns", b.format));
            }
            r.index("n", *n)?;
            r.index("first", *first)?;
            Ok(None)
        }
        Op::MmaScores { acc, q, keys, col, n, scale: _ } => {
            let acc = r.accumulator("acc", *acc, WORKING, "`accum` or `vec`")?;
            let (q, keys) = (r.real_slot("q", *q)?, r.real_slot("keys", *keys)?);
            equal("rows of `acc` and of `q`", &acc.rows.into(), &q.rows.into())?;
            equal("columns of `q` and of `keys`", &q.cols, &keys.cols)?;
            r.index("col", *col)?;
            r.index("n", *n)?;
            Ok(None)
        }
        Op::MmaValues { acc, e, values, col, n } => {
            let acc = r.accumulator("acc", *acc, WORKING, "`accum` or `vec`")?;
            let e = &r.slot("e", *e)?.slot;
            one_of("e", e.format, &[Format::F32, Format::BF16])?;
            let values = r.real_slot("values", *values)?;
            equal("rows of `acc` and of `e`", &acc.rows.into(), &e.rows.into())?;
            equal("columns of `acc` and of `values`", &acc.cols, &values.cols)?;
            r.index("col", *col)?;
            r.index("n", *n)?;
            Ok(None)
        }
        Op::MmaIndex { acc, q, w, keys, col, n, round: _ } => {
            let acc = r.accumulator("acc", *acc, WORKING, "`accum` or `vec`")?;
            let (q, keys) = (r.real_slot("q", *q)?, r.real_slot("keys", *keys)?);
            let w = &r.slot("w", *w)?.slot;
            one_of("w", w.format, &[Format::F32, Format::BF16])?;
            equal("rows of `acc` and 1", &acc.rows.into(), &1.into())?;
            equal("rows of `w` and 1", &w.rows.into(), &1.into())?;
            equal("columns of `w` and rows of `q`", &w.cols, &q.rows.into())?;
            equal("columns of `q` and of `keys`", &q.cols, &keys.cols)?;
            r.index("col", *col)?;
            r.index("n", *n)?;
            Ok(None)
        }
        Op::Load { view, at, rows, cols } => {
            let p = r.view("view", *view, Need::Read)?;
            if p.ty.layout == Layout::Panels16 {
                return Err(TypeFault::Layout { operand: "view", format: p.ty.format });
            }
            r.at("at", at, p)?;
            let format = loaded("view", p.ty.format)?;
            block_in_view(p, *rows, cols)?;
            in_groups(p.ty.format, cols)?;
            tile(*rows, cols.clone(), format)
        }
        Op::Store { x, view, at } => {
            let x = r.tile("x", *x)?;
            let p = r.view("view", *view, Need::Write)?;
            if p.ty.layout == Layout::Panels16 {
                return Err(TypeFault::Layout { operand: "view", format: p.ty.format });
            }
            r.at("at", at, p)?;
            if x.format != p.ty.format {
                return Err(wrong_format("x", &format!("{} as the view (cast it)", p.ty.format), x.format));
            }
            block_in_view(p, x.rows, &x.cols)?;
            Ok(None)
        }
        Op::StoreRows { x, view, at, rows } => {
            stored(&r, *x, *view, Some(at))?;
            r.index("rows", *rows)?;
            Ok(None)
        }
        Op::StoreScatter { x, view, ids, at, col, rows } => {
            stored(&r, *x, *view, None)?;
            let list = r.view("ids", *ids, Need::Read)?;
            integers("ids", list)?;
            r.at("at", at, list)?;
            r.index("col", *col)?;
            r.index("rows", *rows)?;
            Ok(None)
        }
        Op::SlotLoad { slot, row, col, rows, cols } => {
            let s = &r.slot("slot", *slot)?.slot;
            if s.format.group.is_some() {
                return Err(wrong_format("slot", "a plain format", s.format));
            }
            r.index("row", *row)?;
            r.index("col", *col)?;
            block_in_slot(s, *rows, cols)?;
            tile(*rows, cols.clone(), loaded("slot", s.format)?)
        }
        Op::SlotStore { x, slot, row, col } => {
            let x = r.tile("x", *x)?;
            let s = &r.slot("slot", *slot)?.slot;
            let ok = x.format == s.format || (x.format == Format::BF16 && s.format == Format::F32);
            if s.format.group.is_some() || !ok {
                return Err(wrong_format("x", &format!("{} as the slot", s.format), x.format));
            }
            r.index("row", *row)?;
            r.index("col", *col)?;
            block_in_slot(s, x.rows, &x.cols)?;
            Ok(None)
        }
        Op::SlotFill { slot, value: _ } => {
            one_of("slot", r.slot("slot", *slot)?.slot.format, &[Format::F32])?;
            Ok(None)
        }
        Op::Splat { value: _ } => tile(1, 1.into(), Format::F32),
        Op::Map { x, f: _ } => {
            let x = r.real("x", *x)?;
            tile(x.rows, x.cols, Format::F32)
        }
        Op::Zip { a, b, f: _ } => {
            let (a, b) = (r.real("a", *a)?, r.real("b", *b)?);
            let (rows, cols) = broadcast(&a, &b)?;
            tile(rows, cols, Format::F32)
        }
        Op::Reduce { x, f: _, axis } => {
            let x = r.real("x", *x)?;
            match axis {
                0 => tile(1, x.cols, Format::F32),
                1 => tile(x.rows, 1.into(), Format::F32),
                _ => Err(attr("axis", axis, "it must be 0 (along rows) or 1 (along columns)".into())),
            }
        }
        Op::Dot { a, b } => {
            let (a, b) = (r.real("a", *a)?, r.real("b", *b)?);
            equal("rows of `a` and of `b`", &a.rows.into(), &b.rows.into())?;
            equal("columns of `a` and of `b`", &a.cols, &b.cols)?;
            tile(a.rows, 1.into(), Format::F32)
        }
        Op::Slice { x, row, rows, col, cols } => {
            let x = r.plain("x", *x)?;
            let (last_row, last_col) = (row.checked_add(*rows), col.checked_add(*cols));
            let inside =
                last_row.is_some_and(|n| n <= x.rows) && last_col.is_some_and(|n| fits(&n.into(), &x.cols));
            if !inside {
                return Err(shape(format!("rows {row}+{rows}, columns {col}+{cols} are not inside {x}")));
            }
            tile(*rows, (*cols).into(), x.format)
        }
        Op::Reshape { x, rows, cols } => {
            let x = r.plain("x", *x)?;
            let have = x.cols.fixed().and_then(|c| x.rows.checked_mul(c));
            if have.is_none() || have != rows.checked_mul(*cols) {
                return Err(shape(format!("{x} has not the {rows}×{cols} elements of the result")));
            }
            tile(*rows, (*cols).into(), x.format)
        }
        Op::Transpose { x } => {
            let x = r.plain("x", *x)?;
            let Some(rows) = x.cols.fixed() else {
                return Err(shape(format!("{x} has no fixed number of columns to become rows")));
            };
            tile(rows, x.rows.into(), x.format)
        }
        Op::MaskCols { x, n, value: _ } => {
            let x = r.real("x", *x)?;
            r.index("n", *n)?;
            tile(x.rows, x.cols, Format::F32)
        }
        Op::MaskIds { x, ids, at, value: _ } => {
            let x = r.real("x", *x)?;
            let list = r.view("ids", *ids, Need::Read)?;
            integers("ids", list)?;
            r.at("at", at, list)?;
            tile(x.rows, x.cols, Format::F32)
        }
        Op::Any { x } => {
            r.real("x", *x)?;
            Ok(Some(Type::Index))
        }
        Op::Cast { x, format } => {
            let x = r.tile("x", *x)?;
            if x.format.group.is_some() && *format != Format::F32 {
                return Err(attr("format", format, format!("a tile in {} decodes to f32 only", x.format)));
            }
            if !x.format.is_float() {
                return Err(wrong_format("x", "a format of reals", x.format));
            }
            let rounding = [Format::F32, Format::BF16, Format::MX8, Format::KV8, Format::KV4, Format::INDEX4];
            if !rounding.contains(format) {
                return Err(attr("format", format, "nothing rounds to it along a row".into()));
            }
            in_groups(*format, &x.cols)?;
            tile(x.rows, x.cols, *format)
        }
        Op::Rotate { x, table, inverse: _ } => {
            let (x, table) = (r.real("x", *x)?, r.real("table", *table)?);
            let even = table.cols.fixed().is_some_and(|n| n % 2 == 0);
            if table.rows != 1 || !even || !fits(&table.cols, &x.cols) {
                return Err(shape(format!(
                    "`table` is {table}, but should be 1×2m with 2m at most {}",
                    x.cols
                )));
            }
            tile(x.rows, x.cols, Format::F32)
        }
        Op::Angles { pos, rope } => {
            r.index("pos", *pos)?;
            if rope.dim == 0 || rope.dim % 2 != 0 {
                return Err(attr("rope", &format!("of dimension {}", rope.dim), "it must be even".into()));
            }
            tile(1, rope.dim.into(), Format::F32)
        }
        Op::TopK { x, n, k } => {
            r.row("x", *x)?;
            r.index("n", *n)?;
            tile(1, (*k).into(), Format::I32)
        }
        Op::TopKView { view, at, n, newest, k, block } => {
            let p = r.view("view", *view, Need::Read)?;
            one_of("view", p.ty.format, &[Format::F32, Format::BF16])?;
            r.at("at", at, p)?;
            r.index("n", *n)?;
            r.index("newest", *newest)?;
            at_least_one("block", *block)?;
            tile(1, (*k).into(), Format::I32)
        }
        Op::TopKListed { view, at, n, list, from, k, block } => {
            let p = r.view("view", *view, Need::Read)?;
            one_of("view", p.ty.format, &[Format::F32, Format::BF16])?;
            r.at("at", at, p)?;
            r.index("n", *n)?;
            let list = r.view("list", *list, Need::Read)?;
            integers("list", list)?;
            r.at("from", from, list)?;
            at_least_one("block", *block)?;
            tile(1, (*k).into(), Format::I32)
        }
        Op::SortGroups { experts, offsets, pairs, rows, count } => {
            integers("experts", r.view("experts", *experts, Need::Read)?)?;
            integers("offsets", r.view("offsets", *offsets, Need::Write)?)?;
            for (name, list) in [("pairs", pairs), ("rows", rows)] {
                if let Some(list) = list {
                    integers(name, r.view(name, *list, Need::Write)?)?;
                }
            }
            at_least_one("count", *count)?;
            Ok(None)
        }
        Op::TopRanked { x, k } => {
            let x = r.row("x", *x)?;
            if !fits(&(*k).into(), &x.cols) {
                return Err(attr("k", k, format!("the row has {} columns", x.cols)));
            }
            tile(1, (*k).into(), Format::I32)
        }
        Op::PickCols { x, ids } => {
            r.row("x", *x)?;
            let ids = r.id_row("ids", *ids)?;
            tile(1, ids.cols, Format::F32)
        }
        Op::BlockMax { scores, n, newest, out, block } => {
            let scores = r.row_slot("scores", *scores)?;
            r.index("n", *n)?;
            r.index("newest", *newest)?;
            let out = r.row_slot("out", *out)?;
            at_least_one("block", *block)?;
            if let Some(cols) = scores.cols.fixed() {
                let blocks = cols.div_ceil(*block);
                if !fits(&blocks.into(), &out.cols) {
                    return Err(shape(format!("`out` has {} columns for {blocks} blocks", out.cols)));
                }
            }
            Ok(None)
        }
        Op::Restrict { scores, n, blocks, block } => {
            r.row_slot("scores", *scores)?;
            r.index("n", *n)?;
            r.id_row("blocks", *blocks)?;
            at_least_one("block", *block)?;
            Ok(None)
        }
        Op::Argmax { x } => {
            r.row("x", *x)?;
            tile(1, 1.into(), Format::I32)
        }
    }
}

/// Classes a vector role works in.
const WORKING: &[Class] = &[Class::Accum, Class::Vec];

/// Formats of the operands of `mma.tile`.
const OPERANDS: &[Format] =
    &[Format::W8, Format::MX4, Format::MX8, Format::INDEX4, Format::BF16, Format::F32];

fn shape(message: String) -> TypeFault {
    TypeFault::Shape(message)
}

fn attr(attr: &'static str, found: &dyn std::fmt::Display, rule: String) -> TypeFault {
    TypeFault::Attr { attr, found: found.to_string(), rule }
}

fn wrong_format(operand: &'static str, want: &str, found: Format) -> TypeFault {
    TypeFault::Format { operand, want: want.to_owned(), found }
}

fn one_of(operand: &'static str, found: Format, want: &[Format]) -> Result<(), TypeFault> {
    if want.contains(&found) {
        return Ok(());
    }
    let names: Vec<String> = want.iter().map(Format::to_string).collect();
    Err(wrong_format(operand, &names.join(" or "), found))
}

fn at_least_one(name: &'static str, n: usize) -> Result<(), TypeFault> {
    if n == 0 { Err(attr(name, &n, "it must be at least 1".into())) } else { Ok(()) }
}

/// A tile result, which has at least one row and one column.
fn tile(rows: usize, cols: Dim, format: Format) -> Result<Option<Type>, TypeFault> {
    if rows == 0 || cols == Dim::Fixed(0) {
        return Err(shape(format!("the result would be an empty {}", TileType { rows, cols, format })));
    }
    Ok(Some(Type::Tile { rows, cols, format }))
}

fn integers(operand: &'static str, p: &Param) -> Result<(), TypeFault> {
    if p.ty.layout == Layout::Panels16 {
        return Err(TypeFault::Layout { operand, format: p.ty.format });
    }
    one_of(operand, p.ty.format, &[Format::I32, Format::I64])
}

/// Format of a tile that was loaded from memory in `format`.
fn loaded(operand: &'static str, format: Format) -> Result<Format, TypeFault> {
    if format.is_float() {
        Ok(Format::F32)
    } else if format == Format::I32 {
        Ok(Format::I32)
    } else {
        Err(wrong_format(operand, "reals or i32 (read i64 by `index.read`)", format))
    }
}

/// The rules that all copies share.
fn copies(p: &Param, ring: &Ring) -> Result<(), TypeFault> {
    let (from, to) = (p.ty.format, ring.slot.format);
    if ring.class == Class::Accum {
        return Err(TypeFault::Class { operand: "slot", want: "`stage` or `vec`", found: ring.class });
    }
    if from != to && !(to == Format::F32 && from.is_float()) {
        let want = if from == Format::F32 { "f32".to_owned() } else { format!("{from} as the view, or f32") };
        return Err(wrong_format("slot", &want, to));
    }
    let cols = p.ty.shape.last().cloned().unwrap_or(Dim::Fixed(1));
    if !fits(&ring.slot.cols, &cols) {
        return Err(shape(format!("the slot has {} columns, the view {cols}", ring.slot.cols)));
    }
    in_groups(from, &ring.slot.cols)
}

/// The rules of copies whose block may hang over the view's edge.
fn blocks(operand: &'static str, p: &Param, ring: &Ring, part: Part) -> Result<(), TypeFault> {
    if p.ty.layout == Layout::Panels16 {
        return Err(TypeFault::Layout { operand, format: p.ty.format });
    }
    let (from, to) = (p.ty.format, ring.slot.format);
    if ring.class == Class::Accum {
        return Err(TypeFault::Class { operand: "slot", want: "`stage` or `vec`", found: ring.class });
    }
    if from != to {
        return Err(wrong_format("slot", &format!("{from} as the view"), to));
    }
    if part != Part::All && to.group.is_none() {
        return Err(attr("part", &part.name(), format!("{to} has no scales apart from its codes")));
    }
    Ok(())
}

/// The rules of stores whose block may hang over the view's edge.
fn stored(r: &Rule<'_>, x: Value, view: Value, at: Option<&[Value]>) -> Result<(), TypeFault> {
    let x = r.tile("x", x)?;
    let p = r.view("view", view, Need::Write)?;
    if p.ty.layout == Layout::Panels16 {
        return Err(TypeFault::Layout { operand: "view", format: p.ty.format });
    }
    if let Some(at) = at {
        r.at("at", at, p)?;
    }
    if x.format != p.ty.format {
        return Err(wrong_format("x", &format!("{} as the view (cast it)", p.ty.format), x.format));
    }
    Ok(())
}

/// A block of `rows × cols` somewhere inside a view.
fn block_in_view(p: &Param, rows: usize, cols: &Dim) -> Result<(), TypeFault> {
    let dims = &p.ty.shape;
    let have_cols = dims.last().cloned().unwrap_or(Dim::Fixed(1));
    let have_rows = if dims.len() >= 2 { dims[dims.len() - 2].clone() } else { Dim::Fixed(1) };
    if fits(&rows.into(), &have_rows) && fits(cols, &have_cols) {
        return Ok(());
    }
    Err(shape(format!("a block of {rows}×{cols} is not inside {}", p.ty)))
}

/// A block of `rows × cols` somewhere inside a slot.
fn block_in_slot(s: &SlotType, rows: usize, cols: &Dim) -> Result<(), TypeFault> {
    if rows <= s.rows && fits(cols, &s.cols) {
        return Ok(());
    }
    Err(shape(format!("a block of {rows}×{cols} is not inside a slot of {}×{}", s.rows, s.cols)))
}
