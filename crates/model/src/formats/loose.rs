//! JSON in the imprecise form that programs print: with `NaN`, with `.5`, with a missing value.

use serde_json::{Number, Value};

/// Parses JSON text. A bare value that is not valid JSON becomes a number if possible, otherwise a string, so
/// that one such value does not make other values unreadable.
///
/// # Errors
/// If it is not JSON for another reason.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| serde_json::from_str(&mended(text)).map_err(|_| error))
}

/// Returns whether [`parse`] found a non-finite number here, such as the `NaN` of a diverged loss.
pub fn is_not_finite(value: &Value) -> bool {
    value.as_str().and_then(|word| word.parse().ok()).is_some_and(|number: f64| !number.is_finite())
}

fn mended(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut open, mut last, mut rest) = (Vec::new(), ' ', text);
    while let Some(next) = rest.chars().next() {
        let is_value = last == ':' || open.last() == Some(&'[');
        let mut is_bare = false;
        let length = match next {
            '"' => string(rest),
            '{' | '[' => {
                open.push(next);
                1
            }
            '}' | ']' => {
                open.pop();
                1
            }
            ':' | ',' => 1,
            _ if next.is_whitespace() => next.len_utf8(),
            _ => {
                is_bare = true;
                bare(rest, last == ':')
            }
        };
        if last == ':' && matches!(next, ',' | '}') {
            out.push_str("\"\"");
        }
        let (part, after) = rest.split_at(length);
        out.push_str(&if is_bare && is_value { value(part) } else { part.to_owned() });
        if !next.is_whitespace() {
            last = next;
        }
        rest = after;
    }
    out
}

/// Returns the length of the string at the start of a text.
fn string(text: &str) -> usize {
    let mut is_escaped = true; // the quote that begins it
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of the bare word at the start of a text. After a key, a comma followed by a digit
/// belongs to the word, because some locales write 3.5 as `3,5`.
fn bare(text: &str, is_of_key: bool) -> usize {
    let ends = |&(at, character): &(usize, char)| match character {
        ',' => !(is_of_key && text[at + 1..].starts_with(|next: char| next.is_ascii_digit())),
        _ => character.is_whitespace() || "{}[]:\"".contains(character),
    };
    text.char_indices().find(ends).map_or(text.len(), |(at, _)| at)
}

fn value(word: &str) -> String {
    if serde_json::from_str::<Value>(word).is_ok() {
        return word.to_owned();
    }
    let number = word.parse().ok().and_then(Number::from_f64);
    number.map_or_else(|| Value::from(word), Value::Number).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_that_json_does_not_know_spoils_no_other() {
        let check = |text: &str, expected: Value| assert_eq!(parse(text).ok(), Some(expected), "{text}");
        check(r#"{"a": NaN, "b": -Infinity,"c":nan}"#, json!({"a": "NaN", "b": "-Infinity", "c": "nan"}));
        check(r#"{"a": .5, "b": 007, "c": 1.}"#, json!({"a": 0.5, "b": 7.0, "c": 1.0}));
        check(r#"{"a": , "b": 2, "c": }"#, json!({"a": "", "b": 2, "c": ""}));
        check(
            r#"{"a": 3,5, "b": [1,NaN,2], "c": {"d": 1e999}}"#,
            json!({"a": "3,5", "b": [1, "NaN", 2], "c": {"d": "1e999"}}),
        );
        check(r#"{"a\": NaN, ": "x: NaN, \"", "b": NaN}"#, json!({"a\": NaN, ": "x: NaN, \"", "b": "NaN"}));
        for text in [
            "{'a': 1}",
            "{\"a\": 1",
            "x",
            "{\"a\": NaN",
            "{\"a: NaN",
            "{a: NaN}",
            "NaN",
            "{\"a\": \"\\",
            "}]",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for (word, is) in [("NaN", true), ("-inf", true), ("", false), ("nancy", false), ("1", false)] {
            assert_eq!(is_not_finite(&word.into()), is, "{word}");
        }
    }
}
