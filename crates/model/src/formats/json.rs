//! JSON as a YAML tree, and the one construct of JSON text that YAML does not read: a character written as
//! two `\u` escapes.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use super::yaml::{ValueKind, YamlKey, YamlNode};

/// Returns the tree of a value, all of it on line 1.
pub(super) fn tree(value: &Value) -> YamlNode {
    let scalar = |text: String, quoted| ValueKind::Scalar { text, quoted };
    let key = |text: &String| YamlKey { line: 1, text: text.clone(), quoted: true };
    let kind = match value {
        Value::Null => scalar("null".to_owned(), false),
        Value::Bool(switch) => scalar(switch.to_string(), false),
        Value::Number(number) => scalar(number.to_string(), false),
        Value::String(text) => scalar(text.clone(), true),
        Value::Array(items) => ValueKind::List(items.iter().map(tree).collect()),
        Value::Object(entries) => {
            ValueKind::Map(entries.iter().map(|(name, value)| (key(name), tree(value))).collect())
        }
    };
    YamlNode { line: 1, kind }
}

/// Returns the text with every surrogate pair (`\ud83d\ude00`) replaced by YAML's single escape
/// (`\U0001F600`), if the text looks like JSON; lines are unchanged.
///
/// JSON has only double-quoted strings, so every backslash begins an escape.
pub(super) fn with_whole_characters(text: &str) -> Cow<'_, str> {
    let looks_like_json = text.trim_start().starts_with(['{', '[']);
    if !looks_like_json || !text.contains("\\u") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        if let Some(character) = pair(escape) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\U{:08X}", u32::from(character));
            rest = escape.get(12..).unwrap_or_default();
        } else {
            // A backslash escapes the next character, which may also be a backslash.
            let length = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
            out.push_str(&escape[..length]);
            rest = &escape[length..];
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns the character of two escapes at the start of the text.
fn pair(text: &str) -> Option<char> {
    let unit = |range| u16::from_str_radix(text.get(range)?, 16).ok();
    if !(text.starts_with("\\u") && text.get(6..8) == Some("\\u")) {
        return None;
    }
    char::decode_utf16([unit(2..6)?, unit(8..12)?])
        .next()?
        .ok()
        .filter(|character| character.len_utf16() == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pairs_of_json_change() {
        let check = |text: &str, expected: &str| assert_eq!(with_whole_characters(text), expected);
        check(r#"{"a": "\ud83d\ude00\u00e9\n"}"#, r#"{"a": "\U0001F600\u00e9\n"}"#);
        check(r#"{"a": "\\ud83d\\ude00"}"#, r#"{"a": "\\ud83d\\ude00"}"#);
        check(r#"{"a": "\ud83d"}"#, r#"{"a": "\ud83d"}"#);
        check(r#"{"a": "\u+123\u-123é\"#, r#"{"a": "\u+123\u-123é\"#);
        check(r"a: '\ud83d\ude00'", r"a: '\ud83d\ude00'");
    }
}
