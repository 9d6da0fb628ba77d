//! Indices as expressions, to tell when two roles compute the same number.

use super::attrs::IndexOp;
use super::kernel::{Access, Kernel, Value};
use super::ops::Op;
use crate::types::Dim;
use std::collections::HashMap;

/// Number of an expression: equal numbers mean equal values in one run of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Expr(u32);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Const(i64),
    Dim(Dim),
    Tile(usize),
    Group(usize),
    End(usize),
    Binary(IndexOp, Expr, Expr),
    Read(Value, Vec<Expr>),
    /// Equal to nothing else.
    Own(u32),
}

/// Expressions met so far and those of values.
#[derive(Debug, Default)]
pub(super) struct Exprs {
    /// Never walked, so its order does not matter.
    known: HashMap<Shape, Expr>,
    consts: HashMap<Expr, i64>,
    values: Vec<Option<Expr>>,
    own: u32,
}

impl Exprs {
    fn intern(&mut self, shape: Shape) -> Expr {
        let next = Expr(self.known.len() as u32);
        if let Shape::Const(n) = shape {
            let id = *self.known.entry(shape).or_insert(next);
            self.consts.insert(id, n);
            return id;
        }
        *self.known.entry(shape).or_insert(next)
    }
    /// An expression equal to nothing else.
    pub(super) fn fresh(&mut self) -> Expr {
        self.own += 1;
        self.intern(Shape::Own(self.own))
    }
    /// The expression of a value.
    pub(super) fn of(&self, v: Value) -> Option<Expr> {
        self.values.get(v.index()).copied().flatten()
    }
    /// Gives a value its expression.
    pub(super) fn set(&mut self, v: Value, id: Expr) {
        if self.values.len() <= v.index() {
            self.values.resize(v.index() + 1, None);
        }
        self.values[v.index()] = Some(id);
    }
    /// Gives the index that `op` defines its expression.
    pub(super) fn define(&mut self, v: Value, op: &Op, kernel: &Kernel) {
        let shape = self.shape(op, kernel);
        let id = match shape {
            Some(shape) => self.intern(shape),
            None => self.fresh(),
        };
        self.set(v, id);
    }
    fn shape(&self, op: &Op, kernel: &Kernel) -> Option<Shape> {
        match op {
            Op::IndexConst { value } => Some(Shape::Const(*value)),
            Op::IndexDim { dim } => Some(match dim.fixed().and_then(|n| i64::try_from(n).ok()) {
                Some(n) => Shape::Const(n),
                None => Shape::Dim(dim.clone()),
            }),
            Op::IndexTile { axis } => Some(Shape::Tile(*axis)),
            Op::IndexGroup { axis } => Some(Shape::Group(*axis)),
            Op::IndexEnd { axis } => Some(Shape::End(*axis)),
            Op::IndexBinary { a, b, f } => {
                let (a, b) = (self.of(*a)?, self.of(*b)?);
                let folded = self.consts.get(&a).zip(self.consts.get(&b)).and_then(|(a, b)| f.apply(*a, *b));
                if let Some(n) = folded {
                    return Some(Shape::Const(n));
                }
                let commutes = match f {
                    IndexOp::Add
                    | IndexOp::Mul
                    | IndexOp::Min
                    | IndexOp::Max
                    | IndexOp::Xor
                    | IndexOp::And
                    | IndexOp::Eq => true,
                    IndexOp::Sub | IndexOp::Div | IndexOp::Rem | IndexOp::Lt | IndexOp::Le => false,
                };
                Some(if commutes { Shape::Binary(*f, a.min(b), a.max(b)) } else { Shape::Binary(*f, a, b) })
            }
            // What is only read is the same whenever it is read.
            Op::IndexRead { view, at } if kernel.param_of(*view)?.access == Access::Read => {
                at.iter().map(|v| self.of(*v)).collect::<Option<Vec<_>>>().map(|at| Shape::Read(*view, at))
            }
            _ => None,
        }
    }
}
