//! Why a saved text contains no cluster.

use thiserror::Error;

/// A list of readable texts, for hints.
pub const READABLE: &str = "hsched reads saved output of `scontrol show node`, `sinfo --json`, \
    `scontrol show nodes --json`, slurmrestd's nodes, tables of `sinfo` that name or count nodes, a cluster \
    file, or `hsched inventory --format json`";

/// A sinfo command whose output has all necessary data, for hints.
pub(super) const ASK: &str =
    "`sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'`";

/// Why a saved text contains no cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SavedError {
    #[error("is empty")]
    Empty,
    #[error("has only commands and comments (lines that begin with a prompt or #), and no output below them")]
    NoOutput,
    #[error("cannot be read: it looks like {what}; it begins with {first_line:?}")]
    Other { what: String, first_line: String },
    #[error("cannot be read: its format is unknown; it begins with {first_line:?}")]
    Unknown { first_line: String },
    #[error("cannot be read: it begins like JSON, but is not valid JSON: {message}")]
    Json { message: String },
    #[error("cannot be read: its JSON is truncated")]
    JsonCut,
    #[error("looks like {what}, but no node in it can be read{}", details(notes))]
    NoNode { what: &'static str, notes: Vec<String> },
    #[error(
        "has a table without a header line, from line {line} on; print it again with the header (without -h), or give \
         its format, such as --columns '%N|%G|%T' or '%D %G'"
    )]
    Headerless { line: usize },
    #[error(
        "is ambiguous: only {read} of {lines} lines match the {columns} columns of the table; the other \
            lines may be broken or truncated, or the table has different columns"
    )]
    Columns { read: usize, lines: usize, columns: usize },
    #[error("is ambiguous: {column} is truncated, as in {text:?}; {ASK} prints it in full")]
    Cut { column: &'static str, text: String },
    #[error(
        "is ambiguous: its lines for {name} differ, so this may be several truncated names; {ASK} prints \
            full names"
    )]
    Differ { name: String },
    #[error(
        "is ambiguous: {gres} appears in several partitions, or in two identical lines, and these may be \
            the same nodes; add the node names (%N or NodeList)"
    )]
    Repeated { gres: String },
    #[error(
        "is ambiguous: several tables count nodes without naming them; save only one of them, or add the \
            node names (%N or NodeList)"
    )]
    Counted,
    #[error(
        "is incomplete: it shows which GPUs of {node} are in use, but not how many the node has; add GRES \
            (%G or Gres)"
    )]
    UsedAlone { node: String },
    #[error("shows several clusters ({clusters}); save each in its own file")]
    Clusters { clusters: String },
    #[error("names more than {limit} {things}")]
    TooMany { limit: u64, things: &'static str },
}

impl SavedError {
    /// Returns whether a list of readable texts helps.
    pub fn is_of_another_kind(&self) -> bool {
        matches!(
            self,
            Self::Empty | Self::NoOutput | Self::Other { .. } | Self::Unknown { .. } | Self::Json { .. }
        )
    }
}

/// Returns the first notes, as the end of a sentence.
fn details(notes: &[String]) -> String {
    let some: Vec<&str> = notes.iter().take(5).map(String::as_str).collect();
    if some.is_empty() { String::new() } else { format!(": {}", some.join("; ")) }
}
