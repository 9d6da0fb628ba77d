//! A module of a few nodes with the values to run it on.

use std::collections::BTreeMap;
use std::sync::Arc;
use tessera_ir::graph::interp::{Error, Fault, State, Tensor, run};
use tessera_ir::graph::{Builder, DeclKind, Op, Value, verify};
use tessera_ir::types::{Bindings, Dim, Format, TensorType};

/// Names of a case's outputs with their tensors.
pub(crate) type Outputs = BTreeMap<String, Tensor>;

/// A module under construction and what it runs on.
pub(crate) struct Case {
    builder: Builder,
    pub(crate) bindings: Bindings,
    pub(crate) inputs: BTreeMap<String, Tensor>,
    weights: BTreeMap<String, Arc<Tensor>>,
    pub(crate) state: State,
}

impl Case {
    pub(crate) fn new() -> Self {
        Case {
            builder: Builder::new("case"),
            bindings: Bindings::new(),
            inputs: BTreeMap::new(),
            weights: BTreeMap::new(),
            state: State::default(),
        }
    }

    fn declare(&mut self, kind: DeclKind, name: &str, dims: Vec<Dim>, format: Format) -> Value {
        self.builder.declare(kind, name, TensorType::new(dims, format))
    }

    /// An input whose first dimension is the symbol `rows`.
    pub(crate) fn input_rows(&mut self, rows: &str, name: &str, format: Format, tensor: Tensor) -> Value {
        self.input_blocks(rows, 1, name, format, tensor)
    }

    /// An input whose first dimension is `times` of the symbol `rows`.
    pub(crate) fn input_blocks(
        &mut self,
        rows: &str,
        times: usize,
        name: &str,
        format: Format,
        tensor: Tensor,
    ) -> Value {
        self.bindings.set(rows, tensor.shape[0] / times);
        let mut dims: Vec<Dim> = tensor.shape.iter().map(|n| Dim::Fixed(*n)).collect();
        dims[0] = Dim::sym(rows).checked_times(times).expect("a small number");
        self.inputs.insert(name.to_owned(), tensor);
        self.declare(DeclKind::Input, name, dims, format)
    }

    /// An input of T rows.
    pub(crate) fn input(&mut self, name: &str, format: Format, tensor: Tensor) -> Value {
        self.input_rows("T", name, format, tensor)
    }

    /// An f32 input of T rows.
    pub(crate) fn reals(&mut self, name: &str, shape: &[usize], data: Vec<f32>) -> Value {
        self.input(name, Format::F32, Tensor::f32(shape, data))
    }

    /// An i32 input `[T]`.
    pub(crate) fn ints(&mut self, name: &str, data: &[i32]) -> Value {
        self.input(name, Format::I32, Tensor::i32([data.len()], data.to_vec()))
    }

    pub(crate) fn weight(&mut self, name: &str, format: Format, tensor: Tensor) -> Value {
        let dims = tensor.shape.iter().map(|n| Dim::Fixed(*n)).collect();
        self.weights.insert(name.to_owned(), Arc::new(tensor));
        self.declare(DeclKind::Weight, name, dims, format)
    }

    /// A state; its first two dimensions are symbols, so that they may be 0. States of one length share it.
    pub(crate) fn state(&mut self, name: &str, format: Format, tensor: Tensor) -> Value {
        let mut dims: Vec<Dim> = tensor.shape.iter().map(|n| Dim::Fixed(*n)).collect();
        self.bindings.set("S", tensor.shape[0]);
        dims[0] = Dim::sym("S");
        let length = format!("R{}", tensor.shape[1]);
        self.bindings.set(&length, tensor.shape[1]);
        dims[1] = Dim::sym(&length);
        self.state.insert(name, tensor);
        self.declare(DeclKind::State, name, dims, format)
    }

    /// Adds a node; its results are outputs `y`, `y1`, ….
    pub(crate) fn emit(&mut self, op: Op, format: Format) -> Vec<Value> {
        let results = self.builder.emit_many(op, format).expect("the case is well typed");
        self.output(&results);
        results
    }

    /// Adds a node whose result splits its columns into `tail`.
    pub(crate) fn emit_split(&mut self, op: Op, tail: &[usize], format: Format) -> Value {
        let result = self.builder.emit_split(op, tail, format).expect("the case is well typed");
        self.output(&[result]);
        result
    }

    /// Adds a node whose results are no outputs.
    pub(crate) fn inner(&mut self, op: Op, format: Format) -> Value {
        self.builder.emit(op, format).expect("the case is well typed")
    }

    /// [`Case::inner`], all results.
    pub(crate) fn inner_many(&mut self, op: Op, format: Format) -> Vec<Value> {
        self.builder.emit_many(op, format).expect("the case is well typed")
    }

    fn output(&mut self, results: &[Value]) {
        for (i, v) in results.iter().enumerate() {
            self.builder.output(if i == 0 { "y".to_owned() } else { format!("y{i}") }, *v);
        }
    }

    /// Runs the module once. State changes are kept in the returned state.
    pub(crate) fn run_with_state(self) -> (Result<Outputs, Error>, State) {
        let Case { builder, bindings, inputs, weights, mut state } = self;
        let module = verify(builder.finish()).unwrap_or_else(|e| panic!("{e}"));
        (run(&module, &bindings, &inputs, &weights, &mut state), state)
    }

    pub(crate) fn try_run(self) -> Result<Outputs, Error> {
        self.run_with_state().0
    }

    pub(crate) fn run(self) -> Outputs {
        self.try_run().unwrap_or_else(|e| panic!("{e}"))
    }

    /// Output `y` as reals.
    pub(crate) fn y(self) -> Vec<f32> {
        self.run()["y"].reals().expect("y is real").to_vec()
    }

    /// Output `y` as 32-bit integers.
    pub(crate) fn y_ints(self) -> Vec<i32> {
        self.run()["y"].ints().expect("y is i32").to_vec()
    }

    /// The fault that stops the run.
    pub(crate) fn fault(self) -> Fault {
        match self.try_run() {
            Err(Error::Node { fault, .. }) => fault,
            other => panic!("expected a fault, got {other:?}"),
        }
    }
}

/// A number in −1..1 that depends on `seed` and `i` only; 16 significant bits.
pub(crate) fn noise(seed: u32, i: usize) -> f32 {
    let mut h = (i as u32).wrapping_mul(0x9E37_79B9) ^ seed.wrapping_mul(0x85EB_CA6B);
    h = (h ^ (h >> 16)).wrapping_mul(0x7FEB_352D);
    h = (h ^ (h >> 15)).wrapping_mul(0x846C_A68B);
    ((h >> 16) as f32 - 32768.0) / 32768.0
}

/// `n` of them.
pub(crate) fn noises(seed: u32, n: usize) -> Vec<f32> {
    (0..n).map(|i| noise(seed, i)).collect()
}

/// The same as f64.
pub(crate) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|v| f64::from(*v)).collect()
}

#[track_caller]
pub(crate) fn assert_near(got: f32, want: f64, bound: f64) {
    let off = (f64::from(got) - want).abs();
    assert!(off <= bound, "{got:e} is off {want:e} by {off:e}, more than {bound:e}");
}

/// Bits of each element, so that NaN equals NaN and −0 is not +0.
pub(crate) fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}
