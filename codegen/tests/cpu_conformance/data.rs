//! Parameters of test runs: bytes in memory beside the values they stand for.

use crate::loader::Memory;
use tessera_ir::graph::interp::{Data, Tensor};
use tessera_ir::num::{bf16, group};
use tessera_ir::types::{Layout, panel_bytes};
use tessera_ir::{Bindings, Elem, Format, TensorType};
use tessera_runtime::micro::pack;

/// Numbers from a seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n.max(1)
    }
    /// A real in −4 … 4 of varying size; never a zero, so that signs of zeros play no part.
    pub(crate) fn real(&mut self) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1u64 << 24) as f32;
        let size = [4.0, 1.0, 0.25, 0.01][self.below(4)];
        (unit - 0.5) * 2.0 * size + 1e-6
    }
}

/// A parameter of a run.
#[derive(Clone)]
pub(crate) struct Arg {
    pub(crate) tensor: Tensor,
    pub(crate) planes: Vec<Memory>,
}

fn dims(ty: &TensorType, bindings: &Bindings) -> Vec<usize> {
    ty.shape.iter().map(|d| d.eval(bindings).expect("bound")).collect()
}

impl Arg {
    /// Reals from `values`, rounded to the format of `ty`.
    pub(crate) fn reals(ty: &TensorType, bindings: &Bindings, values: Vec<f32>) -> Arg {
        let shape = dims(ty, bindings);
        assert_eq!(values.len(), shape.iter().product::<usize>());
        let cols = shape.last().copied().unwrap_or(1).max(1);
        let rows = values.len() / cols;
        let (row_planes, decoded) = encode(ty.format, &values, rows, cols, &shape);
        let planes = match ty.layout {
            Layout::Rows => row_planes,
            Layout::Panels16 => vec![panels(ty.format, &row_planes, &shape)],
            layout @ (Layout::Blocks128 | Layout::Pitch16 | Layout::Split | Layout::Split3) => {
                panic!("{} is no layout of this machine", layout.name())
            }
        };
        let want = ty.plane_bytes(bindings).expect("sizes");
        assert_eq!(planes.iter().map(Vec::len).collect::<Vec<_>>(), want);
        Arg { tensor: Tensor::f32(shape, decoded), planes: planes.iter().map(|p| Memory::of(p)).collect() }
    }

    /// Random reals.
    pub(crate) fn random(ty: &TensorType, bindings: &Bindings, rng: &mut Rng) -> Arg {
        let n = ty.elements(bindings).expect("sizes");
        Arg::reals(ty, bindings, (0..n).map(|_| rng.real()).collect())
    }

    /// Integers.
    pub(crate) fn ints(ty: &TensorType, bindings: &Bindings, values: Vec<i64>) -> Arg {
        let shape = dims(ty, bindings);
        assert_eq!(values.len(), shape.iter().product::<usize>());
        let (tensor, bytes) = match ty.format.elem {
            Elem::I64 => {
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
                (Tensor::i64(shape, values), bytes)
            }
            Elem::I32 => {
                let values: Vec<i32> = values.iter().map(|v| *v as i32).collect();
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                (Tensor::i32(shape, values), bytes)
            }
            elem => panic!("{elem:?} are no integers"),
        };
        Arg { tensor, planes: vec![Memory::of(&bytes)] }
    }

    /// An output.
    pub(crate) fn output(ty: &TensorType, bindings: &Bindings) -> Arg {
        let shape = dims(ty, bindings);
        let n = shape.iter().product();
        let tensor = match ty.format.elem {
            Elem::I32 => Tensor::i32(shape, vec![0; n]),
            Elem::I64 => Tensor::i64(shape, vec![0; n]),
            Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 => Tensor::f32(shape, vec![0.0; n]),
        };
        let planes = ty.plane_bytes(bindings).expect("sizes");
        Arg { tensor, planes: planes.into_iter().map(Memory::poisoned).collect() }
    }

    /// What the memory holds.
    pub(crate) fn decoded(&self, ty: &TensorType) -> Data {
        let bytes = self.planes[0].bytes();
        let cols = self.tensor.shape.last().copied().unwrap_or(1).max(1);
        let words = || bytes.as_chunks::<4>().0.iter();
        match ty.format {
            f if f == Format::I32 => Data::I32(words().map(|w| i32::from_le_bytes(*w)).collect()),
            f if f == Format::I64 => {
                Data::I64(bytes.as_chunks::<8>().0.iter().map(|w| i64::from_le_bytes(*w)).collect())
            }
            f if f == Format::F32 => Data::F32(words().map(|w| f32::from_le_bytes(*w)).collect()),
            f if f == Format::BF16 => {
                let halves = bytes.as_chunks::<2>().0.iter();
                Data::F32(halves.map(|w| f32::from_bits(u32::from(u16::from_le_bytes(*w)) << 16)).collect())
            }
            f => {
                let mut out = vec![0.0; self.tensor.shape.iter().product()];
                let record = f.row_bytes(cols).expect("rows");
                for (i, row) in out.chunks_mut(cols).enumerate() {
                    let codes = &bytes[i * record..(i + 1) * record];
                    match f {
                        f if f == Format::MX8 => {
                            let scales = &self.planes[1].bytes()[i * cols / 32..(i + 1) * cols / 32];
                            group::dequantize_mx8(codes, scales, row);
                        }
                        f if f == Format::KV8 => group::dequantize_kv8(codes, row),
                        f if f == Format::KV4 => group::dequantize_kv4(codes, row),
                        f if f == Format::INDEX4 => group::dequantize_index4(codes, row),
                        f => panic!("no output is in {f}"),
                    }
                }
                Data::F32(out)
            }
        }
    }
}

/// Row-major planes of `values`, and what they decode to.
fn encode(
    format: Format,
    values: &[f32],
    rows: usize,
    cols: usize,
    shape: &[usize],
) -> (Vec<Vec<u8>>, Vec<f32>) {
    let mut out = values.to_vec();
    let record = format.row_bytes(cols).expect("whole groups");
    let mut data = vec![0u8; rows * record];
    match format {
        f if f == Format::F32 => {
            data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            (vec![data], out)
        }
        f if f == Format::BF16 => {
            out.iter_mut().for_each(|v| *v = bf16::round(*v));
            data = out.iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect();
            (vec![data], out)
        }
        f if f == Format::MX8 || f == Format::MX4 => {
            let mut scales = vec![0u8; values.len() / 32];
            if f == Format::MX8 {
                group::quantize_mx8(values, &mut data, &mut scales);
                group::dequantize_mx8(&data, &scales, &mut out);
            } else {
                group::quantize_mx4(values, &mut data, &mut scales);
                group::dequantize_mx4(&data, &scales, rows, cols, &mut out);
            }
            (vec![data, scales], out)
        }
        f if f == Format::W8 => {
            // Codes and scales of any origin: those of rows, and every 32nd row's scales.
            let mut row_scales = vec![0u8; values.len() / 32];
            group::quantize_mx8(values, &mut data, &mut row_scales);
            let height = shape[shape.len() - 2];
            let mut scales = Vec::new();
            for matrix in row_scales.chunks(height * cols / 32) {
                scales.extend(matrix.chunks(cols / 32).step_by(32).flatten());
            }
            let tiles = height.div_ceil(32) * cols / 32;
            for (i, m) in out.chunks_mut(height * cols).enumerate() {
                let codes = &data[i * height * cols..(i + 1) * height * cols];
                group::dequantize_w8(codes, &scales[i * tiles..(i + 1) * tiles], height, cols, m);
            }
            (vec![data, scales], out)
        }
        f => {
            for ((x, record), out) in
                values.chunks(cols).zip(data.chunks_mut(record)).zip(out.chunks_mut(cols))
            {
                match f {
                    f if f == Format::KV8 => {
                        group::quantize_kv8(x, record);
                        group::dequantize_kv8(record, out);
                    }
                    f if f == Format::KV4 => {
                        group::quantize_kv4(x, record);
                        group::dequantize_kv4(record, out);
                    }
                    f if f == Format::INDEX4 => {
                        group::quantize_index4(x, record);
                        group::dequantize_index4(record, out);
                    }
                    f => panic!("{f}"),
                }
            }
            (vec![data], out)
        }
    }
}

/// Weights repacked into panels, matrix by matrix.
pub(crate) fn panels(format: Format, planes: &[Vec<u8>], shape: &[usize]) -> Vec<u8> {
    let (n, k) = (shape[shape.len() - 2], shape[shape.len() - 1]);
    let matrices: usize = shape[..shape.len() - 2].iter().product();
    let each = panel_bytes(format, k).expect("panels") * n.div_ceil(16);
    let mut out = vec![0u8; matrices * each];
    let part = |plane: &[u8], i: usize| {
        let len = plane.len() / matrices;
        plane[i * len..(i + 1) * len].to_vec()
    };
    for (i, out) in out.chunks_mut(each).enumerate() {
        let codes = part(&planes[0], i);
        let packed = match format {
            f if f == Format::W8 => {
                pack::pack_w8(&codes, &part(&planes[1], i), pack::ScaleTile::Tile32x32, n, k, out)
            }
            f if f == Format::MX4 => pack::pack_w4(&codes, &part(&planes[1], i), n, k, out),
            f if f == Format::BF16 => pack::pack_bf16(&codes, n, k, out),
            _ => pack::pack_f32(&codes, n, k, out),
        };
        packed.expect("panels");
    }
    out
}
