//! Weights in the layouts kernels want: mapped where the file already has it, repacked once where not.

use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::micro::pack::{self, ScaleTile};
use std::collections::BTreeMap;
use std::sync::Arc;
use tessera_ir::artifact::{Artifact, Buffer, BufferKind};
use tessera_ir::{Bindings, Elem, Format, Layout};
use tessera_model::{Checkpoint, checkpoint::TensorView};

/// A weight's memory planes.
#[derive(Debug)]
struct Weight {
    planes: Vec<*const u8>,
    /// What holds the planes that are not mapped files.
    _owned: Vec<Memory>,
}

/// All weights of an artifact, by name and layout. Keeps the checkpoint mapped.
#[derive(Debug)]
pub struct Weights {
    weights: BTreeMap<(String, &'static str), Weight>,
    _checkpoint: Arc<Checkpoint>,
    repacked: usize,
}

// SAFETY: the planes point into read-only mappings and blocks that the value itself owns and never changes.
unsafe impl Send for Weights {}
// SAFETY: as above.
unsafe impl Sync for Weights {}

impl Weights {
    /// Loads every weight that the artifact's programs use. `token_map` is the weight of that name: the compressed id
    /// of each token id. `progress` is told after each weight how many of how many are done.
    pub fn load(
        artifact: &Artifact,
        checkpoint: Arc<Checkpoint>,
        token_map: &[i32],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self> {
        let mut wanted: BTreeMap<(String, &'static str), &Buffer> = BTreeMap::new();
        for b in artifact.programs.iter().flat_map(|p| &p.buffers) {
            if b.kind == BufferKind::Weight {
                wanted.insert((b.name.clone(), b.ty.layout.name()), b);
            }
        }
        let mut weights = BTreeMap::new();
        let mut repacked = 0;
        let total = wanted.len();
        for (done, (key, buffer)) in wanted.into_iter().enumerate() {
            let weight = if buffer.name == "token_map" {
                let bytes: Vec<u8> = token_map.iter().flat_map(|v| v.to_ne_bytes()).collect();
                check_len(buffer, 0, bytes.len())?;
                Weight::owned(vec![copied(&bytes, &buffer.name)?])
            } else {
                load(buffer, &checkpoint)?
            };
            repacked += weight._owned.iter().map(Memory::len).sum::<usize>();
            weights.insert(key, weight);
            progress(done + 1, total);
        }
        Ok(Weights { weights, _checkpoint: checkpoint, repacked })
    }
    /// Addresses of the planes of a weight buffer.
    pub fn planes(&self, buffer: &Buffer) -> Option<&[*const u8]> {
        self.weights.get(&(buffer.name.clone(), buffer.ty.layout.name())).map(|w| w.planes.as_slice())
    }
    /// Bytes held beside the mapped files.
    pub fn repacked_bytes(&self) -> usize {
        self.repacked
    }
}

impl Weight {
    fn owned(blocks: Vec<Memory>) -> Self {
        Weight { planes: blocks.iter().map(|m| m.as_ptr().cast_const()).collect(), _owned: blocks }
    }
}

fn load(buffer: &Buffer, checkpoint: &Checkpoint) -> Result<Weight> {
    match buffer.ty.layout {
        Layout::Rows => load_rows(buffer, checkpoint),
        Layout::Panels16 => load_panels(buffer, checkpoint),
        layout @ (Layout::Blocks128 | Layout::Pitch16 | Layout::Split | Layout::Split3) => {
            Err(Error::Weight {
                name: buffer.name.clone(),
                message: format!("the layout {} is another device's", layout.name()),
            })
        }
    }
}

/// Rows as the file has them: the mapping itself where it is aligned, a copy where not.
fn load_rows(buffer: &Buffer, checkpoint: &Checkpoint) -> Result<Weight> {
    let mut weight = Weight { planes: Vec::new(), _owned: Vec::new() };
    let mut plane = |bytes: &[u8], align: usize| -> Result<()> {
        check_len(buffer, weight.planes.len(), bytes.len())?;
        if (bytes.as_ptr() as usize).is_multiple_of(align) {
            weight.planes.push(bytes.as_ptr());
        } else {
            let block = copied(bytes, &buffer.name)?;
            weight.planes.push(block.as_ptr());
            weight._owned.push(block);
        }
        Ok(())
    };
    plane(tensor(checkpoint, &buffer.name)?.data, (buffer.ty.format.elem.bits() / 8).max(1))?;
    if buffer.ty.format.planes() == 2 {
        plane(tensor(checkpoint, &scale_name(&buffer.name))?.data, 1)?;
    }
    Ok(weight)
}

/// Panels of 16 rows, matrices of a stacked weight one after another.
fn load_panels(buffer: &Buffer, checkpoint: &Checkpoint) -> Result<Weight> {
    let fault = |message: String| Error::Weight { name: buffer.name.clone(), message };
    let dims: Option<Vec<usize>> = buffer.ty.shape.iter().map(tessera_ir::Dim::fixed).collect();
    let dims = dims.ok_or_else(|| fault("its shape depends on a symbol".to_owned()))?;
    let (count, n, k) = match dims.as_slice() {
        [n, k] => (1, *n, *k),
        [e, n, k] => (*e, *n, *k),
        _ => return Err(fault(format!("a matrix has 2 or 3 dimensions, this weight has {}", dims.len()))),
    };
    let bytes = buffer.ty.plane_bytes(&Bindings::new()).and_then(|p| p.first().copied());
    let bytes = bytes.ok_or_else(|| fault("its size overflows".to_owned()))?;
    let mut block = Memory::zeroed(bytes, &buffer.name)?;
    let each = bytes / count.max(1);
    for e in 0..count {
        let name = buffer.name.replace('*', &e.to_string());
        let data = tensor(checkpoint, &name)?.data;
        let out = &mut block.bytes_mut()[e * each..(e + 1) * each];
        let packed = match (buffer.ty.format, buffer.ty.format.elem) {
            (Format::MX4, _) => pack::pack_w4(data, tensor(checkpoint, &scale_name(&name))?.data, n, k, out),
            (Format::W8, _) => pack::pack_w8(
                data,
                tensor(checkpoint, &scale_name(&name))?.data,
                ScaleTile::Tile32x32,
                n,
                k,
                out,
            ),
            (Format::BF16, _) => pack::pack_bf16(data, n, k, out),
            (Format::F32, _) => pack::pack_f32(data, n, k, out),
            (format, Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 | Elem::I32 | Elem::I64) => {
                return Err(fault(format!("no panel layout for format {format}")));
            }
        };
        packed.map_err(|e| fault(e.to_string()))?;
    }
    Ok(Weight::owned(vec![block]))
}

fn tensor<'a>(checkpoint: &'a Checkpoint, name: &str) -> Result<TensorView<'a>> {
    checkpoint
        .tensor(name)
        .ok_or_else(|| Error::Weight { name: name.to_owned(), message: "not in the checkpoint".to_owned() })
}

/// The scale of `X.weight` is `X.scale` (V4.1 §3.1).
fn scale_name(weight: &str) -> String {
    format!("{}.scale", weight.strip_suffix(".weight").unwrap_or(weight))
}

fn copied(bytes: &[u8], what: &str) -> Result<Memory> {
    let mut m = Memory::zeroed(bytes.len(), what)?;
    m.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    Ok(m)
}

fn check_len(buffer: &Buffer, plane: usize, have: usize) -> Result<()> {
    let want = buffer.ty.plane_bytes(&Bindings::new()).and_then(|p| p.get(plane).copied());
    if want == Some(have) {
        return Ok(());
    }
    let message = format!("plane {plane} of {} has {have} bytes, {want:?} are needed", buffer.ty);
    Err(Error::Weight { name: buffer.name.clone(), message })
}
