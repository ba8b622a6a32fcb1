//! What kind of text a saved file holds.

use serde_json::Value;

use super::error::SavedError;
use super::{json_nodes, refusal, scontrol, table};
use crate::model::Cluster;
use crate::slurm::record::{FIELD_END, RECORD_END, excerpt};
use crate::slurm::sinfo;

/// The kinds that are read.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// hsched's cluster file (YAML).
    ClusterFile,
    /// The JSON of `hsched inventory`.
    Inventory,
    /// What one of Slurm's programs printed.
    Printed(Printed),
}

/// Formats of Slurm's programs.
#[derive(Clone, Debug, PartialEq)]
pub enum Printed {
    /// Records with control characters between the fields, as hsched asks sinfo for.
    Framed,
    /// Records of `key=value`.
    Scontrol,
    /// Tables, with header lines or without.
    Table,
    /// Nodes in JSON.
    Json(Value),
}

/// Keys of a cluster file, one of which it must have.
const CLUSTER_KEYS: [&str; 3] = ["nodes:", "network_gbps:", "intra_node_gbps:"];

/// Returns what kind of text this is.
///
/// # Errors
/// When it is of no kind that shows a cluster; known kinds are named.
pub fn recognise(text: &str) -> Result<Kind, SavedError> {
    let text = text.trim_start_matches('\u{feff}');
    let start = without_prompts(text);
    if start.trim().is_empty() {
        return Err(SavedError::Empty);
    }
    if text.contains('\0') {
        return Err(SavedError::Other { what: "no text", first_line: excerpt(start) });
    }
    if text.contains(FIELD_END) && text.contains(RECORD_END) {
        return Ok(Kind::Printed(Printed::Framed));
    }
    if start.starts_with(['{', '[']) {
        return recognise_json(start);
    }
    let begins = |key: &str| text.lines().any(|line| line.trim_start().starts_with(key));
    if begins("NodeName=") && !refusal::is_configuration(text) {
        return Ok(Kind::Printed(Printed::Scontrol));
    }
    if table::has_nodes(text) {
        return Ok(Kind::Printed(Printed::Table));
    }
    if text.lines().any(|line| CLUSTER_KEYS.iter().any(|key| line.starts_with(key))) {
        return Ok(Kind::ClusterFile);
    }
    if table::has_headerless_nodes(text) {
        return Ok(Kind::Printed(Printed::Table));
    }
    Err(refusal::of_text(start))
}

impl Printed {
    /// Returns the cluster, and notes on what had to be guessed or could not be read.
    ///
    /// # Errors
    /// When no node can be read, or there are more than can be meant.
    pub fn parse(&self, text: &str) -> Result<(Cluster, Vec<String>), SavedError> {
        match self {
            Self::Framed => framed(text),
            Self::Scontrol => scontrol::parse(text),
            Self::Table => table::parse(text),
            Self::Json(value) => json_nodes::parse(value),
        }
    }
}

fn framed(text: &str) -> Result<(Cluster, Vec<String>), SavedError> {
    let what = "hsched's own question to sinfo";
    match sinfo::parse(text) {
        Ok((cluster, notes)) if cluster.nodes.is_empty() => Err(SavedError::NoNode { what, notes }),
        Ok(read) => Ok(read),
        Err(error) => Err(SavedError::NoNode { what, notes: vec![error.to_string()] }),
    }
}

/// Strips blank lines and lines of a shell's prompt, as in a copied session.
fn without_prompts(text: &str) -> &str {
    let mut rest = text.trim_start();
    while is_prompt(rest) {
        rest = rest.split_once('\n').map_or("", |(_, after)| after.trim_start());
    }
    rest
}

/// Returns whether a line is a shell's prompt with a command, or a comment.
pub(super) fn is_prompt(line: &str) -> bool {
    ["$ ", "# ", "> ", "% "].iter().any(|prompt| line.starts_with(prompt))
}

fn recognise_json(text: &str) -> Result<Kind, SavedError> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(_)) if is_flow_yaml(text) => return Ok(Kind::ClusterFile),
        Some(Err(error)) => return Err(SavedError::Json { message: error.to_string() }),
        None => return Err(SavedError::Empty),
    };
    if let Some(schema) = value.get("schema").and_then(Value::as_str) {
        return match schema.split_once('/') {
            Some(("hsched.inventory", _)) => Ok(Kind::Inventory),
            _ => Err(refusal::of_schema(schema, text)),
        };
    }
    let nodes = value.get("nodes").or(Some(&value)).and_then(Value::as_array);
    let slurms = |node: &Value| node.as_object().is_some_and(json_nodes::is_slurms);
    let answered = ["meta", "last_update", "errors"].iter().any(|key| value.get(*key).is_some());
    let has_nodes =
        nodes.is_some_and(|nodes| nodes.iter().any(slurms) || (answered && value.get("nodes").is_some()));
    if has_nodes || value.get("sinfo").is_some_and(Value::is_array) {
        return Ok(Kind::Printed(Printed::Json(value)));
    }
    if value.get("nodes").is_some() && value.get("jobs").is_none() {
        return Ok(Kind::ClusterFile);
    }
    Err(refusal::of_json(&value, text))
}

/// Returns whether the text is a map of a cluster file's keys in YAML's short form.
fn is_flow_yaml(text: &str) -> bool {
    let inside = text.trim_start_matches(['{', ' ', '\n']);
    CLUSTER_KEYS.iter().any(|key| inside.starts_with(key))
}
