//! Bytes of values that a format holds exactly: the scale of each group is searched, not computed by the quantiser,
//! whose choice for values that were quantised before may be another.

use crate::data::{Arg, panels};
use crate::loader::Memory;
use tessera_ir::graph::interp::{Data, Tensor};
use tessera_ir::num::{e2m1, e4m3, e8m0};
use tessera_ir::types::{Layout, ScaleElem};
use tessera_ir::{Bindings, Elem, Format, TensorType};

/// Scale byte and codes of a group.
fn group(values: &[f32], elem: Elem, scale: ScaleElem) -> (u8, Vec<u8>) {
    let value = |byte: u8| match scale {
        ScaleElem::E8m0 => e8m0::decode(byte),
        ScaleElem::E4m3 => e4m3::decode(byte),
    };
    let code = |x: f32| match elem {
        Elem::E2m1 => (e2m1::encode(x), e2m1::decode(e2m1::encode(x))),
        _ => {
            let code = e4m3::encode(x, e4m3::Overflow::Saturate);
            (code, e4m3::decode(code))
        }
    };
    let last = match scale {
        ScaleElem::E8m0 => 254,
        ScaleElem::E4m3 => e4m3::MAX_CODE,
    };
    let largest = values.iter().fold(0f32, |m, v| m.max(v.abs()));
    let fits = |byte: &u8| {
        let s = value(*byte);
        s > 0.0 && s.is_normal() && values.iter().all(|v| code(v / s).1 * s == *v)
    };
    // Powers of two from the first that is large enough.
    let from = match scale {
        ScaleElem::E8m0 => e8m0::encode_pow2_ceil((largest / 448.0).max(f32::MIN_POSITIVE)).max(1),
        ScaleElem::E4m3 => 1,
    };
    let byte = (from..=last).find(fits).unwrap_or_else(|| panic!("no scale makes {values:?} exact"));
    (byte, values.iter().map(|v| code(v / value(byte)).0).collect())
}

fn pack(elem: Elem, codes: &[u8]) -> Vec<u8> {
    match elem {
        Elem::E2m1 => codes.chunks(2).map(|c| c[0] | c[1] << 4).collect(),
        _ => codes.to_vec(),
    }
}

/// Row-major planes of one matrix.
fn planes(format: Format, values: &[f32], rows: usize, cols: usize) -> Vec<Vec<u8>> {
    let Some(g) = format.group else {
        return vec![match format.elem {
            Elem::Bf16 => values.iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }];
    };
    let mut codes = vec![0u8; rows * cols];
    let mut scales = vec![0u8; rows.div_ceil(g.rows) * (cols / g.cols)];
    for (i, scale) in scales.iter_mut().enumerate() {
        let (top, left) = (i / (cols / g.cols) * g.rows, i % (cols / g.cols) * g.cols);
        let cells: Vec<usize> = (top..rows.min(top + g.rows))
            .flat_map(|r| (left..left + g.cols).map(move |c| r * cols + c))
            .collect();
        let inside: Vec<f32> = cells.iter().map(|at| values[*at]).collect();
        let (byte, found) = group(&inside, format.elem, g.scale);
        *scale = byte;
        cells.iter().zip(found).for_each(|(at, code)| codes[*at] = code);
    }
    if format.planes() == 2 {
        return vec![pack(format.elem, &codes), scales];
    }
    let per_row = cols / g.cols;
    let records = codes.chunks(cols).zip(scales.chunks(per_row));
    vec![records.flat_map(|(c, s)| [pack(format.elem, c), s.to_vec()].concat()).collect()]
}

/// A parameter that holds `tensor`.
pub(crate) fn arg(ty: &TensorType, bindings: &Bindings, tensor: &Tensor) -> Arg {
    let shape: Vec<usize> = ty.shape.iter().map(|d| d.eval(bindings).expect("bound")).collect();
    let tensor = Tensor { shape: shape.clone(), data: tensor.data.clone() };
    let values = match &tensor.data {
        Data::I32(v) => return Arg::ints(ty, bindings, v.iter().map(|v| i64::from(*v)).collect()),
        Data::I64(v) => return Arg::ints(ty, bindings, v.clone()),
        Data::F32(v) => v,
    };
    let cols = shape.last().copied().unwrap_or(1).max(1);
    let rows = if shape.len() >= 2 { shape[shape.len() - 2] } else { 1 };
    let mut all: Vec<Vec<u8>> = vec![Vec::new(); ty.format.planes()];
    for matrix in values.chunks((rows * cols).max(1)) {
        for (to, from) in all.iter_mut().zip(planes(ty.format, matrix, rows, cols)) {
            to.extend(from);
        }
    }
    if ty.layout == Layout::Panels16 {
        all = vec![panels(ty.format, &all, &shape)];
    }
    let want = ty.plane_bytes(bindings).expect("sizes");
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), want);
    Arg { tensor, planes: all.iter().map(|p| Memory::of(p)).collect() }
}
