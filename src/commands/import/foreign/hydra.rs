//! Hydra configurations with a sweep: `hydra.sweeper.params` (hydra.cc, "Multi-run").

use serde_json::{Map, Value, json};

use super::{ForeignFile, search, sweep_key};
use hsched_slurm::batch_script::ImportedJob;

/// Maximum number of integers of a range that is written as a list.
const LONGEST_RANGE: usize = 1000;

pub(super) fn read(file: &ForeignFile<'_>, imported: &mut ImportedJob) {
    let hydra = &file.keys["hydra"];
    let sweeper = hydra.get("sweeper");
    let params = sweeper.and_then(|sweeper| sweeper.get("params")).and_then(Value::as_object);
    let mut sweep = Map::new();
    let mut overrides = Vec::new();
    let mut draws = false;
    for (key, value) in params.into_iter().flatten() {
        let line = file.line(key);
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match (sweep_key(key), values(&text)) {
            (Some(name), Some(values)) => {
                draws |= values.is_object();
                overrides.push(format!("{key}={{{name}}}"));
                sweep.insert(name, values);
            }
            _ => imported
                .remark(line, format!("{key}: {text}: not known to hsched; add it to the sweep yourself")),
        }
    }
    if sweep.is_empty() {
        imported.todo(
            "sweep",
            "the file has no hydra.sweeper.params; write what stands behind -m: {lr: [0.1, 0.01]}",
        );
    } else {
        imported.keys.insert("sweep", Value::Object(sweep));
    }
    if draws {
        search(sweeper.and_then(|sweeper| sweeper.get("n_trials")).and_then(Value::as_u64), imported);
    }
    for key in hydra.as_object().into_iter().flatten().map(|(key, _)| key).filter(|key| *key != "sweeper") {
        imported.remark(file.line(key), format!("hydra.{key}: left out"));
    }
    let command = ["python", "APP.py"].into_iter().map(str::to_owned).chain(overrides);
    let command = command.collect::<Vec<_>>().join(" ");
    imported.hints.insert("command", format!("with these overrides: {command}"));
}

/// Parses the values of a sweep: `a,b`, `choice(a,b)`, `range(1,5)`, `interval(0,1)`, `tag(log,
/// interval(1e-4,1))`.
fn values(text: &str) -> Option<Value> {
    let text = text.trim();
    let inside = |name: &str| text.strip_prefix(name)?.trim().strip_prefix('(')?.strip_suffix(')');
    if let Some(inner) = inside("choice") {
        return list(inner);
    }
    if let Some(inner) = inside("range") {
        let numbers: Option<Vec<i64>> = inner.split(',').map(|part| part.trim().parse().ok()).collect();
        let (low, high, step) = match *numbers?.as_slice() {
            [high] => (0, high, 1),
            [low, high] => (low, high, 1),
            [low, high, step] if step > 0 => (low, high, step),
            _ => return None,
        };
        let step = usize::try_from(step).ok()?;
        let integers: Vec<i64> = (low..high).step_by(step).take(LONGEST_RANGE + 1).collect();
        return (1..=LONGEST_RANGE).contains(&integers.len()).then(|| json!(integers));
    }
    if let Some(inner) = inside("interval") {
        return bounds(inner).map(|bounds| json!({ "uniform": bounds }));
    }
    if let Some(inner) = inside("tag") {
        let (tag, inner) = inner.split_once(',')?;
        let inner = inner.trim().strip_prefix("interval")?.trim().strip_prefix('(')?.strip_suffix(')')?;
        return bounds(inner).filter(|_| tag.trim() == "log").map(|bounds| json!({ "log_uniform": bounds }));
    }
    list(text)
}

fn bounds(text: &str) -> Option<[f64; 2]> {
    let (low, high) = text.split_once(',')?;
    Some([low.trim().parse().ok()?, high.trim().parse().ok()?])
}

/// Parses a comma-separated list of words and quoted texts; lists, maps and functions are not parsed.
fn list(text: &str) -> Option<Value> {
    let (mut values, mut rest) = (Vec::new(), text);
    loop {
        let (value, after) = element(rest.trim_start())?;
        values.push(value);
        match after.trim_start().strip_prefix(',') {
            Some(after) => rest = after,
            None => return after.trim().is_empty().then(|| json!(values)),
        }
    }
}

/// Parses the first word or quoted text of a list; returns it and the rest.
fn element(text: &str) -> Option<(Value, &str)> {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let (inner, after) = text[1..].split_once(quote)?;
        // The override needs the quotes unless Hydra reads the same text without them.
        let value = if is_word(inner) { inner } else { &text[..inner.len() + 2] };
        // Escapes are not parsed.
        return (!inner.contains('\\')).then(|| (json!(value), after));
    }
    let (word, after) = text.split_at(text.find(',').unwrap_or(text.len()));
    let word = word.trim_end();
    let is_plain = !word.is_empty() && !word.contains(['(', '{', '[', '"', '\'', '\\']);
    let number = |word: &str| serde_json::from_str::<serde_json::Number>(word).map(Value::Number);
    is_plain.then(|| (number(word).unwrap_or_else(|_| json!(word)), after))
}

/// Returns whether Hydra reads an unquoted text as this text, and not as a number, a boolean, null or a list.
fn is_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_plain)
        && !["true", "false", "null", "nan", "inf"].contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_quotes_separate_no_values() {
        assert_eq!(values("'a,b',c"), Some(json!(["'a,b'", "c"])));
        assert_eq!(values(r#"choice("p,q", r, 1e-3)"#), Some(json!(["\"p,q\"", "r", 1e-3])));
        assert_eq!(values("a b , 'x', '1', 'true', 2"), Some(json!(["a b", "x", "'1'", "'true'", 2])));
        for text in ["'a,b", "a,,b", "a,", "[1,2],[3,4]", "{a:1},2", "glob(*)", r"'a\'b',c", "'a'b,c"] {
            assert_eq!(values(text), None, "{text}");
        }
    }

    #[test]
    fn the_limit_of_a_range_counts_its_integers() {
        assert_eq!(values("range(0,5000,1000)"), Some(json!([0, 1000, 2000, 3000, 4000])));
        assert_eq!(values("range(-9223372036854775808,9223372036854775807)"), None);
        let count = |text: &str| values(text)?.as_array().map(Vec::len);
        assert_eq!((count("range(1000)"), count("range(1001)"), count("range(0)")), (Some(1000), None, None));
    }
}
