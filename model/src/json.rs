//! JSON as a tree that keeps key order and repeated keys, so that a reader can refuse what maps would hide.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use crate::error::{Error, Result};

/// A JSON value; an object is the list of its members as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a whole text; `file` names it in errors.
    pub(crate) fn parse(text: &str, file: &str) -> Result<Json> {
        serde_json::from_str(text)
            .map_err(|error| Error::Json { file: file.to_owned(), message: error.to_string() })
    }

    /// A short description for messages: the value itself where it is short, else its kind.
    pub(crate) fn describe(&self) -> String {
        match self {
            Json::Null => "null".to_owned(),
            Json::Bool(value) => value.to_string(),
            Json::Number(value) => value.to_string(),
            Json::String(value) if value.chars().count() <= 40 => format!("{value:?}"),
            Json::String(_) => "a long string".to_owned(),
            Json::Array(items) => format!("an array of {}", items.len()),
            Json::Object(_) => "an object".to_owned(),
        }
    }

    /// The value as an unsigned integer, if it is one and written as one.
    pub(crate) fn as_u64(&self) -> Option<u64> {
        match self {
            Json::Number(number) => number.as_u64(),
            Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => None,
        }
    }

    /// The value as a finite number.
    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Json::Number(number) => number.as_f64().filter(|value| value.is_finite()),
            Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => None,
        }
    }

    /// The value as a string.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => None,
        }
    }

    /// The value as a boolean.
    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            Json::Null | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => None,
        }
    }

    /// The items of an array.
    pub(crate) fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => None,
        }
    }

    /// The members of an object.
    pub(crate) fn as_object(&self) -> Option<&[(String, Json)]> {
        match self {
            Json::Object(members) => Some(members),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
        }
    }
}

/// The first key that occurs twice among the members, if any.
pub(crate) fn repeated_key(members: &[(String, Json)]) -> Option<&str> {
    let mut seen = std::collections::HashSet::with_capacity(members.len());
    members.iter().map(|(key, _)| key.as_str()).find(|key| !seen.insert(*key))
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> std::result::Result<Json, E> {
        Ok(Json::Null)
    }
    fn visit_bool<E>(self, value: bool) -> std::result::Result<Json, E> {
        Ok(Json::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> std::result::Result<Json, E> {
        Ok(Json::Number(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> std::result::Result<Json, E> {
        Ok(Json::Number(value.into()))
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> std::result::Result<Json, E> {
        Number::from_f64(value).map(Json::Number).ok_or_else(|| E::custom("number is not finite"))
    }
    fn visit_str<E>(self, value: &str) -> std::result::Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> std::result::Result<Json, E> {
        Ok(Json::String(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Json::Object(members))
    }
}
