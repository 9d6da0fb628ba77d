//! One sequence on the interpreter: the oracle that every engine is compared with, fed chunk by chunk.

use std::collections::BTreeMap;

use tessera_ir::graph::Module;
use tessera_ir::graph::interp::{self, Data, Error, State, Tensor, Weights};
use tessera_ir::{Bindings, Verified};

use crate::config::Config;
use crate::rows::{Capacity, Chunk, DraftRows, KeptRows, StepRows, Wanted, replay_floor};

/// Named results of a run.
pub type Outputs = BTreeMap<String, Tensor>;

/// A sequence in slot 0 of its own state. Modules are given with every call, so that one sequence can be prefilled
/// with replay or trace and go on without.
#[derive(Clone)]
pub struct Oracle<'a> {
    config: &'a Config,
    weights: &'a dyn Weights,
    bindings: Bindings,
    state: State,
    position: usize,
    floor: usize,
}

impl<'a> Oracle<'a> {
    /// An empty sequence. `step` is any module `step` of the model in the numeric mode that the sequence will have.
    ///
    /// # Errors
    /// A state is too large to have a size.
    pub fn new(
        config: &'a Config,
        weights: &'a dyn Weights,
        step: &Module,
        capacity: Capacity,
    ) -> Result<Self, Error> {
        let mut bindings = Bindings::new();
        capacity.bind(config, &mut bindings);
        let state = State::zeros(step, &bindings)?;
        Ok(Oracle { config, weights, bindings, state, position: 0, floor: 0 })
    }

    /// Tokens fed so far.
    pub fn position(&self) -> usize {
        self.position
    }
    /// The caches.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Feeds `tokens` in one step of `step` and gives its outputs. `extra` holds inputs beside the usual ones (of a
    /// module built with `teacher`).
    ///
    /// # Errors
    /// The module refuses its inputs; the sequence is then as before.
    pub fn feed(
        &mut self,
        step: &Verified<Module>,
        tokens: &[u32],
        logits: Wanted,
        extra: Outputs,
    ) -> Result<Outputs, Error> {
        let mut rows = StepRows::default();
        rows.push(self.config.text.sliding_window, &self.chunk(tokens, logits));
        rows.bind(&mut self.bindings);
        let mut inputs = extra;
        inputs.extend(tensors(&rows.inputs()));
        self.run(step, inputs, tokens.len())
    }

    /// Feeds the next `tokens` of a prompt of `len` tokens, of which the decoder half sees the last `keep` only
    /// (V4.1 §5.4); `step` is built with `replay`.
    ///
    /// # Errors
    /// The module refuses its inputs; the sequence is then as before.
    pub fn feed_replayed(
        &mut self,
        step: &Verified<Module>,
        tokens: &[u32],
        logits: Wanted,
        (len, keep): (usize, usize),
    ) -> Result<Outputs, Error> {
        self.floor = replay_floor(len, keep);
        let (mut rows, mut kept) = (StepRows::default(), KeptRows::default());
        kept.push(&mut rows, self.config.text.sliding_window, &self.chunk(tokens, logits));
        rows.bind(&mut self.bindings);
        kept.bind(&mut self.bindings);
        let inputs = tensors(&rows.inputs()).chain(tensors(&kept.inputs())).collect();
        self.run(step, inputs, tokens.len())
    }

    /// Drafts after `token`, which was sampled and not fed yet. `draft` is the module of that name.
    ///
    /// # Errors
    /// The module refuses its inputs.
    pub fn draft(&mut self, draft: &Verified<Module>, token: u32) -> Result<Outputs, Error> {
        let mut rows = DraftRows::default();
        rows.push(self.config, 0, self.position, token, self.floor);
        rows.bind(self.config, &mut self.bindings);
        let inputs = tensors(&rows.inputs()).collect();
        interp::run(draft, &self.bindings, &inputs, self.weights, &mut self.state)
    }

    /// Forgets the tokens from `position` on, as a rejected draft asks: what they stored is never read again.
    /// Positions beyond those fed change nothing.
    pub fn roll_back(&mut self, position: usize) {
        self.position = self.position.min(position);
    }

    fn chunk<'t>(&self, tokens: &'t [u32], logits: Wanted) -> Chunk<'t> {
        Chunk { slot: 0, start: self.position, tokens, floor: self.floor, logits }
    }

    fn run(&mut self, step: &Verified<Module>, inputs: Outputs, fed: usize) -> Result<Outputs, Error> {
        let outputs = interp::run(step, &self.bindings, &inputs, self.weights, &mut self.state)?;
        self.position += fed;
        Ok(outputs)
    }
}

fn tensors<'r>(inputs: &'r [(&'static str, &'r [i32])]) -> impl Iterator<Item = (String, Tensor)> + 'r {
    inputs.iter().map(|&(name, values)| {
        (name.to_owned(), Tensor { shape: vec![values.len()], data: Data::I32(values.to_vec()) })
    })
}
