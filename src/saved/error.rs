//! Why a saved text shows no cluster.

use thiserror::Error;

/// What can be read, for hints.
pub const READABLE: &str = "hsched reads saved output of `scontrol show node`, `sinfo --json`, \
    `scontrol show nodes --json`, slurmrestd's nodes, tables of `sinfo` that name or count nodes, a cluster \
    file, or `hsched inventory --format json`";

/// A question to sinfo whose answer says all that counts, for hints.
pub(super) const ASK: &str =
    "`sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'`";

/// Why a saved text shows no cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SavedError {
    #[error("is empty")]
    Empty,
    #[error("has only commands and comments (lines that begin with a prompt or #), and no output below them")]
    NoOutput,
    #[error("cannot be read: it looks like {what}; it begins with {first_line:?}")]
    Other { what: String, first_line: String },
    #[error("cannot be read: it is of no known kind; it begins with {first_line:?}")]
    Unknown { first_line: String },
    #[error("cannot be read: it begins like JSON but is none: {message}")]
    Json { message: String },
    #[error("cannot be read: its JSON is cut off before the end")]
    JsonCut,
    #[error("looks like {what}, but no node in it can be read{}", details(notes))]
    NoNode { what: &'static str, notes: Vec<String> },
    #[error(
        "cannot be read for certain: it is a table without its header line, and {why}; print it again with \
         the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'"
    )]
    Unsure { why: String },
    #[error(
        "cannot be read for certain: only {read} of {lines} lines fall into the {columns} columns of the table; \
         the others may be broken or cut off, or it has other columns"
    )]
    Columns { read: usize, lines: usize, columns: usize },
    #[error("cannot be read for certain: {column} is cut off, as in {text:?}; {ASK} prints all of it")]
    Cut { column: &'static str, text: String },
    #[error(
        "cannot be read for certain: its lines disagree about {name}, which may be several names that are cut off; \
         {ASK} prints whole names"
    )]
    Differ { name: String },
    #[error(
        "cannot be read for certain: {gres} stands in lines of several partitions, or in the same line twice, and \
         nothing tells whether these are the same nodes; add their names (%N or NodeList)"
    )]
    Repeated { gres: String },
    #[error(
        "cannot be read for certain: several tables count nodes without naming them; save one alone, or add the \
         names of the nodes (%N or NodeList)"
    )]
    Counted,
    #[error(
        "cannot be read for certain: it says which GPUs of {node} are in use, but not how many there are; add \
         GRES (%G or Gres)"
    )]
    UsedAlone { node: String },
    #[error("shows several clusters ({clusters}); save each in a file of its own")]
    Clusters { clusters: String },
    #[error("names more than {limit} {things}")]
    TooMany { limit: u64, things: &'static str },
}

impl SavedError {
    /// Returns whether it helps to know what can be read.
    #[must_use]
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
