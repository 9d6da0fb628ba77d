//! The schemas of docs/json.md, and whether an object follows its own. Knows the words of JSON Schema that they use.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The schemas by name, `tessera.run/1` and so on.
pub(crate) fn all() -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(super::repo("docs/json.md")).unwrap();
    let mut schemas = BTreeMap::new();
    for section in text.split("\n## ").skip(1) {
        let name = section.lines().next().unwrap().trim().to_owned();
        let block = section.split("```json\n").nth(1).unwrap_or_else(|| panic!("{name} has no schema"));
        let block = block.split("```").next().unwrap();
        schemas.insert(name.clone(), serde_json::from_str(block).unwrap_or_else(|e| panic!("{name}: {e}")));
    }
    schemas
}

/// Asserts that `value` follows the schema that its first field names.
pub(crate) fn check(value: &Value) {
    let name = value["schema"].as_str().expect("a schema");
    let schemas = all();
    let schema = schemas.get(name).unwrap_or_else(|| panic!("docs/json.md has no schema {name}"));
    let mut faults = Vec::new();
    validate(schema, value, "", &mut faults);
    assert!(faults.is_empty(), "{name}: {faults:#?}");
}

/// Collects what of `value` departs from `schema`.
pub(crate) fn validate(schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let empty = Map::new();
    let members = schema.as_object().unwrap();
    for (word, rule) in members {
        match word.as_str() {
            "const" if value != rule => faults.push(format!("{at}: {value} is not {rule}")),
            "const" => {}
            "enum" if !rule.as_array().unwrap().contains(value) => {
                faults.push(format!("{at}: {value} is not one of {rule}"));
            }
            "enum" => {}
            "type" => {
                let kinds = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                if !kinds.iter().any(|kind| is(kind.as_str().unwrap(), value)) {
                    faults.push(format!("{at}: {value} is not of type {rule}"));
                }
            }
            "required" => {
                let Some(object) = value.as_object() else { continue };
                for name in rule.as_array().unwrap() {
                    if !object.contains_key(name.as_str().unwrap()) {
                        faults.push(format!("{at}: {name} is missing"));
                    }
                }
            }
            "properties" => {
                for (name, inner) in value.as_object().unwrap_or(&empty) {
                    if let Some(schema) = rule.get(name) {
                        validate(schema, inner, &format!("{at}.{name}"), faults);
                    }
                }
            }
            "additionalProperties" => {
                assert_eq!(rule, &Value::Bool(false));
                let known = members["properties"].as_object().unwrap();
                for name in
                    value.as_object().unwrap_or(&empty).keys().filter(|name| !known.contains_key(*name))
                {
                    faults.push(format!("{at}: {name} is not in the schema"));
                }
            }
            "items" => {
                for (i, item) in value.as_array().unwrap_or(&Vec::new()).iter().enumerate() {
                    validate(rule, item, &format!("{at}[{i}]"), faults);
                }
            }
            other => panic!("the test does not know the word {other}"),
        }
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("the test does not know the type {other}"),
    }
}
