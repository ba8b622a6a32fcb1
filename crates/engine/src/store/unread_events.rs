//! Log lines that commands store for `watch` or `run`.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::fs;
use std::io::ErrorKind;

use serde::{Deserialize, Serialize};

use crate::store::files::{read, replace, write_error};
use crate::store::{StateDir, StateError};

/// A log line that has not been shown yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnreadEvent {
    /// When the event was noticed, in Unix seconds.
    pub at: f64,
    pub job: Option<String>,
    /// The message's topic, in one word.
    pub topic: String,
    pub text: String,
}

const NAME: &str = "untold";

/// Maximum number of stored lines, for users who never start `watch`.
const MOST: usize = 1000;

impl StateDir {
    /// Returns the lines not shown yet, the oldest first.
    ///
    /// # Errors
    /// If the file exists and cannot be read, or is damaged.
    pub fn unread(&self) -> Result<Vec<UnreadEvent>, StateError> {
        let path = self.root.join(NAME);
        let text = read(&path)?.unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(serde_json::from_slice)
            .collect::<Result<_, _>>()
            .map_err(|error: serde_json::Error| StateError::Read { path, source: error.into() })
    }

    /// Stores more lines; beyond the maximum, only the newest.
    ///
    /// # Errors
    /// If the earlier lines cannot be read, or the file cannot be written; the earlier lines then stay
    /// stored.
    pub fn leave_untold(&self, more: Vec<UnreadEvent>) -> Result<(), StateError> {
        if more.is_empty() {
            return Ok(());
        }
        let mut lines = self.unread()?;
        lines.extend(more);
        let mut text = String::new();
        for line in lines.iter().skip(lines.len().saturating_sub(MOST)) {
            text += &serde_json::to_string(line).map_err(|source| StateError::Json { source })?;
            text.push('\n');
        }
        replace(&self.root.join(NAME), &text, None)
    }

    /// Removes the lines that have been shown.
    ///
    /// # Errors
    /// If the file cannot be removed; the lines are then shown again.
    pub fn forget_untold(&self) -> Result<(), StateError> {
        let path = self.root.join(NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(write_error(&path)(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_until_they_are_forgotten_and_the_newest_of_too_many() {
        let root = tempfile::tempdir().expect("a directory");
        let directory = StateDir::open(root.path()).expect("opens");
        let line = |at: usize| {
            let at = f64::from(u32::try_from(at).expect("a small number"));
            UnreadEvent { at, job: Some("a".into()), topic: "epoch".into(), text: "one\ntwo".into() }
        };
        assert_eq!(directory.unread().expect("reads"), []);
        directory.leave_untold(vec![line(1)]).expect("writes");
        directory.leave_untold(vec![line(2)]).expect("writes");
        assert_eq!(directory.unread().expect("reads"), [line(1), line(2)]);
        directory.leave_untold((3..=MOST + 1).map(line).collect()).expect("writes");
        assert_eq!(directory.unread().expect("reads").first(), Some(&line(2)));
        fs::write(root.path().join(NAME), "{").expect("writes");
        directory.unread().expect_err("is damaged");
        directory.forget_untold().expect("removes");
        directory.forget_untold().expect("is gone");
        assert_eq!(directory.unread().expect("reads"), []);
    }
}
