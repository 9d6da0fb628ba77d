//! Golden files, and how values are compared with them.

use serde_json::Value;
use tessera::ir::graph::interp::{Data, Tensor};
use tessera::model::checkpoint::SafetensorsFile;
use tessera::tensors::{self, Tensors, Values};

/// A folder of golden data.
pub(crate) struct Golden {
    pub(crate) json: Value,
    file: SafetensorsFile,
}

impl Golden {
    /// Opens `tests/data/NAME`.
    pub(crate) fn open(name: &str) -> Golden {
        let folder = super::repo("tests/data").join(name);
        let json = std::fs::read_to_string(folder.join("golden.json")).unwrap();
        Golden {
            json: serde_json::from_str(&json).unwrap(),
            file: tensors::open(&folder.join("golden.safetensors")).unwrap(),
        }
    }
    /// A list of token ids of `golden.json`.
    pub(crate) fn list(&self, key: &str) -> Vec<u32> {
        ids(&self.json[key])
    }
    /// Names of the tensors that begin with `prefix`, which is cut off.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        let names = self.file.tensors().iter().filter_map(|info| info.name.strip_prefix(prefix));
        names.map(str::to_owned).collect()
    }
    /// Shape and values of a tensor.
    pub(crate) fn tensor(&self, name: &str) -> (Vec<usize>, Values) {
        let view = self.file.tensor(name).unwrap_or_else(|| panic!("no golden tensor {name}"));
        (view.shape.to_vec(), tensors::values(&view))
    }
    /// Values of a tensor of reals.
    pub(crate) fn reals(&self, name: &str) -> Vec<f64> {
        match self.tensor(name).1 {
            Values::Reals(values) => values,
            Values::Ints(_) => panic!("{name} holds integers"),
        }
    }
}

/// Token ids of a JSON list.
pub(crate) fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|v| u32::try_from(v.as_u64().unwrap()).unwrap()).collect()
}

/// Numbers of a JSON list.
pub(crate) fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// Largest difference of two lists of reals; infinite where one is NaN.
pub(crate) fn max_abs(ours: &[f32], golden: &[f64]) -> f64 {
    assert_eq!(ours.len(), golden.len());
    let difference = |(a, b): (&f32, &f64)| {
        let d = (f64::from(*a) - b).abs();
        if d.is_nan() { f64::INFINITY } else { d }
    };
    ours.iter().zip(golden).map(difference).fold(0.0, f64::max)
}

/// ‖a − b‖₂ / ‖b‖₂ of the worst row.
pub(crate) fn worst_row(ours: &Tensor, golden: &[f64]) -> f64 {
    let width: usize = ours.shape[1..].iter().product();
    let ours = ours.reals().unwrap();
    assert_eq!(ours.len(), golden.len());
    let row = |(a, b): (&[f32], &[f64])| {
        let error: f64 = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum();
        let norm: f64 = b.iter().map(|b| b * b).sum();
        let relative = (error / norm).sqrt();
        if relative.is_nan() { f64::INFINITY } else { relative }
    };
    ours.chunks(width).zip(golden.chunks(width)).map(row).fold(0.0, f64::max)
}

/// What departs from the golden tensors of `prefix` among those that `chosen` names: integers must be equal, reals within
/// `tolerance`. A golden tensor that `ours` lacks departs, too.
pub(crate) fn departures(
    golden: &Golden,
    prefix: &str,
    ours: &Tensors,
    tolerance: f64,
    chosen: impl Fn(&str) -> bool,
) -> Vec<String> {
    let names: Vec<String> = golden.names(prefix).into_iter().filter(|name| chosen(name)).collect();
    assert!(!names.is_empty(), "no golden tensor was chosen");
    let mut out = Vec::new();
    for name in names {
        let (shape, want) = golden.tensor(&format!("{prefix}{name}"));
        let Some(tensor) = ours.get(&name) else {
            out.push(format!("{prefix}{name} is missing"));
            continue;
        };
        if tensor.shape != shape {
            out.push(format!("{prefix}{name} is {:?}, expected {shape:?}", tensor.shape));
            continue;
        }
        match (want, &tensor.data) {
            (Values::Reals(want), Data::F32(have)) => {
                let error = max_abs(have, &want);
                if error > tolerance {
                    out.push(format!("{prefix}{name}: largest difference {error:e}"));
                }
            }
            (Values::Ints(want), data) => {
                let have: Vec<i128> = match data {
                    Data::I32(v) => v.iter().map(|v| i128::from(*v)).collect(),
                    Data::I64(v) => v.iter().map(|v| i128::from(*v)).collect(),
                    Data::F32(_) => Vec::new(),
                };
                if have != want {
                    out.push(format!("{prefix}{name}: integers differ"));
                }
            }
            (Values::Reals(_), Data::I32(_) | Data::I64(_)) => {
                out.push(format!("{prefix}{name} holds integers"))
            }
        }
    }
    out
}
