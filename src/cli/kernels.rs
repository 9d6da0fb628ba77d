//! Options of the commands that take kernels of a model: which ones, for which machine, rows and knobs.

use crate::cli::failure::Failure;
use clap::Args;
use std::path::PathBuf;
use tessera::generate::{DEFAULT_ROWS, Request, Target};
use tessera::kernels::Family;
use tessera::load::default_model;
use tessera::model::{Config, ConfigOptions, Topology};

/// Which kernels.
#[derive(Debug, Args)]
pub(crate) struct KernelArgs {
    /// Operator families; files where the command takes them
    #[arg(value_name = "FAMILY", required_unless_present = "all")]
    names: Vec<String>,
    /// Every kernel of the model
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Machine: sm_100a or cpu
    #[arg(long, value_name = "T", default_value = "sm_100a")]
    target: String,
    /// Model folder, of which config.json is read; the small model of the repository if not given
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    model: Option<PathBuf>,
    /// A configuration that the program knows, instead of a model folder: released
    #[arg(long, value_name = "NAME", value_parser = ["released"])]
    config: Option<String>,
    /// Ignore this unknown key of config.json; may be repeated
    #[arg(long, value_name = "KEY")]
    accept_config: Vec<String>,
    /// Numbers of rows of a step to choose schedules for [default: 1,6,64,4096]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = crate::cli::positive)]
    rows: Option<Vec<usize>>,
    /// Sizes: n, k, e, h, d, top, streams, groups select kernels; symbols (S, R, C1, …) get these values in launches
    #[arg(long, value_name = "K=V,…", value_delimiter = ',', value_parser = pair)]
    shape: Vec<(String, usize)>,
    /// Values of knobs of the schedules
    #[arg(long, value_name = "KNOB=V,…", value_delimiter = ',', value_parser = pair)]
    set: Vec<(String, usize)>,
}

/// A configuration with the roles of its layers.
pub(crate) struct Model {
    pub(crate) config: Config,
    pub(crate) topology: Topology,
}

impl KernelArgs {
    /// Families and files that are named.
    pub(crate) fn select(&self) -> Result<(Vec<Family>, Vec<PathBuf>), Failure> {
        let (mut families, mut files) = (Vec::new(), Vec::new());
        for name in &self.names {
            if let Some(family) = Family::ALL.into_iter().find(|family| family.name() == name) {
                families.push(family);
            } else if name.contains(['.', '/']) {
                files.push(PathBuf::from(name));
            } else {
                let names: Vec<&str> = Family::ALL.iter().map(|family| family.name()).collect();
                return Err(Failure::Input(format!(
                    "there is no family {name}; families are {}",
                    names.join(", ")
                )));
            }
        }
        Ok((families, files))
    }

    /// True if kernels of a model are meant.
    pub(crate) fn of_model(&self) -> bool {
        self.all || self.names.iter().any(|name| Family::ALL.iter().any(|family| family.name() == name))
    }

    /// Refuses options that say which kernels of a model are meant, where none is.
    pub(crate) fn refuse_options_of_models(&self) -> Result<(), Failure> {
        let given = [
            ("--model", self.model.is_some()),
            ("--config", self.config.is_some()),
            ("--accept-config", !self.accept_config.is_empty()),
            ("--rows", self.rows.is_some()),
            ("--shape", !self.shape.is_empty()),
            ("--set", !self.set.is_empty()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::Input(format!(
                "{option} chooses kernels of a model, and none is asked for; leave it out or name a family"
            ))),
            None => Ok(()),
        }
    }

    /// The target.
    pub(crate) fn target(&self) -> Result<Target, Failure> {
        Ok(Target::named(&self.target)?)
    }

    /// The request for these families.
    pub(crate) fn request(&self, families: Vec<Family>) -> Result<Request, Failure> {
        let target = self.target()?;
        let rows = self.rows.clone().unwrap_or_else(|| DEFAULT_ROWS.to_vec());
        let (shape, set) = (self.shape.clone(), self.set.clone());
        Ok(Request { families, rows, shape, set, ..Request::all(target) })
    }

    /// The configuration. Weights are not looked at.
    pub(crate) fn model(&self) -> Result<Model, Failure> {
        let config = if self.config.is_some() {
            Config::released().map_err(tessera::Error::from)?
        } else {
            let path = match &self.model {
                Some(path) => path.clone(),
                None => default_model()?,
            };
            let options = ConfigOptions { accept: self.accept_config.clone() };
            Config::from_dir(&path, &options).map_err(tessera::Error::from)?
        };
        let topology = Topology::derive(&config);
        Ok(Model { config, topology })
    }
}

/// `name=number`.
pub(crate) fn pair(text: &str) -> Result<(String, usize), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=NUMBER")?;
    let value = value.parse().map_err(|error| format!("{name}: {error}"))?;
    if name.is_empty() { Err("expected NAME=NUMBER".to_owned()) } else { Ok((name.to_owned(), value)) }
}
