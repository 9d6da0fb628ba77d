//! The tensors of a model folder: one `model.safetensors` or the shards of an index, mapped and never copied.

pub mod header;
mod manifest;
mod report;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

pub use header::{Dtype, Header, HeaderFault, TensorInfo};
pub use manifest::{ExpectedTensor, Need, expected_tensors};
pub use report::{Report, TensorFaults, check};

use crate::config::read_text;
use crate::error::{Error, Result};
use crate::json::{Json, repeated_key};
use crate::mapping::Mapping;

/// A tensor where it lies in its file.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    /// Element type.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub shape: &'a [usize],
    /// The elements, row-major, little endian; the address has no particular alignment.
    pub data: &'a [u8],
}

/// One mapped safetensors file.
#[derive(Debug)]
pub struct SafetensorsFile {
    name: String,
    mapping: Mapping,
    header: Header,
}

impl SafetensorsFile {
    /// Maps a file and checks its header; tensor data is not touched.
    ///
    /// # Errors
    /// The file cannot be read, or its header has a fault.
    pub fn open(path: impl AsRef<Path>) -> Result<SafetensorsFile> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let mapping = Mapping::open(path)?;
        let header = header::parse(&mapping, mapping.len() as u64)
            .map_err(|fault| Error::Safetensors { file: name.clone(), fault })?;
        Ok(SafetensorsFile { name, mapping, header })
    }

    /// The file as it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the header says of every tensor, in the order of their data.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.header.tensors
    }

    /// The tensor of a name, spelt as in the file.
    pub fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        self.header.tensors.iter().find(|info| info.name == name).map(|info| self.view(info))
    }

    /// The tensor at a place in [`tensors`](Self::tensors).
    fn view<'a>(&'a self, info: &'a TensorInfo) -> TensorView<'a> {
        let start = self.header.data_start;
        // The header was checked against the file, so the range lies inside.
        let data = self.mapping.get(start + info.begin..start + info.end).unwrap_or(&[]);
        TensorView { dtype: info.dtype, shape: &info.shape, data }
    }
}

/// All tensors of a model.
#[derive(Debug)]
pub struct Checkpoint {
    source: String,
    files: Vec<SafetensorsFile>,
    /// Name without a leading `model.` → file and place in it.
    places: BTreeMap<String, (usize, usize)>,
}

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

impl Checkpoint {
    /// Opens the checkpoint of a model folder: the shards of `model.safetensors.index.json`, or `model.safetensors`.
    ///
    /// # Errors
    /// There is none, a file is damaged, a name occurs twice, or index and shards disagree.
    pub fn open(dir: impl AsRef<Path>) -> Result<Checkpoint> {
        let dir = dir.as_ref();
        let index = dir.join(INDEX);
        if index.exists() {
            return open_sharded(dir, &index);
        }
        let single = dir.join(SINGLE);
        if !single.exists() {
            let message = format!("neither {INDEX} nor {SINGLE} exists in this folder{}", stray_shards(dir));
            return Err(Error::Index { file: dir.display().to_string(), message });
        }
        Checkpoint::gather(single.display().to_string(), vec![SafetensorsFile::open(&single)?])
    }

    fn gather(source: String, files: Vec<SafetensorsFile>) -> Result<Checkpoint> {
        let mut places: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for (f, file) in files.iter().enumerate() {
            for (t, info) in file.tensors().iter().enumerate() {
                let name = bare(&info.name);
                if let Some((other, _)) = places.insert(name.to_owned(), (f, t)) {
                    let message = match &files[other].name {
                        first if *first == file.name => {
                            format!("tensor {name} is stored twice: with and without a leading `model.`")
                        }
                        first => format!("tensor {name} is stored twice: also in {first}"),
                    };
                    return Err(Error::Index { file: file.name.clone(), message });
                }
            }
        }
        Ok(Checkpoint { source, files, places })
    }

    /// The index or file that the checkpoint was opened from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The files, in the order of their names.
    pub fn files(&self) -> &[SafetensorsFile] {
        &self.files
    }

    /// The tensor of a name, spelt without a leading `model.`.
    pub fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let &(file, at) = self.places.get(name)?;
        let file = self.files.get(file)?;
        Some(file.view(file.tensors().get(at)?))
    }

    /// What the headers say of every tensor, by ascending name (without a leading `model.`).
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.places.iter().map(|(name, &(file, at))| (name.as_str(), &self.files[file].header.tensors[at]))
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of all tensors, headers excluded.
    pub fn total_bytes(&self) -> u64 {
        self.tensors().map(|(_, info)| (info.end - info.begin) as u64).sum()
    }
}

fn bare(name: &str) -> &str {
    name.strip_prefix("model.").unwrap_or(name)
}

/// Says so if a folder without an index holds shards.
fn stray_shards(dir: &Path) -> String {
    let mut names: Vec<String> = fs::read_dir(dir)
        .map(|entries| {
            entries
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|name| name.ends_with(".safetensors"))
                .collect()
        })
        .unwrap_or_default();
    names.sort_unstable();
    match names.first() {
        Some(name) => format!(" (it holds {name}: shards need their index)"),
        None => String::new(),
    }
}

fn open_sharded(dir: &Path, path: &Path) -> Result<Checkpoint> {
    let source = path.display().to_string();
    let fault = |message: String| Error::Index { file: source.clone(), message };
    let json = Json::parse(&read_text(path)?, &source)?;
    let index = Index::read(&json).map_err(fault)?;

    let mut shards: Vec<&str> = index.places.iter().map(|(_, shard)| *shard).collect();
    shards.sort_unstable();
    shards.dedup();
    let mut files = Vec::with_capacity(shards.len());
    for shard in &shards {
        let path = dir.join(shard);
        if !path.exists() {
            let named = index.places.iter().filter(|(_, other)| other == shard).count();
            return Err(fault(format!("names shard {shard} for {named} tensors, but there is no such file")));
        }
        files.push(SafetensorsFile::open(&path)?);
    }
    let checkpoint = Checkpoint::gather(source.clone(), files)?;
    index.compare(&checkpoint, &shards).map_err(fault)?;
    Ok(checkpoint)
}

/// The content of a `model.safetensors.index.json`.
struct Index<'a> {
    /// Tensor name as written → shard.
    places: Vec<(&'a str, &'a str)>,
    total_size: Option<u64>,
}

impl<'a> Index<'a> {
    fn read(json: &'a Json) -> Result<Index<'a>, String> {
        let top = json.as_object().ok_or_else(|| format!("expected an object, got {}", json.describe()))?;
        let member = |name: &str| top.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        let map = member("weight_map").and_then(Json::as_object);
        let map = map.ok_or("weight_map is missing or no object; expected tensor names with their files")?;
        if let Some(name) = repeated_key(map).or_else(|| repeated_key(top)) {
            return Err(format!("{name} is listed twice"));
        }
        let mut places = Vec::with_capacity(map.len());
        for (name, shard) in map {
            let file = shard.as_str().filter(|file| {
                file.ends_with(".safetensors") && !file.contains(['/', '\\', '\0']) && !file.starts_with('.')
            });
            let file = file.ok_or_else(|| {
                format!(
                    "tensor {name}: expected the name of a .safetensors file beside the index, got {}",
                    shard.describe()
                )
            })?;
            places.push((name.as_str(), file));
        }
        let metadata = member("metadata").and_then(Json::as_object).unwrap_or(&[]);
        let total_size = match metadata.iter().find(|(key, _)| key == "total_size") {
            None => None,
            Some((_, value)) => match value.as_f64() {
                // Some writers store it as a float.
                Some(size) if size >= 0.0 => Some(value.as_u64().unwrap_or(size as u64)),
                _ => {
                    return Err(format!(
                        "metadata.total_size: expected a number of bytes, got {}",
                        value.describe()
                    ));
                }
            },
        };
        Ok(Index { places, total_size })
    }

    /// Index and shards must name the same tensors in the same files.
    fn compare(&self, checkpoint: &Checkpoint, shards: &[&str]) -> Result<(), String> {
        let mut named = BTreeMap::new();
        for &(name, shard) in &self.places {
            let Some(&(file, _)) = checkpoint.places.get(bare(name)) else {
                return Err(format!("names tensor {name} in {shard}, but the file does not hold it"));
            };
            if shards[file] != shard {
                return Err(format!("names tensor {name} in {shard}, but it is in {}", shards[file]));
            }
            if named.insert(bare(name), shard).is_some() {
                return Err(format!("{name} is listed twice: with and without a leading `model.`"));
            }
        }
        if let Some((name, (file, _))) =
            checkpoint.places.iter().find(|(name, _)| !named.contains_key(name.as_str()))
        {
            return Err(format!("does not name tensor {name}, which {} holds", shards[*file]));
        }
        match self.total_size {
            Some(size) if size != checkpoint.total_bytes() => Err(format!(
                "metadata.total_size is {size}, but the shards hold {} bytes of tensors",
                checkpoint.total_bytes()
            )),
            _ => Ok(()),
        }
    }
}
