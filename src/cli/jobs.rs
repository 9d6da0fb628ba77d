//! A file of requests, one JSON object a line: each becomes a job or says what is wrong with it.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::path::Path;
use tessera::load::ModelFolder;
use tessera::model::chat::{Message, Thinking};
use tessera::prompt::Prompt;
use tessera::runtime::Sampling;
use tessera::stop::StopMatcher;
use tessera::{Error, Result};

/// A request that can run.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The caller's name for it; null if there is none.
    pub(crate) id: Value,
    /// Its line in the file.
    pub(crate) line: Option<usize>,
    /// Prompt.
    pub(crate) prompt: Vec<u32>,
    /// Tokens to generate at most.
    pub(crate) max_tokens: usize,
    /// How tokens are chosen.
    pub(crate) sampling: Sampling,
    /// Strings that end the text.
    pub(crate) stop: Vec<String>,
}

/// A line that cannot run.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    /// The caller's name for it, if it could be read.
    pub(crate) id: Value,
    /// Its line in the file.
    pub(crate) line: usize,
    /// What kind of fault it is.
    pub(crate) kind: &'static str,
    /// What is wrong, with the line's number.
    pub(crate) message: String,
}

/// What a line does not say is as the command line says.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) max_tokens: usize,
    pub(crate) sampling: Sampling,
    pub(crate) stop: Vec<String>,
    /// Whether prompts are questions for the chat encoding, and how it thinks.
    pub(crate) chat: bool,
    pub(crate) thinking: Thinking,
}

/// A line as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    id: Option<Value>,
    prompt: Option<String>,
    tokens: Option<Vec<u32>>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    max_tokens: Option<usize>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<usize>,
    min_p: Option<f32>,
    seed: Option<u64>,
    stop: Option<Vec<String>>,
    n: Option<u64>,
    logprobs: Option<Value>,
    schema: Option<Value>,
    regex: Option<Value>,
    grammar: Option<Value>,
}

/// Reads all requests of a file in order. Lines of white space are skipped; they count for line numbers.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read(
    path: &Path,
    folder: &ModelFolder,
    defaults: &Defaults,
) -> Result<Vec<Result<Job, Broken>>> {
    let bytes = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let lines = bytes.split(|b| *b == b'\n').enumerate().map(|(at, line)| (at + 1, line.trim_ascii()));
    let filled = lines.filter(|(_, line)| !line.is_empty());
    Ok(filled.map(|(number, line)| job(number, line, folder, defaults)).collect())
}

fn job(line: usize, bytes: &[u8], folder: &ModelFolder, defaults: &Defaults) -> Result<Job, Broken> {
    let broken = |id: Value, kind, message: String| Broken {
        id,
        line,
        kind,
        message: format!("line {line}: {message}"),
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let message = format!("byte {} is not valid UTF-8", error.valid_up_to());
        broken(Value::Null, "request", message)
    })?;
    let parsed: Line<'_> = serde_json::from_str(text).map_err(|error| {
        // The text is one line, so that only the column says something.
        let message = error.to_string().replace(" at line 1 column ", ", column ");
        broken(readable_id(text), "request", format!("not a request: {message}"))
    })?;
    let id = parsed.id.clone().unwrap_or_default();
    if !matches!(id, Value::Null | Value::String(_) | Value::Number(_)) {
        return Err(broken(Value::Null, "request", "id must be a string or a number".to_owned()));
    }
    match fill(line, &parsed, folder, defaults) {
        Ok(job) => Ok(Job { id, ..job }),
        Err(error) => Err(broken(id, error.kind(), error.to_string())),
    }
}

/// The id of a line that is JSON but no request.
fn readable_id(text: &str) -> Value {
    let id = serde_json::from_str::<Value>(text).ok().and_then(|mut value| Some(value.get_mut("id")?.take()));
    id.filter(|id| matches!(id, Value::String(_) | Value::Number(_))).unwrap_or_default()
}

fn fill(line: usize, parsed: &Line<'_>, folder: &ModelFolder, defaults: &Defaults) -> Result<Job> {
    let later = [
        ("n", parsed.n.is_some_and(|n| n != 1)),
        ("logprobs", !matches!(parsed.logprobs, None | Some(Value::Null | Value::Bool(false)))),
        ("schema", parsed.schema.is_some()),
        ("regex", parsed.regex.is_some()),
        ("grammar", parsed.grammar.is_some()),
    ];
    if let Some((field, _)) = later.iter().find(|(_, used)| *used) {
        return Err(Error::Unsupported(format!("field {field} is not supported by this version; remove it")));
    }
    let given = [parsed.prompt.is_some(), parsed.tokens.is_some(), parsed.messages.is_some()];
    if given.iter().filter(|given| **given).count() != 1 {
        return Err(Error::Request("expected exactly one of prompt, tokens and messages".to_owned()));
    }
    let prompt = match (&parsed.prompt, &parsed.tokens, parsed.messages) {
        (Some(text), _, _) if defaults.chat => Prompt::Question(text.clone(), defaults.thinking),
        (Some(text), _, _) => Prompt::Text(text.clone()),
        (None, Some(ids), _) => Prompt::Tokens(ids.clone()),
        (None, None, messages) => {
            let messages = Message::parse_list(messages.map_or("[]", RawValue::get), "messages")?;
            Prompt::Turns(messages, defaults.thinking)
        }
    };
    let base = defaults.sampling;
    let sampling = Sampling {
        temperature: parsed.temperature.unwrap_or(base.temperature),
        top_p: parsed.top_p.unwrap_or(base.top_p),
        top_k: parsed.top_k.unwrap_or(base.top_k),
        min_p: parsed.min_p.unwrap_or(base.min_p),
        seed: parsed.seed.unwrap_or(base.seed),
        sample: base.sample,
    };
    let stop = parsed.stop.clone().unwrap_or_else(|| defaults.stop.clone());
    let max_tokens = parsed.max_tokens.unwrap_or(defaults.max_tokens);
    let job =
        Job { id: Value::Null, line: Some(line), prompt: prompt.ids(folder)?, max_tokens, sampling, stop };
    check(&job, folder)?;
    Ok(job)
}

/// Refuses settings outside their ranges, by name.
pub(crate) fn check(job: &Job, folder: &ModelFolder) -> Result<()> {
    if job.max_tokens == 0 {
        return Err(Error::Request("max_tokens is 0; it must be at least 1".to_owned()));
    }
    job.sampling.check()?;
    if !job.stop.is_empty() {
        folder.text()?;
    }
    StopMatcher::new(&job.stop).map(|_| ())
}
