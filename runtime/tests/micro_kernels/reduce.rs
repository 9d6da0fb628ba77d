//! Row reductions: the order of rows, accuracy, specials.

use crate::support::{HALF_ULP, Random, SPECIALS, all_kernels, same};

/// Element i in lane i mod 16, then the tree.
fn in_order(n: usize, mut fold: impl FnMut(f32, usize) -> f32) -> f32 {
    let mut lanes = [0.0f32; 16];
    for i in 0..n {
        lanes[i % 16] = fold(lanes[i % 16], i);
    }
    // The tail's missing elements contribute +0, which a sum that is −0 would notice.
    if !n.is_multiple_of(16) {
        lanes[n % 16..].iter_mut().for_each(|lane| *lane += 0.0);
    }
    let mut width = 8;
    while width > 0 {
        for j in 0..width {
            lanes[j] += lanes[j + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[test]
fn sums_follow_the_order_of_rows() {
    let mut random = Random(11);
    for n in (0..=70).chain([512, 1280, 5119]) {
        let x = random.vec(n, |r| r.wide(-8, 8));
        let y = random.vec(n, |r| r.wide(-8, 8));
        let dot = in_order(n, |acc, i| x[i].mul_add(y[i], acc));
        let sum = in_order(n, |acc, i| acc + x[i]);
        let squares = in_order(n, |acc, i| x[i].mul_add(x[i], acc));
        for (isa, kernels) in all_kernels() {
            // SAFETY: both rows hold n values.
            let found = unsafe {
                [
                    (kernels.dot)(x.as_ptr(), y.as_ptr(), n),
                    (kernels.sum)(x.as_ptr(), n),
                    (kernels.sumsq)(x.as_ptr(), n),
                ]
            };
            for (name, found, expected) in
                [("dot", found[0], dot), ("sum", found[1], sum), ("sumsq", found[2], squares)]
            {
                assert!(same(found, expected), "{isa} {name} n={n}: {found:e} not {expected:e}");
            }
        }
        let exact: f64 = x.iter().zip(&y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
        let terms: f64 = x.iter().zip(&y).map(|(&x, &y)| (f64::from(x) * f64::from(y)).abs()).sum();
        let bound = (n.div_ceil(16) + 4) as f64 * HALF_ULP * terms;
        assert!((f64::from(dot) - exact).abs() <= bound, "n={n}");
    }
}

#[test]
fn maxima_are_exact_and_keep_nan() {
    let mut random = Random(12);
    for n in 0..=70 {
        for round in 0..4 {
            let mut x = random.vec(n, |r| r.wide(-20, 20));
            if n > 0 && round > 0 {
                x[random.below(n)] = SPECIALS[random.below(SPECIALS.len())];
            }
            if round == 3 {
                x.iter_mut().for_each(|v| *v = -v.abs());
            }
            let nan = x.iter().any(|v| v.is_nan());
            let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let absmax = x.iter().map(|v| v.abs()).fold(0.0, f32::max);
            for (isa, kernels) in all_kernels() {
                // SAFETY: the row holds n values.
                let (found_max, found_abs) =
                    unsafe { ((kernels.max)(x.as_ptr(), n), (kernels.absmax)(x.as_ptr(), n)) };
                if nan {
                    assert!(found_max.is_nan() && found_abs.is_nan(), "{isa} n={n} lost a NaN");
                } else {
                    assert!(found_max == max && found_abs == absmax, "{isa} n={n}: {found_max} {found_abs}");
                }
            }
        }
    }
}

#[test]
fn a_nan_anywhere_is_seen_wherever_the_maximum_is() {
    for n in [1, 16, 17, 40] {
        for at in 0..n {
            for top in 0..n {
                let mut x = vec![1.0f32; n];
                x[top] = 50.0;
                x[at] = f32::NAN;
                for (isa, kernels) in all_kernels() {
                    // SAFETY: the row holds n values.
                    let found = unsafe { [(kernels.max)(x.as_ptr(), n), (kernels.absmax)(x.as_ptr(), n)] };
                    assert!(found.iter().all(|v| v.is_nan()), "{isa} n={n} NaN at {at}");
                }
            }
        }
    }
}
