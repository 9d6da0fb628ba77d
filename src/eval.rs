//! Perplexity of a text: how well the model predicts it, by the protocol of the golden data.

use crate::error::{Error, Result};
use tessera_model::rows::Wanted;
use tessera_runtime::{Engine, Feed};

/// Score of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Mean negative log-likelihood, nats a token.
    pub nll: f64,
    /// Tokens scored.
    pub tokens: usize,
}

impl Score {
    /// `exp(nll)`.
    pub fn perplexity(&self) -> f64 {
        self.nll.exp()
    }
}

/// Scores `text`, cut into chunks of `chunk` tokens, each on its own with BOS in front: inputs are BOS and the chunk but
/// for its last token, targets the chunk. `engine` must take `chunk` rows with all their logits.
///
/// # Errors
/// The text or the chunk is empty, or the engine refuses a step.
pub fn perplexity(engine: &mut Engine, text: &[u32], chunk: usize) -> Result<Score> {
    if text.is_empty() || chunk == 0 {
        return Err(Error::Request("there is nothing to score: the text or the chunk is empty".to_owned()));
    }
    let vocabulary = engine.config().text.vocab_size;
    let bos = engine.config().bos_token_id;
    let mut total = 0.0;
    let mut inputs = Vec::with_capacity(chunk);
    for targets in text.chunks(chunk) {
        inputs.clear();
        inputs.push(bos);
        inputs.extend_from_slice(&targets[..targets.len() - 1]);
        engine.reset(0);
        engine.feed(&[Feed { slot: 0, tokens: &inputs, logits: Wanted::All }])?;
        for (row, target) in engine.logits()?.chunks(vocabulary).zip(targets) {
            total += surprise(row, *target);
        }
    }
    Ok(Score { nll: total / text.len() as f64, tokens: text.len() })
}

/// −log softmax(row)[target], in f64.
fn surprise(row: &[f32], target: u32) -> f64 {
    let top = row.iter().fold(f64::NEG_INFINITY, |top, v| top.max(f64::from(*v)));
    let sum: f64 = row.iter().map(|v| (f64::from(*v) - top).exp()).sum();
    let own = row.get(target as usize).map_or(f64::NAN, |v| f64::from(*v));
    top + sum.ln() - own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surprise_is_the_negative_log_of_the_softmax() {
        let row = [0.0f32, 1.0, 1000.0];
        assert_eq!(surprise(&row, 2), 0.0);
        assert_eq!(surprise(&row, 0), 1000.0);
        let ln2 = surprise(&[3.0, 3.0], 1);
        assert!((ln2 - 2f64.ln()).abs() < 1e-15);
    }
}
