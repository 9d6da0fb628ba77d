//! A model folder: everything in it read and checked before anything runs.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tessera_model::checkpoint::{self, Checkpoint, Report};
use tessera_model::engram::TokenMap;
use tessera_model::weights::DecodedWeights;
use tessera_model::{Config, ConfigOptions, Tokenizer, Topology};

/// The model that ships with the repository, from its root.
const DEFAULT_MODEL: &str = "models/tiny-v41";

/// A checked model folder. Tensor data is mapped, not read.
#[derive(Debug)]
pub struct ModelFolder {
    /// The folder as it was named.
    pub path: PathBuf,
    /// Configuration.
    pub config: Arc<Config>,
    /// Role of every layer.
    pub topology: Topology,
    /// Tensors.
    pub checkpoint: Arc<Checkpoint>,
    /// What the checkpoint holds.
    pub report: Report,
    /// Tokenizer; a folder without `tokenizer.json` takes token ids only.
    pub tokenizer: Option<Tokenizer>,
    /// Engram's compressed id of every token id that has a text.
    pub token_map: TokenMap,
}

impl ModelFolder {
    /// Opens a folder and checks configuration, tokenizer, token map and every tensor's name, shape and type.
    ///
    /// # Errors
    /// The first of the parts that has faults, with all faults of that part.
    pub fn open(path: impl Into<PathBuf>, options: &ConfigOptions) -> Result<ModelFolder> {
        let path = path.into();
        if !path.is_dir() {
            return Err(Error::Request(format!(
                "{} is not a folder; a model folder holds config.json, model.safetensors and, for text, tokenizer.json",
                path.display()
            )));
        }
        let config = Config::from_dir(&path, options)?;
        let topology = Topology::derive(&config);
        let tokenizer = Tokenizer::of_model(&path, &config)?;
        let token_map = TokenMap::of_model(&path, &config, tokenizer.as_ref())?;
        let checkpoint = Checkpoint::open(&path)?;
        let report = checkpoint::check(&checkpoint, &checkpoint::expected_tensors(&config, &topology))?;
        Ok(ModelFolder {
            path,
            config: Arc::new(config),
            topology,
            checkpoint: Arc::new(checkpoint),
            report,
            tokenizer,
            token_map,
        })
    }

    /// The tokenizer, or why there is no text.
    ///
    /// # Errors
    /// The folder has no `tokenizer.json`.
    pub fn text(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| {
            Error::Request(format!(
                "{} has no tokenizer.json, so it takes token ids only; use --tokens 1,2,3",
                self.path.display()
            ))
        })
    }

    /// Engram's compressed id of every id of the vocabulary; ids without a text count as Engram's padding.
    ///
    /// # Errors
    /// The map has no entry for the padding token.
    pub fn token_map_weight(&self) -> Result<Vec<i32>> {
        let text = &self.config.text;
        let pad = self.token_map.get(text.engram_pad_token_id)?;
        let ids = self.token_map.ids().iter().copied().chain(std::iter::repeat(pad));
        Ok(ids.take(text.vocab_size).map(|id| id as i32).collect())
    }

    /// The weights for the oracle, decoded when asked for.
    ///
    /// # Errors
    /// As [`token_map_weight`](Self::token_map_weight).
    pub fn decoded_weights(&self) -> Result<DecodedWeights<'_>> {
        Ok(DecodedWeights::new(&self.config, &self.checkpoint, &self.token_map)?)
    }

    /// What is present and not used, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.report.notes();
        if !self.config.accepted.is_empty() {
            notes.push(format!("config keys accepted and not used: {}", self.config.accepted.join(", ")));
        }
        notes
    }
}

/// The default model: in the working folder, beside or above the executable, or where this program was built.
///
/// # Errors
/// It is in none of these places.
pub fn default_model() -> Result<PathBuf> {
    // `target/release/tessera` lies three folders below the repository.
    let program = std::env::current_exe().unwrap_or_default();
    let above = program.ancestors().skip(1).take(4);
    let roots = [Path::new("")].into_iter().chain(above).chain([Path::new(env!("CARGO_MANIFEST_DIR"))]);
    let mut places = roots.map(|root| root.join(DEFAULT_MODEL));
    places.find(|path| path.is_dir()).ok_or_else(|| {
        Error::Request(format!(
            "the default model {DEFAULT_MODEL} is neither in this folder nor beside the program; \
             run in the repository's root or name a model folder with --model DIR"
        ))
    })
}
