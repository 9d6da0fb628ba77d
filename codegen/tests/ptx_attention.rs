//! PTX of the attention families.

use tessera_codegen::target::ptx;
use tessera_ir::graph::{self, Builder, DeclKind, Op, Round};
use tessera_ir::{Dim, Format, TensorType, tile};
use tessera_kernels::{Family, sm100};

/// A fragment of an attention op with the inverse rotation.
#[derive(Clone, Copy)]
struct Shape {
    heads: usize,
    dim: usize,
    /// Length of the list.
    list: Option<usize>,
    /// Rows of a draft block.
    block: Option<usize>,
    rope: usize,
}

const RELEASED: Shape = Shape { heads: 64, dim: 512, list: Some(512), block: None, rope: 32 };
const TINY: Shape = Shape { heads: 4, dim: 128, list: Some(8), block: None, rope: 8 };

fn emitted(name: &str, s: Shape) -> ptx::PtxKernel {
    let mut b = Builder::new(name);
    let size = s.block.unwrap_or(1);
    let rows = Dim::sym(if size > 1 { "Q" } else { "T" }).checked_times(size).expect("a small number");
    let ty = |tail: &[usize], format| {
        let dims = std::iter::once(rows.clone()).chain(tail.iter().map(|n| Dim::Fixed(*n)));
        TensorType::new(dims.collect::<Vec<_>>(), format)
    };
    let input = |b: &mut Builder, name: &str, tail: &[usize], format| {
        b.declare(DeclKind::Input, name, ty(tail, format))
    };
    let q = input(&mut b, "a0", &[s.heads, s.dim], Format::BF16);
    let slots = |count: &str| [Dim::sym("S"), Dim::sym(count), s.dim.into()];
    let window = b.declare(DeclKind::State, "a1", TensorType::new(slots("R"), Format::KV8));
    let listed = s.list.map(|k| {
        let cache = b.declare(DeclKind::State, "a2", TensorType::new(slots("C4"), Format::KV4));
        (cache, input(&mut b, "a3", &[k], Format::I32))
    });
    let draft = s.block.map(|_| input(&mut b, "a4", &[s.dim], Format::KV8));
    let sink = b.declare(DeclKind::Weight, "a5", TensorType::new([s.heads], Format::F32));
    let [seq, pos, lo] = ["a6", "a7", "a8"].map(|name| input(&mut b, name, &[], Format::I32));
    let table = input(&mut b, "a9", &[2 * s.rope], Format::F32);
    let (scale, round) = ((s.dim as f32).powf(-0.5), Round::Bf16);
    let op = match draft {
        None => {
            let (cache, selected) = listed.unzip();
            Op::Attention { q, window, cache, selected, sink, seq, pos, lo, scale, round }
        }
        Some(rows) => Op::BlockAttention { q, window, rows, sink, seq, pos, lo, block: size, scale, round },
    };
    let y = b.emit(op, Format::BF16).expect("well typed");
    let y = b.emit(Op::Rope { x: y, table, inverse: true }, Format::BF16).expect("well typed");
    b.output("y", y);
    let module = graph::verify(b.finish()).unwrap_or_else(|e| panic!("{e}"));
    let family = if s.block.is_some() { Family::BlockAttention } else { Family::Attention };
    let knobs = sm100::Knobs::for_rows(64);
    let kernel = sm100::schedule(family, &module, &knobs).unwrap_or_else(|e| panic!("{e}"));
    let kernel = tile::verify(kernel).unwrap_or_else(|e| panic!("{e}"));
    ptx::emit(&kernel, family.name()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn probe() {
    let draft = Shape { list: None, block: Some(5), ..RELEASED };
    let window = Shape { list: None, ..RELEASED };
    for (name, s) in [("released", RELEASED), ("tiny", TINY), ("draft", draft), ("window", window)] {
        let k = emitted(name, s);
        eprintln!("{name}: smem {} tmem {} block {:?}", k.smem, k.tmem_columns, k.block);
        std::fs::write(format!("/tmp/attn/k_{name}.ptx"), &k.text).expect("written");
    }
}
