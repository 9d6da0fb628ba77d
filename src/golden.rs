//! The tensors of the golden data, computed by an engine: logits, streams, selections, routes, drafts of a prompt.

use crate::compile::{self, STEP, TRACE};
use crate::error::{Error, Result};
use crate::load::ModelFolder;
use crate::tensors::{self, Tensors, Values};
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;
use std::path::Path;
use tessera_ir::Verified;
use tessera_ir::graph::Module;
use tessera_ir::graph::interp::{Data, Tensor};
use tessera_ir::num::bf16;
use tessera_model::Config;
use tessera_model::graph::Mode;
use tessera_model::oracle::Oracle;
use tessera_model::rows::{Capacity, Wanted, replay_floor};
use tessera_model::weights::DecodedWeights;
use tessera_runtime::{Engine, Feed, OutputValues};

/// Forced tokens that follow a prompt with bounded replay, as in the golden data.
pub const AFTER_REPLAY: usize = 4;

/// What to compute.
#[derive(Clone, Debug, Default)]
pub struct Ask<'a> {
    /// Prompt.
    pub tokens: &'a [u32],
    /// Tokens fed one at a time after it.
    pub force: &'a [u32],
    /// Also draft before each forced token.
    pub draft: bool,
    /// Also run the prompt anew with the decoder half on its last rows only, and the first [`AFTER_REPLAY`] forced
    /// tokens after it.
    pub replay: Option<usize>,
    /// Rows of a prefill chunk; at least 1.
    pub chunk: usize,
    /// `hidden.N` and `pre.N` of every prompt row: the inputs of block N + 1.
    pub teacher: Option<Tensors>,
}

/// Something that runs one sequence: the oracle or an engine.
pub trait Runner {
    /// Begins the sequence anew.
    fn begin(&mut self) -> Result<()>;
    /// Feeds rows of the prompt and gives logits and inner values of all of them; `teacher` holds further inputs.
    fn trace(&mut self, tokens: &[u32], teacher: Tensors) -> Result<Tensors>;
    /// Feeds one token and gives its logits.
    fn step(&mut self, token: u32) -> Result<Tensor>;
    /// Feeds rows of a prompt of `len` tokens of which the last `keep` are kept, and gives the logits of kept rows.
    fn replay(&mut self, tokens: &[u32], len: usize, keep: usize) -> Result<Tensor>;
    /// Drafts after a token that was chosen but not fed: `tokens`, `logits`, `conf`.
    fn draft(&mut self, token: u32) -> Result<Tensors>;
}

/// Computes what is asked for, under the golden keys without their mode. `progress` is told the prompt and forced
/// tokens done so far and may stop the work, which then gives `None`.
///
/// # Errors
/// The runner refuses a step, or gives an output under an unexpected type.
pub fn collect(
    config: &Config,
    ask: &Ask<'_>,
    runner: &mut dyn Runner,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Option<Tensors>> {
    let mut out = Tensors::new();
    let mut done = 0;
    let mut advance = |tokens: usize| {
        done += tokens;
        progress(done).is_break()
    };
    runner.begin()?;
    let mut at = 0;
    for piece in ask.tokens.chunks(ask.chunk.max(1)) {
        let teacher = ask
            .teacher
            .iter()
            .flatten()
            .map(|(name, tensor)| Ok((format!("teacher.{name}"), rows_of(tensor, at, piece.len())?)));
        let teacher = teacher.collect::<Result<Tensors>>()?;
        for (name, tensor) in runner.trace(piece, teacher)? {
            append(&mut out, format!("prefill.{name}"), tensor)?;
        }
        at += piece.len();
        if advance(piece.len()) {
            return Ok(None);
        }
    }
    stack_hashes(&mut out, config.text.engram_layer_ids.len())?;
    if forced(&mut out, "", ask.force, ask.draft, runner, &mut advance)?.is_break() {
        return Ok(None);
    }
    if let Some(keep) = ask.replay {
        runner.begin()?;
        for piece in ask.tokens.chunks(ask.chunk.max(1)) {
            let logits = runner.replay(piece, ask.tokens.len(), keep)?;
            append(&mut out, "compact.prefill.logits".to_owned(), logits)?;
            if advance(piece.len()) {
                return Ok(None);
            }
        }
        let force = &ask.force[..ask.force.len().min(AFTER_REPLAY)];
        if forced(&mut out, "compact.", force, ask.draft, runner, &mut advance)?.is_break() {
            return Ok(None);
        }
    }
    Ok(Some(out))
}

/// Feeds `tokens` one at a time, a draft before each if asked for.
fn forced(
    out: &mut Tensors,
    prefix: &str,
    tokens: &[u32],
    draft: bool,
    runner: &mut dyn Runner,
    advance: &mut dyn FnMut(usize) -> bool,
) -> Result<ControlFlow<()>> {
    for &token in tokens {
        if draft {
            for (name, mut tensor) in runner.draft(token)? {
                // One block: [B, …] becomes [1, B, …]; a confidence is one number a row.
                if name == "conf" {
                    tensor.shape.truncate(1);
                }
                tensor.shape.insert(0, 1);
                append(out, format!("{prefix}draft.{name}"), tensor)?;
            }
        }
        append(out, format!("{prefix}decode.logits"), runner.step(token)?)?;
        if advance(1) {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Tokens that [`collect`] will report as done at its end.
pub fn work(ask: &Ask<'_>) -> usize {
    let replayed = ask.tokens.len() + ask.force.len().min(AFTER_REPLAY);
    ask.tokens.len() + ask.force.len() + ask.replay.map_or(0, |_| replayed)
}

/// Appends rows to the tensor of a name.
fn append(out: &mut Tensors, name: String, tensor: Tensor) -> Result<()> {
    match out.entry(name) {
        Entry::Vacant(place) => {
            place.insert(tensor);
        }
        Entry::Occupied(mut place) => {
            let name = place.key().clone();
            let all = place.get_mut();
            let rows = tensor.shape.first().copied().unwrap_or(0);
            if let Some(first) = all.shape.first_mut() {
                *first += rows;
            }
            match (&mut all.data, tensor.data) {
                (Data::F32(all), Data::F32(more)) => all.extend(more),
                (Data::I32(all), Data::I32(more)) => all.extend(more),
                (Data::I64(all), Data::I64(more)) => all.extend(more),
                (all, more) => {
                    let message = format!("output {name} is {} and then {}", all.kind(), more.kind());
                    return Err(Error::Request(message));
                }
            }
        }
    }
    Ok(())
}

/// `engram_hash.I [T, columns]` of the Engram layers become `engram_hash [T, layers, columns]`.
fn stack_hashes(out: &mut Tensors, layers: usize) -> Result<()> {
    let parts: Vec<Tensor> =
        (0..layers).filter_map(|i| out.remove(&format!("prefill.engram_hash.{i}"))).collect();
    let Some([rows, columns]) = parts.first().and_then(|p| p.shape.first_chunk::<2>()).copied() else {
        return Ok(());
    };
    let mut all = Vec::with_capacity(rows * parts.len() * columns);
    for row in 0..rows {
        for part in &parts {
            let values = part.longs().and_then(|v| v.get(row * columns..(row + 1) * columns));
            all.extend(values.ok_or_else(|| Error::Request("Engram hashes are no integers".to_owned()))?);
        }
    }
    out.insert("prefill.engram_hash".to_owned(), Tensor::i64([rows, parts.len(), columns], all));
    Ok(())
}

/// Rows `at..at + count` of a tensor of reals.
fn rows_of(tensor: &Tensor, at: usize, count: usize) -> Result<Tensor> {
    let width: usize = tensor.shape.iter().skip(1).product();
    let values = tensor.reals().and_then(|v| v.get(at * width..(at + count) * width));
    let values = values.ok_or_else(|| Error::Request("a teacher's tensor is too short".to_owned()))?;
    let mut shape = tensor.shape.clone();
    if let Some(rows) = shape.first_mut() {
        *rows = count;
    }
    Ok(Tensor::f32(shape, values.to_vec()))
}

/// Reads a teacher's `hidden.N` and `pre.N` for every layer but the last, for a prompt of `rows` tokens. In the file
/// they may be called so, or have `prefill.`, `MODE.prefill.` or `MODE.….prefill.` in front.
///
/// # Errors
/// The file cannot be read, or a tensor is missing, ambiguous or of another shape.
pub fn teacher(path: &Path, config: &Config, mode: Mode, rows: usize) -> Result<Tensors> {
    let file = tensors::open(path)?;
    let text = &config.text;
    let fault = |message: String| Error::Request(format!("{}: {message}", path.display()));
    let probe = "hidden.0";
    let mode = mode.name();
    let exact = [String::new(), "prefill.".to_owned(), format!("{mode}.prefill.")];
    let prefix = match exact.iter().find(|prefix| file.tensor(&format!("{prefix}{probe}")).is_some()) {
        Some(prefix) => prefix.clone(),
        None => {
            let nested = file.tensors().iter().filter_map(|info| {
                let prefix = info.name.strip_suffix(probe)?;
                (prefix.starts_with(&format!("{mode}.")) && prefix.ends_with(".prefill.")).then_some(prefix)
            });
            match nested.collect::<Vec<_>>().as_slice() {
                [one] => (*one).to_owned(),
                [] => return Err(fault(format!("has no tensor prefill.{probe} or {mode}.prefill.{probe}"))),
                many => {
                    return Err(fault(format!("several prompts could be the teacher: {}", many.join(", "))));
                }
            }
        }
    };
    let mut out = Tensors::new();
    for layer in 0..text.num_hidden_layers.saturating_sub(1) {
        let wanted = [
            (format!("hidden.{layer}"), vec![rows, text.hc_mult, text.hidden_size]),
            (format!("pre.{layer}"), vec![rows, text.hc_mult]),
        ];
        for (name, shape) in wanted {
            let full = format!("{prefix}{name}");
            let view = file.tensor(&full).ok_or_else(|| fault(format!("has no tensor {full}")))?;
            if view.shape != shape {
                return Err(fault(format!(
                    "tensor {full} is {:?}, expected {shape:?} for a prompt of {rows} tokens",
                    view.shape
                )));
            }
            match tensors::values(&view) {
                Values::Reals(values) => {
                    out.insert(name, Tensor::f32(shape, values.into_iter().map(|v| v as f32).collect()));
                }
                Values::Ints(_) => {
                    return Err(fault(format!("tensor {full} holds integers, expected reals")));
                }
            }
        }
    }
    Ok(out)
}

/// The oracle as a runner.
pub struct OracleRunner<'a> {
    config: &'a Config,
    weights: &'a DecodedWeights<'a>,
    capacity: Capacity,
    modules: Vec<(&'static str, Verified<Module>)>,
    oracle: Oracle<'a>,
}

impl<'a> OracleRunner<'a> {
    /// A sequence of up to `tokens` tokens, at most `rows` of them in one step.
    ///
    /// # Errors
    /// A module cannot be built, or a state is too large.
    pub fn new(
        folder: &'a ModelFolder,
        weights: &'a DecodedWeights<'a>,
        build: compile::Build,
        tokens: usize,
        rows: usize,
    ) -> Result<Self> {
        let config = &folder.config;
        let modules = compile::modules(config, &folder.topology, build)?;
        let capacity = Capacity { slots: 1, tokens, rows };
        let oracle = Oracle::new(config, weights, module(&modules, STEP)?, capacity)?;
        Ok(OracleRunner { config, weights, capacity, modules, oracle })
    }
}

fn module<'m>(modules: &'m [(&'static str, Verified<Module>)], name: &str) -> Result<&'m Verified<Module>> {
    let found = modules.iter().find(|(n, _)| *n == name).map(|(_, module)| module);
    found.ok_or_else(|| Error::Request(format!("the program `{name}` was not built")))
}

fn logits(mut outputs: Tensors) -> Result<Tensor> {
    outputs.remove("logits").ok_or_else(|| Error::Request("a step gave no logits".to_owned()))
}

impl Runner for OracleRunner<'_> {
    fn begin(&mut self) -> Result<()> {
        self.oracle = Oracle::new(self.config, self.weights, module(&self.modules, STEP)?, self.capacity)?;
        Ok(())
    }
    fn trace(&mut self, tokens: &[u32], teacher: Tensors) -> Result<Tensors> {
        Ok(self.oracle.feed(module(&self.modules, TRACE)?, tokens, Wanted::All, teacher)?)
    }
    fn step(&mut self, token: u32) -> Result<Tensor> {
        logits(self.oracle.feed(module(&self.modules, STEP)?, &[token], Wanted::Last, Tensors::new())?)
    }
    fn replay(&mut self, tokens: &[u32], len: usize, keep: usize) -> Result<Tensor> {
        let replay = module(&self.modules, compile::REPLAY)?;
        logits(self.oracle.feed_replayed(replay, tokens, Wanted::All, (len, keep))?)
    }
    fn draft(&mut self, token: u32) -> Result<Tensors> {
        Ok(self.oracle.draft(module(&self.modules, compile::DRAFT)?, token)?)
    }
}

/// Slot 0 of an engine as a runner.
pub struct EngineRunner(pub Engine);

impl EngineRunner {
    fn feed(&mut self, tokens: &[u32], logits: Wanted) -> Result<()> {
        Ok(self.0.feed(&[Feed { slot: 0, tokens, logits }])?)
    }
}

/// An output of an engine by value, bf16 widened.
fn owned(output: tessera_runtime::Output<'_>) -> Tensor {
    let shape = output.shape;
    match output.values {
        OutputValues::F32(v) => Tensor::f32(shape, v.to_vec()),
        OutputValues::Bf16(v) => Tensor::f32(shape, v.iter().map(|b| bf16::from_bits(*b)).collect()),
        OutputValues::I32(v) => Tensor::i32(shape, v.to_vec()),
        OutputValues::I64(v) => Tensor::i64(shape, v.to_vec()),
    }
}

impl Runner for EngineRunner {
    fn begin(&mut self) -> Result<()> {
        self.0.reset(0);
        Ok(())
    }
    fn trace(&mut self, tokens: &[u32], teacher: Tensors) -> Result<Tensors> {
        self.0.select(TRACE)?;
        for (name, tensor) in &teacher {
            self.0.write_f32(name, tensor.reals().unwrap_or_default())?;
        }
        self.feed(tokens, Wanted::All)?;
        let names = self.0.output_names();
        names.into_iter().map(|name| Ok((name.clone(), owned(self.0.output(&name)?)))).collect()
    }
    fn step(&mut self, token: u32) -> Result<Tensor> {
        self.0.select(STEP)?;
        self.feed(&[token], Wanted::Last)?;
        Ok(owned(self.0.output("logits")?))
    }
    fn replay(&mut self, tokens: &[u32], len: usize, keep: usize) -> Result<Tensor> {
        let feed = Feed { slot: 0, tokens, logits: Wanted::All };
        self.0.feed_replay(&feed, replay_floor(len, keep))?;
        let vocabulary = self.0.config().text.vocab_size;
        let logits = self.0.replay_logits()?;
        Ok(Tensor::f32([logits.len() / vocabulary, vocabulary], logits.to_vec()))
    }
    fn draft(&mut self, token: u32) -> Result<Tensors> {
        self.0.draft(&[(0, token)])?;
        let names = ["tokens", "logits", "conf"];
        names.into_iter().map(|name| Ok((name.to_owned(), owned(self.0.draft_output(name)?)))).collect()
    }
}
