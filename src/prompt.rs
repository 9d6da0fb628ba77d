//! What is asked for, as token ids: text, a conversation or ids, each checked before the model sees it.

use crate::error::{Error, Result};
use crate::load::ModelFolder;
use crate::session::check_context;
use std::path::Path;
use tessera_model::chat::{Conversation, Message, Thinking};
use tessera_model::engram::check_tokens;
use tessera_model::tokenizer::AddedTokens;

/// A prompt as it comes from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// Text that the model goes on with; BOS is put in front. Spellings of special tokens mean these tokens.
    Text(String),
    /// A question for the chat encoding.
    Question(String, Thinking),
    /// Turns for the chat encoding.
    Turns(Vec<Message>, Thinking),
    /// Token ids, taken as they are.
    Tokens(Vec<u32>),
}

impl Prompt {
    /// The token ids.
    ///
    /// # Errors
    /// The prompt is empty, has an id outside the vocabulary, is longer than the model has positions, or needs a
    /// tokenizer or a special token that the folder lacks.
    pub fn ids(&self, folder: &ModelFolder) -> Result<Vec<u32>> {
        // A text that must be too long is refused before the tokenizer spends time and memory on it.
        if let Prompt::Text(text) | Prompt::Question(text, _) = self {
            let (least, most) =
                (folder.text()?.least_tokens(text.len()), folder.config.text.max_position_embeddings);
            if least > most {
                return Err(Error::Request(format!(
                    "the prompt has {} bytes, which are {least} tokens or more, but the model has {most} positions (max_position_embeddings); shorten it",
                    text.len()
                )));
            }
        }
        let ids = match self {
            Prompt::Text(text) | Prompt::Question(text, _) if text.is_empty() => {
                return Err(Error::Request("the prompt is empty; give at least one character".to_owned()));
            }
            Prompt::Text(text) => {
                let mut ids = vec![folder.config.bos_token_id];
                ids.extend(folder.text()?.encode(text, AddedTokens::Recognise)?);
                ids
            }
            Prompt::Question(text, thinking) => {
                Conversation::ask(text.as_str(), *thinking).render()?.ids(folder.text()?)?
            }
            Prompt::Turns(messages, thinking) => {
                let messages = messages.clone();
                let conversation = Conversation { messages, tools: Vec::new(), thinking: *thinking };
                conversation.render()?.ids(folder.text()?)?
            }
            Prompt::Tokens(ids) => ids.clone(),
        };
        check(folder, &ids)?;
        Ok(ids)
    }
}

/// Refuses ids that no sequence can be made of.
///
/// # Errors
/// There are none, one lies outside the vocabulary, or they are more than the model has positions.
pub fn check(folder: &ModelFolder, ids: &[u32]) -> Result<()> {
    if ids.is_empty() {
        return Err(Error::Request("the prompt has no tokens; give at least one".to_owned()));
    }
    check_tokens(ids, folder.config.text.vocab_size)?;
    check_context(&folder.config, ids.len())
}

/// Reads token ids that are separated by commas; white space around them is allowed.
///
/// # Errors
/// Names the first item that is no id.
pub fn parse_tokens(text: &str) -> Result<Vec<u32>> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let id = |(at, item): (usize, &str)| {
        let item = item.trim();
        let digits = !item.is_empty() && item.bytes().all(|b| b.is_ascii_digit());
        item.parse::<u32>().ok().filter(|_| digits).ok_or_else(|| {
            Error::Request(format!(
                "token {} of the list is {item:?}; expected a token id, a number from 0 to {}",
                at + 1,
                u32::MAX
            ))
        })
    };
    text.split(',').enumerate().map(id).collect()
}

/// Reads a text file.
///
/// # Errors
/// It cannot be read, or a byte of it is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        Error::Request(format!(
            "{}: byte {offset} is not valid UTF-8; the file must be UTF-8 text",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_lists_are_read_strictly() {
        assert_eq!(parse_tokens("1, 2,3").unwrap(), [1, 2, 3]);
        assert!(parse_tokens(" ").unwrap().is_empty());
        for (text, named) in [
            ("1,,2", "token 2"),
            ("-1", "\"-1\""),
            ("+1", "\"+1\""),
            ("4294967296", "4294967295"),
            ("x", "\"x\""),
        ] {
            let message = parse_tokens(text).unwrap_err().to_string();
            assert!(message.contains(named), "{text}: {message}");
        }
    }
}
