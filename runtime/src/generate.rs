//! The plain generation loop: prefill in chunks, then one token a step.

use crate::engine::{Engine, Feed};
use crate::error::{Error, Result};
use crate::sampler::{Sampler, Sampling};
use std::ops::ControlFlow;
use tessera_model::rows::{Wanted, replay_floor};

/// What to generate.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Prompt.
    pub prompt: &'a [u32],
    /// Tokens to generate at most.
    pub max_tokens: usize,
    /// Token that ends the text.
    pub eos: u32,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Rows of a prefill chunk.
    pub chunk: usize,
    /// Bounded replay: the decoder half sees only so many of the last prompt tokens (V4.1 §5.4).
    pub replay: Option<usize>,
}

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The end token, or the caller's stop rule.
    Stop,
    /// `max_tokens` were generated, or the context is full.
    Length,
    /// The caller gave up during the prompt.
    Cancelled,
}

/// What was generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Tokens, the end token included.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
    /// Decode steps run.
    pub steps: usize,
}

/// Generates in `slot`, which is begun anew. `prefilled` is told the prompt tokens done so far and may cancel; `each`
/// sees every token and may stop the loop.
pub fn generate(
    engine: &mut Engine,
    slot: usize,
    request: &Request<'_>,
    prefilled: &mut dyn FnMut(usize) -> ControlFlow<()>,
    each: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Generated> {
    request.sampling.check()?;
    if request.prompt.is_empty() {
        return Err(Error::Request("the prompt has no tokens; give at least one".to_owned()));
    }
    if request.replay == Some(0) {
        return Err(Error::Request("replay must keep at least one token of the prompt".to_owned()));
    }
    engine.reset(slot);
    let mut sampler = Sampler::new(engine.config().text.vocab_size);
    let chunk = request.chunk.clamp(1, engine.options().rows);
    let mut tokens = Vec::with_capacity(request.max_tokens.min(engine.options().context));
    if request.max_tokens == 0 {
        return Ok(Generated { tokens, finish: Finish::Length, steps: 0 });
    }
    for piece in request.prompt.chunks(chunk) {
        let last = engine.len(slot) + piece.len() == request.prompt.len();
        let logits = if last { Wanted::Last } else { Wanted::None };
        let feed = Feed { slot, tokens: piece, logits };
        match request.replay {
            Some(keep) => engine.feed_replay(&feed, replay_floor(request.prompt.len(), keep))?,
            None => engine.feed(&[feed])?,
        }
        if prefilled(engine.len(slot)).is_break() {
            return Ok(Generated { tokens, finish: Finish::Cancelled, steps: 0 });
        }
    }
    let mut steps = 0;
    loop {
        let replayed = steps == 0 && request.replay.is_some();
        let logits = if replayed { engine.replay_logits()? } else { engine.logits()? };
        let position = engine.len(slot);
        if logits.iter().any(|x| !x.is_finite()) {
            return Err(Error::NotFinite { position });
        }
        let token = sampler.choose(logits, &request.sampling, position);
        tokens.push(token);
        let stopped = each(token).is_break();
        if token == request.eos || stopped {
            return Ok(Generated { tokens, finish: Finish::Stop, steps });
        }
        if tokens.len() == request.max_tokens || engine.len(slot) == engine.options().context {
            return Ok(Generated { tokens, finish: Finish::Length, steps });
        }
        engine.feed(&[Feed { slot, tokens: &[token], logits: Wanted::Last }])?;
        steps += 1;
    }
}
