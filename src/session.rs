//! A model folder compiled and loaded: engines of any size are made from it.

use crate::compile::{self, Build};
use crate::error::{Error, Result};
use crate::load::ModelFolder;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tessera_model::Config;
use tessera_runtime::micro::Isa;
use tessera_runtime::{Code, Engine, EngineOptions, Loaded, Weights};

/// A model ready for engines: code and weights are shared by all of them.
#[derive(Debug)]
pub struct Session {
    /// The folder.
    pub folder: ModelFolder,
    /// What was compiled.
    pub build: Build,
    /// Code and weights.
    pub loaded: Arc<Loaded>,
    /// Time that compiling took.
    pub compile_time: Duration,
    /// Time that loading the weights took.
    pub load_time: Duration,
}

/// How much an engine of [`Session::engine`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Threads, at least 1.
    pub threads: usize,
    /// Sequences.
    pub slots: usize,
    /// Tokens of the longest sequence.
    pub context: usize,
    /// Rows of a step at most.
    pub rows: usize,
    /// Whether every row may want logits, or one a sequence only.
    pub all_logits: bool,
}

impl Session {
    /// Compiles the programs of `build` and loads the weights. `progress` is told how many of how many weights are
    /// ready.
    ///
    /// # Errors
    /// The model cannot be compiled, or a weight cannot be brought into a kernel's layout.
    pub fn open(
        folder: ModelFolder,
        build: Build,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Session> {
        let start = Instant::now();
        let artifact = compile::artifact(&folder.config, &folder.topology, build)?;
        let code = Code::load(&artifact, Isa::detect())?;
        let compile_time = start.elapsed();
        let start = Instant::now();
        let token_map = folder.token_map_weight()?;
        let weights = Weights::load(&artifact, folder.checkpoint.clone(), &token_map, progress)?;
        let load_time = start.elapsed();
        let loaded = Arc::new(Loaded { artifact, code, weights });
        Ok(Session { folder, build, loaded, compile_time, load_time })
    }

    /// An engine with memory for `size`.
    ///
    /// # Errors
    /// The context exceeds the model's positions, or memory is refused.
    pub fn engine(&self, size: Size) -> Result<Engine> {
        check_context(&self.folder.config, size.context)?;
        let options = EngineOptions {
            threads: size.threads,
            slots: size.slots,
            context: size.context,
            rows: size.rows,
            logit_rows: if size.all_logits { size.rows } else { size.slots },
            draft: self.build.draft,
        };
        Ok(Engine::new(self.loaded.clone(), self.folder.config.clone(), options)?)
    }
}

/// Refuses sequences that are longer than the model has positions.
///
/// # Errors
/// Names both numbers.
pub fn check_context(config: &Config, tokens: usize) -> Result<()> {
    let most = config.text.max_position_embeddings;
    if tokens > most {
        return Err(Error::Request(format!(
            "{tokens} tokens are more than the model has positions (max_position_embeddings = {most}); shorten the prompt"
        )));
    }
    Ok(())
}

/// Threads to use where nobody says how many: those of this machine.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
