//! Decoding of cache records: every code under every scale against the reference formats.

use crate::assembled::assemble;
use crate::machine::Machine;
use tessera_codegen::target::ptx::isa::ParamKind::U32;
use tessera_codegen::target::ptx::isa::{Asm, Reg};
use tessera_codegen::target::ptx::numeric::{decode_kv4, decode_kv8};
use tessera_ir::num::group;

/// Codes that one run decodes: four words.
const BYTES: usize = 16;

fn machine(name: &str, decode: fn(&mut Asm, &[Reg], Reg) -> Vec<Reg>) -> Machine {
    Machine::new(name, &[U32; 5], |asm, x| {
        let scale = asm.u16_u32(x[4]);
        decode(asm, &x[..4], scale)
    })
}

/// The upper halves of f32 numbers that fit them after one rounding to nearest even; NaN is NaN.
fn bf16(x: f32) -> u16 {
    if x.is_nan() {
        return 0x7fff;
    }
    let bits = x.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

fn canonical(half: u32) -> u16 {
    let half = half as u16;
    if half & 0x7fff > 0x7f80 { 0x7fff } else { half }
}

/// Runs all codes under all scales; `reference` gives the values of the bytes of a run under a scale byte.
fn check(machine: &Machine, reference: impl Fn(&[u8], u8) -> Vec<f32>) {
    for scale in 0..=255u8 {
        for first in (0..=255u8).step_by(BYTES) {
            let bytes: Vec<u8> = (0..BYTES as u8).map(|i| first + i).collect();
            let words = bytes.chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            let inputs: Vec<u32> = words.chain([u32::from(scale)]).collect();
            let got: Vec<u16> = machine
                .run(&inputs)
                .into_iter()
                .flat_map(|pair| [canonical(pair), canonical(pair >> 16)])
                .collect();
            let want: Vec<u16> = reference(&bytes, scale).into_iter().map(bf16).collect();
            assert_eq!(got, want, "codes from {first:#x} under scale {scale:#x}");
        }
    }
}

#[test]
fn window_records() {
    let kv8 = machine("decode_kv8", decode_kv8);
    check(&kv8, |bytes, scale| {
        let record: Vec<u8> = bytes.iter().chain(bytes).copied().chain([scale]).collect();
        let mut values = vec![0.0; 32];
        group::dequantize_kv8(&record, &mut values);
        values.truncate(bytes.len());
        values
    });
    assemble(&[kv8.program]);
}

#[test]
fn compressed_records() {
    let kv4 = machine("decode_kv4", decode_kv4);
    check(&kv4, |bytes, scale| {
        let mut values = Vec::new();
        for eight in bytes.chunks(8) {
            let record: Vec<u8> = eight.iter().copied().chain([scale]).collect();
            let mut part = vec![0.0; 16];
            group::dequantize_kv4(&record, &mut part);
            values.extend(part);
        }
        values
    });
    assemble(&[kv4.program]);
}
