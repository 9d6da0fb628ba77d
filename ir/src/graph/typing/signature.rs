//! What the rules find out about one node: uses of operands, results, faults.

use super::super::fault::{Rule, Subject, TypeFault};
use super::super::module::Value;
use super::pattern::{Names, Pat};
use crate::types::{Dim, Format, Layout, TensorType};
use std::borrow::Borrow;
use std::fmt;

/// What an operand is to the op, beside its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::graph) enum Role {
    /// Row t of it belongs to row t of the result, or rows are named by explicit indices.
    Rows,
    /// Shared by all rows.
    Shared,
    /// Kept state, addressed by slot.
    State,
    /// How rows are sorted by expert; no arithmetic depends on it.
    Grouping,
}

/// One value of one operand.
#[derive(Clone, Copy, Debug)]
pub(in crate::graph) struct Use {
    pub(in crate::graph) operand: &'static str,
    pub(in crate::graph) value: Value,
    pub(in crate::graph) role: Role,
}

/// Everything the types say about one node.
#[derive(Debug)]
pub(in crate::graph) struct Signature {
    pub(in crate::graph) uses: Vec<Use>,
    pub(super) results: Vec<ResultRule>,
    pub(in crate::graph) faults: Vec<TypeFault>,
}

/// What a result's shape may be.
#[derive(Debug)]
pub(super) enum ResultShape {
    /// Exactly this.
    Exactly(Vec<Dim>),
    /// These rows, then one or more numbers with this product.
    Split(Dim, usize),
    /// Not known, because an operand is faulty.
    Unknown,
}

impl ResultShape {
    /// True if `shape` may be the result's.
    pub(super) fn admits(&self, shape: &[Dim]) -> bool {
        match (self, shape) {
            (ResultShape::Exactly(dims), _) => dims == shape,
            (ResultShape::Split(rows, n), [first, tail @ ..]) => {
                let product = tail.iter().try_fold(1usize, |p, d| p.checked_mul(d.fixed()?));
                rows == first && !tail.is_empty() && product == Some(*n)
            }
            (ResultShape::Split(..), []) => false,
            (ResultShape::Unknown, _) => true,
        }
    }
}

impl fmt::Display for ResultShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResultShape::Exactly(dims) => {
                let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
                write!(f, "[{}]", dims.join(", "))
            }
            ResultShape::Split(rows, n) => write!(f, "[{rows}, …] with trailing dimensions of product {n}"),
            ResultShape::Unknown => f.write_str("unknown"),
        }
    }
}

/// What a result's type may be; no formats if they are not known.
#[derive(Debug)]
pub(super) struct ResultRule {
    pub(super) shape: ResultShape,
    pub(super) formats: Vec<Format>,
}

impl ResultRule {
    /// The result's type where `tail` and `open` decide what the op leaves open.
    pub(super) fn suggest(&self, tail: &[Dim], open: Format) -> TensorType {
        let shape = match &self.shape {
            ResultShape::Exactly(dims) => dims.clone(),
            ResultShape::Split(rows, n) if tail.is_empty() => vec![rows.clone(), Dim::Fixed(*n)],
            ResultShape::Split(rows, _) => {
                let mut dims = vec![rows.clone()];
                dims.extend_from_slice(tail);
                dims
            }
            ResultShape::Unknown => Vec::new(),
        };
        let format = if let [only] = self.formats[..] { only } else { open };
        TensorType { shape, format, layout: Layout::Rows }
    }
}

/// `bf16 or f32`: a list of formats as messages write it.
pub(super) fn one_of(formats: &[Format]) -> String {
    match formats {
        [] => "any".to_owned(),
        [only] => only.to_string(),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(Format::to_string).collect();
            format!("{} or {last}", first.join(", "))
        }
    }
}

/// Collects the signature of one node while its rule is walked.
pub(super) struct Walk<'t, T> {
    types: &'t [T],
    mnemonic: &'static str,
    pub(super) names: Names,
    pub(super) found: Signature,
}

impl<'t, T: Borrow<TensorType>> Walk<'t, T> {
    pub(super) fn new(types: &'t [T], mnemonic: &'static str) -> Self {
        let found = Signature { uses: Vec::new(), results: Vec::new(), faults: Vec::new() };
        Walk { types, mnemonic, names: Names::default(), found }
    }

    pub(super) fn fault(&mut self, rule: Rule, subject: Subject, message: String) {
        self.found.faults.push(TypeFault { rule, mnemonic: self.mnemonic, subject, message });
    }

    /// The type of a value, if it is defined.
    pub(super) fn ty(&self, v: Value) -> Option<&'t TensorType> {
        self.types.get(v.index()).map(Borrow::borrow)
    }

    /// The format of a value, as the only one of a list; empty if the value is not defined.
    pub(super) fn format_of(&self, v: Value) -> Vec<Format> {
        self.ty(v).map(|t| t.format).into_iter().collect()
    }

    /// Notes a use and checks shape and format. An empty list of formats takes any.
    pub(super) fn operand(
        &mut self,
        role: Role,
        name: &'static str,
        value: Value,
        pattern: &[Pat],
        formats: &[Format],
    ) {
        self.found.uses.push(Use { operand: name, value, role });
        let subject = Subject::Operand(name);
        let Some(ty) = self.ty(value) else {
            self.fault(
                Rule::Defined,
                subject,
                format!("is {value}, which is not defined before this operation"),
            );
            return;
        };
        if !formats.is_empty() && !formats.contains(&ty.format) {
            let message = format!("has type {ty}, expected format {}", one_of(formats));
            self.fault(Rule::Format, subject, message);
        }
        if let Err(expected) = self.names.bind(pattern, &ty.shape, name) {
            self.fault(Rule::Shape, subject, format!("has type {ty}, {expected}"));
        }
        let may_be_panels = role == Role::Shared && name == "weight" && ty.shape.len() >= 2;
        if ty.layout != Layout::Rows && !may_be_panels {
            let message = format!("has layout {}, expected a row-major tensor", ty.layout.name());
            self.fault(Rule::Format, subject, message);
        }
    }

    /// An operand whose rows are those of the result.
    pub(super) fn rows(&mut self, name: &'static str, value: Value, pattern: &[Pat], formats: &[Format]) {
        self.operand(Role::Rows, name, value, pattern, formats);
    }

    /// An operand that all rows share.
    pub(super) fn shared(&mut self, name: &'static str, value: Value, pattern: &[Pat], formats: &[Format]) {
        self.operand(Role::Shared, name, value, pattern, formats);
    }

    /// An operand that is kept state.
    pub(super) fn state(&mut self, name: &'static str, value: Value, pattern: &[Pat], formats: &[Format]) {
        self.operand(Role::State, name, value, pattern, formats);
    }

    /// One `[T] i32` operand per name: slots, positions, bounds.
    pub(super) fn per_row(&mut self, operands: &[(&'static str, Value)]) {
        for (name, value) in operands {
            self.rows(name, *value, &[Pat::Any("T")], &[Format::I32]);
        }
    }

    /// A fault of an attribute unless `holds`.
    pub(super) fn attr(&mut self, name: &'static str, holds: bool, value: &dyn fmt::Debug, must: &str) {
        if !holds {
            self.fault(Rule::Attribute, Subject::Attribute(name), format!("is {value:?}; it must be {must}"));
        }
    }

    /// A count: at least 1, and small enough for 32-bit indices.
    pub(super) fn count(&mut self, name: &'static str, value: usize) {
        self.attr(name, (1..1 << 31).contains(&value), &value, "at least 1 and below 2^31");
    }

    /// A finite number.
    pub(super) fn finite(&mut self, name: &'static str, value: f32) {
        self.attr(name, value.is_finite(), &value, "finite");
    }

    /// An addend that keeps divisors away from zero.
    pub(super) fn epsilon(&mut self, name: &'static str, value: f32) {
        self.attr(name, value.is_finite() && value >= 0.0, &value, "finite and not negative");
    }

    /// The next result: a shape pattern and the formats it may have (empty: not known).
    pub(super) fn result(&mut self, pattern: &[Pat], formats: &[Format]) {
        let shape = self.names.resolve(pattern).map_or(ResultShape::Unknown, ResultShape::Exactly);
        self.found.results.push(ResultRule { shape, formats: formats.to_vec() });
    }

    /// The next result, whose shape was worked out apart.
    pub(super) fn result_shape(&mut self, shape: Option<ResultShape>, formats: &[Format]) {
        let shape = shape.unwrap_or(ResultShape::Unknown);
        self.found.results.push(ResultRule { shape, formats: formats.to_vec() });
    }

    /// The next result: the shape of `v`, in the formats given.
    pub(super) fn result_like(&mut self, v: Value, formats: &[Format]) {
        let shape = self.ty(v).map(|t| ResultShape::Exactly(t.shape.clone()));
        self.result_shape(shape, formats);
    }
}
