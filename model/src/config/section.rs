//! Reads one object of a configuration key by key, collecting every fault instead of stopping at the first.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use crate::error::ConfigFault;
use crate::json::{Json, repeated_key};

/// The faults found so far and the unknown keys that the user accepts.
pub(super) struct Findings<'a> {
    faults: RefCell<Vec<ConfigFault>>,
    accept: &'a [String],
    accepted: RefCell<Vec<String>>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(accept: &'a [String]) -> Self {
        Findings { faults: RefCell::default(), accept, accepted: RefCell::default() }
    }

    pub(super) fn report(&self, key: impl Into<String>, message: impl Into<String>) {
        self.faults.borrow_mut().push(ConfigFault { key: key.into(), message: message.into() });
    }

    /// Whether none of the keys has a fault: a rule over several keys is judged only where each alone is sound.
    pub(super) fn sound(&self, keys: &[&str]) -> bool {
        let faults = self.faults.borrow();
        !keys.iter().any(|key| faults.iter().any(|fault| covers(&fault.key, key)))
    }

    pub(super) fn into_parts(self) -> (Vec<ConfigFault>, Vec<String>) {
        (self.faults.into_inner(), self.accepted.into_inner())
    }
}

/// A fault of a section is a fault of all its keys, a fault of an element one of its array.
fn covers(fault: &str, key: &str) -> bool {
    let inside = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    inside(fault, key) || inside(key, fault)
}

/// One object of the file. A read of a faulty key reports the fault and returns a stand-in that is never used,
/// because a configuration with faults is refused as a whole.
pub(super) struct Section<'a> {
    path: String,
    members: &'a [(String, Json)],
    read: RefCell<Vec<&'static str>>,
    findings: &'a Findings<'a>,
    /// The section itself is missing or no object: one fault says so, its keys stay silent.
    absent: bool,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(super) fn root(json: &'a Json, findings: &'a Findings<'a>) -> Self {
        let members = json.as_object();
        if members.is_none() {
            findings.report("top level", format!("expected an object, got {}", json.describe()));
        }
        Section::over(String::new(), members, findings)
    }

    fn over(path: String, members: Option<&'a [(String, Json)]>, findings: &'a Findings<'a>) -> Self {
        let absent = members.is_none();
        Section { path, members: members.unwrap_or(&[]), read: RefCell::default(), findings, absent }
    }

    pub(super) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn report(&self, key: &str, message: impl Into<String>) {
        self.findings.report(self.path(key), message);
    }

    fn look(&self, key: &'static str) -> Option<&'a Json> {
        self.read.borrow_mut().push(key);
        self.members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value of a key that must be there.
    fn need(&self, key: &'static str, expected: &str) -> Option<&'a Json> {
        let value = self.look(key);
        if value.is_none() && !self.absent {
            self.report(key, format!("missing, expected {expected}"));
        }
        value
    }

    fn mismatch(&self, key: &str, expected: &str, value: &Json) {
        self.report(key, format!("expected {expected}, got {}", value.describe()));
    }

    fn want<T>(
        &self,
        key: &'static str,
        value: Option<&Json>,
        expected: &str,
        take: impl Fn(&Json) -> Option<T>,
    ) -> Option<T> {
        let value = value?;
        let taken = take(value);
        if taken.is_none() {
            self.mismatch(key, expected, value);
        }
        taken
    }

    pub(super) fn section(&self, key: &'static str) -> Section<'a> {
        let value = self.need(key, "an object");
        let members = self.want(key, value, "an object", |json| json.as_object().map(|_| ()));
        let members = members.and_then(|()| value.and_then(Json::as_object));
        Section::over(self.path(key), members, self.findings)
    }

    /// An integer within a range.
    pub(super) fn count(&self, key: &'static str, range: RangeInclusive<usize>) -> usize {
        let expected = integer(&range);
        let value = self.need(key, &expected);
        self.want(key, value, &expected, |json| within(json, &range)).unwrap_or(*range.start())
    }

    /// An integer within a range, where the key may be absent.
    pub(super) fn optional_count(&self, key: &'static str, range: RangeInclusive<usize>) -> Option<usize> {
        self.want(key, self.look(key), &integer(&range), |json| within(json, &range))
    }

    /// A token id; whether it lies in the vocabulary is a later rule.
    pub(super) fn token(&self, key: &'static str) -> u32 {
        u32::try_from(self.count(key, 0..=MAX_TOKEN)).unwrap_or(0)
    }

    /// One token id or an array of them, each below `vocabulary`; none if the key is absent.
    pub(super) fn tokens(&self, key: &'static str, vocabulary: usize) -> Vec<u32> {
        let range = 0..=vocabulary.saturating_sub(1);
        let ids = match self.look(key) {
            None => None,
            Some(Json::Array(_)) => self.counts(key, range, 256, true),
            Some(value) => {
                self.want(key, Some(value), &integer(&range), |json| within(json, &range).map(|id| vec![id]))
            }
        };
        ids.unwrap_or_default().into_iter().filter_map(|id| u32::try_from(id).ok()).collect()
    }

    /// Integers within a range, at least one and at most `most` of them.
    pub(super) fn counts(
        &self,
        key: &'static str,
        each: RangeInclusive<usize>,
        most: usize,
        optional: bool,
    ) -> Option<Vec<usize>> {
        let expected = format!("an array of 1 to {most} integers");
        let value = if optional { self.look(key) } else { self.need(key, &expected) }?;
        let items = value.as_array().filter(|items| (1..=most).contains(&items.len()));
        let Some(items) = items else {
            self.mismatch(key, &expected, value);
            return None;
        };
        let mut sound = true;
        let mut numbers = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            match within(item, &each) {
                Some(number) => numbers.push(number),
                None => {
                    sound = false;
                    self.mismatch(&format!("{key}[{i}]"), &integer(&each), item);
                }
            }
        }
        sound.then_some(numbers)
    }

    /// A number within a range whose lower end may be excluded.
    pub(super) fn number(&self, key: &'static str, range: Span) -> f64 {
        let expected = range.to_string();
        let value = self.need(key, &expected);
        self.want(key, value, &expected, |json| range.take(json)).unwrap_or(1.0)
    }

    /// A number within a range, where the key may be absent.
    pub(super) fn optional_number(&self, key: &'static str, range: Span) -> Option<f64> {
        self.want(key, self.look(key), &range.to_string(), |json| range.take(json))
    }

    /// A key that may be `null`: no limit.
    pub(super) fn nullable_number(&self, key: &'static str, range: Span) -> Option<f64> {
        let expected = format!("null or {range}");
        let value = self.need(key, &expected)?;
        if *value == Json::Null {
            return None;
        }
        self.want(key, Some(value), &expected, |json| range.take(json))
    }

    /// A string that only informs and may be absent.
    pub(super) fn optional_text(&self, key: &'static str) {
        self.want(key, self.look(key), "a string", |json| json.as_str().map(|_| ()));
    }

    /// A boolean that may be absent.
    pub(super) fn optional_flag(&self, key: &'static str) -> Option<bool> {
        self.want(key, self.look(key), "true or false", Json::as_bool)
    }

    /// A key for which one value is implemented.
    pub(super) fn only(&self, key: &'static str, supported: &Json) {
        let expected = render(supported);
        if let Some(value) = self.need(key, &expected) {
            self.judge(key, value, supported, &expected);
        }
    }

    /// A key that may be absent and for which one value is implemented.
    pub(super) fn only_if_present(&self, key: &'static str, supported: &Json) {
        if let Some(value) = self.look(key) {
            self.judge(key, value, supported, &render(supported));
        }
    }

    fn judge(&self, key: &str, value: &Json, supported: &Json, expected: &str) {
        if !same(value, supported) {
            self.report(key, format!("only {expected} is supported, got {}", render_short(value)));
        }
    }

    /// Refuses repeated keys and keys that nothing has read.
    pub(super) fn finish(self) {
        if let Some(key) = repeated_key(self.members) {
            self.report(key, "the key occurs twice");
        }
        let read = self.read.borrow();
        for (name, _) in self.members {
            if read.iter().any(|key| key == name) {
                continue;
            }
            let path = self.path(name);
            if self.findings.accept.iter().any(|key| *key == path || key == name) {
                let mut accepted = self.findings.accepted.borrow_mut();
                if !accepted.contains(&path) {
                    accepted.push(path);
                }
            } else if self.findings.sound(&[&path]) {
                self.findings.report(path, format!("unknown key (pass --accept-config {name} to ignore it)"));
            }
        }
    }
}

/// Largest token id that any vocabulary here can have.
pub(super) const MAX_TOKEN: usize = (1 << 24) - 1;

/// A range of numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) low: f64,
    /// Whether `low` itself is allowed.
    pub(super) closed: bool,
    pub(super) high: f64,
}

impl Span {
    /// Numbers above zero.
    pub(super) const POSITIVE: Span = Span { low: 0.0, closed: false, high: 1e30 };
    /// Zero and above.
    pub(super) const NOT_NEGATIVE: Span = Span { low: 0.0, closed: true, high: 1e30 };

    fn take(&self, json: &Json) -> Option<f64> {
        let value = json.as_f64()?;
        let above = if self.closed { value >= self.low } else { value > self.low };
        (above && value <= self.high).then_some(value)
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let low = if self.closed { "at least" } else { "above" };
        write!(f, "a number {low} {}", self.low)?;
        if self.high < 1e30 { write!(f, " and at most {}", self.high) } else { Ok(()) }
    }
}

fn integer(range: &RangeInclusive<usize>) -> String {
    format!("an integer from {} to {}", range.start(), range.end())
}

fn within(json: &Json, range: &RangeInclusive<usize>) -> Option<usize> {
    let value = usize::try_from(json.as_u64()?).ok()?;
    range.contains(&value).then_some(value)
}

/// Equality that does not tell 0 from 0.0.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(_), Json::Number(_)) => a.as_f64() == b.as_f64(),
        (Json::Array(x), Json::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        _ => a == b,
    }
}

fn render(json: &Json) -> String {
    match json {
        Json::Array(items) => {
            format!("[{}]", items.iter().map(render).collect::<Vec<_>>().join(", "))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => json.describe(),
    }
}

fn render_short(json: &Json) -> String {
    match json.as_array() {
        Some(items) if items.len() > 8 => json.describe(),
        _ => render(json),
    }
}
