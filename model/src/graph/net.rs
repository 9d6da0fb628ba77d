//! The builder's context: every name declared once, every result typed from its operands.

use std::collections::BTreeMap;

use tessera_ir::graph::{Builder, DeclKind, Module, Op, Rope, Value, Yarn};
use tessera_ir::{Dim, Format, TensorType};

use super::Mode;
use crate::config::TextConfig;

/// Where the rows of an activation lie.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Sequence slot of each row.
    pub(super) seq: Value,
    /// Absolute position of each row.
    pub(super) pos: Value,
}

/// A module under construction.
pub(super) struct Net<'a> {
    pub(super) text: &'a TextConfig,
    pub(super) mode: Mode,
    builder: Builder,
    /// Inputs, weights and the newest version of each state.
    named: BTreeMap<String, Value>,
    /// mx8 of values that several linears read.
    quantized: BTreeMap<Value, Value>,
    tables: Vec<Table>,
}

/// Angles that all layers of one rotary kind share.
struct Table {
    rope: Rope,
    pos: Value,
    stride: usize,
    value: Value,
}

impl<'a> Net<'a> {
    pub(super) fn new(name: &str, text: &'a TextConfig, mode: Mode) -> Self {
        Net {
            text,
            mode,
            builder: Builder::new(name),
            named: BTreeMap::new(),
            quantized: BTreeMap::new(),
            tables: Vec::new(),
        }
    }
    /// The finished module; the context is empty afterwards.
    pub(super) fn finish(&mut self) -> Module {
        std::mem::take(&mut self.builder).finish()
    }
    pub(super) fn output(&mut self, name: impl Into<String>, value: Value) {
        self.builder.output(name, value);
    }

    fn declare(&mut self, kind: DeclKind, name: &str, ty: impl FnOnce() -> TensorType) -> Value {
        if let Some(&value) = self.named.get(name) {
            return value;
        }
        let value = self.builder.declare(kind, name, ty());
        self.named.insert(name.to_owned(), value);
        value
    }
    pub(super) fn input(&mut self, name: &str, shape: &[Dim], format: Format) -> Value {
        self.declare(DeclKind::Input, name, || TensorType::new(shape.iter().cloned(), format))
    }
    pub(super) fn weight(&mut self, name: &str, shape: &[usize], format: Format) -> Value {
        self.declare(DeclKind::Weight, name, || TensorType::new(shape.iter().copied(), format))
    }
    /// The newest version of a state.
    pub(super) fn state(&mut self, name: &str, shape: &[Dim], format: Format) -> Value {
        self.declare(DeclKind::State, name, || TensorType::new(shape.iter().cloned(), format))
    }
    /// `ring.store` into a state: `name` stands for the new version from here on.
    pub(super) fn store(&mut self, name: &str, shape: &[Dim], rows: Value, at: Rows) -> Value {
        let ring = self.state(name, shape, self.format(rows));
        self.advance(name, Op::RingStore { ring, rows, seq: at.seq, pos: at.pos }, ring)
    }
    /// `cache.append` to a state: `name` stands for the new version from here on.
    pub(super) fn append(&mut self, name: &str, shape: &[Dim], rows: Value, at: Rows, ratio: usize) -> Value {
        let cache = self.state(name, shape, self.format(rows));
        self.advance(name, Op::CacheAppend { cache, rows, seq: at.seq, pos: at.pos, ratio }, cache)
    }
    fn advance(&mut self, name: &str, op: Op, old: Value) -> Value {
        let ty = self.builder.ty(old).clone();
        let new = self.emit(op, &ty.shape, ty.format);
        self.named.insert(name.to_owned(), new);
        new
    }

    pub(super) fn format(&self, x: Value) -> Format {
        self.builder.ty(x).format
    }
    pub(super) fn shape(&self, x: Value) -> Vec<Dim> {
        self.builder.ty(x).shape.clone()
    }
    /// Number of rows of `x`: its first dimension.
    pub(super) fn rows(&self, x: Value) -> Dim {
        self.builder.ty(x).shape[0].clone()
    }
    /// Elements of one row of `x`, which is an activation.
    pub(super) fn width(&self, x: Value) -> usize {
        self.builder.ty(x).fixed_tail(1).unwrap_or(0)
    }
    /// The rows of `x`, then `tail`.
    fn like(&self, x: Value, tail: &[usize]) -> Vec<Dim> {
        std::iter::once(self.rows(x)).chain(tail.iter().copied().map(Dim::from)).collect()
    }

    /// A node with results of the given shapes and formats.
    pub(super) fn emit_all(&mut self, op: Op, results: &[(&[Dim], Format)]) -> Vec<Value> {
        let types = results.iter().map(|(shape, format)| TensorType::new(shape.iter().cloned(), *format));
        self.builder.push(op, types.collect())
    }
    /// A node with one result.
    pub(super) fn emit(&mut self, op: Op, shape: &[Dim], format: Format) -> Value {
        self.emit_all(op, &[(shape, format)])[0]
    }
    /// A node whose result has the rows of `x` and the given tail.
    pub(super) fn emit_rows(&mut self, op: Op, x: Value, tail: &[usize], format: Format) -> Value {
        let shape = self.like(x, tail);
        self.emit(op, &shape, format)
    }
    /// A node whose result has the shape of `x`.
    pub(super) fn emit_same(&mut self, op: Op, x: Value, format: Format) -> Value {
        let shape = self.shape(x);
        self.emit(op, &shape, format)
    }

    /// `x` as an activation of the mode.
    pub(super) fn cast(&mut self, x: Value) -> Value {
        let to = self.mode.activation();
        if self.format(x) == to { x } else { self.emit_same(Op::Cast { x }, x, to) }
    }
    /// `x` through the quantiser of `format`; `x` itself where the mode leaves that place in f32.
    pub(super) fn quantize(&mut self, x: Value, format: Format) -> Value {
        if self.format(x) == format { x } else { self.emit_same(Op::Quantize { x }, x, format) }
    }
    /// `x` as input of a linear with scaled weights; quantised once for all of them.
    pub(super) fn linear_input(&mut self, x: Value) -> Value {
        if !self.mode.quantizes_inputs() {
            return x;
        }
        if let Some(&value) = self.quantized.get(&x) {
            return value;
        }
        let value = self.quantize(x, Format::MX8);
        self.quantized.insert(x, value);
        value
    }
    /// RMSNorm with the weight `name.weight`.
    pub(super) fn rms_norm(&mut self, x: Value, name: &str) -> Value {
        let width = self.width(x);
        let weight = self.weight(&format!("{name}.weight"), &[width], Format::BF16);
        let (eps, format) = (self.text.rms_norm_eps as f32, self.mode.activation());
        self.emit_same(Op::RmsNorm { x, weight, eps }, x, format)
    }
    /// Linear with the e4m3 weight `name.weight` on the quantised input (V4.1 §2.2).
    pub(super) fn dense(&mut self, x: Value, name: &str, tail: &[usize]) -> Value {
        let x = self.linear_input(x);
        self.scaled(x, name, 1, tail)
    }
    /// Grouped linear with the e4m3 weight `name.weight` on the input as it is (`wo_a`, V4.1 §2.2).
    pub(super) fn grouped(&mut self, x: Value, name: &str, groups: usize, tail: &[usize]) -> Value {
        self.scaled(x, name, groups, tail)
    }
    fn scaled(&mut self, x: Value, name: &str, groups: usize, tail: &[usize]) -> Value {
        let shape = [tail.iter().product(), self.width(x) / groups];
        let weight = self.weight(&format!("{name}.weight"), &shape, Format::W8);
        let format = self.mode.activation();
        self.emit_rows(Op::Linear { x, weight, groups }, x, tail, format)
    }
    /// Linear with the bf16 weight `name.weight`, result in `format`.
    pub(super) fn project(&mut self, x: Value, name: &str, out: usize, format: Format) -> Value {
        let shape = [out, self.width(x)];
        let weight = self.weight(&format!("{name}.weight"), &shape, Format::BF16);
        self.emit_rows(Op::Linear { x, weight, groups: 1 }, x, &[out], format)
    }
    /// Rows of the bf16 table `name.weight`.
    pub(super) fn embed(&mut self, tokens: Value, name: &str, width: usize) -> Value {
        let shape = [self.text.vocab_size, width];
        let table = self.weight(&format!("{name}.weight"), &shape, Format::BF16);
        let format = self.mode.activation();
        self.emit_rows(Op::Embed { table, tokens }, tokens, &[width], format)
    }
    pub(super) fn select_rows(&mut self, x: Value, rows: Value) -> Value {
        let mut shape = self.shape(x);
        shape[0] = self.rows(rows);
        let format = self.format(x);
        self.emit(Op::SelectRows { x, rows }, &shape, format)
    }
    pub(super) fn concat(&mut self, parts: Vec<Value>) -> Value {
        let width = parts.iter().map(|&part| self.width(part)).sum();
        let (first, format) = (parts[0], self.format(parts[0]));
        self.emit_rows(Op::Concat { parts }, first, &[width], format)
    }

    /// The rotary kind of a layer: plain for windows alone, YaRN over the long base where there is a compressed
    /// memory (V4.1 §2.5).
    pub(super) fn rope_kind(&self, ratio: usize) -> Rope {
        let (t, y) = (self.text, &self.text.rope_scaling);
        let dim = t.qk_rope_head_dim;
        match ratio {
            0 => Rope { dim, theta: t.rope_theta as f32, yarn: None },
            _ => Rope {
                dim,
                theta: t.compress_rope_theta as f32,
                yarn: Some(Yarn {
                    factor: y.factor as f32,
                    beta_fast: y.beta_fast as f32,
                    beta_slow: y.beta_slow as f32,
                    original: y.original_max_position_embeddings,
                }),
            },
        }
    }
    /// Rotates `x`, whose rows lie at `pos`, by the angles of `(pos / stride)·stride`.
    pub(super) fn rope(&mut self, x: Value, rope: Rope, pos: Value, stride: usize, inverse: bool) -> Value {
        let table = self.rope_table(rope, pos, stride);
        let format = self.format(x);
        self.emit_same(Op::Rope { x, table, inverse }, x, format)
    }
    fn rope_table(&mut self, rope: Rope, pos: Value, stride: usize) -> Value {
        let known = self.tables.iter().find(|t| t.rope == rope && t.pos == pos && t.stride == stride);
        if let Some(table) = known {
            return table.value;
        }
        let value = self.emit_rows(Op::RopeTable { pos, rope, stride }, pos, &[rope.dim], Format::F32);
        self.tables.push(Table { rope, pos, stride, value });
        value
    }
}

/// A tensor kept for every sequence slot: `[S, ring or capacity, width]`.
pub(super) fn slots(rows: &str, width: usize) -> [Dim; 3] {
    [Dim::sym("S"), Dim::sym(rows), Dim::from(width)]
}
