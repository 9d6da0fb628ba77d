//! Numbers of a launch that depend on symbols: grid extents, sizes and strides of tensor maps, bytes of workspaces.

use std::fmt;
use tessera_ir::{Bindings, Dim, Sym};

/// A whole number that may depend on symbols; known when a step is launched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// A number.
    Const(u64),
    /// A dimension of a tensor.
    Dim(Dim),
    /// Sum.
    Add(Box<Extent>, Box<Extent>),
    /// Product.
    Mul(Box<Extent>, Box<Extent>),
    /// Quotient, rounded up. The divisor is at least 1.
    CeilDiv(Box<Extent>, u64),
    /// The smaller one.
    Min(Box<Extent>, Box<Extent>),
    /// The greater one.
    Max(Box<Extent>, Box<Extent>),
}

impl Extent {
    /// The plain symbol `name`.
    pub fn sym(name: &str) -> Self {
        Extent::from(Dim::sym(name))
    }
    /// `self + other`, folded where both are numbers.
    #[allow(clippy::should_implement_trait, reason = "operators of launches are named, as in the text form")]
    pub fn add(self, other: impl Into<Extent>) -> Self {
        match (self, other.into()) {
            (Extent::Const(0), e) | (e, Extent::Const(0)) => e,
            (Extent::Const(a), Extent::Const(b)) if a.checked_add(b).is_some() => Extent::Const(a + b),
            (a, b) => Extent::Add(Box::new(a), Box::new(b)),
        }
    }
    /// `self · other`, folded where both are numbers or one is 1.
    #[allow(clippy::should_implement_trait, reason = "operators of launches are named, as in the text form")]
    pub fn mul(self, other: impl Into<Extent>) -> Self {
        match (self, other.into()) {
            (Extent::Const(1), e) | (e, Extent::Const(1)) => e,
            (Extent::Const(a), Extent::Const(b)) if a.checked_mul(b).is_some() => Extent::Const(a * b),
            (a, b) => Extent::Mul(Box::new(a), Box::new(b)),
        }
    }
    /// `⌈self / by⌉`; a divisor of 0 counts as 1.
    pub fn ceil_div(self, by: u64) -> Self {
        match (self, by) {
            (e, 0 | 1) => e,
            (Extent::Const(a), by) => Extent::Const(a.div_ceil(by)),
            (e, by) => Extent::CeilDiv(Box::new(e), by),
        }
    }
    /// The smaller of both, folded where both are numbers.
    pub fn min(self, other: impl Into<Extent>) -> Self {
        match (self, other.into()) {
            (Extent::Const(a), Extent::Const(b)) => Extent::Const(a.min(b)),
            (a, b) if a == b => a,
            (a, b) => Extent::Min(Box::new(a), Box::new(b)),
        }
    }
    /// The greater of both, folded where both are numbers.
    pub fn max(self, other: impl Into<Extent>) -> Self {
        match (self, other.into()) {
            (Extent::Const(a), Extent::Const(b)) => Extent::Const(a.max(b)),
            (a, b) if a == b => a,
            (a, b) => Extent::Max(Box::new(a), Box::new(b)),
        }
    }
    /// The value under `bindings`; `None` for an unbound symbol or on overflow.
    pub fn eval(&self, bindings: &Bindings) -> Option<u64> {
        match self {
            Extent::Const(n) => Some(*n),
            Extent::Dim(dim) => u64::try_from(dim.eval(bindings)?).ok(),
            Extent::Add(a, b) => a.eval(bindings)?.checked_add(b.eval(bindings)?),
            Extent::Mul(a, b) => a.eval(bindings)?.checked_mul(b.eval(bindings)?),
            Extent::CeilDiv(a, by) => Some(a.eval(bindings)?.div_ceil((*by).max(1))),
            Extent::Min(a, b) => Some(a.eval(bindings)?.min(b.eval(bindings)?)),
            Extent::Max(a, b) => Some(a.eval(bindings)?.max(b.eval(bindings)?)),
        }
    }
    /// The number, if no symbol occurs.
    pub fn fixed(&self) -> Option<u64> {
        self.eval(&Bindings::new())
    }
    /// Adds every symbol that occurs to `into`, each once, in the order of their first occurrence.
    pub fn symbols(&self, into: &mut Vec<Sym>) {
        match self {
            Extent::Const(_) | Extent::Dim(Dim::Fixed(_)) => {}
            Extent::Dim(Dim::Sym { sym, .. }) => {
                if !into.contains(sym) {
                    into.push(sym.clone());
                }
            }
            Extent::CeilDiv(a, _) => a.symbols(into),
            Extent::Add(a, b) | Extent::Mul(a, b) | Extent::Min(a, b) | Extent::Max(a, b) => {
                a.symbols(into);
                b.symbols(into);
            }
        }
    }
}

impl From<u64> for Extent {
    fn from(n: u64) -> Self {
        Extent::Const(n)
    }
}

impl From<usize> for Extent {
    fn from(n: usize) -> Self {
        Extent::Const(n as u64)
    }
}

impl From<Dim> for Extent {
    fn from(dim: Dim) -> Self {
        match dim {
            Dim::Fixed(n) => Extent::from(n),
            dim @ Dim::Sym { .. } => Extent::Dim(dim),
        }
    }
}

impl From<&Dim> for Extent {
    fn from(dim: &Dim) -> Self {
        Extent::from(dim.clone())
    }
}

/// `a + b`, `a * b`, `ceil(a / n)`, `min(a, b)`, `max(a, b)`; a sum inside a product stands in parentheses.
impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factor = |e: &Extent| match e {
            Extent::Add(..) => format!("({e})"),
            _ => e.to_string(),
        };
        match self {
            Extent::Const(n) => write!(f, "{n}"),
            Extent::Dim(dim) => write!(f, "{dim}"),
            Extent::Add(a, b) => write!(f, "{a} + {b}"),
            Extent::Mul(a, b) => write!(f, "{} * {}", factor(a), factor(b)),
            Extent::CeilDiv(a, by) => write!(f, "ceil({} / {by})", factor(a)),
            Extent::Min(a, b) => write!(f, "min({a}, {b})"),
            Extent::Max(a, b) => write!(f, "max({a}, {b})"),
        }
    }
}
