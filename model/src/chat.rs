//! The chat encoding of V4.1: conversations to prompts (V4.1 §6).
