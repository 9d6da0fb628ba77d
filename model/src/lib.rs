//! The released model: configuration, checkpoint, tokenizer, chat encoding and graph builder.
