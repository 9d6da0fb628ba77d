//! Hyper-connections: the mixing coefficients, Sinkhorn's order, and which index is summed.

use crate::case::{Case, assert_near, bits, noises, wide};
use tessera_ir::graph::Op;
use tessera_ir::graph::interp::Tensor;
use tessera_ir::graph::tolerance::{UNIT, tolerance};
use tessera_ir::types::Format;

struct Mixed {
    pre: Vec<f32>,
    post: Vec<f32>,
    comb: Vec<f32>,
}

fn mix(x: &[f32], n: usize, function: &[f32], base: &[f32], scale: [f32; 3], iters: usize) -> (Mixed, Op) {
    let width = function.len() / (n * (n + 2));
    let mut c = Case::new();
    let x = c.reals("x", &[x.len() / width, n, width / n], x.to_vec());
    let function = c.weight("function", Format::F32, Tensor::f32([n * (n + 2), width], function.to_vec()));
    let base = c.weight("base", Format::F32, Tensor::f32([n * (n + 2)], base.to_vec()));
    let scale = c.weight("scale", Format::F32, Tensor::f32([3], scale.to_vec()));
    let op = Op::HcMix { x, function, base, scale, iters, eps: 1e-6, norm_eps: 1e-20 };
    c.emit(op.clone(), Format::F32);
    let out = c.run();
    let get = |name: &str| out[name].reals().unwrap().to_vec();
    (Mixed { pre: get("y"), post: get("y1"), comb: get("y2") }, op)
}

/// The same in f64, straight from V4.1 §2.3.
fn exact(x: &[f64], function: &[f64], base: &[f64], scale: [f64; 3], iters: usize) -> [Vec<f64>; 3] {
    let (n, eps) = (4, f64::from(1e-6f32));
    let mean = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
    let z: Vec<f64> = function
        .chunks(x.len())
        .map(|f| f.iter().zip(x).map(|(a, b)| a * b).sum::<f64>() / (mean + 1e-20).sqrt())
        .collect();
    let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
    let pre = (0..n).map(|j| sigmoid(z[j] * scale[0] + base[j]) + eps).collect();
    let post = (0..n).map(|j| 2.0 * sigmoid(z[n + j] * scale[1] + base[n + j])).collect();
    let m = |j: usize, k: usize| z[8 + 4 * j + k] * scale[2] + base[8 + 4 * j + k];
    let mut c: Vec<[f64; 4]> = Vec::new();
    for j in 0..n {
        let max = (0..n).map(|k| m(j, k)).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = (0..n).map(|k| (m(j, k) - max).exp()).sum();
        c.push(std::array::from_fn(|k| (m(j, k) - max).exp() / sum + eps));
    }
    let columns = |c: &mut Vec<[f64; 4]>| {
        let sums: [f64; 4] = std::array::from_fn(|k| c.iter().map(|row| row[k]).sum::<f64>() + eps);
        c.iter_mut().for_each(|row| row.iter_mut().zip(sums).for_each(|(v, sum)| *v /= sum));
    };
    columns(&mut c);
    for _ in 1..iters {
        for row in &mut c {
            let sum = row.iter().sum::<f64>() + eps;
            row.iter_mut().for_each(|v| *v /= sum);
        }
        columns(&mut c);
    }
    [pre, post, c.concat()]
}

#[test]
fn mixing_is_the_formula_within_its_tolerance() {
    let (n, d) = (4, 96);
    let (x, function) =
        (noises(1, n * d), noises(2, 24 * n * d).iter().map(|v| v * 0.05).collect::<Vec<_>>());
    let (base, scale) = (noises(3, 24), [0.7, 1.3, 0.9]);
    for iters in [1, 2, 20] {
        let (got, op) = mix(&x, n, &function, &base, scale, iters);
        let want = exact(&wide(&x), &wide(&function), &wide(&base), scale.map(f64::from), iters);
        let row = |f: &[f32]| f.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
        let norm = function.chunks(n * d).map(row).fold(0.0, f64::max);
        let magnitude = 1.0 + norm * ((n * d) as f64).sqrt() * f64::from(1.3f32);
        let tolerances = tolerance(&op, &|_| vec![1, n, d]);
        for ((got, want), tolerance) in [got.pre, got.post, got.comb].iter().zip(&want).zip(tolerances) {
            for (got, want) in got.iter().zip(want) {
                let bound = tolerance.bound(magnitude, *want, Format::F32);
                assert!(bound < 2e-3, "{bound:e}");
                assert_near(*got, *want, bound);
            }
        }
    }
}

#[test]
fn equal_logits_mix_evenly_and_the_columns_are_normalised_last() {
    let function = vec![0.0; 24 * 8];
    let x = noises(4, 8);
    let even = mix(&x, 4, &function, &[0.0; 24], [1.0; 3], 20).0;
    for v in &even.comb {
        assert_near(*v, 0.25, 1e-6);
    }
    assert_near(even.pre[0], 0.5 + 1e-6, UNIT);
    assert_near(even.post[0], 1.0, UNIT);
    // One large entry: columns sum to 1 within eps at any count, rows only after many.
    let mut base = [0.0; 24];
    base[8 + 4 + 2] = 60.0;
    for iters in [1, 2, 19, 20, 21] {
        let comb = mix(&x, 4, &function, &base, [1.0; 3], iters).0.comb;
        for k in 0..4 {
            let sum: f64 = (0..4).map(|j| f64::from(comb[j * 4 + k])).sum();
            // The sum is s / (s + eps) with s near 1 after a row step, and above 1/4 at first.
            assert_near(sum as f32, 1.0, 5e-6);
        }
        let wanted = exact(&wide(&x), &wide(&function), &wide(&base), [1.0; 3], iters);
        for (got, want) in comb.iter().zip(&wanted[2]) {
            assert_near(*got, *want, 1e-5);
        }
    }
}

#[test]
fn the_number_of_iterations_counts() {
    let base: Vec<f32> = noises(5, 24).iter().map(|v| v * 6.0).collect();
    let combs: Vec<Vec<u32>> = [1, 2, 3, 4]
        .map(|iters| bits(&mix(&noises(4, 8), 4, &[0.0; 192], &base, [1.0; 3], iters).0.comb))
        .to_vec();
    assert!(combs.windows(2).all(|w| w[0] != w[1]));
}

#[test]
fn expansion_sums_over_the_first_index_of_comb() {
    let mut c = Case::new();
    let y = c.reals("y", &[1, 1], vec![10.0]);
    let x = c.reals("x", &[1, 2, 1], vec![1.0, 2.0]);
    let post = c.reals("post", &[1, 2], vec![0.5, 3.0]);
    let comb = c.reals("comb", &[1, 2, 2], vec![1.0, 2.0, 4.0, 8.0]);
    c.emit(Op::HcExpand { y, x, post, comb }, Format::F32);
    // k = 0: 5 + 1·1 + 4·2; k = 1: 30 + 2·1 + 8·2.
    assert_eq!(c.y(), [14.0, 48.0]);
}

#[test]
fn streams_open_collapse_and_average() {
    let mut c = Case::new();
    let x = c.reals("x", &[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    c.emit(Op::HcOpen { x, streams: 2 }, Format::F32);
    let out = c.run();
    assert_eq!(out["y"].reals().unwrap(), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0]);
    assert_eq!(out["y1"].reals().unwrap(), [1.0, 0.0, 1.0, 0.0]);

    let mut c = Case::new();
    let x = c.reals("x", &[1, 3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 7.0]);
    let pre = c.reals("pre", &[1, 3], vec![2.0, -1.0, 0.5]);
    c.emit(Op::HcCollapse { x, pre }, Format::F32);
    assert_eq!(c.y(), [1.5, 3.5]);

    let mut c = Case::new();
    let x = c.reals("x", &[1, 4, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 7.0, 11.0]);
    c.emit(Op::HcMean { x }, Format::F32);
    assert_eq!(c.y(), [4.0, 6.0]);
}
