//! The released model: configuration, checkpoint, tokenizer, chat encoding and graph builder.
//!
//! Reading a model folder goes one way: [`Config`] says what the model is, [`Topology`] derives the role of every
//! layer from it, [`Checkpoint`] maps the tensors and [`checkpoint::check`] compares them with what the two ask for,
//! [`Tokenizer`] turns text into ids and back, [`engram`] hashes ids into table rows. Each step refuses what
//! it does not understand and names it; nothing reads tensor data before all names, shapes and types agree.
//!
//! [`graph`] turns configuration and topology into Graph IR, [`rows`] fills its inputs, [`weights`] decodes what the
//! interpreter runs on, and [`oracle`] is a sequence on that interpreter.

pub mod chat;
pub mod checkpoint;
pub mod config;
pub mod engram;
mod error;
pub mod graph;
mod json;
mod mapping;
pub mod oracle;
pub mod rows;
pub mod tokenizer;
mod topology;
pub mod weights;

pub use checkpoint::Checkpoint;
pub use config::{Config, ConfigOptions};
pub use error::{ConfigFault, Error, Result};
pub use tokenizer::{StreamDecoder, Tokenizer};
pub use topology::{LayerKind, LayerRole, Topology};
