//! JSON in a saved text: where it begins and ends, and its content.

use serde_json::Value;

use super::clean::CleanLine;
use super::error::SavedError;
use super::gather::NodeStatements;
use super::{CLUSTER_KEYS, Saved, json_nodes, refusal};

/// Returns the content of the first JSON among the lines; `None` if there is none, or if text that only
/// begins like JSON follows other lines.
pub(super) fn read(lines: &[CleanLine<'_>], noise: &[CleanLine<'_>]) -> Option<Result<Saved, SavedError>> {
    let first = lines.iter().position(begins)?;
    let text = lines[first..].iter().map(|line| line.text.as_ref()).collect::<Vec<_>>().join("\n");
    let mut stream = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let (mut values, mut end) = (Vec::new(), 0);
    while let Some(next) = stream.next() {
        match next {
            Ok(value) => values.push(value),
            Err(error) if values.is_empty() => return unreadable(&text, first == 0, &error),
            Err(_) => break,
        }
        end = stream.byte_offset();
    }
    let after = first + text[..end].matches('\n').count() + 1;
    let around = lines[..first].iter().chain(lines.get(after..).unwrap_or_default()).chain(noise);
    Some(match shown(values, &text[..end]) {
        Ok(JsonContent::Nodes(value)) => {
            let mut gathering = NodeStatements::default();
            json_nodes::read(&value, &mut gathering);
            around.for_each(|line| gathering.leave_out(line.number, &line.text, ""));
            gathering.finish().map(|(cluster, notes)| Saved::Printed(cluster, notes))
        }
        Ok(JsonContent::Other(saved)) => Ok(saved),
        Err(error) => Err(error),
    })
}

/// Returns whether JSON may begin with this line; `[` may also begin a date or a prompt.
fn begins(line: &CleanLine<'_>) -> bool {
    let text = line.text.trim();
    let inside = text.strip_prefix('[').map(str::trim_start);
    let is_list = inside.is_some_and(|inside| inside.is_empty() || inside.starts_with(['{', '[', '"', ']']));
    line.command.is_none() && (text.starts_with('{') || is_list)
}

/// Classifies an unreadable text that begins like JSON: a cluster file may use YAML's flow style, and braces
/// occur in other texts as well.
fn unreadable(text: &str, is_whole: bool, error: &serde_json::Error) -> Option<Result<Saved, SavedError>> {
    let inside = text.trim_start_matches(['{', ' ', '\n']);
    if CLUSTER_KEYS.iter().any(|key| inside.starts_with(key)) {
        return Some(Ok(Saved::ClusterFile));
    }
    if error.is_eof() {
        return Some(Err(SavedError::JsonCut));
    }
    is_whole.then(|| Err(SavedError::Json { message: error.to_string() }))
}

/// The content of JSON.
enum JsonContent {
    Nodes(Value),
    Other(Saved),
}

/// Returns the content of consecutive values; `text` is their source.
fn shown(mut values: Vec<Value>, text: &str) -> Result<JsonContent, SavedError> {
    if values.iter().all(json_nodes::is_node) {
        return Ok(JsonContent::Nodes(Value::Array(values)));
    }
    let value = values.swap_remove(0);
    if let Some(schema) = value.get("schema").and_then(Value::as_str) {
        return match schema.split_once('/') {
            Some(("hsched.inventory", _)) => Ok(JsonContent::Other(Saved::Inventory(text.to_owned()))),
            _ => Err(refusal::of_schema(schema, text)),
        };
    }
    if let Some(node) = value.get("node").filter(|node| json_nodes::is_node(node)) {
        return Ok(JsonContent::Nodes(Value::Array(vec![node.clone()])));
    }
    let nodes = value.get("nodes").or(Some(&value)).and_then(Value::as_array);
    let answered = ["meta", "last_update", "errors"].iter().any(|key| value.get(*key).is_some());
    let is_list = nodes.is_some_and(|nodes| nodes.iter().any(json_nodes::is_node));
    let is_answer = answered && nodes.is_some() && value.get("jobs").is_none();
    if is_list || is_answer || value.get("sinfo").is_some_and(Value::is_array) {
        return Ok(JsonContent::Nodes(value));
    }
    let is_own = |node: &Value| {
        node.get("name").is_some() && node.get("hostname").is_none() && !json_nodes::is_foreign(node)
    };
    if value.get("nodes").is_some() && nodes.is_some_and(|nodes| nodes.iter().all(is_own)) {
        return Ok(JsonContent::Other(Saved::ClusterFile));
    }
    Err(refusal::of_json(&value, text))
}
