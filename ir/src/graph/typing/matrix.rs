//! Typing rules of the matrix products.

use super::super::fault::{Rule, Subject};
use super::super::module::Value;
use super::pattern::Pat::{Any, Fixed, Is, Tail};
use super::signature::{ResultShape, Role, Walk};
use crate::types::{Format, TensorType};
use std::borrow::Borrow;

const FLOAT: &[Format] = &[Format::BF16, Format::F32];
const I32: &[Format] = &[Format::I32];
/// Left side of a matrix product.
const FACTOR: &[Format] = &[Format::MX8, Format::BF16, Format::F32];
/// Right side of a matrix product.
const MATRIX: &[Format] = &[Format::W8, Format::MX4, Format::BF16, Format::F32];

/// The number of values in a row of an operand matched as `[T, …, K]`; a fault if it has a symbol.
fn row_width<T: Borrow<TensorType>>(w: &mut Walk<'_, T>, v: Value) -> Option<usize> {
    let ty = w.ty(v)?;
    let width = ty.fixed_tail(1);
    if width.is_none() && ty.shape.len() > 1 {
        let message = format!("has type {ty}; its trailing dimensions are numbers");
        w.fault(Rule::Shape, Subject::Operand("x"), message);
    }
    width
}

/// `linear`: the trailing dimensions of `x` meet the columns of `weight`, group by group.
pub(super) fn linear<T: Borrow<TensorType>>(w: &mut Walk<'_, T>, x: Value, weight: Value, groups: usize) {
    w.rows("x", x, &[Any("T"), Tail, Any("d")], FACTOR);
    w.count("groups", groups);
    let width = row_width(w, x);
    let piece = width.and_then(|k| k.checked_div(groups));
    w.shared("weight", weight, &[Fixed("N"), Is(piece, "K/groups")], MATRIX);
    let outputs = w.names.number("N");
    if let (Some(k), Some(n)) = (width, outputs) {
        let whole = groups > 0 && k % groups == 0 && n % groups == 0;
        w.attr("groups", whole, &groups, &format!("a divisor of K = {k} and of N = {n}"));
    }
    let scales = w.ty(x).and_then(|t| t.format.group).map(|g| g.cols);
    if let (Some(piece), Some(cols)) = (piece, scales) {
        let message =
            format!("one that cuts K = {} between scale groups of {cols}", piece.saturating_mul(groups));
        w.attr("groups", piece % cols == 0, &groups, &message);
    }
    let shape = w.names.dim("T").zip(outputs).map(|(t, n)| ResultShape::Split(t, n));
    w.result_shape(shape, FLOAT);
}

/// `moe.linear`: a matrix per choice, and the optional grouping of the choices.
pub(super) fn moe_linear<T: Borrow<TensorType>>(
    w: &mut Walk<'_, T>,
    x: Value,
    experts: Value,
    weight: Value,
    grouping: &[(&'static str, Option<Value>); 3],
) {
    w.rows("experts", experts, &[Any("T"), Fixed("k")], I32);
    let each = w.ty(x).is_some_and(|t| t.shape.len() == 3);
    let pattern: &[_] = if each { &[Any("T"), Fixed("k"), Fixed("K")] } else { &[Any("T"), Fixed("K")] };
    w.rows("x", x, pattern, FACTOR);
    w.shared("weight", weight, &[Fixed("E"), Fixed("N"), Fixed("K")], MATRIX);
    if grouping.iter().any(|(_, v)| v.is_some()) && grouping.iter().any(|(_, v)| v.is_none()) {
        let message = "has only some of `offsets`, `pairs` and `rows`; give all or none".to_owned();
        w.fault(Rule::Operands, Subject::Node, message);
    }
    let entries = w.names.number("E").and_then(|e| e.checked_add(1));
    let choices = w.names.dim("T").zip(w.names.number("k")).and_then(|(t, k)| t.checked_times(k));
    for (i, (name, value)) in grouping.iter().enumerate() {
        let Some(value) = value else { continue };
        if i == 0 {
            w.operand(Role::Grouping, name, *value, &[Is(entries, "E+1")], I32);
            continue;
        }
        w.operand(Role::Grouping, name, *value, &[Any("k·T")], I32);
        if let (Some(found), Some(choices)) = (w.names.dim("k·T"), &choices)
            && found != *choices
        {
            let message = format!("has {found} entries, expected one per choice, {choices}");
            w.fault(Rule::Shape, Subject::Operand(name), message);
        }
    }
    w.result(&[Any("T"), Fixed("k"), Fixed("N")], FLOAT);
}
