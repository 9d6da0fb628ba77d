//! Attention and index products against scalar references in the canonical order.

use crate::support::{Guarded, HALF_ULP, Random, all_kernels, assert_same};
use tessera_ir::num::bf16;

/// A dot product in the order of rows.
fn dot(x: &[f32], y: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 16];
    for (i, (x, y)) in x.iter().zip(y).enumerate() {
        lanes[i % 16] = x.mul_add(*y, lanes[i % 16]);
    }
    for width in [8, 4, 2, 1] {
        for j in 0..width {
            lanes[j] += lanes[j + width];
        }
    }
    lanes[0]
}

/// Heads, keys and widths with every remainder that the kernels cut differently.
const SHAPES: [(usize, usize, usize); 9] = [
    (1, 1, 16),
    (2, 2, 64),
    (3, 5, 40),
    (7, 64, 33),
    (8, 9, 512),
    (64, 3, 128),
    (0, 4, 16),
    (4, 0, 16),
    (5, 3, 0),
];

#[test]
fn scores_are_dots_in_the_order_of_rows() {
    let mut random = Random(41);
    for (h, n, d) in SHAPES {
        let q = random.vec(h * d, |r| r.unit());
        let keys = random.vec(n * d, |r| r.wide(-6, 2));
        let scale = 0.044_194_174;
        for (isa, kernels) in all_kernels() {
            let ldo = n + 3;
            let mut out = Guarded::new(h * ldo, -7.0f32);
            // SAFETY: [h][d], [n][d] and h rows of ldo.
            unsafe {
                (kernels.attn_scores)(q.as_ptr(), h, d, keys.as_ptr(), n, scale, out.pointer(), ldo);
            }
            for (head, row) in out.checked().chunks(ldo).enumerate() {
                let expected: Vec<f32> = (0..n)
                    .map(|key| dot(&q[head * d..(head + 1) * d], &keys[key * d..(key + 1) * d]) * scale)
                    .collect();
                assert_same(&row[..n], &expected, &format!("{isa} h={h} n={n} d={d} head {head}"));
                assert!(row[n..].iter().all(|&v| v == -7.0), "{isa} wrote beyond its keys");
            }
        }
    }
}

#[test]
fn values_add_one_partial_sum_per_call() {
    let mut random = Random(42);
    for (h, n, d) in SHAPES {
        let lde = n + 2;
        let e = random.vec(h * lde, |r| r.unit().abs());
        let v = random.vec(n * d, |r| r.wide(-6, 2));
        let start = random.vec(h * d, |r| r.unit());
        let mut expected = start.clone();
        for (at, out) in expected.iter_mut().enumerate() {
            let (head, col) = (at / d, at % d);
            *out += (0..n).fold(0.0f32, |p, i| e[head * lde + i].mul_add(v[i * d + col], p));
        }
        for (isa, kernels) in all_kernels() {
            let mut out = Guarded::new(h * d, -7.0f32);
            out.body().copy_from_slice(&start);
            // SAFETY: [h][lde], [n][d] and [h][d].
            unsafe { (kernels.attn_values)(e.as_ptr(), lde, h, n, v.as_ptr(), d, out.pointer()) };
            assert_same(out.checked(), &expected, &format!("{isa} h={h} n={n} d={d}"));
        }
    }
}

#[test]
fn index_scores_round_where_the_definition_says() {
    let mut random = Random(43);
    for (h, n, d) in SHAPES {
        let q = random.vec(h * d, |r| r.unit());
        let w = random.vec(h, |r| r.unit());
        let mut keys = random.vec(n * d, |r| r.wide(-6, 2));
        if n > 2 && d > 0 {
            keys[d] = f32::NAN;
        }
        for round in [0u32, 1] {
            let bf16 = |x: f32| if round == 1 { bf16::round(x) } else { x };
            let expected: Vec<f32> = (0..n)
                .map(|key| {
                    let terms = (0..h).map(|head| {
                        let s = bf16(dot(&q[head * d..(head + 1) * d], &keys[key * d..(key + 1) * d]));
                        bf16(if s < 0.0 { 0.0 } else { s } * w[head])
                    });
                    bf16(terms.fold(0.0, |acc, t| acc + t))
                })
                .collect();
            for (isa, kernels) in all_kernels() {
                let mut out = Guarded::new(n, -7.0f32);
                // SAFETY: [h][d], [h], [n][d] and [n].
                unsafe {
                    (kernels.index_scores)(
                        q.as_ptr(),
                        w.as_ptr(),
                        h,
                        d,
                        keys.as_ptr(),
                        n,
                        round,
                        out.pointer(),
                    );
                }
                assert_same(out.checked(), &expected, &format!("{isa} h={h} n={n} d={d} round={round}"));
                if n > 2 && d > 0 && h > 0 {
                    assert!(out.checked()[1].is_nan() && !out.checked()[0].is_nan(), "{isa} relu hid a NaN");
                }
            }
        }
    }
}

#[test]
fn scores_are_as_accurate_as_their_order() {
    let mut random = Random(44);
    let (h, n, d) = (4, 6, 512);
    let q = random.vec(h * d, |r| r.unit());
    let keys = random.vec(n * d, |r| r.unit());
    for (isa, kernels) in all_kernels() {
        let mut out = vec![0.0f32; h * n];
        // SAFETY: [h][d], [n][d] and [h][n].
        unsafe { (kernels.attn_scores)(q.as_ptr(), h, d, keys.as_ptr(), n, 1.0, out.as_mut_ptr(), n) };
        for (at, &found) in out.iter().enumerate() {
            let pairs = q[at / n * d..][..d].iter().zip(&keys[at % n * d..][..d]);
            let (mut exact, mut terms) = (0.0, 0.0);
            for (&x, &y) in pairs {
                exact += f64::from(x) * f64::from(y);
                terms += (f64::from(x) * f64::from(y)).abs();
            }
            let bound = (d / 16 + 5) as f64 * HALF_ULP * terms;
            assert!((f64::from(found) - exact).abs() <= bound, "{isa} {at}");
        }
    }
}
