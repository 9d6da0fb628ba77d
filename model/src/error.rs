//! Every way in which reading a model can fail, each with a message that says what, where and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::checkpoint::{HeaderFault, TensorFaults};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model, a prompt or a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}{}", path.display(), not_found_advice(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A text file holds bytes that are not UTF-8.
    #[error("{file}: byte {offset} is not valid UTF-8; the file must be UTF-8 text")]
    NotUtf8 {
        /// The file.
        file: String,
        /// First byte that is not part of a valid sequence.
        offset: usize,
    },
    /// A JSON file does not parse.
    #[error("{file}: not valid JSON: {message}")]
    Json {
        /// The file, or what the text is.
        file: String,
        /// Parser message with line and column.
        message: String,
    },
    /// A configuration is incomplete, inconsistent, or asks for what this engine does not implement.
    #[error("{}", list_faults(file, faults))]
    Config {
        /// The file.
        file: String,
        /// All faults that were found, in the order of the schema.
        faults: Vec<ConfigFault>,
    },
    /// A safetensors file is damaged.
    #[error("{file}: {fault}")]
    Safetensors {
        /// The file.
        file: String,
        /// What is wrong with it.
        fault: HeaderFault,
    },
    /// The shards of a checkpoint and its index do not agree, or there is no checkpoint.
    #[error("{file}: {message}")]
    Index {
        /// The index file or the folder.
        file: String,
        /// What does not agree, and what to do.
        message: String,
    },
    /// The tensors of a checkpoint are not those that its configuration asks for.
    #[error("{0}")]
    Tensors(Box<TensorFaults>),
    /// `tokenizer.json` cannot be used.
    #[error("{file}: {message}")]
    Tokenizer {
        /// The file.
        file: String,
        /// What is wrong.
        message: String,
    },
    /// The tokenizer lacks special tokens that are needed.
    #[error("the tokenizer has no {}; {what} needs {}", quoted(tokens), if tokens.len() == 1 { "it" } else { "them" })]
    SpecialTokens {
        /// The missing spellings.
        tokens: Vec<String>,
        /// What needs them.
        what: &'static str,
    },
    /// Engram's token map is unusable.
    #[error("{file}: {message}")]
    TokenMap {
        /// The file the map comes from.
        file: String,
        /// What is wrong, naming the first offending token id.
        message: String,
    },
    /// A token id lies outside the vocabulary.
    #[error("token id {id} is outside the vocabulary: ids run from 0 to {}", size.saturating_sub(1))]
    TokenRange {
        /// The id.
        id: u64,
        /// Number of ids.
        size: usize,
    },
    /// A conversation cannot be encoded.
    #[error("{at}: {message}")]
    Chat {
        /// The place, like `messages[2].role`.
        at: String,
        /// What is wrong and what is allowed.
        message: String,
    },
}

/// One fault of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    /// Path of the key, like `text_config.hidden_size`.
    pub key: String,
    /// What is wrong with it and what was expected.
    pub message: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

fn list_faults(file: &str, faults: &[ConfigFault]) -> String {
    match faults {
        [one] => format!("{file}: {one}"),
        _ => {
            let mut text = format!("{file}: {} faults", faults.len());
            for fault in faults {
                text.push_str("\n  ");
                text.push_str(&fault.to_string());
            }
            text
        }
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn not_found_advice(source: &io::Error) -> &'static str {
    if source.kind() == io::ErrorKind::NotFound {
        " (a model folder holds config.json and model.safetensors)"
    } else {
        ""
    }
}
