//! Saved output of Slurm's commands: detects the kind of a text and reads the cluster in it.
//!
//! This lets a user without access plan for a cluster from output printed by someone else, and lets a bug
//! report include its cluster. All functions are pure. An unreadable line is skipped with a note; a text that
//! cannot be read with certainty is refused, and the error names the missing data.

mod bundle;
mod cells;
mod clean;
mod columns;
mod error;
mod facts;
mod fields;
mod gather;
mod header;
mod json;
mod json_nodes;
mod json_text;
mod looks;
mod refusal;
mod rows;
mod scontrol;
mod table;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use self::bundle::{BundleError, BundledCall, SavedBundle};
pub use self::columns::{Columns, ColumnsError};
pub use self::error::{READABLE, SavedError};
use self::gather::NodeStatements;
use crate::record::{FIELD_END, RECORD_END};
use crate::sinfo;
use hsched_model::Cluster;

/// The kind of a saved text.
#[derive(Clone, Debug, PartialEq)]
pub enum Saved {
    /// hsched's cluster file (YAML).
    ClusterFile,
    /// The JSON of `hsched inventory`.
    Inventory(String),
    /// Output of one of Slurm's programs, with notes on assumptions and unreadable parts.
    Printed(Cluster, Vec<String>),
}

/// Keys of a cluster file; a text without any of them is not a cluster file.
const CLUSTER_KEYS: [&str; 3] = ["nodes:", "network_gbps:", "intra_node_gbps:"];

/// Reads a text; `columns` are those of a table without a header line.
///
/// # Errors
/// If it contains no cluster, or is ambiguous; known kinds of text are named.
pub fn read(text: &str, columns: Option<&Columns>) -> Result<Saved, SavedError> {
    if text.contains(FIELD_END) && text.contains(RECORD_END) {
        return framed(text);
    }
    if text.contains('\0') {
        return Err(refusal::of_binary(text));
    }
    let text = clean::text(text);
    let (lines, noise) = clean::lines(&text);
    if noise.is_empty() && lines.iter().all(|line| line.command.is_some()) {
        return Err(if lines.is_empty() { SavedError::Empty } else { SavedError::NoOutput });
    }
    let json = if columns.is_none() { json_text::read(&lines, &noise) } else { None };
    // An odd line of a table may look like JSON, so JSON without nodes is refused only if nothing else is read.
    let refused = match json {
        Some(Ok(saved)) => return Ok(saved),
        Some(Err(error)) => Some(error),
        None => None,
    };
    let known = refused.or_else(|| refusal::known(&lines, &noise));
    if let (Some(known), true) = (&known, lines.iter().any(|line| refusal::is_configuration(&line.text))) {
        return Err(known.clone());
    }
    let mut gathering = NodeStatements::default();
    let rest = scontrol::read(&lines, &mut gathering);
    let headerless = table::read(&rest, columns, &mut gathering).map(|line| SavedError::Headerless { line });
    if gathering.is_empty() {
        let is_cluster_file = |line: &str| CLUSTER_KEYS.iter().any(|key| line.starts_with(key));
        return if text.lines().any(is_cluster_file) {
            Ok(Saved::ClusterFile)
        } else {
            Err(known.or(headerless).unwrap_or_else(|| refusal::of_text(&lines, &noise)))
        };
    }
    if let (Some(headerless), false) = (headerless, gathering.has_gpus()) {
        return Err(headerless);
    }
    let prompts = lines.iter().filter(|line| line.command.is_some());
    prompts.chain(&noise).for_each(|line| gathering.leave_out(line.number, &line.text, ""));
    gathering.finish().map(|(cluster, notes)| Saved::Printed(cluster, notes))
}

/// Reads records in the format in which hsched calls sinfo, with control characters between the fields.
fn framed(text: &str) -> Result<Saved, SavedError> {
    let what = "hsched's own question to sinfo";
    match sinfo::parse(text) {
        Ok((cluster, notes)) if cluster.nodes.is_empty() => Err(SavedError::NoNode { what, notes }),
        Ok((cluster, notes)) => Ok(Saved::Printed(cluster, notes)),
        Err(error) => Err(SavedError::NoNode { what, notes: vec![error.to_string()] }),
    }
}
