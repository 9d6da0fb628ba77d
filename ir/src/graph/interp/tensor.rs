//! Values of the interpreter: a shape and its elements.

use super::error::Error;
use crate::graph::{Decl, DeclKind, Module};
use crate::types::{Bindings, Elem, Format, TensorType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Elements of a tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Reals of any format, each the exact value that its code and scale stand for.
    F32(Vec<f32>),
    /// 32-bit integers.
    I32(Vec<i32>),
    /// 64-bit integers.
    I64(Vec<i64>),
}

impl Data {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::F32(v) => v.len(),
            Data::I32(v) => v.len(),
            Data::I64(v) => v.len(),
        }
    }
    /// True without elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Name of the element type.
    pub fn kind(&self) -> &'static str {
        match self {
            Data::F32(_) => "f32",
            Data::I32(_) => "i32",
            Data::I64(_) => "i64",
        }
    }
    /// `len` zeros of the kind that holds values of `format`.
    fn zeros(len: usize, format: Format) -> Self {
        match format.elem {
            Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 => Data::F32(vec![0.0; len]),
            Elem::I32 => Data::I32(vec![0; len]),
            Elem::I64 => Data::I64(vec![0; len]),
        }
    }
    /// True if values of `format` are held by this kind.
    fn holds(&self, format: Format) -> bool {
        match self {
            Data::F32(_) => format.is_float(),
            Data::I32(_) => format.elem == Elem::I32,
            Data::I64(_) => format.elem == Elem::I64,
        }
    }
}

/// A tensor held by value.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Elements, row-major; as many as the product of the shape.
    pub data: Data,
}

impl Tensor {
    /// A tensor of reals.
    pub fn f32(shape: impl Into<Vec<usize>>, data: Vec<f32>) -> Self {
        Tensor { shape: shape.into(), data: Data::F32(data) }
    }
    /// A tensor of 32-bit integers.
    pub fn i32(shape: impl Into<Vec<usize>>, data: Vec<i32>) -> Self {
        Tensor { shape: shape.into(), data: Data::I32(data) }
    }
    /// A tensor of 64-bit integers.
    pub fn i64(shape: impl Into<Vec<usize>>, data: Vec<i64>) -> Self {
        Tensor { shape: shape.into(), data: Data::I64(data) }
    }
    /// The reals, if the elements are reals.
    pub fn reals(&self) -> Option<&[f32]> {
        match &self.data {
            Data::F32(v) => Some(v),
            Data::I32(_) | Data::I64(_) => None,
        }
    }
    /// The 32-bit integers, if the elements are such.
    pub fn ints(&self) -> Option<&[i32]> {
        match &self.data {
            Data::I32(v) => Some(v),
            Data::F32(_) | Data::I64(_) => None,
        }
    }
    /// The 64-bit integers, if the elements are such.
    pub fn longs(&self) -> Option<&[i64]> {
        match &self.data {
            Data::I64(v) => Some(v),
            Data::F32(_) | Data::I32(_) => None,
        }
    }
    /// Refuses a tensor that is not of the declared type.
    pub(super) fn check(&self, decl: &Decl, want: &[usize]) -> Result<(), Error> {
        let elements = want.iter().product::<usize>();
        if self.shape == want && self.data.len() == elements && self.data.holds(decl.ty.format) {
            return Ok(());
        }
        Err(Error::Type {
            name: decl.name.clone(),
            want: format!("{want:?} {}", decl.ty.format),
            got: format!("{:?} with {} {} elements", self.shape, self.data.len(), self.data.kind()),
        })
    }
}

/// Source of a module's weights.
pub trait Weights {
    /// The decoded values of a declared weight, in the declared shape; stacked experts come as `[E, N, K]`.
    /// The interpreter asks once a run for each weight: keep what is dear to decode.
    fn weight(&self, decl: &Decl) -> Result<Arc<Tensor>, Error>;
}

impl Weights for BTreeMap<String, Arc<Tensor>> {
    fn weight(&self, decl: &Decl) -> Result<Arc<Tensor>, Error> {
        let found = self.get(&decl.name).cloned();
        found.ok_or_else(|| Error::Missing { kind: "weight", name: decl.name.clone() })
    }
}

/// The states of a module between steps, by declared name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub(super) tensors: BTreeMap<String, Arc<Tensor>>,
}

impl State {
    /// All states of `module` filled with zeros.
    pub fn zeros(module: &Module, bindings: &Bindings) -> Result<State, Error> {
        let mut tensors = BTreeMap::new();
        for (i, decl) in module.decls.iter().enumerate() {
            if decl.kind == DeclKind::State {
                let shape = eval_shape(crate::graph::Value(i as u32), &decl.ty, bindings)?;
                let data = Data::zeros(shape.iter().product(), decl.ty.format);
                tensors.insert(decl.name.clone(), Arc::new(Tensor { shape, data }));
            }
        }
        Ok(State { tensors })
    }
    /// The state called `name`.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name).map(Arc::as_ref)
    }
    /// The state called `name`, to change it; its shape is checked by the next run.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Tensor> {
        self.tensors.get_mut(name).map(Arc::make_mut)
    }
    /// Sets the state called `name`, of this or of another module that shares it.
    pub fn insert(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.tensors.insert(name.into(), Arc::new(tensor));
    }
    /// Names and tensors in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(n, t)| (n.as_str(), t.as_ref()))
    }
}

/// Dimensions of `ty` under `bindings`; an error also where their product overflows.
pub(super) fn eval_shape(
    value: crate::graph::Value,
    ty: &TensorType,
    bindings: &Bindings,
) -> Result<Vec<usize>, Error> {
    let dims: Option<Vec<usize>> = ty.shape.iter().map(|d| d.eval(bindings)).collect();
    match (dims, ty.elements(bindings)) {
        (Some(dims), Some(_)) => Ok(dims),
        (Some(_), None) | (None, _) => Err(Error::Unbound { value, ty: ty.clone() }),
    }
}
