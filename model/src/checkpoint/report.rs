//! Compares a checkpoint with what its configuration asks for; all disagreements are listed together.

use std::collections::HashMap;
use std::fmt;

use super::{Checkpoint, Dtype, ExpectedTensor, Need};
use crate::error::{Error, Result};

/// What a sound checkpoint holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Tensors that the model uses.
    pub used: usize,
    /// Their bytes.
    pub used_bytes: u64,
    /// Vision tensors that are present and not used.
    pub vision: usize,
    /// Vision tensors that the configuration describes.
    pub vision_described: usize,
    /// Copies of the backbone's embedding and head that are present and skipped.
    pub tied: Vec<String>,
}

impl Report {
    /// What is present and not used, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.vision > 0 {
            notes.push(format!(
                "{} of {} vision tensors are present and not used: only text is supported",
                self.vision, self.vision_described
            ));
        }
        if !self.tied.is_empty() {
            notes.push(format!(
                "{} skipped: the draft stages use the backbone's embedding and head",
                self.tied.join(", ")
            ));
        }
        notes
    }
}

/// How a checkpoint departs from its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TensorFaults {
    /// The checkpoint's index or file.
    pub source: String,
    /// Names that are asked for and not there.
    pub missing: Vec<String>,
    /// Names that are there and mean nothing to this model.
    pub extra: Vec<String>,
    /// Name and what its shape is and should be.
    pub wrong_shape: Vec<String>,
    /// Name and what its type is and should be.
    pub wrong_dtype: Vec<String>,
}

/// Names printed of each kind.
const SHOWN: usize = 20;

impl fmt::Display for TensorFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: the tensors do not match config.json", self.source)?;
        let kinds = [
            ("missing", &self.missing),
            ("extra", &self.extra),
            ("wrong shape", &self.wrong_shape),
            ("wrong dtype", &self.wrong_dtype),
        ];
        for (kind, names) in kinds {
            if names.is_empty() {
                continue;
            }
            write!(f, "\n  {kind} ({}):", names.len())?;
            for name in names.iter().take(SHOWN) {
                write!(f, "\n    {name}")?;
            }
            if names.len() > SHOWN {
                write!(f, "\n    … and {} more", names.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}

/// Compares names, shapes and types; tensor data is not read.
///
/// # Errors
/// Lists every missing, extra, wrongly shaped and wrongly typed tensor by name. Vision tensors may be absent, but
/// those that are there must agree with the configuration too.
pub fn check(checkpoint: &Checkpoint, expected: &[ExpectedTensor]) -> Result<Report> {
    let mut faults = TensorFaults { source: checkpoint.source().to_owned(), ..TensorFaults::default() };
    let vision_described = expected.iter().filter(|tensor| tensor.need == Need::Vision).count();
    let mut report = Report { used: 0, used_bytes: 0, vision: 0, vision_described, tied: Vec::new() };
    let by_name: HashMap<&str, &ExpectedTensor> =
        expected.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    for want in expected {
        let Some(have) = checkpoint.tensor(&want.name) else {
            if want.need == Need::Required {
                faults.missing.push(want.name.clone());
            }
            continue;
        };
        if have.dtype != want.dtype {
            let advice = dtype_advice(have.dtype, want);
            faults
                .wrong_dtype
                .push(format!("{} is {}, expected {}{advice}", want.name, have.dtype, want.dtype));
        }
        if have.shape != want.shape {
            faults.wrong_shape.push(format!("{} is {:?}, expected {:?}", want.name, have.shape, want.shape));
        }
        match want.need {
            Need::Required => {
                report.used += 1;
                report.used_bytes += want.bytes();
            }
            Need::Vision => report.vision += 1,
            Need::Tied => report.tied.push(want.name.clone()),
        }
    }
    let extra = checkpoint.tensors().map(|(name, _)| name).filter(|name| !by_name.contains_key(name));
    faults.extra = extra.map(str::to_owned).collect();
    let sound = [&faults.missing, &faults.extra, &faults.wrong_shape, &faults.wrong_dtype];
    if sound.iter().all(|names| names.is_empty()) {
        Ok(report)
    } else {
        Err(Error::Tensors(Box::new(faults)))
    }
}

/// What to do about a type that other writers use.
fn dtype_advice(have: Dtype, want: &ExpectedTensor) -> &'static str {
    match (want.dtype, have) {
        (Dtype::F8E8M0, Dtype::U8) => {
            " (if the bytes are biased exponents, write them again with dtype F8_E8M0; they are not guessed)"
        }
        (Dtype::F8E8M0, Dtype::F32 | Dtype::Bf16 | Dtype::F16) => {
            " (write each scale 2^n as one byte n + 127 with dtype F8_E8M0)"
        }
        (Dtype::I8, Dtype::U8) => {
            " (packed E2M1 codes are stored as I8: write the same bytes with that dtype)"
        }
        _ => "",
    }
}
