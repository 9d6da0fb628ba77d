//! The header of a safetensors file: parsed strictly, so that every tensor's bytes are known to lie in the file.

use std::fmt;

use crate::json::{Json, repeated_key};

/// Longest header that is read. The released model's 96 085 tensors need about 12 MB.
const MAX_HEADER: u64 = 100 << 20;

/// Declares the element types with their names in the file and their sizes in bytes.
macro_rules! dtypes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $size:literal)*) => {
        /// Element types that a file may name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Dtype { $($(#[$doc])* $variant),* }

        impl Dtype {
            /// All types.
            pub const ALL: &'static [Dtype] = &[$(Dtype::$variant),*];

            /// The name in the file.
            pub fn name(self) -> &'static str {
                match self { $(Dtype::$variant => $name),* }
            }

            /// Bytes an element.
            pub fn size(self) -> usize {
                match self { $(Dtype::$variant => $size),* }
            }
        }
    };
}

dtypes! {
    /// One byte, 0 or 1.
    Bool "BOOL" 1
    /// Unsigned byte.
    U8 "U8" 1
    /// Signed byte; routed experts pack two E2M1 codes into one.
    I8 "I8" 1
    /// OCP E4M3 without infinities.
    F8E4M3 "F8_E4M3" 1
    /// OCP E5M2.
    F8E5M2 "F8_E5M2" 1
    /// OCP power-of-two scale.
    F8E8M0 "F8_E8M0" 1
    /// Signed 16-bit integer.
    I16 "I16" 2
    /// Unsigned 16-bit integer.
    U16 "U16" 2
    /// IEEE half precision.
    F16 "F16" 2
    /// bfloat16.
    Bf16 "BF16" 2
    /// Signed 32-bit integer.
    I32 "I32" 4
    /// Unsigned 32-bit integer.
    U32 "U32" 4
    /// IEEE single precision.
    F32 "F32" 4
    /// Signed 64-bit integer.
    I64 "I64" 8
    /// Unsigned 64-bit integer.
    U64 "U64" 8
    /// IEEE double precision.
    F64 "F64" 8
}

impl Dtype {
    /// The type of a name.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the header says of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name as written.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// First byte, counted from the end of the header.
    pub begin: usize,
    /// Byte after the last.
    pub end: usize,
}

/// A checked header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The tensors in the order of their data, which is gapless.
    pub tensors: Vec<TensorInfo>,
    /// The free-form `__metadata__` strings, as written.
    pub metadata: Vec<(String, String)>,
    /// Byte of the file at which the data starts.
    pub data_start: usize,
}

/// What is wrong with a safetensors file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderFault {
    /// The file ends before its header, or the header claims to be longer than the file.
    Length {
        /// What the first eight bytes say, if there are eight.
        header: Option<u64>,
        /// Bytes of the file.
        file: u64,
    },
    /// The header is longer than any checkpoint needs.
    TooLong(u64),
    /// The header is not UTF-8; the offset counts from its start.
    NotUtf8(usize),
    /// The header is not JSON or not of the documented form.
    Form(String),
    /// A tensor's entry is not of the documented form.
    Tensor {
        /// The tensor.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// The same name twice.
    Duplicate(String),
    /// Two tensors share bytes.
    Overlap {
        /// The tensor that starts too early.
        name: String,
        /// The one it runs into.
        other: String,
    },
    /// Bytes between two tensors belong to neither.
    Gap {
        /// The tensor behind the gap.
        name: String,
        /// Bytes of the gap.
        bytes: usize,
    },
    /// The data is shorter than the header says: the file is truncated.
    Truncated {
        /// Bytes that the tensors need.
        need: u64,
        /// Bytes that the file has for them.
        have: u64,
        /// The first tensor that is not whole.
        name: String,
    },
    /// Bytes behind the last tensor.
    Trailing(u64),
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderFault::Length { header: None, file } => {
                write!(f, "truncated: {file} bytes are too few for a safetensors file")
            }
            HeaderFault::Length { header: Some(header), file } => write!(
                f,
                "the header claims {header} bytes, but the file has {file}: truncated, or not a safetensors file"
            ),
            HeaderFault::TooLong(header) => {
                write!(f, "the header claims {header} bytes, above the limit of {MAX_HEADER}")
            }
            HeaderFault::NotUtf8(offset) => write!(f, "byte {offset} of the header is not valid UTF-8"),
            HeaderFault::Form(message) => write!(f, "header: {message}"),
            HeaderFault::Tensor { name, message } => write!(f, "tensor {name}: {message}"),
            HeaderFault::Duplicate(name) => write!(f, "tensor {name} is listed twice"),
            HeaderFault::Overlap { name, other } => write!(f, "tensor {name} overlaps tensor {other}"),
            HeaderFault::Gap { name, bytes } => {
                write!(f, "{bytes} bytes before tensor {name} belong to no tensor")
            }
            HeaderFault::Truncated { need, have, name } => write!(
                f,
                "truncated: the tensors need {need} bytes, the file has {have}; the first incomplete one is {name}"
            ),
            HeaderFault::Trailing(bytes) => {
                write!(f, "{bytes} bytes behind the last tensor belong to no tensor")
            }
        }
    }
}

/// Parses and checks the header of a file of `file_len` bytes, of which `bytes` holds at least the header.
///
/// # Errors
/// Any departure from the format: lengths, encoding, JSON, names, types, shapes or offsets.
pub fn parse(bytes: &[u8], file_len: u64) -> Result<Header, HeaderFault> {
    let Some(prefix) = bytes.first_chunk::<8>() else {
        return Err(HeaderFault::Length { header: None, file: file_len });
    };
    let length = u64::from_le_bytes(*prefix);
    if file_len < 8 || length > file_len - 8 {
        return Err(HeaderFault::Length { header: Some(length), file: file_len });
    }
    if length > MAX_HEADER {
        return Err(HeaderFault::TooLong(length));
    }
    let data_start = 8 + length as usize;
    let Some(text) = bytes.get(8..data_start) else {
        return Err(HeaderFault::Length { header: Some(length), file: bytes.len() as u64 });
    };
    let text = std::str::from_utf8(text).map_err(|error| HeaderFault::NotUtf8(error.valid_up_to()))?;
    let json: Json = serde_json::from_str(text).map_err(|error| HeaderFault::Form(error.to_string()))?;
    let members = json.as_object().ok_or_else(|| {
        HeaderFault::Form(format!("expected an object of tensors, got {}", json.describe()))
    })?;
    if let Some(name) = repeated_key(members) {
        return Err(HeaderFault::Duplicate(name.to_owned()));
    }
    let mut header = Header { tensors: Vec::with_capacity(members.len()), metadata: Vec::new(), data_start };
    for (name, entry) in members {
        if name == "__metadata__" {
            header.metadata = metadata(entry)?;
        } else {
            let info =
                tensor(name, entry).map_err(|message| HeaderFault::Tensor { name: name.clone(), message })?;
            header.tensors.push(info);
        }
    }
    header.tensors.sort_by(|a, b| (a.begin, a.end, &a.name).cmp(&(b.begin, b.end, &b.name)));
    check_layout(&header.tensors, file_len - data_start as u64)?;
    Ok(header)
}

fn metadata(entry: &Json) -> Result<Vec<(String, String)>, HeaderFault> {
    let fault = || HeaderFault::Form("__metadata__: expected an object of strings".to_owned());
    let members = entry.as_object().ok_or_else(fault)?;
    if let Some(key) = repeated_key(members) {
        return Err(HeaderFault::Form(format!("__metadata__: {key} occurs twice")));
    }
    members
        .iter()
        .map(|(key, value)| Ok((key.clone(), value.as_str().ok_or_else(fault)?.to_owned())))
        .collect()
}

fn tensor(name: &str, entry: &Json) -> Result<TensorInfo, String> {
    let members = entry.as_object().ok_or_else(|| format!("expected an object, got {}", entry.describe()))?;
    let known = ["dtype", "shape", "data_offsets"];
    if let Some(key) = repeated_key(members) {
        return Err(format!("{key} occurs twice"));
    }
    if let Some((key, _)) = members.iter().find(|(key, _)| !known.contains(&key.as_str())) {
        return Err(format!("unknown key {key}"));
    }
    let member = |key: &str| {
        members
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
            .ok_or(format!("{key} is missing"))
    };
    let dtype = member("dtype")?;
    let dtype = dtype.as_str().and_then(Dtype::from_name).ok_or_else(|| {
        let names: Vec<&str> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
        format!("unknown dtype {}; known are {}", dtype.describe(), names.join(", "))
    })?;
    let shape = integers(member("shape")?).ok_or("shape: expected an array of extents")?;
    let offsets = integers(member("data_offsets")?)
        .and_then(|offsets| <[usize; 2]>::try_from(offsets).ok())
        .ok_or("data_offsets: expected two byte offsets")?;
    let [begin, end] = offsets;
    let bytes = shape
        .iter()
        .try_fold(dtype.size(), |product, &extent| product.checked_mul(extent))
        .ok_or_else(|| format!("the product of its shape {shape:?} overflows"))?;
    let Some(span) = end.checked_sub(begin) else {
        return Err(format!("data_offsets [{begin}, {end}] run backwards"));
    };
    if span != bytes {
        return Err(format!("shape {shape:?} of {dtype} takes {bytes} bytes, but data_offsets span {span}"));
    }
    Ok(TensorInfo { name: name.to_owned(), dtype, shape, begin, end })
}

fn integers(json: &Json) -> Option<Vec<usize>> {
    json.as_array()?.iter().map(|item| usize::try_from(item.as_u64()?).ok()).collect()
}

/// Sorted by begin, the tensors must tile the data exactly.
fn check_layout(tensors: &[TensorInfo], have: u64) -> Result<(), HeaderFault> {
    let mut end = 0;
    let mut previous = "";
    for info in tensors {
        if info.begin < end {
            return Err(HeaderFault::Overlap { name: info.name.clone(), other: previous.to_owned() });
        }
        if info.begin > end {
            return Err(HeaderFault::Gap { name: info.name.clone(), bytes: info.begin - end });
        }
        end = info.end;
        previous = &info.name;
    }
    let need = end as u64;
    if need > have {
        let name = tensors.iter().find(|info| info.end as u64 > have).map_or("", |info| &info.name);
        return Err(HeaderFault::Truncated { need, have, name: name.to_owned() });
    }
    if have > need {
        return Err(HeaderFault::Trailing(have - need));
    }
    Ok(())
}
