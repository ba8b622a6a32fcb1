//! Values in Slurm's JSON, whose notation differs between versions.

use std::collections::BTreeSet;

use serde_json::Value;

use hsched_model::number::to_u64;

/// Returns a count: plain, as text, or as `{"set": true, "infinite": false, "number": 4}`; `None` if it is
/// unset, infinite or negative.
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        Value::Object(_) => {
            let is = |key: &str| value[key].as_bool();
            let known = is("set") != Some(false) && is("infinite") != Some(true);
            // Only one level, because a number is not an object itself.
            value.get("number").filter(|inner| known && !inner.is_object()).and_then(number)
        }
        _ => None,
    }
}

fn whole(number: f64) -> Option<u64> {
    (number.is_finite() && number >= 0.0).then_some(to_u64(number))
}

/// Returns a text; numbers are converted as written.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the words of a list, or of a text with commas.
pub(super) fn words(value: &Value) -> Option<Vec<String>> {
    let words: Vec<String> = match value {
        Value::Array(items) => items.iter().filter_map(text).collect(),
        Value::String(text) => text.split(',').map(str::to_owned).collect(),
        _ => return None,
    };
    Some(words.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

/// Returns the words as a set.
pub(super) fn set(value: &Value) -> Option<BTreeSet<String>> {
    words(value).map(|words| words.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_plain_or_say_whether_they_are_set() {
        let check = |value: Value, expected: Option<u64>| assert_eq!(number(&value), expected, "{value}");
        check(json!(4), Some(4));
        check(json!(4.0), Some(4));
        check(json!("4"), Some(4));
        check(json!({"set": true, "infinite": false, "number": 4}), Some(4));
        check(json!({"number": 4}), Some(4));
        check(json!({"set": false, "infinite": false, "number": 0}), None);
        check(json!({"set": true, "infinite": true, "number": 0}), None);
        check(json!({"number": {"number": 4}}), None);
        check(json!(-2), None);
        check(json!(null), None);
        check(json!([4]), None);
    }

    #[test]
    fn words_are_a_list_or_one_text() {
        assert_eq!(words(&json!(["a", 2, null, ""])), Some(vec!["a".to_owned(), "2".to_owned()]));
        assert_eq!(words(&json!("a, b,")), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(words(&json!(null)), None);
    }
}
