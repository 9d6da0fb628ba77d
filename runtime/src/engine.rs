//! The engine: sequences in slots, fed chunk by chunk, with logits and drafts read back.

use crate::error::{Error, Result};
use crate::instance::{Instance, Loaded, Output};
use std::sync::Arc;
use tessera_ir::Bindings;
use tessera_model::Config;
use tessera_model::rows::{Capacity, Chunk, DraftRows, KeptRows, StepRows, Wanted};

/// Sizes an engine is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Threads, the caller's included; at least 1.
    pub threads: usize,
    /// Sequences that live at the same time.
    pub slots: usize,
    /// Tokens of the longest sequence.
    pub context: usize,
    /// Rows of one step at most; no sequence brings more in one step.
    pub rows: usize,
    /// Rows of one step that want logits at most.
    pub logit_rows: usize,
    /// Whether drafts will be asked for.
    pub draft: bool,
}

/// Tokens to feed to one sequence in one step.
#[derive(Clone, Copy, Debug)]
pub struct Feed<'a> {
    /// Sequence slot.
    pub slot: usize,
    /// Token ids, which continue the sequence.
    pub tokens: &'a [u32],
    /// Rows that want logits.
    pub logits: Wanted,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    len: usize,
    floor: usize,
}

/// A model ready to run.
#[derive(Debug)]
pub struct Engine {
    instance: Instance,
    config: Arc<Config>,
    options: EngineOptions,
    step: usize,
    replay: Option<usize>,
    draft: Option<usize>,
    rows: StepRows,
    kept: KeptRows,
    drafts: DraftRows,
    sequences: Vec<Sequence>,
}

impl Engine {
    /// An engine over `loaded`, with memory for `options`.
    pub fn new(loaded: Arc<Loaded>, config: Arc<Config>, options: EngineOptions) -> Result<Self> {
        if options.threads == 0 || options.slots == 0 || options.rows == 0 {
            return Err(Error::Request("threads, slots and rows of a step must be at least 1".to_owned()));
        }
        let mut limits = Bindings::new();
        Capacity { slots: options.slots, tokens: options.context, rows: options.rows }
            .bind(&config, &mut limits);
        limits.set("T", options.rows).set("L", options.logit_rows).set("K", options.rows);
        limits.set("Q", if options.draft { options.slots } else { 0 });
        let instance = Instance::new(loaded, &limits, options.threads)?;
        let step = instance
            .program("step")
            .ok_or_else(|| Error::Missing { what: "program", name: "step".to_owned() })?;
        Ok(Engine {
            step,
            replay: instance.program("replay"),
            draft: instance.program("draft"),
            instance,
            options,
            rows: StepRows::default(),
            kept: KeptRows::default(),
            drafts: DraftRows::default(),
            sequences: vec![Sequence::default(); options.slots],
            config,
        })
    }
    /// Makes [`Engine::feed`] run `program` from now on: a variant of `step` with the same inputs and states.
    pub fn select(&mut self, program: &str) -> Result<()> {
        let missing = || Error::Missing { what: "program", name: program.to_owned() };
        self.step = self.instance.program(program).ok_or_else(missing)?;
        Ok(())
    }
    /// The options it was made with.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }
    /// The model's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// Memory and threads.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }
    /// Inputs beyond those of a step (teacher forcing) are written here before [`Engine::feed`].
    pub fn write_f32(&mut self, input: &str, values: &[f32]) -> Result<()> {
        self.instance.write_f32(self.step, input, values)
    }
    /// Tokens that sequence `slot` has been fed.
    pub fn len(&self, slot: usize) -> usize {
        self.sequences[slot].len
    }
    /// True if no sequence has been fed anything.
    pub fn is_empty(&self) -> bool {
        self.sequences.iter().all(|s| s.len == 0)
    }
    /// Begins sequence `slot` anew. What its rings and caches hold is never read again.
    pub fn reset(&mut self, slot: usize) {
        self.sequences[slot] = Sequence::default();
    }
    /// Takes back the last tokens of a sequence, so that it is `len` long. Rings hold what the next step reads as long
    /// as no more than the rows of one step are taken back.
    pub fn truncate(&mut self, slot: usize, len: usize) {
        let s = &mut self.sequences[slot];
        s.len = s.len.min(len);
    }

    fn check(&self, feed: &Feed<'_>, rows: usize) -> Result<()> {
        let s = self.sequences.get(feed.slot).ok_or(Error::Limit {
            what: "sequence slot",
            value: feed.slot,
            limit: self.options.slots - 1,
        })?;
        tessera_model::engram::check_tokens(feed.tokens, self.config.text.vocab_size)?;
        let tokens = s.len.saturating_add(feed.tokens.len());
        if tokens > self.options.context {
            return Err(Error::Limit { what: "sequence length", value: tokens, limit: self.options.context });
        }
        if rows > self.options.rows {
            return Err(Error::Limit { what: "rows of a step", value: rows, limit: self.options.rows });
        }
        Ok(())
    }

    /// Runs one step over the tokens of one or more sequences, no slot twice. Logits are then those of the wanted rows,
    /// in the order of `feeds`.
    pub fn feed(&mut self, feeds: &[Feed<'_>]) -> Result<()> {
        self.rows.clear();
        let mut rows = 0;
        for (i, f) in feeds.iter().enumerate() {
            rows += f.tokens.len();
            self.check(f, rows)?;
            if feeds[..i].iter().any(|g| g.slot == f.slot) {
                return Err(Error::Request(format!("slot {} is fed twice in one step", f.slot)));
            }
            let Sequence { len, floor } = self.sequences[f.slot];
            let chunk = Chunk { slot: f.slot, start: len, tokens: f.tokens, floor, logits: f.logits };
            self.rows.push(self.config.text.sliding_window, &chunk);
        }
        let Engine { instance, rows: step_rows, step, .. } = self;
        instance.set("T", step_rows.tokens.len())?;
        instance.set("L", step_rows.logit_rows.len())?;
        for (name, values) in step_rows.inputs() {
            instance.write_i32(*step, name, values)?;
        }
        // SAFETY: tokens are below the vocabulary, slots and positions within the limits (`check`); rows of one sequence
        // are consecutive and the rings are sized for `options.rows` of them (`Capacity`).
        unsafe { instance.run(*step) };
        for f in feeds {
            self.sequences[f.slot].len += f.tokens.len();
        }
        Ok(())
    }

    /// Runs one chunk of a prompt with bounded replay: the decoder half on positions from `floor` on only (V4.1 §5.4).
    pub fn feed_replay(&mut self, feed: &Feed<'_>, floor: usize) -> Result<()> {
        let replay =
            self.replay.ok_or_else(|| Error::Missing { what: "program", name: "replay".to_owned() })?;
        self.check(feed, feed.tokens.len())?;
        self.rows.clear();
        self.kept.clear();
        self.sequences[feed.slot].floor = floor;
        let start = self.sequences[feed.slot].len;
        let chunk = Chunk { slot: feed.slot, start, tokens: feed.tokens, floor, logits: feed.logits };
        self.kept.push(&mut self.rows, self.config.text.sliding_window, &chunk);
        let Engine { instance, rows, kept, .. } = self;
        instance.set("T", rows.tokens.len())?;
        instance.set("L", rows.logit_rows.len())?;
        instance.set("K", kept.rows.len())?;
        for (name, values) in rows.inputs().into_iter().chain(kept.inputs()) {
            instance.write_i32(replay, name, values)?;
        }
        // SAFETY: as in `feed`.
        unsafe { instance.run(replay) };
        self.sequences[feed.slot].len += feed.tokens.len();
        Ok(())
    }

    /// Logits of the last step, `[wanted rows, vocabulary]`.
    pub fn logits(&self) -> Result<&[f32]> {
        self.instance.output_f32(self.step, "logits")
    }
    /// Logits of the last step with replay.
    pub fn replay_logits(&self) -> Result<&[f32]> {
        let replay =
            self.replay.ok_or_else(|| Error::Missing { what: "program", name: "replay".to_owned() })?;
        self.instance.output_f32(replay, "logits")
    }
    /// A named output of the last step.
    pub fn output(&self, name: &str) -> Result<Output<'_>> {
        self.instance.output(self.step, name)
    }
    /// Names of the outputs of a step.
    pub fn output_names(&self) -> Vec<String> {
        self.instance.output_names(self.step).map(str::to_owned).collect()
    }

    /// Drafts the tokens after `token`, which was chosen for sequence `slot` but not fed yet, for each pair; greedy.
    pub fn draft(&mut self, pairs: &[(usize, u32)]) -> Result<()> {
        let draft = self.draft.ok_or_else(|| Error::Missing { what: "program", name: "draft".to_owned() })?;
        self.drafts.clear();
        for &(slot, token) in pairs {
            self.check(&Feed { slot, tokens: &[token], logits: Wanted::None }, 1)?;
            let Sequence { len, floor } = self.sequences[slot];
            if len == 0 {
                return Err(Error::Request(format!("sequence {slot} has no token to draft from")));
            }
            self.drafts.push(&self.config, slot, len, token, floor);
        }
        let Engine { instance, drafts, .. } = self;
        instance.set("Q", pairs.len())?;
        for (name, values) in drafts.inputs() {
            instance.write_i32(draft, name, values)?;
        }
        // SAFETY: as in `feed`; the block's positions only enter rotations, its rows are stored nowhere.
        unsafe { instance.run(draft) };
        Ok(())
    }
    /// An output of the last draft: `tokens`, `logits` or `conf`.
    pub fn draft_output(&self, name: &str) -> Result<Output<'_>> {
        let draft = self.draft.ok_or_else(|| Error::Missing { what: "program", name: "draft".to_owned() })?;
        self.instance.output(draft, name)
    }
}
