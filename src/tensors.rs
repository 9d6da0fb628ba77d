//! Files of named tensors: written whole or not at all, read with every format widened to numbers.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use tessera_ir::graph::interp::{Data, Tensor};
use tessera_ir::num::{bf16, e4m3, e5m2, e8m0};
use tessera_model::checkpoint::{Dtype, SafetensorsFile, TensorView};

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// Writes a safetensors file: reals as F32, integers as I32 or I64, names ascending. The file appears whole, under its
/// name, or not at all.
///
/// # Errors
/// The folder or the file cannot be written.
pub fn write(path: &Path, tensors: &Tensors) -> Result<()> {
    let fault = |source| Error::Write { path: path.to_owned(), source };
    let bytes: BTreeMap<&str, (safetensors::Dtype, &[usize], Vec<u8>)> = tensors
        .iter()
        .map(|(name, tensor)| {
            let (dtype, bytes) = match &tensor.data {
                Data::F32(v) => (safetensors::Dtype::F32, v.iter().flat_map(|v| v.to_le_bytes()).collect()),
                Data::I32(v) => (safetensors::Dtype::I32, v.iter().flat_map(|v| v.to_le_bytes()).collect()),
                Data::I64(v) => (safetensors::Dtype::I64, v.iter().flat_map(|v| v.to_le_bytes()).collect()),
            };
            (name.as_str(), (dtype, tensor.shape.as_slice(), bytes))
        })
        .collect();
    let mut views = Vec::with_capacity(bytes.len());
    for (name, (dtype, shape, data)) in &bytes {
        let view = safetensors::tensor::TensorView::new(*dtype, shape.to_vec(), data);
        views.push((*name, view.map_err(|e| fault(std::io::Error::other(e.to_string())))?));
    }
    let content =
        safetensors::serialize(views, None).map_err(|e| fault(std::io::Error::other(e.to_string())))?;
    write_whole(path, &content)
}

/// Writes a file by way of a temporary one beside it. A link is followed: its target is replaced.
///
/// # Errors
/// The folder or the file cannot be written, or something other than a file lies there (a device, a pipe, a folder).
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let fault = |source| Error::Write { path: path.to_owned(), source };
    let target = match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            return Err(fault(std::io::Error::other(
                "it is not a regular file, which alone can be replaced whole",
            )));
        }
        Ok(_) => std::fs::canonicalize(path).map_err(fault)?,
        Err(_) => path.to_owned(),
    };
    let path = target.as_path();
    let named = |source: std::io::Error| fault(std::io::Error::new(source.kind(), plain(&source)));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tessera-");
    #[cfg(unix)]
    {
        // As a file opened the usual way; the umask still applies.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder).map_err(named)?;
    file.write_all(content).and_then(|()| file.as_file().sync_all()).map_err(fault)?;
    file.persist(path).map_err(|error| fault(error.error))?;
    Ok(())
}

/// What the system says, without the name of the temporary file.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" at path ").next().unwrap_or(&text).to_owned()
}

/// Values of a stored tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Reals, widened without loss.
    Reals(Vec<f64>),
    /// Integers.
    Ints(Vec<i128>),
}

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::Reals(v) => v.len(),
            Values::Ints(v) => v.len(),
        }
    }
    /// True without values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Opens a safetensors file.
///
/// # Errors
/// The file cannot be read, or its header has a fault.
pub fn open(path: &Path) -> Result<SafetensorsFile> {
    Ok(SafetensorsFile::open(path)?)
}

/// The values of a stored tensor, whatever its element type.
pub fn values(view: &TensorView<'_>) -> Values {
    let data = view.data;
    match view.dtype {
        Dtype::F64 => Values::Reals(words(data).map(f64::from_le_bytes).collect()),
        Dtype::F32 => Values::Reals(words(data).map(|b| f64::from(f32::from_le_bytes(b))).collect()),
        Dtype::Bf16 => {
            Values::Reals(words(data).map(|b| f64::from(bf16::from_bits(u16::from_le_bytes(b)))).collect())
        }
        Dtype::F16 => Values::Reals(words(data).map(|b| half(u16::from_le_bytes(b))).collect()),
        Dtype::F8E4M3 => Values::Reals(data.iter().map(|b| f64::from(e4m3::decode(*b))).collect()),
        Dtype::F8E5M2 => Values::Reals(data.iter().map(|b| f64::from(e5m2::decode(*b))).collect()),
        Dtype::F8E8M0 => Values::Reals(data.iter().map(|b| f64::from(e8m0::decode(*b))).collect()),
        Dtype::Bool | Dtype::U8 => Values::Ints(data.iter().map(|b| i128::from(*b)).collect()),
        Dtype::I8 => Values::Ints(words(data).map(|b| i128::from(i8::from_le_bytes(b))).collect()),
        Dtype::I16 => Values::Ints(words(data).map(|b| i128::from(i16::from_le_bytes(b))).collect()),
        Dtype::U16 => Values::Ints(words(data).map(|b| i128::from(u16::from_le_bytes(b))).collect()),
        Dtype::I32 => Values::Ints(words(data).map(|b| i128::from(i32::from_le_bytes(b))).collect()),
        Dtype::U32 => Values::Ints(words(data).map(|b| i128::from(u32::from_le_bytes(b))).collect()),
        Dtype::I64 => Values::Ints(words(data).map(|b| i128::from(i64::from_le_bytes(b))).collect()),
        Dtype::U64 => Values::Ints(words(data).map(|b| i128::from(u64::from_le_bytes(b))).collect()),
    }
}

/// The value of an IEEE half.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

fn words<const N: usize>(data: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    data.as_chunks::<N>().0.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_have_their_ieee_values() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 2f64.powi(-24)),
            (0x0400, 2f64.powi(-14)),
            (0x7c00, f64::INFINITY),
        ] {
            assert_eq!(half(bits), value, "{bits:#06x}");
        }
        assert!(half(0x7e00).is_nan());
    }

    #[test]
    fn a_written_file_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.safetensors");
        let tensors: Tensors = [
            ("a".to_owned(), Tensor::f32([2, 1], vec![1.5, f32::NAN])),
            ("b".to_owned(), Tensor::i32([1], vec![-3])),
            ("c".to_owned(), Tensor::i64([1], vec![1 << 40])),
        ]
        .into();
        write(&path, &tensors).unwrap();
        let file = open(&path).unwrap();
        let Values::Reals(a) = values(&file.tensor("a").unwrap()) else { panic!("reals") };
        assert!(a[0] == 1.5 && a[1].is_nan());
        assert_eq!(file.tensor("a").unwrap().shape, [2, 1]);
        assert_eq!(values(&file.tensor("b").unwrap()), Values::Ints(vec![-3]));
        assert_eq!(values(&file.tensor("c").unwrap()), Values::Ints(vec![1 << 40]));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        let message = write_whole(Path::new("/dev/null"), b"x").unwrap_err().to_string();
        assert!(message.contains("not a regular file"), "{message}");
        let message = write_whole(&folder.path().join("no/such"), b"x").unwrap_err().to_string();
        assert!(!message.contains(".tessera-"), "{message}");
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("is-a-folder");
        std::fs::create_dir(&path).unwrap();
        assert!(write_whole(&path, b"x").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
