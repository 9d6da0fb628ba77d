//! Quantisers against the reference formats: scale bytes and codes equal, values equal.

use crate::assembled::assemble;
use crate::machine::Machine;
use tessera_codegen::target::ptx::isa::ParamKind::{F32, U32};
use tessera_codegen::target::ptx::numeric::Quantiser;
use tessera_ir::Format;
use tessera_ir::num::group;

const RULES: [(&str, Quantiser); 3] =
    [("mx8", Quantiser::Mx8), ("index4", Quantiser::Index4), ("kv4", Quantiser::Kv4)];

/// The reference's record of one group: codes, then the scale.
fn record(rule: Quantiser, x: &[f32]) -> (Vec<u8>, u8) {
    let codes = x.len() * 4 / rule.per_word();
    let mut bytes = vec![0; codes + 1];
    match rule {
        Quantiser::Mx8 => group::quantize_kv8(x, &mut bytes),
        Quantiser::Index4 => group::quantize_index4(x, &mut bytes),
        Quantiser::Kv4 => group::quantize_kv4(x, &mut bytes),
    }
    let scale = bytes.pop().expect("a scale");
    (bytes, scale)
}

fn amax(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |m: f32, v| if v.is_nan() || m.is_nan() { f32::NAN } else { m.max(v.abs()) })
}

/// Groups of every size of number, ties of codes, and groups with faults.
fn groups(n: usize) -> Vec<Vec<f32>> {
    let mut state = 1u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1u32 << 23) as f32 - 1.0
    };
    let mut all: Vec<Vec<f32>> = Vec::new();
    for exponent in -149..=127 {
        for _ in 0..4 {
            all.push((0..n).map(|_| next() * 2f32.powi(exponent)).collect());
        }
    }
    // Ties: halves of steps of e4m3 and e2m1 under the scale of the largest.
    for largest in [448.0, 6.0, 5.0, 300.0, 2688.0, 2784.0, 2f32.powi(100)] {
        let step = largest / 448.0;
        all.push((0..n).map(|i| if i == 0 { largest } else { step * (i as f32 * 0.25 - 3.0) }).collect());
        let step = largest / 6.0;
        all.push((0..n).map(|i| if i == 0 { -largest } else { step * (i as f32 * 0.25 - 3.0) }).collect());
    }
    for fault in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 0.0, -0.0] {
        all.push((0..n).map(|i| if i == n / 2 { fault } else { next() }).collect());
    }
    all.extend([vec![0.0; n], vec![-0.0; n], vec![f32::MAX; n], vec![f32::from_bits(1); n]]);
    all
}

#[test]
fn scales_and_codes_are_the_references() {
    let mut programs = Vec::new();
    for (name, rule) in RULES {
        let n = rule.group();
        let machine = Machine::new(name, &vec![F32; n + 1], |a, x| {
            let scale = rule.scale(a, x[n]);
            let mut out = vec![scale.byte];
            out.extend(rule.encode(a, scale, &x[..n]));
            out.push(rule.encode2(a, scale, [x[0], x[1]]));
            out
        });
        for x in groups(n) {
            let mut inputs: Vec<u32> = x.iter().map(|v| v.to_bits()).collect();
            inputs.push(amax(&x).to_bits());
            let got = machine.run(&inputs);
            let (codes, scale) = record(rule, &x);
            let words: Vec<u32> = codes.as_chunks().0.iter().map(|w| u32::from_le_bytes(*w)).collect();
            assert_eq!(got[0], u32::from(scale), "{name}: scale of {x:?}");
            assert_eq!(got[1..=words.len()], words, "{name}: codes of {x:?}");
            let pair = if rule == Quantiser::Mx8 { words[0] & 0xffff } else { words[0] & 0xff };
            assert_eq!(got[words.len() + 1], pair, "{name}: first pair of {x:?}");
        }
        programs.push(machine.program);
    }
    assemble(&programs);
}

#[test]
fn every_code_under_every_scale_decodes() {
    let mut programs = Vec::new();
    for (name, rule) in RULES {
        let machine = Machine::new(name, &[U32, U32], |a, x| {
            let scale = rule.scale_value(a, x[0]);
            rule.decode(a, scale, x[1])
        });
        for scale in 0..=255u8 {
            for first in 0..=255u8 {
                let word = [first, first.wrapping_mul(3), !first, first ^ 0x5a];
                let got = machine.run(&[scale.into(), u32::from_le_bytes(word)]);
                let mut bytes = word.repeat(rule.group() / rule.per_word());
                bytes.push(scale);
                let mut want = vec![0.0; rule.group()];
                match rule {
                    Quantiser::Mx8 => group::dequantize_kv8(&bytes, &mut want),
                    Quantiser::Index4 => group::dequantize_index4(&bytes, &mut want),
                    Quantiser::Kv4 => group::dequantize_kv4(&bytes, &mut want),
                }
                assert_eq!(got.len(), rule.per_word());
                for (got, want) in got.iter().map(|bits| f32::from_bits(*bits)).zip(want) {
                    let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                    assert!(same, "{name}: codes {word:?} under {scale}: {got:e}, not {want:e}");
                }
            }
        }
        programs.push(machine.program);
    }
    assemble(&programs);
}

#[test]
fn formats_have_their_rules() {
    let of = |f| Quantiser::of(f);
    assert_eq!([Format::MX8, Format::KV8].map(of), [Some(Quantiser::Mx8); 2]);
    assert_eq!([Format::INDEX4, Format::MX4].map(of), [Some(Quantiser::Index4); 2]);
    assert_eq!(of(Format::KV4), Some(Quantiser::Kv4));
    assert_eq!([Format::W8, Format::F32, Format::BF16, Format::I32].map(of), [None; 4]);
}
