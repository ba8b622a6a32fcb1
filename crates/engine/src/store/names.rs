//! The names of files in the state directory that several modules use, and two small helpers.

pub(super) const SNAPSHOT: &str = "state.json";
pub(super) const OLDER: &str = "state.json.old";
pub(super) const JOURNAL: &str = "journal";
pub(super) const OLD_JOURNAL: &str = "journal.old";
pub(super) const NEWEST: &str = "newest";
pub(super) const SPEEDS: &str = "throughput.json";

/// Returns whether a file with that name in the state directory may contain a state: a state file, or one set
/// aside as `NAME.damaged`.
pub fn is_name_of_state(name: &str) -> bool {
    let first = name.split_once(".damaged").map_or(name, |(first, _)| first);
    [SNAPSHOT, OLDER, JOURNAL, OLD_JOURNAL].contains(&first)
}

/// The folder of deferred commands.
pub(super) const WISHES: &str = "wishes";

/// The folder of recorded looks at the queue.
pub(super) const LOOKS: &str = "looks";

/// Returns an error with its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

/// Returns a text without the byte order mark that an editor may have added.
pub(super) fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
