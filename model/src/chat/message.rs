//! The turns of a conversation and how they are written in JSON; a field that means nothing here is refused by name.

use super::dump;
use crate::error::{Error, Result};
use crate::json::{Json, repeated_key};

/// A turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Instructions.
    System {
        /// The text.
        content: String,
    },
    /// What the user says.
    User {
        /// The text.
        content: String,
    },
    /// What the assistant said.
    Assistant {
        /// The answer; may be empty where there are calls.
        content: String,
        /// The reasoning before it. Encoded only while tools are defined or the turn is to be continued.
        reasoning: Option<String>,
        /// The functions it called.
        tool_calls: Vec<ToolCall>,
        /// Whether the model is to continue this very turn; only the last one can be.
        prefix: bool,
    },
    /// The result of a call.
    Tool {
        /// The text.
        content: String,
        /// The call it answers; the results of a turn are put in the order of its calls.
        tool_call_id: Option<String>,
    },
    /// An additional instruction (`latest_reminder`).
    Reminder {
        /// The text.
        content: String,
    },
}

/// A call of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The name that the result refers to.
    pub id: String,
    /// The function.
    pub name: String,
    /// The arguments: the text of a JSON object.
    pub arguments: String,
}

/// A function that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    name: String,
    /// The line of the prompt that describes it.
    schema: String,
}

impl Tool {
    /// The function's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The line of the prompt that describes it.
    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Parses a JSON list of `{"type": "function", "function": {"name", "description"?, "parameters"?}}`; `at` names
    /// the list in errors.
    ///
    /// # Errors
    /// The text is not such a list.
    pub fn parse_list(json: &str, at: &str) -> Result<Vec<Tool>> {
        list(&Json::parse(json, at)?, at, |item, at| {
            let fields = Fields::new(item, at, &["type", "function"])?;
            let fields = fields.function(&["name", "description", "parameters"])?;
            let name = fields.text("name")?;
            let description = fields.optional_text("description")?.unwrap_or_default();
            let parameters = fields.get("parameters").cloned().unwrap_or(Json::Null);
            let object = Json::Object(vec![
                ("name".to_owned(), Json::String(name.clone())),
                ("description".to_owned(), Json::String(description)),
                ("parameters".to_owned(), parameters),
            ]);
            Ok(Tool { name, schema: dump::dump(&object) })
        })
    }
}

impl Message {
    /// Parses a JSON list of `{"role", "content", …}`; `at` names the list in errors (`messages`, `line 3: messages`).
    ///
    /// Roles and their fields: `system`, `user`, `latest_reminder`: `content`; `tool`: `content`, `tool_call_id`;
    /// `assistant`: `content`, `reasoning_content`, `tool_calls` (`id`, `type`, `function: {name, arguments}`), `prefix`.
    ///
    /// # Errors
    /// The text is not such a list; the message, the field and what was expected are named.
    pub fn parse_list(json: &str, at: &str) -> Result<Vec<Message>> {
        list(&Json::parse(json, at)?, at, message)
    }
}

fn message(item: &Json, at: &str) -> Result<Message> {
    let members = item.as_object().unwrap_or(&[]);
    let role = members.iter().find(|(key, _)| key == "role").and_then(|(_, role)| role.as_str());
    match role {
        Some("system") => Ok(Message::System { content: content(item, at)? }),
        Some("user") => Ok(Message::User { content: content(item, at)? }),
        Some("latest_reminder") => Ok(Message::Reminder { content: content(item, at)? }),
        Some("tool") => {
            let fields = Fields::new(item, at, &["role", "content", "tool_call_id"])?;
            let tool_call_id = fields.optional_text("tool_call_id")?;
            Ok(Message::Tool { content: fields.text("content")?, tool_call_id })
        }
        Some("assistant") => assistant(item, at),
        _ => {
            let fields = Fields::new(item, at, &[])?;
            let expected = "expected system, user, assistant, tool or latest_reminder";
            match fields.get("role") {
                Some(role) => Err(fields.fault("role", format!("{expected}, got {}", role.describe()))),
                None => Err(fields.fault("role", format!("missing, {expected}"))),
            }
        }
    }
}

fn content(item: &Json, at: &str) -> Result<String> {
    Fields::new(item, at, &["role", "content"])?.text("content")
}

fn assistant(item: &Json, at: &str) -> Result<Message> {
    let fields = Fields::new(item, at, &["role", "content", "reasoning_content", "tool_calls", "prefix"])?;
    let tool_calls = match fields.get("tool_calls") {
        None | Some(Json::Null) => Vec::new(),
        Some(calls) => list(calls, &fields.path("tool_calls"), call)?,
    };
    let content = match fields.optional_text("content")? {
        Some(content) => content,
        None if tool_calls.is_empty() => fields.text("content")?,
        None => String::new(),
    };
    let prefix = match fields.get("prefix") {
        None => false,
        Some(flag) => flag.as_bool().ok_or_else(|| {
            fields.fault("prefix", format!("expected true or false, got {}", flag.describe()))
        })?,
    };
    let reasoning = fields.optional_text("reasoning_content")?;
    Ok(Message::Assistant { content, reasoning, tool_calls, prefix })
}

fn call(item: &Json, at: &str) -> Result<ToolCall> {
    let fields = Fields::new(item, at, &["id", "type", "function"])?;
    let function = fields.function(&["name", "arguments"])?;
    Ok(ToolCall {
        id: fields.text("id")?,
        name: function.text("name")?,
        arguments: function.text("arguments")?,
    })
}

fn list<T>(json: &Json, at: &str, take: impl Fn(&Json, &str) -> Result<T>) -> Result<Vec<T>> {
    let items = json.as_array().ok_or_else(|| Error::Chat {
        at: at.to_owned(),
        message: format!("expected a list, got {}", json.describe()),
    })?;
    items.iter().enumerate().map(|(i, item)| take(item, &format!("{at}[{i}]"))).collect()
}

/// The members of one object, with its place for messages.
struct Fields<'a> {
    at: String,
    members: &'a [(String, Json)],
}

impl<'a> Fields<'a> {
    /// An object whose keys are among `known`; an empty list allows all.
    fn new(json: &'a Json, at: &str, known: &[&str]) -> Result<Fields<'a>> {
        let fault = |message: String| Error::Chat { at: at.to_owned(), message };
        let members =
            json.as_object().ok_or_else(|| fault(format!("expected an object, got {}", json.describe())))?;
        if let Some(key) = repeated_key(members) {
            return Err(fault(format!("{key} occurs twice")));
        }
        let unknown = members.iter().find(|(key, _)| !known.is_empty() && !known.contains(&key.as_str()));
        if let Some((key, _)) = unknown {
            return Err(fault(format!("unknown field {key}; allowed here: {}", known.join(", "))));
        }
        Ok(Fields { at: at.to_owned(), members })
    }

    /// The `function` object of a call or a tool, whose `type`, if given, must be `function`.
    fn function(&self, known: &[&str]) -> Result<Fields<'a>> {
        if let Some(kind) = self.get("type")
            && kind.as_str() != Some("function")
        {
            return Err(self.fault("type", format!("expected \"function\", got {}", kind.describe())));
        }
        match self.get("function") {
            Some(function) => Fields::new(function, &self.path("function"), known),
            None => Err(self.fault("function", "missing, expected an object".to_owned())),
        }
    }

    fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.at)
    }

    fn fault(&self, key: &str, message: String) -> Error {
        Error::Chat { at: self.path(key), message }
    }

    fn get(&self, key: &str) -> Option<&'a Json> {
        self.members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    fn text(&self, key: &str) -> Result<String> {
        match self.get(key) {
            Some(Json::String(text)) => Ok(text.clone()),
            Some(other) => Err(self.fault(key, format!("expected a string, got {}", other.describe()))),
            None => Err(self.fault(key, "missing, expected a string".to_owned())),
        }
    }

    /// A string that may be absent or null.
    fn optional_text(&self, key: &str) -> Result<Option<String>> {
        match self.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(_) => self.text(key).map(Some),
        }
    }
}
