//! Engram's token map: ids whose texts differ only in case, accents or white space share one compressed id.

use std::collections::HashMap;
use std::path::Path;

use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{Lowercase, NFD, NFKC, Replace, Strip, StripAccents};
use tokenizers::{NormalizedString, Normalizer};

use crate::config::{Config, read_text};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::tokenizer::Tokenizer;

/// Compressed id of every token id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenMap {
    ids: Vec<u32>,
}

impl TokenMap {
    /// The map of a model folder: computed from the tokenizer, or read from `token_map.json`, or both and compared.
    ///
    /// # Errors
    /// Neither exists, the file is not a list of compressed ids, the two differ (the first differing id is named),
    /// or the number of distinct ids is not `engram_compressed_vocab_size`.
    pub fn of_model(
        dir: impl AsRef<Path>,
        config: &Config,
        tokenizer: Option<&Tokenizer>,
    ) -> Result<TokenMap> {
        let path = dir.as_ref().join("token_map.json");
        let file = path.display().to_string();
        let stored = if path.exists() { Some(TokenMap::parse(&read_text(&path)?, &file)?) } else { None };
        let computed = tokenizer.map(TokenMap::from_tokenizer).transpose()?;
        let map = match (computed, stored) {
            (Some(computed), Some(stored)) => {
                computed.compare(&stored, &file)?;
                computed
            }
            (Some(map), None) | (None, Some(map)) => map,
            (None, None) => {
                let message =
                    "neither this file nor a tokenizer.json exists; Engram needs one of them".to_owned();
                return Err(Error::TokenMap { file, message });
            }
        };
        map.check(config, &file)?;
        Ok(map)
    }

    /// Parses a `token_map.json`: a list with the compressed id of each token id. `file` names it in errors.
    ///
    /// # Errors
    /// The text is not JSON, or not a list of integers below 2³².
    pub fn parse(json: &str, file: &str) -> Result<TokenMap> {
        let json = Json::parse(json, file)?;
        let fault = |message: String| Error::TokenMap { file: file.to_owned(), message };
        let items = json
            .as_array()
            .ok_or_else(|| fault(format!("expected a list of compressed ids, got {}", json.describe())))?;
        let id = |(i, item): (usize, &Json)| {
            item.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| {
                fault(format!("token id {i}: expected a compressed id, got {}", item.describe()))
            })
        };
        Ok(TokenMap { ids: items.iter().enumerate().map(id).collect::<Result<_>>()? })
    }

    /// Computes the map: token texts in id order, normalised; equal texts share the id of the first (V4.1 §2.4).
    ///
    /// # Errors
    /// The tokenizer has a hole in its ids or cannot decode one.
    pub fn from_tokenizer(tokenizer: &Tokenizer) -> Result<TokenMap> {
        let rule = KeyRule::new()?;
        let mut known: HashMap<String, u32> = HashMap::new();
        let mut ids = Vec::with_capacity(tokenizer.len());
        for id in 0..tokenizer.len() as u32 {
            let text = tokenizer.decode_raw(&[id])?;
            let key = if text.contains(char::REPLACEMENT_CHARACTER) {
                tokenizer.spelling(id)?
            } else {
                rule.key(text)?
            };
            let next = known.len() as u32;
            ids.push(*known.entry(key).or_insert(next));
        }
        Ok(TokenMap { ids })
    }

    /// Compressed id of a token id.
    ///
    /// # Errors
    /// The id lies outside the map.
    pub fn get(&self, token: u32) -> Result<u32> {
        let outside = Error::TokenRange { id: u64::from(token), size: self.ids.len() };
        self.ids.get(token as usize).copied().ok_or(outside)
    }

    /// The compressed ids, by token id.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Number of distinct compressed ids, if they are 0, 1, 2, … without a gap: one more than the largest.
    pub fn compressed_size(&self) -> usize {
        self.ids.iter().max().map_or(0, |&id| id as usize + 1)
    }

    fn compare(&self, stored: &TokenMap, file: &str) -> Result<()> {
        let differs = self.ids.iter().zip(&stored.ids).position(|(a, b)| a != b);
        let message = match differs {
            Some(id) => format!(
                "token id {id} is mapped to {}, the tokenizer gives {}; remove the file or restore its tokenizer.json",
                stored.ids[id], self.ids[id]
            ),
            None if self.ids.len() != stored.ids.len() => {
                format!("{} entries, the tokenizer has {} ids", stored.ids.len(), self.ids.len())
            }
            None => return Ok(()),
        };
        Err(Error::TokenMap { file: file.to_owned(), message })
    }

    /// The map must fit the vocabulary and name exactly the compressed ids that the hash was made for.
    fn check(&self, config: &Config, file: &str) -> Result<()> {
        let fault = |message: String| Err(Error::TokenMap { file: file.to_owned(), message });
        let (vocabulary, compressed) = (config.text.vocab_size, config.text.engram_compressed_vocab_size);
        if self.ids.len() > vocabulary {
            return fault(format!("{} entries exceed vocab_size = {vocabulary}", self.ids.len()));
        }
        if let Some(id) = self.ids.iter().position(|&id| id as usize >= compressed) {
            return fault(format!(
                "token id {id} is mapped to {}, beyond engram_compressed_vocab_size = {compressed}",
                self.ids[id]
            ));
        }
        let mut used = vec![false; compressed];
        for &id in &self.ids {
            used[id as usize] = true;
        }
        let distinct = used.iter().filter(|&&used| used).count();
        if distinct != compressed {
            return fault(format!(
                "{distinct} distinct ids, but engram_compressed_vocab_size is {compressed}"
            ));
        }
        Ok(())
    }
}

/// The normalisation of a token's text. A lone space survives the stripping by way of a private character.
struct KeyRule {
    unfold: Vec<Replace>,
    restore: Replace,
}

const LONE_SPACE: &str = "\u{E000}";

impl KeyRule {
    fn new() -> Result<KeyRule> {
        let regex = |pattern: &str, to: &str| {
            Replace::new(ReplacePattern::Regex(pattern.to_owned()), to).map_err(normalisation)
        };
        Ok(KeyRule {
            unfold: vec![regex(r"[ \t\r\n]+", " ")?, regex("^ $", LONE_SPACE)?],
            restore: Replace::new(ReplacePattern::String(LONE_SPACE.to_owned()), " ")
                .map_err(normalisation)?,
        })
    }

    fn key(&self, text: String) -> Result<String> {
        let mut normal = NormalizedString::from(text.as_str());
        let mut run = |normalizer: &dyn Fn(&mut NormalizedString) -> tokenizers::Result<()>| {
            normalizer(&mut normal).map_err(normalisation)
        };
        run(&|n| NFKC.normalize(n))?;
        run(&|n| NFD.normalize(n))?;
        run(&|n| StripAccents.normalize(n))?;
        run(&|n| Lowercase.normalize(n))?;
        for step in &self.unfold {
            run(&|n| step.normalize(n))?;
        }
        run(&|n| Strip::new(true, true).normalize(n))?;
        run(&|n| self.restore.normalize(n))?;
        let key = normal.get();
        Ok(if key.is_empty() { text } else { key.to_owned() })
    }
}

fn normalisation(error: tokenizers::Error) -> Error {
    Error::TokenMap {
        file: "tokenizer.json".to_owned(),
        message: format!("cannot normalise a token: {error}"),
    }
}
