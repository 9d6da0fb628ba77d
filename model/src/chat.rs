//! The chat encoding of V4.1: a conversation becomes a prompt, as text and as ids (V4.1 §6).
//!
//! A prompt is a sequence of control tokens and plain text. What people and tools say is always plain text: a control
//! token's spelling inside a message is encoded letter by letter and cannot open a turn.

mod dump;
mod message;
mod render;

use std::fmt;
use std::str::FromStr;

pub use message::{Message, Tool, ToolCall};
pub use render::Prompt;

use crate::error::{Error, Result};

/// A conversation that the model is to continue.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// The turns so far.
    pub messages: Vec<Message>,
    /// Functions that the model may call.
    pub tools: Vec<Tool>,
    /// Whether the model reasons before it answers, and how much.
    pub thinking: Thinking,
}

/// Whether the model reasons before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thinking {
    /// It answers at once.
    #[default]
    Off,
    /// It reasons with an effort.
    On(Effort),
}

/// Reasoning effort from 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort(u8);

impl Effort {
    /// An effort, if it lies between 1 and 100.
    pub fn new(value: u8) -> Option<Effort> {
        (1..=100).contains(&value).then_some(Effort(value))
    }

    /// The number that the prompt shows.
    pub fn value(self) -> u8 {
        self.0
    }
}

impl Default for Effort {
    fn default() -> Self {
        Effort(75)
    }
}

impl FromStr for Effort {
    type Err = Error;

    fn from_str(text: &str) -> Result<Effort> {
        let value = match text {
            "low" => Some(50),
            "high" | "xhigh" => Some(75),
            "max" => Some(100),
            number => number.parse().ok(),
        };
        value.and_then(Effort::new).ok_or_else(|| Error::Chat {
            at: "effort".to_owned(),
            message: format!("expected a number from 1 to 100, low, high, xhigh or max, got {text:?}"),
        })
    }
}

/// A token of the prompt's structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Opens the prompt.
    Begin,
    /// Ends a turn of the assistant.
    End,
    /// Opens a system text.
    System,
    /// Opens a turn of the user; tool results are part of it.
    User,
    /// Opens a turn of the assistant.
    Assistant,
    /// Opens the reasoning.
    Think,
    /// Ends the reasoning, and the place of one that is left out.
    ThinkEnd,
    /// Marks the tags of a tool call.
    Dsml,
    /// Opens a reminder.
    Reminder,
}

impl Control {
    /// All control tokens.
    pub const ALL: [Control; 9] = [
        Control::Begin,
        Control::End,
        Control::System,
        Control::User,
        Control::Assistant,
        Control::Think,
        Control::ThinkEnd,
        Control::Dsml,
        Control::Reminder,
    ];

    /// The spelling in the vocabulary.
    pub fn spelling(self) -> &'static str {
        match self {
            Control::Begin => "<｜begin▁of▁sentence｜>",
            Control::End => "<｜end▁of▁sentence｜>",
            Control::System => "<｜System｜>",
            Control::User => "<｜User｜>",
            Control::Assistant => "<｜Assistant｜>",
            Control::Think => "<think>",
            Control::ThinkEnd => "</think>",
            Control::Dsml => "｜DSML｜",
            Control::Reminder => "<｜latest_reminder｜>",
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spelling())
    }
}

impl Conversation {
    /// A conversation of one question.
    pub fn ask(question: impl Into<String>, thinking: Thinking) -> Conversation {
        let messages = vec![Message::User { content: question.into() }];
        Conversation { messages, tools: Vec::new(), thinking }
    }

    /// The prompt that the model continues.
    ///
    /// # Errors
    /// There is no message, or one that is to be continued is not the last.
    pub fn render(&self) -> Result<Prompt> {
        render::render(self)
    }
}
