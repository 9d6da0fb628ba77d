//! A fragment with the values of its operands, run by the oracle and as its SM100 kernel.

use std::collections::BTreeMap;
use tessera_ir::graph::interp::{self, State, Tensor};
use tessera_ir::graph::{self, Builder, DeclKind, Module, Value};
use tessera_ir::{Bindings, Dim, Format, TensorType, Verified, tile};
use tessera_kernels::{Family, sm100};

/// A number in −1..1 that depends on `seed` and `i` only.
pub(crate) fn noise(seed: u32, i: usize) -> f32 {
    let mut h = (i as u32).wrapping_mul(0x9E37_79B9) ^ seed.wrapping_mul(0x85EB_CA6B);
    h = (h ^ (h >> 16)).wrapping_mul(0x7FEB_352D);
    h = (h ^ (h >> 15)).wrapping_mul(0x846C_A68B);
    ((h >> 16) as f32 - 32768.0) / 32768.0
}

/// A module under construction, with the values of its operands.
pub(crate) struct Case {
    pub(crate) b: Builder,
    bindings: Bindings,
    params: Vec<(String, DeclKind, Tensor)>,
}

impl Case {
    pub(crate) fn new(sizes: &[(&str, usize)]) -> Self {
        let mut bindings = Bindings::new();
        for (name, n) in sizes {
            bindings.set(name, *n);
        }
        Case { b: Builder::new("case"), bindings, params: Vec::new() }
    }
    pub(crate) fn declare(
        &mut self,
        kind: DeclKind,
        name: &str,
        ty: TensorType,
        of: impl Fn(Vec<usize>) -> Tensor,
    ) -> Value {
        let shape = ty.shape.iter().map(|d| d.eval(&self.bindings).expect("bound")).collect();
        self.params.push((name.to_owned(), kind, of(shape)));
        self.b.declare(kind, name, ty)
    }
    pub(crate) fn reals(&mut self, name: &str, shape: &[Dim], data: &[f32]) -> Value {
        let ty = TensorType::new(shape.to_vec(), Format::F32);
        self.declare(DeclKind::Input, name, ty, |shape| Tensor::f32(shape, data.to_vec()))
    }
    pub(crate) fn ints(&mut self, name: &str, shape: &[Dim], data: &[i32]) -> Value {
        let ty = TensorType::new(shape.to_vec(), Format::I32);
        self.declare(DeclKind::Input, name, ty, |shape| Tensor::i32(shape, data.to_vec()))
    }
    /// Runs oracle and kernel, the kernel with two knobs and in two orders of its roles; gives both results.
    pub(crate) fn run(self, family: Family) -> (Vec<Tensor>, Vec<Tensor>) {
        let module = graph::verify(self.b.finish()).unwrap_or_else(|e| panic!("{e}"));
        let (mut inputs, mut state) = (BTreeMap::new(), State::default());
        for (name, kind, tensor) in &self.params {
            match kind {
                DeclKind::State => state.insert(name, tensor.clone()),
                DeclKind::Input | DeclKind::Weight => {
                    inputs.insert(name.clone(), tensor.clone());
                }
            }
        }
        let weights = BTreeMap::new();
        let oracle = interp::run(&module, &self.bindings, &inputs, &weights, &mut state)
            .unwrap_or_else(|e| panic!("{e}"));
        let want: Vec<Tensor> = module.outputs.iter().map(|o| oracle[&o.name].clone()).collect();
        let mut results = Vec::new();
        for rows in [6, 4096] {
            let kernel = kernel(family, &module, rows);
            for seed in [1, 2] {
                let mut params: Vec<Tensor> = self.params.iter().map(|(_, _, t)| t.clone()).collect();
                params.extend(want.iter().map(unwritten));
                // A kernel may see the same memory in another shape.
                for (tensor, param) in params.iter_mut().zip(&kernel.params) {
                    tensor.shape =
                        param.ty.shape.iter().map(|d| d.eval(&self.bindings).expect("bound")).collect();
                }
                tile::interp::run(&kernel, &self.bindings, &mut params, seed)
                    .unwrap_or_else(|e| panic!("{e}"));
                results.push(params.split_off(self.params.len()));
            }
        }
        let got = results.pop().expect("two orders");
        for other in results {
            for (a, b) in got.iter().zip(&other) {
                assert_eq!(bits(a), bits(b), "neither the order of roles nor a knob changes anything");
            }
        }
        (got, want)
    }
    pub(crate) fn check(self, family: Family) {
        let (got, want) = self.run(family);
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(bits(got), bits(want));
        }
    }
}

/// A tensor of the same type with contents that no result has.
fn unwritten(like: &Tensor) -> Tensor {
    match like.ints() {
        Some(v) => Tensor::i32(like.shape.clone(), vec![i32::MIN; v.len()]),
        None => Tensor::f32(like.shape.clone(), vec![f32::NAN; like.data.len()]),
    }
}

pub(crate) fn bits(t: &Tensor) -> Vec<u32> {
    match (t.ints(), t.reals()) {
        (Some(v), _) => v.iter().map(|v| *v as u32).collect(),
        (_, Some(v)) => v.iter().map(|v| v.to_bits()).collect(),
        (None, None) => Vec::new(),
    }
}

fn kernel(family: Family, module: &Verified<Module>, rows: usize) -> Verified<tile::Kernel> {
    let knobs = sm100::Knobs::for_rows(rows);
    let kernel = sm100::schedule(family, module, &knobs).unwrap_or_else(|e| panic!("{e}"));
    let text = tile::print(&kernel);
    let kernel = tile::verify(kernel).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(tile::parse(&text).unwrap_or_else(|e| panic!("{e}")), *kernel);
    kernel
}

/// The symbol `name`.
pub(crate) fn sym(name: &str) -> Dim {
    Dim::sym(name)
}
