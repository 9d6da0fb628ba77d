//! Compiled kernels against the Tile IR interpreter, bit for bit.

mod arith;
mod data;
mod exact;
mod formats;
mod loader;
mod matrix;
mod model;
mod programs;
mod random;
mod selection;

use data::{Arg, Rng};
use std::sync::LazyLock;
use tessera_codegen::target::cpu::{Cpu, CpuOptions};
use tessera_ir::graph::interp::{Data, Tensor};
use tessera_ir::tile::{Access, Kernel, KernelBuilder, interp, verify};
use tessera_ir::{Bindings, Elem, Verified};

/// The host, with Cranelift's own checks on.
static CPU: LazyLock<Cpu> =
    LazyLock::new(|| Cpu::with(&CpuOptions { features: None, verify: true }).expect("a CPU target"));

/// A kernel that must be right.
fn verified(k: KernelBuilder) -> Verified<Kernel> {
    let kernel = k.finish().unwrap_or_else(|e| panic!("{e}"));
    verify(kernel).unwrap_or_else(|e| panic!("{e}"))
}

/// Symbols and their values.
fn bind(pairs: &[(&str, usize)]) -> Bindings {
    let mut b = Bindings::new();
    pairs.iter().for_each(|(s, n)| {
        b.set(s, *n);
    });
    b
}

/// Arguments of a kernel: random reals, given integers (one list for each integer input in order), empty outputs.
fn arguments(kernel: &Kernel, bindings: &Bindings, seed: u64, ints: &[Vec<i64>]) -> Vec<Arg> {
    let mut rng = Rng::new(seed);
    let mut ints = ints.iter();
    kernel
        .params
        .iter()
        .map(|p| match (p.access, p.ty.format.elem) {
            (Access::Write, _) => Arg::output(&p.ty, bindings),
            (_, Elem::I32 | Elem::I64) => Arg::ints(&p.ty, bindings, ints.next().expect("integers").clone()),
            _ => Arg::random(&p.ty, bindings, &mut rng),
        })
        .collect()
}

/// How far a result may be off, in units of the last place; 0: equal bits.
#[derive(Clone, Copy)]
struct Ulps(u32);

const EXACT: Ulps = Ulps(0);

fn ordered(x: f32) -> i64 {
    let bits = i64::from(x.to_bits() & 0x7fff_ffff);
    if x.is_sign_negative() { -bits } else { bits }
}

fn compare(what: &str, got: &Data, want: &Data, ulps: Ulps) {
    match (got, want) {
        (Data::F32(got), Data::F32(want)) => {
            assert_eq!(got.len(), want.len(), "{what}");
            for (i, (g, w)) in got.iter().zip(want).enumerate() {
                let near = ordered(*g).abs_diff(ordered(*w)) <= u64::from(ulps.0);
                let same = if ulps.0 == 0 { g.to_bits() == w.to_bits() } else { near };
                assert!(
                    same || (g.is_nan() && w.is_nan()),
                    "{what}, element {i}: {g:e}, but should be {w:e}"
                );
            }
        }
        (got, want) => assert_eq!(got, want, "{what}"),
    }
}

/// Runs a kernel on the interpreter and compiled, whole, tile by tile backwards and in two halves, and compares every
/// parameter.
fn check(kernel: &Verified<Kernel>, bindings: &Bindings, args: &[Arg], ulps: Ulps) {
    let name = &kernel.name;
    let mut tensors: Vec<Tensor> = args.iter().map(|a| a.tensor.clone()).collect();
    interp::run(kernel, bindings, &mut tensors, 7).unwrap_or_else(|e| panic!("{name}: {e}"));
    let compiled = CPU.compile("test", kernel).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(compiled.code, CPU.compile("test", kernel).expect("again").code, "{name}: code differs");
    let tiles = compiled.tiles(bindings).expect("tiles");
    let whole = std::iter::once(0..tiles).collect::<Vec<_>>();
    let backwards = (0..tiles).rev().map(|i| i..i + 1).collect::<Vec<_>>();
    let halves = vec![tiles / 2..tiles, 0..tiles / 2];
    for (how, ranges) in [("whole", whole), ("backwards", backwards), ("halves", halves)] {
        let mut planes: Vec<_> = args.iter().map(|a| a.planes.clone()).collect();
        for range in ranges {
            loader::run(&compiled, &mut planes, bindings, range);
        }
        for ((p, planes), want) in kernel.params.iter().zip(planes).zip(&tensors) {
            let got = Arg { tensor: want.clone(), planes };
            let what = format!("{name} ({how}), parameter {}", p.name);
            if p.access == Access::Read {
                continue;
            }
            compare(&what, &got.decoded(&p.ty), &want.data, ulps);
        }
    }
}

/// The conformance run of a kernel with random reals.
fn conform(k: KernelBuilder, symbols: &[(&str, usize)], ints: &[Vec<i64>], ulps: Ulps) {
    conform_each(k, &[(symbols.to_vec(), ints.to_vec())], ulps);
}

/// A run of a kernel: values of symbols, lists of integers.
type Run<'a> = (Vec<(&'a str, usize)>, Vec<Vec<i64>>);

/// Several conformance runs of one kernel.
fn conform_each(k: KernelBuilder, runs: &[Run<'_>], ulps: Ulps) {
    let kernel = verified(k);
    for (symbols, ints) in runs {
        let bindings = bind(symbols);
        for seed in 1..3 {
            let args = arguments(&kernel, &bindings, seed, ints);
            check(&kernel, &bindings, &args, ulps);
        }
    }
}
