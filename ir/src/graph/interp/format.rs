//! Rounding of f32 values to the values of a format.

use super::error::Fault;
use crate::num::{bf16, group};
use crate::types::{Elem, Format};

/// The exact values that the quantiser or the rounding of `format` gives for one row.
///
/// Plain f32 keeps the row, bf16 rounds each element; `mx8`, `kv8`, `kv4`, `index4` and `mx4` quantise in groups along
/// the row (V4.1 §3.2, §3.3). A group with a NaN or an infinity becomes NaN.
///
/// # Errors
/// [`Fault::Quantiser`] where the row is not made of whole groups, or the format is `w8`, whose tiles
/// span rows, or an integer format.
pub fn round_trip(values: &[f32], format: Format) -> Result<Vec<f32>, Fault> {
    let mut out = values.to_vec();
    round_row(&mut out, format)?;
    Ok(out)
}

/// [`round_trip`] in place.
pub(super) fn round_row(row: &mut [f32], format: Format) -> Result<(), Fault> {
    let fault = Fault::Quantiser { len: row.len(), format };
    let Some(g) = format.group else {
        return match format.elem {
            Elem::F32 => Ok(()),
            Elem::Bf16 => {
                row.iter_mut().for_each(|v| *v = bf16::round(*v));
                Ok(())
            }
            Elem::E4m3 | Elem::E2m1 | Elem::I32 | Elem::I64 => Err(fault),
        };
    };
    if g.cols == 0 || !row.len().is_multiple_of(g.cols) {
        return Err(fault);
    }
    if format == Format::MX8 || format == Format::KV8 {
        group::round_trip_mx8(row);
    } else if format == Format::KV4 {
        group::round_trip_kv4(row);
    } else if format == Format::INDEX4 || format == Format::MX4 {
        group::round_trip_index4(row);
    } else {
        return Err(fault);
    }
    Ok(())
}

/// Bits of the significand of an element type's values (the scale being a power of two); 24 for f32.
pub(super) fn significand_bits(elem: Elem) -> u32 {
    match elem {
        Elem::F32 | Elem::I32 | Elem::I64 => 24,
        Elem::Bf16 => 8,
        Elem::E4m3 => 4,
        Elem::E2m1 => 2,
    }
}
