//! JSON as the model has seen it in training: Python's spacing and numbers, letters unescaped, keys in order.

use std::fmt::Write;

use crate::json::Json;

/// The text of a value on one line.
pub(super) fn dump(json: &Json) -> String {
    let mut text = String::new();
    write_json(json, &mut text);
    text
}

fn write_json(json: &Json, out: &mut String) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Number(number) if number.is_f64() => out.push_str(&float(number.as_f64().unwrap_or(0.0))),
        Json::Number(number) => out.push_str(&number.to_string()),
        Json::String(text) => write_string(text, out),
        Json::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_json(item, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (i, (key, value)) in members.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_string(key, out);
                out.push_str(": ");
                write_json(value, out);
            }
            out.push('}');
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Shortest digits that give the number back, as Python prints them: an exponent below 1e-4 and from 1e16 on.
fn float(value: f64) -> String {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..16).contains(&exponent) {
        format!("{value:?}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Right-hand sides printed by `json.dumps(…, ensure_ascii=False)` of Python 3.11.
    #[test]
    fn numbers_and_strings_look_like_pythons() {
        let cases = [
            ("1e22", "1e+22"),
            ("1e16", "1e+16"),
            ("9999999999999998.0", "9999999999999998.0"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("-0.0", "-0.0"),
            ("1.5e-7", "1.5e-07"),
            ("1e300", "1e+300"),
            ("5e-324", "5e-324"),
            ("123456.789", "123456.789"),
            ("1e2", "100.0"),
            ("18446744073709551615", "18446744073709551615"),
            (
                r#""\u0001\u007f\u2028é\/\"\\\b\f\n\r\t""#,
                "\"\\u0001\u{7f}\u{2028}é/\\\"\\\\\\b\\f\\n\\r\\t\"",
            ),
            (r#"{"b":[1,{}],"a":[]}"#, r#"{"b": [1, {}], "a": []}"#),
        ];
        for (json, expected) in cases {
            assert_eq!(dump(&Json::parse(json, "case").unwrap()), expected);
        }
    }
}
