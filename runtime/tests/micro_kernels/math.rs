//! Elementwise functions: accuracy against f64, specials, equal bits.

use crate::support::{Guarded, Random, SPECIALS, all_kernels, assert_same, ulp};
use tessera_ir::num::bf16;
use tessera_runtime::micro::{Isa, Kernels, abi};

type Unary = abi::Exp;

fn apply(f: Unary, x: &[f32]) -> Vec<f32> {
    let mut out = Guarded::new(x.len(), 42.0f32);
    // SAFETY: both rows hold as many values.
    unsafe { f(out.pointer(), x.as_ptr(), x.len()) };
    out.checked().to_vec()
}

/// Every 331st f32, and a fine comb where the functions bend.
fn sweep() -> Vec<f32> {
    let all = (0..u32::MAX).step_by(331).map(f32::from_bits);
    let comb = (0..1_000_000).map(|i| (i as f32 - 500_000.0) / 4_500.0);
    all.chain(comb).filter(|x| !x.is_nan()).collect()
}

/// Largest error in units of the last place of the true value.
fn worst(f: Unary, x: &[f32], truth: impl Fn(f64) -> f64) -> (f64, f32) {
    let y = apply(f, x);
    let mut worst = (0.0, 0.0);
    for (&x, &y) in x.iter().zip(&y) {
        let exact = truth(f64::from(x));
        if exact.abs() >= f64::from(f32::MAX) {
            assert!(y.abs() >= f32::MAX, "{x:e} gives {y:e}, not {exact:e}");
            continue;
        }
        let error = (f64::from(y) - exact).abs() / ulp(exact);
        assert!(!error.is_nan(), "{x:e} gives {y}, not {exact:e}");
        if error > worst.0 {
            worst = (error, x);
        }
    }
    worst
}

#[test]
fn functions_are_accurate_over_all_of_f32() {
    let x = sweep();
    let finite: Vec<f32> = x.iter().copied().filter(|x| x.is_finite()).collect();
    let kernels = Kernels::of(Isa::detect()).expect("the detected one runs");
    let softplus_sqrt = |x: f64| if x > 20.0 { x.sqrt() } else { x.exp().ln_1p().sqrt() };
    // The exponential of f64 keeps 1 + e^-x exact enough for both tails.
    let sigmoid = |x: f64| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) };
    // Below, e^-x overflows before the quotient is 0, and ln(1 + e^x) is subnormal.
    let above: Vec<f32> = finite.iter().copied().filter(|x| *x >= -87.0).collect();
    let below: Vec<f32> = finite.iter().copied().filter(|x| *x < -87.0).collect();
    for f in [kernels.sigmoid, kernels.silu] {
        assert!(apply(f, &below).iter().all(|y| y.abs() < 2e-36), "not near 0");
    }
    let results = [
        ("exp", 0.51, worst(kernels.exp, &x, f64::exp)),
        ("sigmoid", 2.4, worst(kernels.sigmoid, &above, sigmoid)),
        ("silu", 2.4, worst(kernels.silu, &above, |x| x * sigmoid(x))),
        ("softplus_sqrt", 1.0, worst(kernels.softplus_sqrt, &above, softplus_sqrt)),
    ];
    for (name, bound, (error, at)) in results {
        assert!(error <= bound, "{name} is off by {error:.3} units of the last place at {at:e}: {results:?}");
    }
}

#[test]
fn every_isa_gives_the_same_bits() {
    let mut random = Random(21);
    let mut x: Vec<f32> = SPECIALS.to_vec();
    x.extend(random.vec(20_000, |r| r.wide(-30, 8)));
    x.extend((0..20_000).map(|_| f32::from_bits(random.word() as u32)));
    let portable = Kernels::of(Isa::Portable).expect("always there");
    for (isa, kernels) in all_kernels() {
        for (name, f, reference) in [
            ("exp", kernels.exp, portable.exp),
            ("sigmoid", kernels.sigmoid, portable.sigmoid),
            ("silu", kernels.silu, portable.silu),
            ("softplus_sqrt", kernels.softplus_sqrt, portable.softplus_sqrt),
            ("bf16_round", kernels.bf16_round, portable.bf16_round),
        ] {
            assert_same(&apply(f, &x), &apply(reference, &x), &format!("{isa} {name}"));
            // Tails, and working in place.
            for n in 0..=33 {
                let mut row = x[..n].to_vec();
                // SAFETY: the row holds n values.
                unsafe { f(row.as_mut_ptr(), row.as_ptr(), n) };
                assert_same(&row, &apply(reference, &x[..n]), &format!("{isa} {name} n={n}"));
            }
        }
    }
}

#[test]
fn softplus_sqrt_of_extreme_router_logits_is_finite() {
    let x =
        [0.0, 88.0, -88.0, 1e4, -1e4, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -103.0, 20.0, 20.000_002];
    for (isa, kernels) in all_kernels() {
        let y = apply(kernels.softplus_sqrt, &x);
        let expected = [0.832_554_6, 88f64.sqrt(), (-44f64).exp(), 100.0, 0.0];
        for (i, &expected) in expected.iter().enumerate() {
            assert!((f64::from(y[i]) - expected).abs() <= 1e-7 * expected, "{isa} {}: {}", x[i], y[i]);
        }
        assert!(y[4] == 0.0 && y[5].is_nan() && y[6] == f32::INFINITY && y[7] == 0.0, "{isa} {y:?}");
        // ln(1 + e^-103) is rounded to the nearest f32 before the root: the smallest there is.
        assert_eq!(y[8], 2f32.powi(-149).sqrt(), "{isa}");
        assert!(y[9] <= y[10], "{isa} falls at the switch to the root");
    }
}

#[test]
fn specials() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for (isa, kernels) in all_kernels() {
        let x = [inf, -inf, nan, 0.0, -0.0, 88.73, -104.0, -103.0, f32::MAX, f32::MIN];
        let exp = [inf, 0.0, nan, 1.0, 1.0, inf, 0.0, 1e-45, inf, 0.0];
        assert_same(&apply(kernels.exp, &x), &exp, &format!("{isa} exp"));
        let x = [inf, -inf, nan, 0.0, -0.0, 200.0, -200.0];
        assert_same(
            &apply(kernels.sigmoid, &x),
            &[1.0, 0.0, nan, 0.5, 0.5, 1.0, 0.0],
            &format!("{isa} sigmoid"),
        );
        assert_same(
            &apply(kernels.silu, &x),
            &[inf, nan, nan, 0.0, -0.0, 200.0, -0.0],
            &format!("{isa} silu"),
        );
    }
}

#[test]
fn bf16_conversions_round_to_nearest_even() {
    let mut random = Random(22);
    // Every upper half with the halves that decide: below, at and above the tie.
    let mut x: Vec<f32> = Vec::new();
    for upper in (0..=0xffffu32).step_by(7) {
        x.extend([0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| f32::from_bits(upper << 16 | low)));
    }
    x.extend((0..1000).map(|_| f32::from_bits(random.word() as u32)));
    for (isa, kernels) in all_kernels() {
        for n in [x.len(), 0, 1, 15, 16, 31] {
            let x = &x[x.len() - n..];
            let rounded = apply(kernels.bf16_round, x);
            let mut words = Guarded::new(n, 0xabcdu16);
            // SAFETY: both rows hold n values.
            unsafe { (kernels.store_bf16)(words.pointer(), x.as_ptr(), n) };
            let words = words.checked().to_vec();
            let mut back = Guarded::new(n, 42.0f32);
            // SAFETY: both rows hold n values.
            unsafe { (kernels.load_bf16)(back.pointer(), words.as_ptr(), n) };
            for (i, &x) in x.iter().enumerate() {
                let expected = bf16::round(x);
                assert_same(
                    &[rounded[i], back.checked()[i]],
                    &[expected; 2],
                    &format!("{isa} {:08x}", x.to_bits()),
                );
            }
        }
    }
}

#[test]
fn sines_are_those_of_the_f32_angle() {
    let pos: Vec<i32> = vec![0, 1, 2, 127, 65_535, 1_048_575, -3];
    let freqs: Vec<f32> = (0..33).map(|m| 160_000f32.powf(-(m as f32) / 32.0)).collect();
    for (isa, kernels) in all_kernels() {
        let n = pos.len() * freqs.len();
        let (mut cos, mut sin) = (Guarded::new(n, 9.0f32), Guarded::new(n, 9.0f32));
        // SAFETY: the tables hold [7][33] values.
        unsafe {
            (kernels.sincos)(
                pos.as_ptr(),
                pos.len(),
                freqs.as_ptr(),
                freqs.len(),
                cos.pointer(),
                sin.pointer(),
            );
        }
        for (i, (&c, &s)) in cos.checked().iter().zip(sin.checked()).enumerate() {
            let angle = pos[i / 33] as f32 * freqs[i % 33];
            let exact = f64::from(angle);
            assert!((f64::from(c) - exact.cos()).abs() <= 0.501 * ulp(exact.cos()), "{isa} cos {angle}");
            assert!((f64::from(s) - exact.sin()).abs() <= 0.501 * ulp(exact.sin()), "{isa} sin {angle}");
        }
    }
}
