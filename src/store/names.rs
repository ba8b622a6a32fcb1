//! The names of the files in the state directory, and two small rules about texts in them.

pub(super) const SNAPSHOT: &str = "state.json";
pub(super) const OLDER: &str = "state.json.old";
pub(super) const JOURNAL: &str = "journal";
pub(super) const OLD_JOURNAL: &str = "journal.old";
pub(super) const NEWEST: &str = "newest";
pub(super) const SPEEDS: &str = "throughput.json";

/// The folder of wishes.
pub(super) const WISHES: &str = "wishes";

/// Returns an error with its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

/// Returns a text without the byte order mark that an editor may have put before it.
pub(super) fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
