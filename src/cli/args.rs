//! Options that several commands share.

use crate::cli::failure::Failure;
use crate::cli::output;
use clap::Args;
use std::path::PathBuf;
use tessera::load::{ModelFolder, default_model};
use tessera::model::ConfigOptions;
use tessera::model::graph::Mode;
use tessera::{Session, compile::Build};

/// Which model.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Model folder with config.json and model.safetensors; the small model of the repository if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
    /// Ignore this unknown key of config.json; may be repeated
    #[arg(long, value_name = "KEY")]
    pub(crate) accept_config: Vec<String>,
}

impl ModelArgs {
    /// Opens and checks the folder; notes go to standard error.
    pub(crate) fn open(&self) -> Result<ModelFolder, Failure> {
        let path = match &self.model {
            Some(path) => path.clone(),
            None => default_model()?,
        };
        let folder = ModelFolder::open(path, &ConfigOptions { accept: self.accept_config.clone() })?;
        for key in &self.accept_config {
            let ignored = |path: &String| path == key || path.rsplit('.').next() == Some(key);
            if !folder.config.accepted.iter().any(ignored) {
                return Err(Failure::Input(format!(
                    "--accept-config {key}: the configuration has no unknown key of this name; leave the option out"
                )));
            }
        }
        for note in folder.notes() {
            output::note(&note);
        }
        Ok(folder)
    }
}

/// Names of the numeric modes.
pub(crate) fn mode(text: &str) -> Result<Mode, String> {
    Mode::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Mode::ALL.iter().map(|mode| mode.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Most threads that anyone asks for.
const THREADS: usize = 1024;

/// A number of threads.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    let n = super::positive(text)?;
    if n > THREADS { Err(format!("at most {THREADS} threads are supported")) } else { Ok(n) }
}

/// Refuses devices other than the processor: real ones as absent, unknown ones as wrong.
pub(crate) fn check_device(device: &str) -> Result<(), Failure> {
    let (kind, which) = device.split_once(':').map_or((device, None), |(kind, which)| (kind, Some(which)));
    let number = |which: &str| !which.is_empty() && which.bytes().all(|b| b.is_ascii_digit());
    match (kind, which) {
        ("cpu", None) => Ok(()),
        ("cuda" | "ascend", None) => Err(absent(device)),
        ("cuda" | "ascend", Some(which)) if which == "emulated" || number(which) => Err(absent(device)),
        _ => Err(Failure::Input(format!(
            "unknown device `{device}`; devices are cpu, cuda[:N], ascend[:N], cuda:emulated and ascend:emulated"
        ))),
    }
}

fn absent(device: &str) -> Failure {
    Failure::Absent(format!(
        "device `{device}` is not available: this version runs on `cpu` only; use --device cpu"
    ))
}

/// Compiles a model and loads its weights behind a progress bar.
pub(crate) fn session(folder: ModelFolder, build: Build) -> Result<Session, Failure> {
    let bar = output::bar("weights", 0);
    let session = Session::open(folder, build, &mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    Ok(session?)
}
