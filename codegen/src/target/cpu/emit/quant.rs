//! Decoding and encoding of quantised rows, and `cast`.

use super::ix::Ix;
use super::tile::{Mem, Node, Place, Tile};
use super::view::{Coded, Rows};
use super::{Emitter, Result, too_large, unsupported};
use crate::target::cpu::calls::Call;
use crate::target::cpu::scratch::Bytes;
use cranelift_codegen::ir::Value as Ssa;
use std::rc::Rc;
use tessera_ir::tile::Value;
use tessera_ir::{Dim, Elem, Format};

/// The quantised formats of rows.
#[derive(Clone, Copy)]
enum Coding {
    Mx8,
    Kv8,
    Kv4,
    Index4,
}

fn coding(format: Format) -> Result<Coding> {
    match format {
        f if f == Format::MX8 => Ok(Coding::Mx8),
        f if f == Format::KV8 => Ok(Coding::Kv8),
        f if f == Format::KV4 => Ok(Coding::Kv4),
        f if f == Format::INDEX4 => Ok(Coding::Index4),
        f => Err(unsupported(format!("rows in {f}"))),
    }
}

impl Emitter<'_> {
    /// Decodes `n` rows of `cols` columns from a quantised view into f32 rows.
    pub(super) fn decode_rows(&mut self, from: &Rows, n: Ix, to: &Mem, cols: &Dim) -> Result<()> {
        coding(from.format)?;
        self.repeat(Ix::Const(0), n, 1, &mut |e, i| {
            let row = e.coded_row(from, i, cols)?;
            let down = e.mul(i, to.stride);
            let out = e.offset(to.ptr, down);
            e.decode(from.format, row, out, cols)
        })
    }

    /// Decodes one row.
    pub(super) fn decode(&mut self, format: Format, row: Coded, out: Ssa, cols: &Dim) -> Result<()> {
        let n = self.dim(cols);
        let n = self.val(n);
        let call = match (coding(format)?, row.scales) {
            (Coding::Mx8, Some(scales)) => {
                self.call(Call::DequantMx8, &[row.codes, scales, n, out]);
                return Ok(());
            }
            (Coding::Mx8, None) => return Err(unsupported("mx8 without scales")),
            (Coding::Kv8, _) => Call::DequantKv8,
            (Coding::Kv4, _) => Call::DequantKv4,
            (Coding::Index4, _) => Call::DequantIndex4,
        };
        self.call(call, &[row.codes, n, out]);
        Ok(())
    }

    /// Quantises one row of f32.
    fn encode(&mut self, format: Format, x: Ssa, row: Coded, cols: &Dim) -> Result<()> {
        let n = self.dim(cols);
        let n = self.val(n);
        let call = match (coding(format)?, row.scales) {
            (Coding::Mx8, Some(scales)) => {
                self.call(Call::QuantMx8, &[x, n, row.codes, scales]);
                return Ok(());
            }
            (Coding::Mx8, None) => return Err(unsupported("mx8 without scales")),
            (Coding::Kv8, _) => Call::QuantKv8,
            (Coding::Kv4, _) => Call::QuantKv4,
            (Coding::Index4, _) => Call::QuantIndex4,
        };
        self.call(call, &[x, n, row.codes]);
        Ok(())
    }

    /// Quantises the rows of `t`, f32 at `m`, into a view.
    pub(super) fn encode_rows(&mut self, t: &Tile, m: &Mem, to: &Rows) -> Result<()> {
        if to.format != t.format {
            return Err(unsupported(format!("storing a tile in {} as {}", t.format, to.format)));
        }
        self.repeat(Ix::Const(0), Self::size(t.rows), 1, &mut |e, i| {
            let down = e.mul(i, m.stride);
            let x = e.offset(m.ptr, down);
            let row = e.coded_row(to, i, &t.cols)?;
            e.encode(t.format, x, row, &t.cols)
        })
    }

    /// `cast`.
    pub(super) fn cast(&mut self, v: Value, x: Value, format: Format) -> Result<()> {
        let t = self.tile(x)?;
        if let Node::Quantised(m) = &t.node {
            if format == t.format {
                return self.bind_tile(v, t);
            }
            let node = Node::Mem(self.through_quantiser(&t, m)?);
            return self.bind_tile(v, Tile { format: Format::F32, node, ..t.clone() });
        }
        if format.group.is_some() {
            coding(format)?;
            let (t, mem) = self.tile_in_memory(x, false)?;
            return self.bind_tile(v, Tile { format, node: Node::Quantised(mem), ..t });
        }
        let node = match (t.format, format) {
            (from, to) if from == to => t.node.clone(),
            (Format::BF16, Format::F32) => t.node.clone(),
            (Format::F32, Format::BF16) => Node::Round(Rc::new(t.clone())),
            (from, to) => return Err(unsupported(format!("casting {from} to {to}"))),
        };
        self.bind_tile(v, Tile { format, node, ..t })
    }

    /// The values that `t`, f32 rows at `m`, has after its quantiser.
    fn through_quantiser(&mut self, t: &Tile, m: &Mem) -> Result<Mem> {
        let Dim::Fixed(n) = t.cols else {
            return Err(unsupported(format!(
                "{} rows of a length that is not known when compiling",
                t.format
            )));
        };
        // One record, or codes and scales one after another, at a time.
        let scales = t.format.scale_plane_bytes(1, n).ok_or_else(too_large)?;
        let bytes =
            t.format.row_bytes(n).ok_or_else(|| unsupported(format!("{} rows of {n} elements", t.format)))?;
        let total = bytes.checked_add(scales).ok_or_else(too_large)?;
        let region = self.scratch.take(&Bytes::Fixed(total)).ok_or_else(too_large)?;
        let record = self.region(&region);
        let out = self.temp(t.rows, &t.cols, Elem::F32)?;
        debug_assert_eq!(out.place, Place::Temp);
        self.repeat(Ix::Const(0), Self::size(t.rows), 1, &mut |e, i| {
            let scales = (scales > 0).then(|| e.offset(record, Self::size(bytes)));
            let row = Coded { codes: record, scales };
            let down = e.mul(i, m.stride);
            let x = e.offset(m.ptr, down);
            e.encode(t.format, x, row, &t.cols)?;
            let down = e.mul(i, out.stride);
            let to = e.offset(out.ptr, down);
            e.decode(t.format, row, to, &t.cols)
        })?;
        Ok(out)
    }
}
