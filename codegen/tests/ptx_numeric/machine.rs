//! Executes straight-line PTX text of one thread, after PTX ISA 9.7: arithmetic, logic, selection, conversion.

use std::collections::BTreeMap;
use tessera_codegen::target::ptx::isa::{Asm, Class, Entry, ParamKind, Program, Reg, Ty};

#[derive(Clone, Copy)]
enum Source {
    Slot(usize),
    Bits(u64),
}

struct Step {
    name: String,
    to: Vec<usize>,
    from: Vec<Source>,
    /// Whether the destination is a list of parts, and the source.
    split: bool,
    join: bool,
}

/// A program of 32-bit parameters and 32-bit results.
pub(crate) struct Machine {
    pub(crate) program: Program,
    steps: Vec<Step>,
    /// Bits of each register.
    widths: Vec<u32>,
    parameters: Vec<usize>,
}

impl Machine {
    /// The program that gives the registers of `body`; its parameters have the kinds given.
    pub(crate) fn new(
        name: &str,
        kinds: &[ParamKind],
        body: impl FnOnce(&mut Asm, &[Reg]) -> Vec<Reg>,
    ) -> Machine {
        let mut a = Asm::new(Entry::new(name, 32));
        let symbols: Vec<_> = (0..kinds.len()).map(|i| a.param(&format!("x{i}"), kinds[i])).collect();
        let out = a.param("out", ParamKind::Pointer);
        let inputs: Vec<Reg> = symbols.into_iter().map(|symbol| a.ld_param(symbol)).collect();
        let out = a.ld_param(out);
        for (i, result) in body(&mut a, &inputs).into_iter().enumerate() {
            let (ty, result) = match result.class() {
                Class::F32 => (Ty::F32, result),
                Class::B8 => (Ty::U32, a.u32_u8(result)),
                Class::B16 => (Ty::U32, a.u32_u16(result)),
                Class::B32 | Class::Pred | Class::B64 | Class::B128 | Class::F64 => (Ty::U32, result),
            };
            a.st_global(ty, out.at(4 * i as i64), result);
        }
        a.ret();
        let program = a.finish().unwrap_or_else(|faults| panic!("{faults}"));
        Machine::parse(program, kinds.len())
    }
    fn parse(program: Program, count: usize) -> Machine {
        let mut slots: BTreeMap<String, usize> = BTreeMap::new();
        let mut widths = Vec::new();
        let mut steps = Vec::new();
        let mut parameters = Vec::new();
        let body = program.text.split_once("\n{\n").expect("a body").1;
        for line in body.lines().map(str::trim).filter(|l| l.ends_with(';') && !l.starts_with('.')) {
            let line = line.trim_end_matches(';');
            let (name, operands) = line.split_once(' ').unwrap_or((line, ""));
            let parts = |text: &str| text.trim_matches(['{', '}']).split(", ").map(str::to_owned).collect();
            let (to, from): (Vec<String>, Vec<String>) = match operands.strip_prefix('{') {
                Some(rest) => {
                    rest.split_once("}, ").map_or_else(Default::default, |(a, b)| (parts(a), parts(b)))
                }
                None => {
                    operands.split_once(", ").map_or_else(Default::default, |(a, b)| (parts(a), parts(b)))
                }
            };
            let (split, join) = (operands.starts_with('{'), operands.contains(", {"));
            let mut slot = |text: &str| {
                *slots.entry(text.to_owned()).or_insert_with(|| {
                    widths.push(width(text));
                    widths.len() - 1
                })
            };
            if let Some(place) = name.strip_prefix("ld.param") {
                if parameters.len() < count {
                    assert!([".f32", ".u32"].contains(&place), "{line}");
                    parameters.push(slot(&to[0]));
                }
                continue;
            }
            let store = name.starts_with("st.global");
            let to = if store { Vec::new() } else { to.iter().map(|r| slot(r)).collect() };
            let from =
                from.iter().map(|s| if s.starts_with('%') { Source::Slot(slot(s)) } else { literal(s) });
            let from = from.collect();
            steps.push(Step { name: name.to_owned(), to, from, split, join });
        }
        Machine { program, steps, widths, parameters }
    }
    /// The results for the parameters' bits.
    pub(crate) fn run(&self, inputs: &[u32]) -> Vec<u32> {
        let mut file = vec![0u64; self.widths.len()];
        for (slot, value) in self.parameters.iter().zip(inputs) {
            file[*slot] = u64::from(*value);
        }
        let mut results = Vec::new();
        for step in &self.steps {
            let value = |source: &Source| match *source {
                Source::Slot(slot) => file[slot],
                Source::Bits(bits) => bits,
            };
            let from: Vec<u64> = step.from.iter().map(value).collect();
            if step.name.starts_with("st.global") {
                results.push(from[0] as u32);
            } else if step.name == "ret" {
                break;
            } else if step.split {
                let mut rest = from[0];
                for slot in &step.to {
                    file[*slot] = rest & mask(self.widths[*slot]);
                    rest >>= self.widths[*slot];
                }
            } else if step.join {
                let part = self.widths[step.to[0]] / from.len() as u32;
                file[step.to[0]] = from.iter().rev().fold(0, |all, v| all << part | v & mask(part));
            } else {
                file[step.to[0]] = execute(&step.name, &from) & mask(self.widths[step.to[0]]);
            }
        }
        results
    }
    /// The first result as f32, of f32 parameters.
    pub(crate) fn real(&self, inputs: &[f32]) -> f32 {
        let bits: Vec<u32> = inputs.iter().map(|x| x.to_bits()).collect();
        f32::from_bits(self.run(&bits)[0])
    }
}

fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

fn width(register: &str) -> u32 {
    match register.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "%p" => 1,
        "%rb" => 8,
        "%rs" => 16,
        "%r" | "%f" => 32,
        "%rd" | "%fd" => 64,
        other => panic!("register {other}"),
    }
}

fn literal(text: &str) -> Source {
    let hex = |digits| u64::from_str_radix(digits, 16).expect("digits");
    Source::Bits(if let Some(digits) = text.strip_prefix("0f") {
        hex(digits)
    } else if let Some(digits) = text.strip_prefix("0d") {
        hex(digits)
    } else if let Some(digits) = text.strip_prefix("0x") {
        hex(digits)
    } else {
        text.parse::<i64>().unwrap_or_else(|_| panic!("operand {text}")).cast_unsigned()
    })
}

/// NaN of arithmetic has the bits that PTX calls canonical.
fn f32_bits(x: f32) -> u64 {
    u64::from(if x.is_nan() { 0x7fff_ffff } else { x.to_bits() })
}

fn f64_bits(x: f64) -> u64 {
    if x.is_nan() { 0x7fff_ffff_ffff_ffff } else { x.to_bits() }
}

fn extreme(a: f32, b: f32, larger: bool) -> f32 {
    let below = a < b || (a == b && a.is_sign_negative());
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if below != larger {
        a
    } else {
        b
    }
}

fn execute(name: &str, from: &[u64]) -> u64 {
    let s = |i: usize| f32::from_bits(from[i] as u32);
    let d = |i: usize| f64::from_bits(from[i]);
    let i = |i: usize| from[i] as u32 as i32;
    let u = |i: usize| from[i] as u32;
    match name {
        "mov.b32" | "mov.f32" | "mov.b64" | "mov.f64" | "mov.u32" => from[0],
        "add.rn.f32" => f32_bits(s(0) + s(1)),
        "sub.rn.f32" => f32_bits(s(0) - s(1)),
        "mul.rn.f32" => f32_bits(s(0) * s(1)),
        "div.rn.f32" => f32_bits(s(0) / s(1)),
        "fma.rn.f32" => f32_bits(s(0).mul_add(s(1), s(2))),
        "sqrt.rn.f32" => f32_bits(s(0).sqrt()),
        "rcp.rn.f32" => f32_bits(1.0 / s(0)),
        "neg.f32" => f32_bits(-s(0)),
        "abs.f32" => f32_bits(s(0).abs()),
        "min.NaN.f32" => f32_bits(extreme(s(0), s(1), false)),
        "max.NaN.f32" => f32_bits(extreme(s(0), s(1), true)),
        "copysign.f32" => u64::from(u(0) & 0x8000_0000 | u(1) & 0x7fff_ffff),
        "add.rn.f64" => f64_bits(d(0) + d(1)),
        "sub.rn.f64" => f64_bits(d(0) - d(1)),
        "mul.rn.f64" => f64_bits(d(0) * d(1)),
        "fma.rn.f64" => f64_bits(d(0).mul_add(d(1), d(2))),
        "cvt.f64.f32" => f64_bits(f64::from(s(0))),
        "cvt.rn.f32.f64" => f32_bits(d(0) as f32),
        "cvt.rn.f32.s32" => f32_bits(i(0) as f32),
        "cvt.u16.u32" | "cvt.u32.u16" | "cvt.u32.u8" => from[0],
        "add.u32" | "add.s32" => u64::from(u(0).wrapping_add(u(1))),
        "sub.u32" | "sub.s32" => u64::from(u(0).wrapping_sub(u(1))),
        "min.u32" => u64::from(u(0).min(u(1))),
        "and.b32" => u64::from(u(0) & u(1)),
        "xor.b32" => u64::from(u(0) ^ u(1)),
        "shl.b32" => u64::from(u(0).checked_shl(u(1)).unwrap_or(0)),
        "shr.u32" => u64::from(u(0).checked_shr(u(1)).unwrap_or(0)),
        "shr.s32" => (i(0) >> u(1).min(31)) as u32 as u64,
        "setp.lt.f32" => u64::from(s(0) < s(1)),
        "setp.gt.f32" => u64::from(s(0) > s(1)),
        "setp.eq.f32" => u64::from(s(0) == s(1)),
        "setp.eq.u32" => u64::from(u(0) == u(1)),
        "setp.ne.u32" => u64::from(u(0) != u(1)),
        "selp.f32" | "selp.u32" | "selp.b32" => {
            if from[2] != 0 {
                from[0]
            } else {
                from[1]
            }
        }
        "cvt.rn.bf16.f32" => bf16(s(0)),
        "cvt.f32.bf16" => from[0] << 16,
        "cvt.rn.bf16x2.f32" => bf16(s(0)) << 16 | bf16(s(1)),
        "cvt.rn.bf16x2.ue8m0x2" => [1u32, 0].iter().fold(0, |all, half| {
            let byte = (from[0] >> (8 * half)) as u8;
            let value = if byte == 255 { f64::NAN } else { 2f64.powi(i32::from(byte) - 127) };
            all << 16 | bf16(value as f32)
        }),
        "cvt.rn.satfinite.e4m3x2.f32" => code(s(0), &E4M3, 0x7f) << 8 | code(s(1), &E4M3, 0x7f),
        "cvt.rn.satfinite.e2m1x2.f32" => code(s(0), &E2M1, 7) << 4 | code(s(1), &E2M1, 7),
        "cvt.rn.f16x2.e4m3x2" => f16(value(from[0] >> 8, &E4M3)) << 16 | f16(value(from[0] & 0xff, &E4M3)),
        "cvt.rn.f16x2.e2m1x2" => f16(value(from[0] >> 4, &E2M1)) << 16 | f16(value(from[0] & 0xf, &E2M1)),
        "cvt.f32.f16" => f32_bits(from_f16(from[0])),
        "fma.rn.f32.f16" => f32_bits(from_f16(from[0]).mul_add(from_f16(from[1]), s(2))),
        // Powers of two times few bits: exact in f32.
        "mul.rn.bf16x2" => [16, 0].iter().fold(0, |all, at| {
            let half = |i: usize| f32::from_bits(((from[i] >> at) as u32) << 16);
            all << 16 | bf16(half(0) * half(1))
        }),
        "prmt.b32" => (0..4).rev().fold(0, |all, i| {
            let both = from[1] << 32 | from[0] & 0xffff_ffff;
            let which = from[2] >> (4 * i) & 15;
            assert!(which < 8, "bytes only");
            all << 8 | both >> (8 * which) & 0xff
        }),
        other => panic!("instruction {other}"),
    }
}

/// The value of an f16; it has no infinities here.
fn from_f16(bits: u64) -> f32 {
    let sign = if bits & 0x8000 != 0 { -1.0 } else { 1.0 };
    let (exponent, mantissa) = ((bits >> 10 & 31) as i32, (bits & 1023) as f64);
    match exponent {
        0 => (sign * mantissa * 2f64.powi(-24)) as f32,
        31 => f32::NAN,
        e => (sign * (1024.0 + mantissa) * 2f64.powi(e - 25)) as f32,
    }
}

/// A small float: bits of exponent and mantissa, bias, largest code.
struct Small {
    mantissa: u32,
    bias: i32,
    sign: u32,
    largest: u64,
}
const E4M3: Small = Small { mantissa: 3, bias: 7, sign: 7, largest: 0x7e };
const E2M1: Small = Small { mantissa: 1, bias: 1, sign: 3, largest: 7 };

/// Value of a code by its fields.
fn value(code: u64, small: &Small) -> f64 {
    let sign = if code >> small.sign & 1 == 1 { -1.0 } else { 1.0 };
    let magnitude = code & ((1 << small.sign) - 1);
    if magnitude > small.largest {
        return f64::NAN;
    }
    let (exponent, low) = ((magnitude >> small.mantissa) as i32, magnitude & ((1 << small.mantissa) - 1));
    let one = f64::from(1 << small.mantissa);
    let significand = low as f64 / one + if exponent == 0 { 0.0 } else { 1.0 };
    sign * significand * 2f64.powi(exponent.max(1) - small.bias)
}

/// Nearest code by search; of two as near, the even one.
fn code(x: f32, small: &Small, nan: u64) -> u64 {
    if x.is_nan() {
        return nan;
    }
    let target = f64::from(x.abs());
    let distance = |c: u64| (value(c, small) - target).abs();
    let mut best = 0;
    if target >= value(small.largest, small) {
        best = small.largest;
    } else {
        for c in 1..=small.largest {
            if distance(c) < distance(best) || (distance(c) == distance(best) && c % 2 == 0) {
                best = c;
            }
        }
    }
    best | u64::from(x.is_sign_negative()) << small.sign
}

/// The upper half of an f32 after rounding to 8 bits of significand.
fn bf16(x: f32) -> u64 {
    if x.is_nan() {
        return 0x7fff;
    }
    let (down, rest) = (x.to_bits() >> 16, x.to_bits() & 0xffff);
    u64::from(down + u32::from(rest > 0x8000 || (rest == 0x8000 && down % 2 == 1)))
}

/// The f16 of a value that is one: small floats are.
fn f16(x: f64) -> u64 {
    let sign = u64::from(x.is_sign_negative()) << 15;
    let magnitude = x.abs();
    sign | if x.is_nan() {
        0x7fff
    } else if magnitude < 2f64.powi(-14) {
        (magnitude * 2f64.powi(24)) as u64
    } else {
        let bits = magnitude.to_bits();
        ((bits >> 52) - 1023 + 15) << 10 | bits >> 42 & 1023
    }
}
