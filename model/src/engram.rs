//! Engram's hash: from the last token ids to rows of the n-gram tables (V4.1 §2.4).

mod numpy;
mod primes;
mod token_map;

use crate::config::Config;
use crate::error::{Error, Result};
pub use primes::table_rows;
pub use token_map::TokenMap;

/// What one Engram layer hashes with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerHash {
    /// The layer.
    pub layer: usize,
    /// Modulus of every column: n-gram sizes 2, 3, … outermost, heads within.
    pub primes: Vec<u64>,
    /// First table row of every column.
    pub offsets: Vec<u64>,
    /// Odd factor of every lookback 0, 1, …
    pub multipliers: Vec<i64>,
}

impl LayerHash {
    /// The constants of every Engram layer, in the order of the configuration.
    pub fn all(config: &Config) -> Vec<LayerHash> {
        let text = &config.text;
        let (max_ngram, layers) = (text.engram_max_ngram_size, &text.engram_layer_ids);
        let columns = (max_ngram - 1) * text.engram_n_heads;
        let primes = primes::columns(layers.len(), columns, text.engram_vocab_size as u64);
        let hash = |(&layer, primes): (&usize, Vec<u64>)| LayerHash {
            layer,
            offsets: exclusive_sums(&primes),
            primes,
            multipliers: multipliers(layer, text.engram_compressed_vocab_size, max_ngram),
        };
        layers.iter().zip(primes).map(hash).collect()
    }
}

/// The hash of all Engram layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngramHash {
    /// One entry an Engram layer, in the order of the configuration.
    pub layers: Vec<LayerHash>,
    /// Longest n-gram: the tokens that a hash looks at.
    pub max_ngram: usize,
    /// Columns an n-gram size.
    pub heads: usize,
    /// Compressed id that stands for what lies before the sequence and for images.
    pub pad: i64,
    /// Token that stands for a position of an image; it ends every n-gram.
    pub image_token: u32,
}

impl EngramHash {
    /// The constants of a configuration; `map` gives the padding its compressed id.
    ///
    /// # Errors
    /// The map has no entry for `engram_pad_token_id`.
    pub fn new(config: &Config, map: &TokenMap) -> Result<EngramHash> {
        let (max_ngram, heads) = (config.text.engram_max_ngram_size, config.text.engram_n_heads);
        let layers = LayerHash::all(config);
        let pad = i64::from(map.get(config.text.engram_pad_token_id)?);
        Ok(EngramHash { layers, max_ngram, heads, pad, image_token: config.image_token_id })
    }

    /// Rows of one layer (`index` counts the Engram layers) for the last token of `history`.
    ///
    /// `history` holds token ids, oldest first; only the last `max_ngram` are looked at, and what is missing lies
    /// before the start of the sequence. Returns one row a column, `offsets` included.
    ///
    /// # Errors
    /// A token id that the map does not know.
    pub fn rows(&self, index: usize, history: &[u32], map: &TokenMap) -> Result<Vec<u64>> {
        let Some(layer) = self.layers.get(index) else { return Ok(Vec::new()) };
        let mut rows = Vec::with_capacity(layer.primes.len());
        let mut hash = 0_i64;
        let mut blocked = false;
        for (back, &multiplier) in layer.multipliers.iter().enumerate() {
            let token = history.len().checked_sub(back + 1).map(|at| history[at]);
            blocked |= token.is_none_or(|token| token == self.image_token);
            let id = match token {
                Some(token) if !blocked => i64::from(map.get(token)?),
                Some(_) | None => self.pad,
            };
            hash ^= id.wrapping_mul(multiplier);
            if back == 0 {
                continue;
            }
            let first = (back - 1) * self.heads;
            for column in first..first + self.heads {
                // The ranges of ids and multipliers keep the hash positive; rem_euclid keeps a row in its table anyway.
                let row = i128::from(hash).rem_euclid(i128::from(layer.primes[column]));
                rows.push(row as u64 + layer.offsets[column]);
            }
        }
        Ok(rows)
    }
}

fn exclusive_sums(values: &[u64]) -> Vec<u64> {
    values
        .iter()
        .scan(0, |sum, value| {
            let before = *sum;
            *sum += value;
            Some(before)
        })
        .collect()
}

/// The odd factors of one layer; they keep `id · factor` below 2⁶³ for every compressed id.
fn multipliers(layer: usize, compressed: usize, count: usize) -> Vec<i64> {
    let bound = (i64::MAX as u64 / compressed as u64 / 2).max(1);
    let mut random = numpy::Generator::new(10007 * layer as u64);
    (0..count).map(|_| random.below(bound) as i64 * 2 + 1).collect()
}

/// Checks that token ids lie in a vocabulary of `size` ids.
///
/// # Errors
/// Names the first id that does not.
pub fn check_tokens(tokens: &[u32], size: usize) -> Result<()> {
    match tokens.iter().find(|&&token| token as usize >= size) {
        Some(&id) => Err(Error::TokenRange { id: u64::from(id), size }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// V4.1 §2.4, computed with numpy 2.
    #[test]
    fn multipliers_are_those_of_the_released_model() {
        assert_eq!(multipliers(1, 99092, 4), [76632096046245, 4839876093313, 35959672319349, 73987337458391]);
        assert_eq!(
            multipliers(14, 99092, 4),
            [67716810739261, 51510806800915, 30921347202721, 82619226485591]
        );
    }
}
