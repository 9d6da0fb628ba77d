//! Byte-level BPE from `tokenizer.json`: text to ids and back, and text that arrives id by id.

mod stream;

use std::path::Path;

use tokenizers::tokenizer::{Model, Normalizer, OffsetReferential, OffsetType, PreTokenizer};
use tokenizers::{DecoderWrapper, NormalizedString, NormalizerWrapper, PreTokenizedString};

use crate::config::{Config, read_text};
use crate::error::{Error, Result};
use crate::json::Json;
pub use stream::StreamDecoder;

/// Whether spellings of added tokens (`<｜User｜>`, `<think>`, …) in a text mean those tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddedTokens {
    /// They become the tokens: for prompts that are written out by hand.
    Recognise,
    /// They are ordinary text: for what users say, which must not steer the conversation's structure.
    AsText,
}

/// A loaded `tokenizer.json`.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    file: String,
    /// The bytes of all tokens, end to end, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Whether a token is special, so that it is not part of the text.
    special: Vec<bool>,
}

/// Ids beyond this make no vocabulary.
const MAX_IDS: usize = 1 << 24;

impl Tokenizer {
    /// The tokenizer of a model folder, checked against its vocabulary; `None` if the folder has no `tokenizer.json`.
    ///
    /// # Errors
    /// The file cannot be used, or has more ids than the model.
    pub fn of_model(dir: impl AsRef<Path>, config: &Config) -> Result<Option<Tokenizer>> {
        let path = dir.as_ref().join("tokenizer.json");
        if !path.exists() {
            return Ok(None);
        }
        let tokenizer = Tokenizer::parse(&read_text(&path)?, &path.display().to_string())?;
        let (ids, vocabulary) = (tokenizer.len(), config.text.vocab_size);
        if ids > vocabulary {
            return Err(tokenizer.fault(format!("{ids} ids exceed the model's vocab_size = {vocabulary}")));
        }
        Ok(Some(tokenizer))
    }

    /// Parses the text of a `tokenizer.json`; `file` names it in errors.
    ///
    /// # Errors
    /// The text is not a tokenizer, its decoder is not byte-level, or an added token has another id than it says.
    pub fn parse(json: &str, file: &str) -> Result<Tokenizer> {
        let fault = |message: String| Error::Tokenizer { file: file.to_owned(), message };
        // First as JSON: the loader below panics on some texts that are none.
        let tree = Json::parse(json, file)?;
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(|error| fault(error.to_string()))?;
        // A prompt is never cut or filled up, whatever the file was exported with.
        inner.with_truncation(None).map_err(|error| fault(error.to_string()))?;
        inner.with_padding(None);
        match inner.get_decoder() {
            Some(DecoderWrapper::ByteLevel(_)) => {}
            _ => {
                return Err(fault(
                    "the decoder is not ByteLevel; only byte-level BPE is supported".to_owned(),
                ));
            }
        }
        check_added_ids(&inner, &tree).map_err(fault)?;
        let last = inner.get_vocab(true).into_values().max();
        let len = last.map_or(0, |id| id as usize + 1);
        if len > MAX_IDS {
            return Err(fault(format!("token id {} is beyond {MAX_IDS}", len - 1)));
        }
        let mut tokenizer = Tokenizer {
            inner,
            file: file.to_owned(),
            bytes: Vec::new(),
            ends: Vec::new(),
            special: Vec::new(),
        };
        tokenizer.fill_table(len);
        Ok(tokenizer)
    }

    fn fill_table(&mut self, len: usize) {
        let alphabet = byte_alphabet();
        let added = self.inner.get_added_vocabulary();
        for id in 0..len as u32 {
            let spelling = self.inner.id_to_token(id).unwrap_or_default();
            let byte = |c: char| alphabet.get(c as usize).copied().flatten();
            match spelling.chars().map(byte).collect::<Option<Vec<u8>>>() {
                Some(bytes) => self.bytes.extend(bytes),
                None => self.bytes.extend(spelling.as_bytes()),
            }
            self.ends.push(self.bytes.len());
            self.special.push(added.is_special_token(&spelling));
        }
    }

    fn fault(&self, message: String) -> Error {
        Error::Tokenizer { file: self.file.clone(), message }
    }

    /// Number of ids: one more than the largest.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Turns a text into ids; nothing is put in front or behind.
    ///
    /// # Errors
    /// The tokenizer refuses the text.
    pub fn encode(&self, text: &str, added: AddedTokens) -> Result<Vec<u32>> {
        match added {
            AddedTokens::Recognise => {
                self.inner.encode_fast(text, false).map(|found| found.get_ids().to_vec())
            }
            AddedTokens::AsText => self.encode_plain(text),
        }
        .map_err(|error| self.fault(format!("cannot encode: {error}")))
    }

    /// The pipeline without its added vocabulary.
    fn encode_plain(&self, text: &str) -> tokenizers::Result<Vec<u32>> {
        let mut text = NormalizedString::from(text);
        if let Some(normalizer) = self.inner.get_normalizer() {
            normalizer.normalize(&mut text)?;
        }
        let mut words = PreTokenizedString::from(text);
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut words)?;
        }
        words.tokenize(|word| self.inner.get_model().tokenize(word.get()))?;
        let splits = words.get_splits(OffsetReferential::Normalized, OffsetType::None);
        let tokens = splits.into_iter().filter_map(|(_, _, tokens)| tokens.as_ref());
        Ok(tokens.flatten().map(|token| token.id).collect())
    }

    /// Turns ids into text, special tokens left out; bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// An id outside the vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.text(ids, false)
    }

    /// Turns ids into text, special tokens spelt out; bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// An id outside the vocabulary.
    pub fn decode_raw(&self, ids: &[u32]) -> Result<String> {
        self.text(ids, true)
    }

    fn text(&self, ids: &[u32], special: bool) -> Result<String> {
        let mut bytes = Vec::new();
        for &id in ids {
            let token = self.token_bytes(id)?;
            if special || !self.is_special(id) {
                bytes.extend_from_slice(token);
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The bytes that a token stands for.
    ///
    /// # Errors
    /// The id is outside the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Result<&[u8]> {
        let at = id as usize;
        let end = *self.ends.get(at).ok_or(Error::TokenRange { id: u64::from(id), size: self.len() })?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Ok(&self.bytes[start..end])
    }

    /// A number of tokens that no text of `bytes` bytes falls short of: each token stands for so many bytes at most. 0 where
    /// a normalizer may shorten texts.
    pub fn least_tokens(&self, bytes: usize) -> usize {
        match self.inner.get_normalizer() {
            None => {}
            Some(NormalizerWrapper::Sequence(steps)) if steps.as_ref().is_empty() => {}
            Some(_) => return 0,
        }
        let starts = std::iter::once(&0).chain(&self.ends);
        let longest = self.ends.iter().zip(starts).map(|(end, start)| end - start).max();
        bytes / longest.unwrap_or(0).max(1)
    }

    /// Whether a token is special: part of the structure, not of the text.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    /// Id of an added token by its spelling.
    pub fn added_token(&self, spelling: &str) -> Option<u32> {
        self.inner.get_added_vocabulary().get_vocab().get(spelling).copied()
    }

    /// Ids of added tokens by their spellings.
    ///
    /// # Errors
    /// Lists all that the tokenizer lacks; `what` says what needs them.
    pub fn added_tokens<const N: usize>(&self, spellings: [&str; N], what: &'static str) -> Result<[u32; N]> {
        let found = spellings.map(|spelling| self.added_token(spelling));
        let missing = spellings.iter().zip(&found).filter(|(_, id)| id.is_none());
        let tokens: Vec<String> = missing.map(|(spelling, _)| (*spelling).to_owned()).collect();
        if tokens.is_empty() {
            Ok(found.map(Option::unwrap_or_default))
        } else {
            Err(Error::SpecialTokens { tokens, what })
        }
    }

    /// A token's spelling in the vocabulary, where bytes are letters of the byte alphabet.
    pub(crate) fn spelling(&self, id: u32) -> Result<String> {
        self.inner.id_to_token(id).ok_or(Error::TokenRange { id: u64::from(id), size: self.len() })
    }
}

/// An added token whose id does not follow the vocabulary is renumbered on loading; that must not pass unseen.
fn check_added_ids(inner: &tokenizers::Tokenizer, json: &Json) -> Result<(), String> {
    let member = |json: &Json, key: &str| {
        json.as_object()?.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    };
    let Some(Json::Array(tokens)) = member(json, "added_tokens") else { return Ok(()) };
    for token in &tokens {
        let (Some(Json::String(content)), Some(id)) = (member(token, "content"), member(token, "id")) else {
            continue;
        };
        let real = inner.token_to_id(&content).map(u64::from);
        if real != id.as_u64() {
            return Err(format!(
                "added token {content:?} says id {}, but its place in the vocabulary is {}",
                id.describe(),
                real.map_or("unknown".to_owned(), |id| id.to_string())
            ));
        }
    }
    Ok(())
}

/// The byte that each letter of the byte alphabet stands for: printable Latin-1 is itself, the rest follow from U+0100.
fn byte_alphabet() -> Vec<Option<u8>> {
    let mut alphabet = vec![None; 512];
    let mut next = 256;
    for byte in 0..=255_u8 {
        let printable = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        let letter = if printable { usize::from(byte) } else { next };
        next += usize::from(!printable);
        alphabet[letter] = Some(byte);
    }
    alphabet
}
