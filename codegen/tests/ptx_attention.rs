//! PTX of the attention families: memory, boxes, what the assembler says, instructions beside the products.

use tessera_assembler::{Error, Nvdisasm, Ptxas, sass};
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

const DRAFT: Shape = Shape { list: None, block: Some(5), ..RELEASED };
const WINDOW: Shape = Shape { list: None, ..RELEASED };

/// The assembler and the disassembler, if they are there.
#[allow(clippy::print_stderr, reason = "says why nothing was tested")]
fn tools() -> Option<(Ptxas, Nvdisasm)> {
    match Ptxas::find().and_then(|ptxas| Ok((ptxas, Nvdisasm::find()?))) {
        Ok(tools) => Some(tools),
        Err(Error::Absent { .. }) => {
            assert!(std::env::var_os("TESSERA_REQUIRE_PTXAS").is_none(), "no ptxas, which CI must have");
            eprintln!("skipped: no ptxas");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// 27 barriers of 8 bytes at most, the address of tensor memory and 1024 bytes of exchanged maxima come to the slots.
#[test]
fn memory_of_the_released_shapes() {
    for shape in [RELEASED, DRAFT, WINDOW] {
        let kernel = emitted("released", shape);
        let slots = (64 + 128 + 8 + 9 + if shape.list.is_some() { 15 } else { 0 }) * 1024;
        assert!((slots + 1024..slots + 2048).contains(&kernel.smem), "{} for {slots}", kernel.smem);
        assert!(kernel.smem <= 232_448);
        assert_eq!((kernel.tmem_columns, kernel.block), (512, [384, 1, 1]));
        assert_eq!(
            kernel.grid[0].to_string(),
            if shape.block.is_some() { "min(5*Q, 148)" } else { "min(T, 148)" }
        );
    }
}

/// Whole records in boxes of 32-bit words, 528 and 288 bytes; queries in boxes of 64 channels by 64 heads.
#[test]
fn boxes_of_the_released_shape() {
    let kernel = emitted("released", RELEASED);
    let boxes: Vec<(&str, Vec<u32>)> =
        kernel.tensor_maps.iter().map(|m| (m.tensor.as_str(), m.box_dims.clone())).collect();
    assert_eq!(boxes, [("a0", vec![64, 64, 1]), ("a1", vec![132, 1]), ("a2", vec![72, 1])]);
}

#[test]
fn the_assembler_says_nothing_and_spills_nothing() {
    let Some((ptxas, nvdisasm)) = tools() else { return };
    let tiny_draft = Shape { list: None, block: Some(3), ..TINY };
    for (name, shape) in [
        ("released", RELEASED),
        ("draft", DRAFT),
        ("window", WINDOW),
        ("wide_tiny", Shape { dim: 256, ..TINY }),
        ("tiny", TINY),
        ("tiny_draft", tiny_draft),
    ] {
        let kernel = emitted(name, shape);
        let done = ptxas.assemble(&kernel.text, "sm_100a").unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(done.messages.is_empty(), "{name}: {:?}", done.messages);
        for f in &done.functions {
            assert_eq!((f.stack, f.spill_stores, f.spill_loads), (0, 0, 0), "{name}: {f:?}");
        }
        let text = nvdisasm.disassemble(&done.cubin).unwrap_or_else(|e| panic!("{name}: {e}"));
        let code = &sass::analyse(&text).unwrap_or_else(|e| panic!("{name}: {e}"))[0];
        let steady: Vec<_> = code.loops.iter().filter(|l| l.steady).collect();
        let scores = shape.dim / 16;
        let values = 4 * shape.dim.div_ceil(256);
        // A loop of each kind for each list of keys; a list of one block is no loop to the assembler.
        let second = shape.list.or(shape.block).unwrap_or(0);
        assert_eq!(steady.len(), if second > 64 { 4 } else { 2 }, "{name}");
        let lists = if second > 0 { 2 } else { 1 };
        assert_eq!((code.mma, code.mma_outside_loops), (lists * (scores + values), 0), "{name}");
        for l in steady {
            assert!(l.mma == scores || l.mma == values, "{name}: {} products", l.mma);
            assert!(l.others_per_mma.is_some_and(|n| n <= 10.0) || shape.dim < 512, "{name}: {l:?}");
        }
    }
}
