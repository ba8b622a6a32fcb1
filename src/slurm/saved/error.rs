//! Why a saved text shows no cluster.

use thiserror::Error;

/// What can be read, for hints.
pub const READABLE: &str = "saved output of `scontrol show node`, `sinfo --json`, `scontrol show nodes --json`, \
    slurmrestd's nodes, tables of `sinfo` that name or count nodes, a cluster file, \
    or `hsched inventory --format json`";

/// Why a saved text shows no cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SavedError {
    #[error("is empty")]
    Empty,
    #[error("cannot be read: it looks like {what}; it begins with {first_line:?}")]
    Other { what: &'static str, first_line: String },
    #[error("cannot be read: it is of no known kind; it begins with {first_line:?}")]
    Unknown { first_line: String },
    #[error("begins like JSON but is none: {message}")]
    Json { message: String },
    #[error("looks like {what}, but no node in it can be read{}", details(notes))]
    NoNode { what: &'static str, notes: Vec<String> },
    #[error("names more than {limit} {things}")]
    TooMany { limit: u64, things: &'static str },
}

/// Returns the first notes, as the end of a sentence.
fn details(notes: &[String]) -> String {
    let some: Vec<&str> = notes.iter().take(5).map(String::as_str).collect();
    if some.is_empty() { String::new() } else { format!(": {}", some.join("; ")) }
}
