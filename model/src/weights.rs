//! Weights of a graph module decoded from a checkpoint: what the interpreter of `tessera_ir::graph` runs on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tessera_ir::Format;
use tessera_ir::graph::Decl;
use tessera_ir::graph::interp::{Error as RunError, Tensor, Weights};
use tessera_ir::num::{bf16, group};

use crate::checkpoint::{Checkpoint, Dtype, TensorView};
use crate::config::Config;
use crate::engram::TokenMap;
use crate::error::Result;

/// The weights that the modules of [`graph`](crate::graph) declare, as exact f32 values (V4.1 §3.1).
///
/// A tensor is decoded when it is first asked for and kept: four bytes an element, Engram tables included. That suits
/// an oracle on small models; engines read the checkpoint's own bytes.
#[derive(Debug)]
pub struct DecodedWeights<'a> {
    checkpoint: &'a Checkpoint,
    token_map: Arc<Tensor>,
    decoded: Mutex<BTreeMap<String, Arc<Tensor>>>,
}

impl<'a> DecodedWeights<'a> {
    /// Weights of `checkpoint`, with `token_map` as the weight of that name. Ids beyond the map have no text and count
    /// as Engram's padding.
    ///
    /// # Errors
    /// The map has no entry for `engram_pad_token_id`.
    pub fn new(config: &Config, checkpoint: &'a Checkpoint, token_map: &TokenMap) -> Result<Self> {
        let pad = token_map.get(config.text.engram_pad_token_id)?;
        let vocabulary = config.text.vocab_size;
        let ids = token_map.ids().iter().copied().chain(std::iter::repeat(pad));
        let ids = ids.take(vocabulary).map(|id| id as i32).collect();
        let token_map = Arc::new(Tensor::i32([vocabulary], ids));
        Ok(DecodedWeights { checkpoint, token_map, decoded: Mutex::default() })
    }

    fn decode(&self, decl: &Decl) -> Result<Tensor, String> {
        let dims: Option<Vec<usize>> = decl.ty.shape.iter().map(tessera_ir::Dim::fixed).collect();
        let shape = dims.ok_or("its shape depends on a symbol")?;
        let mut values = Vec::new();
        match decl.name.split_once('*') {
            None => self.append(&decl.name, &shape, decl.ty.format, &mut values)?,
            Some((before, after)) => {
                let (&count, each) = shape.split_first().ok_or("it is stacked but has no dimension")?;
                for expert in 0..count {
                    self.append(&format!("{before}{expert}{after}"), each, decl.ty.format, &mut values)?;
                }
            }
        }
        Ok(Tensor::f32(shape, values))
    }

    /// Appends the values of the tensor `name`, which must have `shape` and be stored as `format` asks.
    fn append(&self, name: &str, shape: &[usize], format: Format, out: &mut Vec<f32>) -> Result<(), String> {
        let elements = shape.iter().product::<usize>();
        let first = out.len();
        let matrix = |kind: &str| match *shape {
            [n, k] if k.is_multiple_of(group::GROUP) => Ok((n, k)),
            _ => Err(format!("{shape:?} is no {kind} matrix: its rows are not groups of {}", group::GROUP)),
        };
        if format == Format::BF16 {
            let data = self.plain(name, Dtype::Bf16, shape)?;
            out.extend(data.chunks_exact(2).map(|b| bf16::from_bits(u16::from_le_bytes([b[0], b[1]]))));
        } else if format == Format::F32 {
            let data = self.plain(name, Dtype::F32, shape)?;
            out.extend(data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
        } else if format == Format::W8 {
            let (n, k) = matrix("w8")?;
            let codes = self.plain(name, Dtype::F8E4M3, &[n, k])?;
            let scales = self.scales(name, &[n.div_ceil(group::GROUP), k / group::GROUP])?;
            out.resize(first + elements, 0.0);
            group::dequantize_w8(codes, scales, n, k, &mut out[first..]);
        } else if format == Format::MX4 {
            let (n, k) = matrix("mx4")?;
            let codes = self.plain(name, Dtype::I8, &[n, k / 2])?;
            let scales = self.scales(name, &[n, k / group::GROUP])?;
            out.resize(first + elements, 0.0);
            group::dequantize_mx4(codes, scales, n, k, &mut out[first..]);
        } else if format == Format::MX8 {
            let (n, k) = matrix("mx8")?;
            let codes = self.plain(name, Dtype::F8E4M3, &[n, k])?;
            let scales = self.scales(name, &[n, k / group::GROUP])?;
            out.resize(first + elements, 0.0);
            group::dequantize_mx8(codes, scales, &mut out[first..]);
        } else {
            return Err(format!("checkpoints store nothing as {format}"));
        }
        Ok(())
    }

    fn scales(&self, name: &str, shape: &[usize]) -> Result<&[u8], String> {
        let stem =
            name.strip_suffix(".weight").ok_or("it has scales, but its name does not end in .weight")?;
        self.plain(&format!("{stem}.scale"), Dtype::F8E8M0, shape)
    }

    /// The bytes of a tensor of exactly this type and shape.
    fn plain(&self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<&[u8], String> {
        let TensorView { dtype: stored, shape: extents, data } =
            self.checkpoint.tensor(name).ok_or_else(|| format!("the checkpoint has no tensor {name}"))?;
        if stored == dtype && extents == shape {
            return Ok(data);
        }
        Err(format!(
            "tensor {name} is {} {extents:?} in the checkpoint, expected {} {shape:?}",
            stored.name(),
            dtype.name()
        ))
    }
}

impl Weights for DecodedWeights<'_> {
    fn weight(&self, decl: &Decl) -> Result<Arc<Tensor>, RunError> {
        if decl.name == "token_map" {
            return Ok(self.token_map.clone());
        }
        // A panic while the lock is held cannot leave a half-written entry.
        let mut decoded = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tensor) = decoded.get(&decl.name) {
            return Ok(tensor.clone());
        }
        let fault = |reason| RunError::Weight { name: decl.name.clone(), reason };
        let tensor = Arc::new(self.decode(decl).map_err(fault)?);
        decoded.insert(decl.name.clone(), tensor.clone());
        Ok(tensor)
    }
}
