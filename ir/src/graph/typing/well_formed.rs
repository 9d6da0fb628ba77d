//! Whether a tensor type makes sense on its own.

use crate::text::is_symbol;
use crate::types::{Dim, Format, Layout, TensorType, panel_bytes};

/// Most dimensions a tensor may have.
const MAX_RANK: usize = 8;
/// Most bits a tensor may have per unit of its symbols: far above any checkpoint, and small enough that sizes in bytes with
/// symbols bound to numbers of rows do not overflow.
const MAX_BITS: usize = 1 << 50;

/// What is wrong with `ty`, if anything; goes on from the name of what has the type.
pub(crate) fn type_fault(ty: &TensorType) -> Option<String> {
    let why = shape_fault(ty).or_else(|| format_fault(ty)).or_else(|| layout_fault(ty))?;
    Some(format!("has the malformed type {ty}: {why}"))
}

fn shape_fault(ty: &TensorType) -> Option<String> {
    if ty.shape.is_empty() || ty.shape.len() > MAX_RANK {
        return Some(format!("it has {} dimensions; 1 to {MAX_RANK} are possible", ty.shape.len()));
    }
    let mut bits = Some(ty.format.elem.bits());
    for dim in &ty.shape {
        let n = match dim {
            Dim::Fixed(n) => *n,
            Dim::Sym { sym, .. } if !is_symbol(sym.as_str()) => {
                return Some(format!(
                    "{:?} is no symbol: letters, digits and `_` after a first letter",
                    sym.as_str()
                ));
            }
            Dim::Sym { times, .. } => *times,
        };
        if n == 0 {
            return Some("dimensions are at least 1".to_owned());
        }
        bits = bits.and_then(|b| b.checked_mul(n));
    }
    match bits {
        Some(bits) if bits <= MAX_BITS => None,
        Some(_) | None => Some(format!("it is larger than {MAX_BITS} bits")),
    }
}

fn format_fault(ty: &TensorType) -> Option<String> {
    if ty.format.name().is_none() {
        return Some("its format has no name".to_owned());
    }
    let group = ty.format.group?;
    let cols = ty.shape.last()?;
    if group.rows > 1 && ty.shape.len() < 2 {
        return Some(format!("{} needs at least 2 dimensions", ty.format));
    }
    match cols {
        Dim::Fixed(n) if n % group.cols == 0 => None,
        Dim::Fixed(_) | Dim::Sym { .. } => Some(format!(
            "{} has one scale per {} elements, so its last dimension is a multiple of {}",
            ty.format, group.cols, group.cols
        )),
    }
}

fn layout_fault(ty: &TensorType) -> Option<String> {
    match ty.layout {
        Layout::Rows => None,
        Layout::Panels16 => {
            let cols = ty.shape.last().and_then(Dim::fixed);
            let weight = [Format::F32, Format::BF16, Format::W8, Format::MX4].contains(&ty.format);
            let fits = ty.shape.len() >= 2 && cols.and_then(|n| panel_bytes(ty.format, n)).is_some();
            (!weight || !fits)
                .then(|| "panels16 is a layout of weight matrices in f32, bf16, w8 or mx4".to_owned())
        }
        Layout::Blocks128 => (![Format::W8, Format::MX4].contains(&ty.format) || !is_matrix(ty))
            .then(|| "blocks128 is a layout of weight matrices in w8 or mx4".to_owned()),
        Layout::Pitch16 => (![Format::KV8, Format::KV4].contains(&ty.format))
            .then(|| "pitch16 is a layout of cache rows in kv8 or kv4".to_owned()),
        Layout::Split => {
            (ty.format != Format::INDEX4).then(|| "split is a layout of index keys in index4".to_owned())
        }
        Layout::Split3 => (ty.format != Format::F32 || !is_matrix(ty))
            .then(|| "split3 is a layout of weight matrices in f32".to_owned()),
    }
}

/// True for matrices, or lists of matrices, with a fixed number of columns.
fn is_matrix(ty: &TensorType) -> bool {
    ty.shape.len() >= 2 && ty.shape.last().and_then(Dim::fixed).is_some()
}
