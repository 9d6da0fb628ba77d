//! Functions and angles, over all exponents, against f64.

use crate::assembled::assemble;
use crate::machine::Machine;
use tessera_codegen::target::ptx::isa::ParamKind::{F32, U32};
use tessera_codegen::target::ptx::numeric::{angle, binary, exp2, log1p, round_bf16, round_bf16x2, unary};
use tessera_ir::graph::{Rope, Yarn};
use tessera_ir::num::bf16;
use tessera_ir::tile::{Binary, Unary};

const EDGES: [f32; 18] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    88.722_83,
    88.722_84,
    -103.972_08,
    -87.336_55,
];

/// Edges, then all kinds of bits, then numbers of the size that matters.
fn sweep(limit: f32) -> impl Iterator<Item = f32> {
    let wild = (0..50_000u32).map(|i| f32::from_bits(i.wrapping_mul(85_899).wrapping_add(7)));
    let near = (0..=100_000).map(move |i| (i as f32 - 50_000.0) / 50_000.0 * limit);
    EDGES.into_iter().chain(wild).chain(near)
}

/// Error of `got` in units of the last place that f32 has at `want`.
fn units(got: f32, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let rounded = want as f32;
    if rounded.is_infinite() || got.is_infinite() {
        // Next to the largest number either neighbour will do.
        let near = want.abs() * (1.0 + 2f64.powi(-22)) > f64::from(f32::MAX) && got.abs() >= f32::MAX;
        return if got == rounded || near { 0.0 } else { f64::INFINITY };
    }
    let exponent = (want.abs().to_bits() >> 52) as i32 - 1023;
    (f64::from(got) - want).abs() / 2f64.powi(exponent.max(-126) - 23)
}

fn worst(machine: &Machine, inputs: impl Iterator<Item = f32>, want: impl Fn(f64) -> f64) -> (f64, f32) {
    inputs.fold((0.0, 0.0), |worst, x| {
        let error = units(machine.real(&[x]), want(f64::from(x)));
        if error > worst.0 { (error, x) } else { worst }
    })
}

fn check(name: &str, machine: &Machine, limit: f32, bound: f64, want: impl Fn(f64) -> f64) {
    let (error, at) = worst(machine, sweep(limit), want);
    assert!(error <= bound, "{name}({at:e}): {error:.3} units in the last place, {bound} allowed");
}

fn one(f: Unary) -> Machine {
    Machine::new(f.name(), &[F32], |a, x| vec![unary(a, f, x[0])])
}

#[test]
fn functions_keep_their_bounds() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let mut programs = Vec::new();
    for f in Unary::ALL {
        let machine = one(*f);
        let check = |bound: f64, want: &dyn Fn(f64) -> f64| check(f.name(), &machine, 110.0, bound, want);
        match f {
            Unary::Neg => check(0.0, &|x| -x),
            Unary::Abs => check(0.0, &f64::abs),
            Unary::Sqrt => check(0.5, &f64::sqrt),
            Unary::Rsqrt => check(0.0, &|x| f64::from(1.0 / (x as f32).sqrt())),
            Unary::Exp => check(1.1, &f64::exp),
            // The steps in f32 overflow where f64 does not.
            Unary::Sigmoid => check(2.5, &|x| if x < -88.722_839_052 { 0.0 } else { sigmoid(x) }),
            Unary::Silu => {
                check(2.5, &|x| if x < -88.722_839_052 { x / f64::INFINITY } else { x * sigmoid(x) })
            }
            Unary::SqrtSoftplus => {
                let want = |x: f64| if x > 20.0 { x } else { x.exp().ln_1p() }.sqrt();
                // Steps of subnormal numbers under the root are no small part of it.
                let subnormal = |x: &f32| *x < -87.3;
                let (error, at) = worst(&machine, sweep(110.0).filter(|x| !subnormal(x)), want);
                assert!(error <= 2.0, "sqrt_softplus({at:e}): {error:.3} units in the last place");
                for x in sweep(110.0).filter(subnormal) {
                    let exact = f64::from(x).exp();
                    let error = (f64::from(machine.real(&[x])).powi(2) - exact).abs();
                    // The exponential's bound, and twice the half unit of the root's own rounding.
                    let bound = 1.1 * 2f64.powi(-149) + exact * 2f64.powi(-23);
                    assert!(error <= bound, "sqrt_softplus({x:e}): {error:e} under the root");
                }
            }
            Unary::Relu => check(0.0, &|x| if x < 0.0 { 0.0 } else { x }),
        }
        programs.push(machine.program);
    }
    let power = Machine::new("exp2", &[F32], |a, x| vec![exp2(a, x[0])]);
    check("exp2", &power, 152.0, 1.1, f64::exp2);
    let log = Machine::new("log1p", &[F32], |a, x| vec![log1p(a, x[0])]);
    for scale in [1.0, 1e-3, 1e8] {
        let (error, at) = worst(&log, (0..=50_000).map(|i| i as f32 / 50_000.0 * scale), f64::ln_1p);
        assert!(error <= 2.0, "log1p({at:e}): {error:.3} units in the last place");
    }
    programs.extend([power.program, log.program]);
    assemble(&programs);
}

/// Signs of zero and NaN included, but for those that `min` and `max` choose between zeros.
#[test]
fn two_operands_are_exact() {
    let mut programs = Vec::new();
    for f in Binary::ALL {
        let machine = Machine::new(f.name(), &[F32, F32], |m, x| vec![binary(m, *f, x[0], x[1])]);
        for a in EDGES {
            for b in EDGES {
                let got = machine.real(&[a, b]);
                let nan = a.is_nan() || b.is_nan();
                let want = match f {
                    Binary::Add => a + b,
                    Binary::Sub => a - b,
                    Binary::Mul => a * b,
                    Binary::Div => a / b,
                    Binary::Min | Binary::Max if nan => f32::NAN,
                    Binary::Min => a.min(b),
                    Binary::Max => a.max(b),
                    Binary::CopySign => a.copysign(b),
                };
                let zeros = matches!(f, Binary::Min | Binary::Max) && a == b;
                let same = got.to_bits() == want.to_bits() || (zeros && got == want);
                assert!(same || got.is_nan() && want.is_nan(), "{}({a:e}, {b:e}): {got:e}", f.name());
            }
        }
        programs.push(machine.program);
    }
    assemble(&programs);
}

#[test]
fn relu_keeps_minus_zero() {
    assert_eq!(one(Unary::Relu).real(&[-0.0]).to_bits(), (-0.0f32).to_bits());
}

/// The two tables of the released model and its positions up to a million; f64 rounded once differs from ours nowhere but
/// where it lies within 2^-44 of a tie.
#[test]
fn angles_are_those_of_f64() {
    let plain = Rope { dim: 64, theta: 10_000.0, yarn: None };
    let yarn = Yarn { factor: 16.0, beta_fast: 32.0, beta_slow: 1.0, original: 65_536 };
    let long = Rope { dim: 64, theta: 160_000.0, yarn: Some(yarn) };
    let frequencies: Vec<f32> = plain.frequencies().into_iter().chain(long.frequencies()).collect();
    let table = Machine::new("angle", &[U32, F32], |a, x| angle(a, x[0], x[1]).to_vec());
    let positions = (0..300u32).chain((0..1000).map(|i| i * 2097 + 13)).chain([(1 << 21) - 1, 1 << 21]);
    let mut different = 0;
    for p in positions {
        for f in &frequencies {
            let x = f64::from(p as f32 * f);
            let got = table.run(&[p, f.to_bits()]);
            for (got, want) in got.iter().map(|bits| f32::from_bits(*bits)).zip([x.cos(), x.sin()]) {
                different += u32::from(got != want as f32);
                let error = units(got, want);
                assert!(error <= 0.500_01, "position {p}, frequency {f:e}: {error} units in the last place");
            }
        }
    }
    assert!(different <= 1, "{different} differ");
    let fixed = Machine::new("fixed", &[U32], |a, x| angle(a, x[0], frequencies[3]).to_vec());
    for p in [0, 1, 77, 123_456] {
        assert_eq!(fixed.run(&[p]), table.run(&[p, frequencies[3].to_bits()]));
    }
    assemble(&[table.program, fixed.program]);
}

#[test]
fn bfloat16_is_the_reference() {
    let single = Machine::new("single", &[F32], |a, x| vec![round_bf16(a, x[0])]);
    let pair = Machine::new("pair", &[F32, F32], |a, x| round_bf16x2(a, [x[0], x[1]]).to_vec());
    for x in sweep(2.0) {
        let y = -3.0 * x;
        let same = |got: u32, x: f32| {
            let want = bf16::round(x);
            let got = f32::from_bits(got);
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{x:e}: {got:e}");
        };
        same(single.run(&[x.to_bits()])[0], x);
        let both = pair.run(&[x.to_bits(), y.to_bits()]);
        same(both[0], x);
        same(both[1], y);
    }
    assemble(&[single.program, pair.program]);
}
