//! Matrix ops, copies and whole kernels of several roles.

use super::support::{empty, noise, output, run, vector, verified};
use std::collections::BTreeMap;
use std::sync::Arc;
use tessera_ir::graph::interp::{State, Tensor, round_trip};
use tessera_ir::graph::{self, DeclKind, Op};
use tessera_ir::tile::interp;
use tessera_ir::{Bindings, Dim, Format, TensorType};

fn linear() -> tessera_ir::Verified<tessera_ir::tile::Kernel> {
    verified(include_str!("../filetests/tile/ok/linear_w8.tile"))
}

/// Values of w8: codes of few bits times one power of two for each 32×32 tile.
fn w8(n: usize, k: usize) -> Vec<f32> {
    let codes = noise(n * k, 11);
    let scale = |i: usize, j: usize| f32::powi(2.0, ((i / 32 + j / 32) % 5) as i32 - 8);
    (0..n * k).map(|at| (codes[at] * 8.0).round() * scale(at / k, at % k)).collect()
}

fn rows_of_mx8(t: usize, k: usize) -> Vec<f32> {
    let x = noise(t * k, 5);
    x.chunks(k).flat_map(|row| round_trip(row, Format::MX8).expect("whole groups")).collect()
}

#[test]
fn a_product_equals_f64_arithmetic_and_the_graph_oracle() {
    let (n, k) = (512, 256);
    let weight = w8(n, k);
    // Rows fewer than, equal to and more than a tile, none, and one.
    for t in [0, 1, 15, 16, 17, 33] {
        let mut bindings = Bindings::new();
        bindings.set("T", t);
        let x = rows_of_mx8(t, k);
        let params = [Tensor::f32([t, k], x.clone()), Tensor::f32([n, k], weight.clone()), empty(&[t, n])];
        let out = run(&linear(), &bindings, &params).unwrap_or_else(|e| panic!("T = {t}: {e}"));
        let got = out[2].reals().expect("reals");
        for i in 0..t {
            for j in 0..n {
                let terms = || (0..k).map(|l| f64::from(x[i * k + l]) * f64::from(weight[j * k + l]));
                let (want, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
                // One bf16 rounding, and f32 roundings along the sum.
                let bound = want.abs() / 256.0 + size * 1e-5;
                let got = f64::from(got[i * n + j]);
                assert!((got - want).abs() <= bound, "T = {t}, ({i}, {j}): {got}, not {want}");
            }
        }
        let oracle = graph_linear(t, n, k, &bindings, &x, &weight);
        assert_eq!(got, oracle, "T = {t}: other bits than the graph oracle");
    }
}

fn graph_linear(t: usize, n: usize, k: usize, bindings: &Bindings, x: &[f32], weight: &[f32]) -> Vec<f32> {
    let mut b = graph::Builder::new("linear");
    let x_decl = b.declare(DeclKind::Input, "x", TensorType::new([Dim::sym("T"), k.into()], Format::MX8));
    let w_decl = b.declare(DeclKind::Weight, "w", TensorType::new([n, k], Format::W8));
    let ty = TensorType::new([Dim::sym("T"), n.into()], Format::BF16);
    let y = b.push(Op::Linear { x: x_decl, weight: w_decl, groups: 1 }, vec![ty]);
    b.output("y", y[0]);
    let module = graph::verify(b.finish()).unwrap_or_else(|e| panic!("{e}"));
    let inputs = BTreeMap::from([("x".to_owned(), Tensor::f32([t, k], x.to_vec()))]);
    let weights = BTreeMap::from([("w".to_owned(), Arc::new(Tensor::f32([n, k], weight.to_vec())))]);
    let out = graph::interp::run(&module, bindings, &inputs, &weights, &mut State::default());
    out.unwrap_or_else(|e| panic!("{e}"))["y"].reals().expect("reals").to_vec()
}

#[test]
fn products_accumulate_block_by_block() {
    // Two passes over K halves, the second adding to the first.
    let rings = "ring %a : stage tile<2x96, f32> depth 1 path main ring %b : stage tile<16x96, bf16> depth 1 path main
        ring %c : accum tile<2x16, f32> depth 1 path main";
    let params = "param %x : [2, 192] f32 read param %w : [16, 192] bf16 read param %y : [2, 16] f32 write";
    let body = "%two = index.const {value = 2} : index %n = index.const {value = 16} : index
        %half = index.const {value = 96} : index
        %a0 = acquire %a : slot %a %b0 = acquire %b : slot %b %c0 = acquire %c : slot %c
        copy %x, (%z, %z), %a0, %two
        copy %w, (%z, %z), %b0, %n
        mma %c0, %a0, %b0, %two {init = true}
        copy %x, (%z, %half), %a0, %two
        copy %w, (%z, %half), %b0, %n
        mma %c0, %a0, %b0, %two {init = false}
        %v = slot.load %c0, %z, %z {rows = 2, cols = 16} : tile<2x16, f32>
        store %v, %y, (%z, %z)
        release %a0 release %b0 release %c0";
    let x = noise(2 * 192, 1);
    let w: Vec<f32> = round_trip(&noise(16 * 192, 2), Format::BF16).expect("bf16");
    let tensors = [Tensor::f32([2, 192], x.clone()), Tensor::f32([16, 192], w.clone()), empty(&[2, 16])];
    let got = output(&vector(params, rings, body), &tensors);
    for i in 0..2 {
        for n in 0..16 {
            // Blocks of 64, 32 (the end of the first half), 64, 32, each from 0 by fused multiply-adds.
            let mut sum = 0f32;
            for block in [0..64, 64..96, 96..160, 160..192] {
                let part = block.fold(0f32, |p, k| x[i * 192 + k].mul_add(w[n * 192 + k], p));
                sum += part;
            }
            assert_eq!(got[i * 16 + n], sum, "({i}, {n})");
        }
    }
}

#[test]
fn products_with_scaled_weights_take_the_odd_element_first() {
    let rings =
        "ring %a : stage tile<1x64, f32> depth 1 path main ring %b : stage tile<16x64, w8> depth 1 path main
        ring %c : accum tile<1x16, f32> depth 1 path main";
    let params = "param %x : [1, 64] f32 read param %w : [16, 64] w8 read param %y : [1, 16] f32 write";
    let body = "%one = index.const {value = 1} : index %n = index.const {value = 16} : index
        %a0 = acquire %a : slot %a %b0 = acquire %b : slot %b %c0 = acquire %c : slot %c
        copy %x, (%z, %z), %a0, %one
        copy %w, (%z, %z), %b0, %n
        mma %c0, %a0, %b0, %one {init = true}
        %v = slot.load %c0, %z, %z {rows = 1, cols = 16} : tile<1x16, f32>
        store %v, %y, (%z, %z)
        release %a0 release %b0 release %c0";
    let (x, w) = (noise(64, 8), w8(16, 64));
    let tensors = [Tensor::f32([1, 64], x.clone()), Tensor::f32([16, 64], w.clone()), empty(&[1, 16])];
    let got = output(&vector(params, rings, body), &tensors);
    let sum = |n: usize, order: &[usize; 2], width: usize| {
        let mut sum = 0f32;
        for first in (0..64).step_by(width) {
            let pairs = (first..first + width).step_by(2);
            let ks = pairs.flat_map(|k| order.map(|o| k + o));
            sum += ks.fold(0f32, |p, k| x[k].mul_add(w[n * 64 + k], p));
        }
        sum
    };
    let want: Vec<f32> = (0..16).map(|n| sum(n, &[1, 0], 32)).collect();
    assert_eq!(got, want);
    // Other orders give other bits, so the test sees them.
    for (order, width) in [([0, 1], 32), ([1, 0], 64)] {
        assert_ne!(got, (0..16).map(|n| sum(n, &order, width)).collect::<Vec<_>>());
    }
}

#[test]
fn attention_steps() {
    // Scores of 3 keys at columns 1..4, weights given, values summed; all numbers exact.
    let rings =
        "ring %q : stage tile<2x4, f32> depth 1 path main ring %k : stage tile<8x4, f32> depth 1 path main
        ring %s : vec tile<2x5, f32> depth 1 path main ring %o : accum tile<2x4, f32> depth 1 path main";
    let params = "param %qs : [2, 4] f32 read param %ks : [1, 4, 4] f32 read param %ids : [1, 4] i32 read
        param %scores : [2, 5] f32 write param %sums : [2, 4] f32 write";
    let body = "%one = index.const {value = 1} : index %two = index.const {value = 2} : index
        %three = index.const {value = 3} : index
        %q0 = acquire %q : slot %q
        copy %qs, (%z, %z), %q0, %two
        %k0 = acquire %k : slot %k
        copy.gather %ks, (%z), %ids, (%z, %one), %k0, %three
        %s0 = acquire %s : slot %s
        slot.fill %s0 {value = -1.0}
        mma.scores %s0, %q0, %k0, %one, %three {scale = 0.5}
        %v = slot.load %s0, %z, %z {rows = 2, cols = 5} : tile<2x5, f32>
        store %v, %scores, (%z, %z)
        %o0 = acquire %o : slot %o
        slot.fill %o0 {value = 100.0}
        mma.values %o0, %s0, %k0, %one, %three
        %w = slot.load %o0, %z, %z {rows = 2, cols = 4} : tile<2x4, f32>
        store %w, %sums, (%z, %z)
        release %q0 release %k0 release %s0 release %o0";
    let q = Tensor::f32([2, 4], vec![1.0, 2.0, 0.0, -1.0, 0.0, 0.0, 4.0, 2.0]);
    let keys: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let ids = Tensor::i32([1, 4], vec![0, 3, -1, 1]);
    let tensors = [q, Tensor::f32([1, 4, 4], keys), ids, empty(&[2, 5]), empty(&[2, 4])];
    let out = run(&vector(params, rings, body), &Bindings::new(), &tensors).unwrap_or_else(|e| panic!("{e}"));
    // Gathered: row 3 = (12, 13, 14, 15), zeros, row 1 = (4, 5, 6, 7).
    let scores = [-1.0, 11.5, 0.0, 3.5, -1.0, -1.0, 43.0, 0.0, 19.0, -1.0];
    assert_eq!(out[3].reals(), Some(&scores[..]));
    let sum = |a: f32, b: f32, d: f32| 100.0 + a * (12.0 + d) + b * (4.0 + d);
    let sums: Vec<f32> = [(11.5, 3.5), (43.0, 19.0)]
        .iter()
        .flat_map(|(a, b)| (0..4).map(move |d| sum(*a, *b, d as f32)))
        .collect();
    assert_eq!(out[4].reals(), Some(&sums[..]));
}

#[test]
fn index_scores_keep_only_positive_dots() {
    let rings =
        "ring %q : stage tile<2x4, f32> depth 1 path main ring %w : stage tile<1x2, f32> depth 1 path main
        ring %k : stage tile<3x4, f32> depth 1 path main ring %s : vec tile<1x4, f32> depth 1 path main";
    let params = "param %qs : [2, 4] f32 read param %ws : [1, 2] f32 read param %ks : [5, 4] f32 read
        param %y : [1, 3] f32 write";
    let scores = |round: &str, q: Vec<f32>| {
        let body = format!(
            "%one = index.const {{value = 1}} : index %two = index.const {{value = 2}} : index
             %three = index.const {{value = 3}} : index %four = index.const {{value = 4}} : index
             %q0 = acquire %q : slot %q %w0 = acquire %w : slot %w %k0 = acquire %k : slot %k
             copy %qs, (%z, %z), %q0, %two
             copy %ws, (%z, %z), %w0, %one
             copy.ring %ks, (), %four, %k0, %three
             %s0 = acquire %s : slot %s
             mma.index %s0, %q0, %w0, %k0, %one, %three {{round = {round}}}
             %v = slot.load %s0, %z, %one {{rows = 1, cols = 3}} : tile<1x3, f32>
             store %v, %y, (%z, %z)
             release %q0 release %w0 release %k0 release %s0"
        );
        let keys = vec![1., 0., 0., 0., 0., 1., 0., 0., 9., 9., 9., 9., 9., 9., 9., 9., 0., 0., 1., 0.];
        let tensors = [
            Tensor::f32([2, 4], q),
            Tensor::f32([1, 2], vec![2.0, 10.0]),
            Tensor::f32([5, 4], keys),
            empty(&[1, 3]),
        ];
        output(&vector(params, rings, &body), &tensors)
    };
    // Ring positions 4, 0, 1: the keys select components 2, 0, 1 of each head.
    let q = vec![1.0, -3.0, 0.5, 7.0, 0.25, 4.0, -8.0, 7.0];
    assert_eq!(scores("none", q), [1.0, 4.5, 40.0]);
    // 257 does not fit bf16 (256 is next, ties to even), nor does 2·256 + 10·0.375.
    let q = vec![257.0, 0.0, 0.0, 0.0, 0.375, 0.0, 0.0, 0.0];
    assert_eq!(scores("bf16", q.clone()), [0.0, 516.0, 0.0]);
    assert_eq!(scores("none", q), [0.0, 517.75, 0.0]);
}

#[test]
fn ring_copies_wrap_around() {
    let rings = "ring %k : stage tile<4x2, f32> depth 1 path main";
    let params = "param %r : [2, 3, 2] f32 read param %y : [3, 2] f32 write";
    let body = "%one = index.const {value = 1} : index %start = index.const {value = 8} : index
        %three = index.const {value = 3} : index
        %k0 = acquire %k : slot %k
        copy.ring %r, (%one), %start, %k0, %three
        %v = slot.load %k0, %z, %z {rows = 3, cols = 2} : tile<3x2, f32>
        store %v, %y, (%z, %z)
        release %k0";
    let ring = (0..12).map(|i| i as f32).collect();
    let tensors = [Tensor::f32([2, 3, 2], ring), empty(&[3, 2])];
    assert_eq!(output(&vector(params, rings, body), &tensors), [10.0, 11.0, 6.0, 7.0, 8.0, 9.0]);
}

#[test]
fn a_copy_reads_what_was_there_when_it_was_issued() {
    // The store into the state comes after the copy from it, however late the copy lands.
    let rings = "ring %k : stage tile<1x2, f32> depth 1 path main";
    let params = "param %s : [1, 2] f32 update param %y : [1, 2] f32 write";
    let body = "%one = index.const {value = 1} : index
        %k0 = acquire %k : slot %k
        copy %s, (%z, %z), %k0, %one
        %c = splat {value = 5.0} : tile<1x1, f32>
        %old = load %s, (%z, %z) {rows = 1, cols = 2} : tile<1x2, f32>
        %new = zip %old, %c {f = mul} : tile<1x2, f32>
        store %new, %s, (%z, %z)
        %v = slot.load %k0, %z, %z {rows = 1, cols = 2} : tile<1x2, f32>
        store %v, %y, (%z, %z)
        release %k0";
    let kernel = vector(params, rings, body);
    for seed in 0..50 {
        let mut tensors = [Tensor::f32([1, 2], vec![1.0, 2.0]), empty(&[1, 2])];
        interp::run(&kernel, &Bindings::new(), &mut tensors, seed).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(tensors[0].reals(), Some(&[5.0, 10.0][..]));
        assert_eq!(tensors[1].reals(), Some(&[1.0, 2.0][..]), "seed {seed}");
    }
}

#[test]
fn roles_stream_through_rings_in_order() {
    // Three roles, loops of a length that only the run knows, deeper rings than one.
    let text = "tessera.tile 1 kernel @stream {
      param %x : [T, 32] mx8 read
      param %w : [16, 32] w8 read
      param %y : [T, 16] f32 write
      ring %a : stage tile<4x32, mx8> depth 3 path copy -> matrix
      ring %b : stage tile<16x32, w8> depth 1 path copy -> matrix
      ring %c : accum tile<4x16, f32> depth 2 path matrix -> vector
      role copy copy {
        %z = index.const {value = 0} : index
        %t = index.dim {dim = T} : index
        %four = index.const {value = 4} : index
        %n = index.const {value = 16} : index
        %b0 = acquire %b : slot %b
        copy %w, (%z, %z), %b0, %n
        pass %b0
        for %i = %z to %t step 4 {
          %left = index %t, %i {f = sub} : index
          %rows = index %left, %four {f = min} : index
          %a0 = acquire %a : slot %a
          copy %x, (%i, %z), %a0, %rows
          pass %a0
        }
      }
      role matrix matrix {
        %z1 = index.const {value = 0} : index
        %t1 = index.dim {dim = T} : index
        %four1 = index.const {value = 4} : index
        %b1 = take %b : slot %b
        for %i1 = %z1 to %t1 step 4 {
          %left1 = index %t1, %i1 {f = sub} : index
          %rows1 = index %left1, %four1 {f = min} : index
          %a1 = take %a : slot %a
          %c1 = acquire %c : slot %c
          mma %c1, %a1, %b1, %rows1 {init = true}
          release %a1
          pass %c1
        }
        release %b1
      }
      role vector vector {
        %z2 = index.const {value = 0} : index
        %t2 = index.dim {dim = T} : index
        %four2 = index.const {value = 4} : index
        for %i2 = %z2 to %t2 step 4 {
          %left2 = index %t2, %i2 {f = sub} : index
          %rows2 = index %left2, %four2 {f = min} : index
          %c2 = take %c : slot %c
          for %j = %z2 to %rows2 step 1 {
            %v = slot.load %c2, %j, %z2 {rows = 1, cols = 16} : tile<1x16, f32>
            %at = index %i2, %j {f = add} : index
            store %v, %y, (%at, %z2)
          }
          release %c2
        }
      }
    }";
    let kernel = verified(text);
    for t in [0, 1, 4, 11] {
        let mut bindings = Bindings::new();
        bindings.set("T", t);
        let (x, w) = (rows_of_mx8(t, 32), w8(16, 32));
        let params = [Tensor::f32([t, 32], x.clone()), Tensor::f32([16, 32], w.clone()), empty(&[t, 16])];
        let out = run(&kernel, &bindings, &params).unwrap_or_else(|e| panic!("T = {t}: {e}"));
        for (at, got) in out[2].reals().expect("reals").iter().enumerate() {
            let (i, n) = (at / 16, at % 16);
            let want: f64 = (0..32).map(|k| f64::from(x[i * 32 + k]) * f64::from(w[n * 32 + k])).sum();
            assert!((f64::from(*got) - want).abs() < 1e-6, "T = {t}, ({i}, {n}): {got}, not {want}");
        }
    }
}
