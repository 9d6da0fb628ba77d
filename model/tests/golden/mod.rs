//! Models and golden files of the repository, and how values are compared with them.

mod chunking;
mod ulp;

use std::collections::BTreeMap;
use std::path::PathBuf;

use tessera_ir::Verified;
use tessera_ir::graph::interp::{Data, Tensor};
use tessera_ir::graph::{Module, verify};
use tessera_model::checkpoint::{Dtype, SafetensorsFile};
use tessera_model::engram::TokenMap;
use tessera_model::graph::{self, BuildOptions, Mode};
use tessera_model::oracle::Outputs;
use tessera_model::weights::DecodedWeights;
use tessera_model::{Checkpoint, Config, ConfigOptions, Topology};
pub(crate) use ulp::OneUlp;

/// A model with its golden data.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) topology: Topology,
    pub(crate) golden: Golden,
    pub(crate) json: serde_json::Value,
    checkpoint: Checkpoint,
    token_map: TokenMap,
}

/// A prompt of `tiny-v41` with its runs by mode.
pub(crate) struct Prompt {
    pub(crate) ids: Vec<u32>,
    pub(crate) modes: BTreeMap<&'static str, Run>,
}

/// A golden greedy run.
pub(crate) struct Run {
    pub(crate) greedy: Vec<u32>,
    pub(crate) margin: Vec<f64>,
    pub(crate) noise: Vec<f64>,
    /// Drafts by the position of the token they follow.
    pub(crate) drafts: BTreeMap<usize, Draft>,
}

/// A golden draft of the trained model.
pub(crate) struct Draft {
    pub(crate) tokens: Vec<u32>,
    pub(crate) margins: Vec<f64>,
    pub(crate) confidence: Vec<f64>,
}

impl Setup {
    /// Folders are given from the root of the repository.
    pub(crate) fn open(model: &str, golden: &str) -> Setup {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let (model, golden) = (root.join(model), root.join(golden));
        let config = Config::from_dir(&model, &ConfigOptions::default()).unwrap();
        let json = std::fs::read_to_string(golden.join("golden.json")).unwrap();
        Setup {
            topology: Topology::derive(&config),
            golden: Golden(SafetensorsFile::open(golden.join("golden.safetensors")).unwrap()),
            json: serde_json::from_str(&json).unwrap(),
            checkpoint: Checkpoint::open(&model).unwrap(),
            token_map: TokenMap::of_model(&model, &config, None).unwrap(),
            config,
        }
    }
    pub(crate) fn weights(&self) -> DecodedWeights<'_> {
        DecodedWeights::new(&self.config, &self.checkpoint, &self.token_map).unwrap()
    }
    pub(crate) fn step(&self, options: BuildOptions) -> Verified<Module> {
        verify(graph::step(&self.config, &self.topology, options)).unwrap()
    }
    pub(crate) fn draft(&self, mode: Mode) -> Verified<Module> {
        verify(graph::draft(&self.config, &self.topology, mode)).unwrap()
    }
    /// A list of token ids of `golden.json`.
    pub(crate) fn list(&self, key: &str) -> Vec<u32> {
        tokens(&self.json[key])
    }
    /// The prompts of `tiny-v41`.
    pub(crate) fn prompts(&self) -> Vec<Prompt> {
        let prompts = self.json["prompts"].as_array().unwrap().iter();
        let prompt = |p: &serde_json::Value| Prompt {
            ids: tokens(&p["ids"]),
            modes: ["ref", "f32"].map(|mode| (mode, run(&p["modes"][mode]))).into(),
        };
        prompts.map(prompt).collect()
    }
}

fn run(json: &serde_json::Value) -> Run {
    let draft = |step: &serde_json::Value| {
        let draft = Draft {
            tokens: tokens(&step["drafts"]),
            margins: numbers(&step["draft_margins"]),
            confidence: numbers(&step["confidence"]),
        };
        (step["position"].as_u64().unwrap() as usize, draft)
    };
    Run {
        greedy: tokens(&json["greedy"]),
        margin: numbers(&json["margin"]),
        noise: numbers(&json["noise"]),
        drafts: json["steps"].as_array().unwrap().iter().map(draft).collect(),
    }
}

pub(crate) fn tokens(v: &serde_json::Value) -> Vec<u32> {
    numbers(v).into_iter().map(|v| v as u32).collect()
}

fn numbers(v: &serde_json::Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// A golden safetensors file.
pub(crate) struct Golden(SafetensorsFile);

impl Golden {
    /// A file, given from the root of the repository.
    pub(crate) fn open(path: &str) -> Golden {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        Golden(SafetensorsFile::open(root.join(path)).unwrap())
    }
    /// A tensor of reals, stored as bf16 where that is exact.
    pub(crate) fn reals(&self, key: &str) -> Vec<f32> {
        let view = self.0.tensor(key).unwrap_or_else(|| panic!("no {key}"));
        match view.dtype {
            Dtype::F32 => words(view.data).map(f32::from_le_bytes).collect(),
            Dtype::Bf16 => {
                let wide = |b: [u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16);
                words(view.data).map(wide).collect()
            }
            other => panic!("{key} is {}", other.name()),
        }
    }
    /// A tensor of integers.
    pub(crate) fn ints(&self, key: &str) -> Vec<i64> {
        let view = self.0.tensor(key).unwrap_or_else(|| panic!("no {key}"));
        match view.dtype {
            Dtype::I32 => words(view.data).map(|b| i32::from_le_bytes(b).into()).collect(),
            Dtype::I64 => words(view.data).map(i64::from_le_bytes).collect(),
            other => panic!("{key} is {}", other.name()),
        }
    }
}

fn words<const N: usize>(data: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    data.chunks_exact(N).map(|b| b.try_into().unwrap())
}

/// The reals of a tensor.
pub(crate) fn reals(tensor: &Tensor) -> &[f32] {
    tensor.reals().unwrap()
}

/// The integers of a tensor.
pub(crate) fn ints(tensor: &Tensor) -> Vec<i64> {
    match &tensor.data {
        Data::I32(v) => v.iter().map(|&v| v.into()).collect(),
        Data::I64(v) => v.clone(),
        Data::F32(_) => panic!("a tensor of reals"),
    }
}

/// The integers of a tensor, row by row.
pub(crate) fn int_rows(tensor: &Tensor) -> Vec<Vec<i64>> {
    let width = tensor.shape[1..].iter().product();
    ints(tensor).chunks(width).map(<[i64]>::to_vec).collect()
}

/// Largest difference; infinite where the lengths differ or one is NaN.
pub(crate) fn max_abs(a: &[f32], b: &[f32]) -> f32 {
    let worst = |worst: f32, (a, b): (&f32, &f32)| {
        let difference = (a - b).abs();
        if difference.is_nan() { f32::INFINITY } else { worst.max(difference) }
    };
    if a.len() == b.len() { a.iter().zip(b).fold(0.0, worst) } else { f32::INFINITY }
}

/// `‖a − b‖₂ / ‖b‖₂` of the worst row.
pub(crate) fn worst_row(a: &Tensor, b: &[f32]) -> f64 {
    let width: usize = a.shape[1..].iter().product();
    let a = reals(a);
    assert_eq!(a.len(), b.len());
    let square = |v: f32| f64::from(v) * f64::from(v);
    let row = |(a, b): (&[f32], &[f32])| {
        let error: f64 = a.iter().zip(b).map(|(a, b)| square(a - b)).sum();
        let norm: f64 = b.iter().map(|b| square(*b)).sum();
        let relative = (error / norm).sqrt();
        if relative.is_nan() { f64::INFINITY } else { relative }
    };
    a.chunks(width).zip(b.chunks(width)).map(row).fold(0.0, f64::max)
}

/// Index of the largest element, the lowest where several are equal.
pub(crate) fn argmax(row: &[f32]) -> u32 {
    let mut best = 0;
    for (i, v) in row.iter().enumerate() {
        if *v > row[best] {
            best = i;
        }
    }
    best as u32
}

/// Appends the outputs of a step to those of earlier steps, under names that begin with `prefix`.
pub(crate) fn gather(steps: &mut Outputs, prefix: &str, outputs: Outputs) {
    for (name, tensor) in outputs {
        match steps.entry(format!("{prefix}{name}")) {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(tensor);
            }
            std::collections::btree_map::Entry::Occupied(mut place) => {
                let all = place.get_mut();
                all.shape[0] += tensor.shape[0];
                match (&mut all.data, tensor.data) {
                    (Data::F32(all), Data::F32(more)) => all.extend(more),
                    (Data::I32(all), Data::I32(more)) => all.extend(more),
                    (Data::I64(all), Data::I64(more)) => all.extend(more),
                    _ => panic!("{prefix}{name} changes its element type"),
                }
            }
        }
    }
}
