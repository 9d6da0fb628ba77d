//! Text from ids that arrive one by one: a character is given out when its last byte is there, never a part of it.

use super::Tokenizer;
use crate::error::Result;

/// Turns a stream of ids into text; the pieces joined equal [`Tokenizer::decode`] of all ids.
#[derive(Debug, Clone)]
pub struct StreamDecoder<'a> {
    tokenizer: &'a Tokenizer,
    /// Bytes of a character that is not complete: at most three.
    pending: Vec<u8>,
}

impl<'a> StreamDecoder<'a> {
    /// An empty stream.
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        StreamDecoder { tokenizer, pending: Vec::new() }
    }

    /// Takes the next id and returns the text that is now complete, which may be none.
    ///
    /// # Errors
    /// The id is outside the vocabulary.
    pub fn push(&mut self, id: u32) -> Result<String> {
        let bytes = self.tokenizer.token_bytes(id)?;
        if !self.tokenizer.is_special(id) {
            self.pending.extend_from_slice(bytes);
        }
        Ok(self.take_complete())
    }

    /// Ends the stream: a character that stayed incomplete becomes U+FFFD.
    pub fn finish(mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }

    fn take_complete(&mut self) -> String {
        let mut text = String::new();
        let mut at = 0;
        loop {
            match std::str::from_utf8(&self.pending[at..]) {
                Ok(rest) => {
                    text.push_str(rest);
                    at = self.pending.len();
                    break;
                }
                Err(error) => {
                    let valid = at + error.valid_up_to();
                    text.push_str(&String::from_utf8_lossy(&self.pending[at..valid]));
                    at = valid;
                    // Without a length the last bytes may still become a character.
                    let Some(bad) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    at += bad;
                }
            }
        }
        self.pending.drain(..at);
        text
    }
}
