//! Puts a conversation into the order and marks that the model was trained on.

use std::fmt;

use super::{Control, Conversation, Message, Thinking, Tool, ToolCall, dump};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::tokenizer::{AddedTokens, Tokenizer};

/// A rendered conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompt {
    pieces: Vec<Piece>,
}

/// A part of a prompt; two texts never follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Control(Control),
    Text(String),
}

impl Prompt {
    /// Encodes the prompt: control tokens by their ids, everything else as plain text.
    ///
    /// # Errors
    /// Lists the control tokens that are needed and that the tokenizer lacks.
    pub fn ids(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
        let missing: Vec<String> = Control::ALL
            .into_iter()
            .filter(|control| self.pieces.contains(&Piece::Control(*control)))
            .map(Control::spelling)
            .filter(|spelling| tokenizer.added_token(spelling).is_none())
            .map(str::to_owned)
            .collect();
        if !missing.is_empty() {
            return Err(Error::SpecialTokens { tokens: missing, what: "this conversation's chat encoding" });
        }
        let mut ids = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Control(control) => ids.extend(tokenizer.added_token(control.spelling())),
                Piece::Text(text) => ids.extend(tokenizer.encode(text, AddedTokens::AsText)?),
            }
        }
        Ok(ids)
    }

    /// The control tokens, each with the range of bytes that it takes in the text.
    pub fn controls(&self) -> Vec<(Control, std::ops::Range<usize>)> {
        let mut at = 0;
        let mut controls = Vec::new();
        for piece in &self.pieces {
            let start = at;
            match piece {
                Piece::Control(control) => {
                    at += control.spelling().len();
                    controls.push((*control, start..at));
                }
                Piece::Text(text) => at += text.len(),
            }
        }
        controls
    }

    fn control(&mut self, control: Control) {
        self.pieces.push(Piece::Control(control));
    }

    fn text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Text(last)) => last.push_str(text),
            Some(Piece::Control(_)) | None => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    /// Our own text, in which the spellings of control tokens mean them.
    fn template(&mut self, mut text: &str) {
        while let Some((at, control)) = Control::ALL
            .into_iter()
            .filter_map(|control| text.find(control.spelling()).map(|at| (at, control)))
            .min_by_key(|(at, _)| *at)
        {
            self.text(&text[..at]);
            self.control(control);
            text = &text[at + control.spelling().len()..];
        }
        self.text(text);
    }
}

/// The prompt as text, control tokens spelt out.
impl fmt::Display for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            match piece {
                Piece::Control(control) => f.write_str(control.spelling())?,
                Piece::Text(text) => f.write_str(text)?,
            }
        }
        Ok(())
    }
}

pub(super) fn render(conversation: &Conversation) -> Result<Prompt> {
    let messages = &conversation.messages;
    let fault = |at: String, message: &str| Err(Error::Chat { at, message: message.to_owned() });
    let Some(last) = messages.last() else {
        return fault("messages".to_owned(), "empty; the model needs at least one message to continue");
    };
    let continued = |message: &Message| matches!(message, Message::Assistant { prefix: true, .. });
    if let Some(at) = messages[..messages.len() - 1].iter().position(continued) {
        return fault(format!("messages[{at}].prefix"), "only the last message can be continued");
    }
    let mut prompt = Prompt::default();
    prompt.control(Control::Begin);
    let rest = preamble(&mut prompt, conversation);
    let mut calls: &[ToolCall] = &[];
    let mut at = 0;
    while let Some(message) = rest.get(at) {
        match message {
            Message::System { content } => {
                prompt.control(Control::System);
                prompt.text(content);
            }
            Message::Reminder { content } => {
                prompt.control(Control::Reminder);
                prompt.text(content);
            }
            Message::User { .. } | Message::Tool { .. } => {
                let said = |m: &Message| matches!(m, Message::User { .. } | Message::Tool { .. });
                let end = at + rest[at..].iter().take_while(|m| said(m)).count();
                user_turn(&mut prompt, &rest[at..end], calls);
                at = end;
                continue;
            }
            Message::Assistant { content, reasoning, tool_calls, prefix } => {
                prompt.control(Control::Assistant);
                // Old reasoning stays only where tools are defined: there a turn spans many messages.
                let thinks = conversation.thinking != Thinking::Off;
                if thinks && (*prefix || !conversation.tools.is_empty()) {
                    prompt.control(Control::Think);
                    prompt.text(reasoning.as_deref().unwrap_or_default());
                }
                prompt.control(Control::ThinkEnd);
                prompt.text(content);
                if !tool_calls.is_empty() {
                    call_block(&mut prompt, tool_calls);
                    calls = tool_calls;
                }
                if !prefix {
                    prompt.control(Control::End);
                }
            }
        }
        at += 1;
    }
    if !continued(last) {
        prompt.control(Control::Assistant);
        prompt.control(match conversation.thinking {
            Thinking::Off => Control::ThinkEnd,
            Thinking::On(_) => Control::Think,
        });
    }
    Ok(prompt)
}

/// The first system text with effort and tools, and the messages behind it.
fn preamble<'a>(prompt: &mut Prompt, conversation: &'a Conversation) -> &'a [Message] {
    let (system, rest) = match conversation.messages.split_first() {
        Some((Message::System { content }, rest)) => (Some(content), rest),
        _ => (None, conversation.messages.as_slice()),
    };
    if system.is_none() && conversation.tools.is_empty() && conversation.thinking == Thinking::Off {
        return rest;
    }
    prompt.control(Control::System);
    if let Thinking::On(effort) = conversation.thinking {
        prompt.text(&format!(
            "Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n",
            effort.value()
        ));
    }
    prompt.text(system.map_or("", String::as_str));
    if !conversation.tools.is_empty() {
        prompt.text("\n\n");
        prompt.template(include_str!("../../data/tools_head.txt"));
        let schemas: Vec<&str> = conversation.tools.iter().map(Tool::schema).collect();
        prompt.text(&schemas.join("\n"));
        prompt.template(include_str!("../../data/tools_tail.txt"));
    }
    rest
}

/// Consecutive messages of the user and results of calls make one turn; the results take the order of the calls.
fn user_turn(prompt: &mut Prompt, messages: &[Message], calls: &[ToolCall]) {
    let mut results: Vec<(&str, Option<&str>)> = messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool { content, tool_call_id } => Some((content.as_str(), tool_call_id.as_deref())),
            _ => None,
        })
        .collect();
    let place = |id: Option<&str>| calls.iter().position(|call| Some(call.id.as_str()) == id).unwrap_or(0);
    results.sort_by_key(|(_, id)| place(*id));
    let mut results = results.into_iter();
    prompt.control(Control::User);
    for (i, message) in messages.iter().enumerate() {
        prompt.text(if i > 0 { "\n\n" } else { "" });
        match message {
            Message::Tool { .. } => {
                let result = results.next().map_or("", |(content, _)| content);
                prompt.text(&format!("<tool_result>{result}</tool_result>"));
            }
            Message::User { content }
            | Message::System { content }
            | Message::Reminder { content }
            | Message::Assistant { content, .. } => prompt.text(content),
        }
    }
}

fn call_block(prompt: &mut Prompt, calls: &[ToolCall]) {
    let tag = |prompt: &mut Prompt, open: &str, rest: &str| {
        prompt.text(open);
        prompt.control(Control::Dsml);
        prompt.text(rest);
    };
    prompt.text("\n\n");
    tag(prompt, "<", " calls>\n");
    for call in calls {
        tag(prompt, "<", &format!(" invoke name=\"{}\">\n", call.name));
        for (i, (name, string, value)) in arguments(&call.arguments).iter().enumerate() {
            prompt.text(if i > 0 { "\n" } else { "" });
            tag(prompt, "<", &format!(" parameter name=\"{name}\" string=\"{string}\">"));
            prompt.text(value);
            tag(prompt, "</", " parameter>");
        }
        prompt.text("\n");
        tag(prompt, "</", " invoke>\n");
    }
    tag(prompt, "</", " calls>");
}

/// Name, whether it is a string, and text of every argument; of a repeated name the last value counts. What is no JSON
/// object becomes one string `arguments`.
fn arguments(text: &str) -> Vec<(String, bool, String)> {
    let Ok(Json::Object(members)) = Json::parse(text, "arguments") else {
        return vec![("arguments".to_owned(), true, text.to_owned())];
    };
    let mut arguments: Vec<(String, bool, String)> = Vec::with_capacity(members.len());
    for (name, value) in members {
        let (string, text) = match value {
            Json::String(text) => (true, text),
            other => (false, dump::dump(&other)),
        };
        match arguments.iter_mut().find(|(known, _, _)| *known == name) {
            Some(known) => *known = (name, string, text),
            None => arguments.push((name, string, text)),
        }
    }
    arguments
}
