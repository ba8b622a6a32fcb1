//! Replaces files that disagree with the state that a person chose.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::Rules;
use crate::store::files::{aside, read, replace, write_error};
use crate::store::journal_file::{self, Journal, Writer};
use crate::store::names::{JOURNAL, OLDER, SNAPSHOT};
use crate::store::newest::Newest;
use crate::store::recovery::DirectoryContents;
use crate::store::snapshot::{self, StateSnapshot};
use crate::store::state_file::StateFile;
use crate::store::state_record::StateRecord;
use crate::store::{StateDir, StateError, StoredState};
use hsched_model::Time;

/// The files that [`StateDir::restore`] replaces, each with the name under which it is kept.
type ReplacedFiles = Vec<(PathBuf, PathBuf)>;

impl StateDir {
    /// Returns the files that restoring from a file would replace; changes nothing.
    ///
    /// # Errors
    /// If the state is usable as it is, or a file cannot be read.
    pub fn would_replace(root: &Path, rules: &Rules) -> Result<ReplacedFiles, StateError> {
        match DirectoryContents::read(root, rules) {
            Ok(_) => Err(StateError::Whole { path: root.to_owned() }),
            Err(StateError::Lost { .. }) => {
                let files = [SNAPSHOT, OLDER, JOURNAL].map(|name| root.join(name));
                let files = files.into_iter().filter(|path| path.symlink_metadata().is_ok());
                Ok(files.map(|path| (aside(&path), path)).map(|(kept, path)| (path, kept)).collect())
            }
            Err(other) => Err(other),
        }
    }

    /// Continues from the state in a file, and keeps the replaced files.
    ///
    /// # Errors
    /// If the state is usable as it is, or a file cannot be written.
    pub fn restore(
        &self,
        from: &Path,
        held: &StoredState,
        at: Time,
        rules: &Rules,
    ) -> Result<ReplacedFiles, StateError> {
        let root = &self.root;
        let replaced = Self::would_replace(root, rules)?;
        // No number is used twice, so the replaced files stay older than all new ones.
        let seq = highest(root)?.max(held.seq);
        let entry = json!({ "event": "restored", "file": from.display().to_string() });
        let path = root.join(JOURNAL);
        let (mut text, seq) = journal_file::text(seq, at, [entry]).map_err(write_error(&path))?;
        let file = StateFile::new(&held.state, seq + 1, at, held.claim.clone());
        let record = StateRecord::of(&file, None);
        let (record, seq) = journal_file::text(seq, at, record).map_err(write_error(&path))?;
        text.push_str(&record);
        for (path, kept) in &replaced {
            fs::copy(path, kept).map_err(write_error(kept))?;
        }
        // If hsched dies in between, the journal is as good as the snapshot.
        replace(&path, &text, None)?;
        replace(&root.join(SNAPSHOT), &snapshot::text(&file)?, None)?;
        Newest { line: seq, state: seq }.write(root, true);
        // The next snapshot would overwrite the older copy, which is already kept under another name.
        let older = root.join(OLDER);
        match fs::remove_file(&older) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(write_error(&older)(error)),
            _ => Ok(replaced),
        }
    }
}

/// Returns the highest line number in any file of the state.
fn highest(root: &Path) -> Result<u64, StateError> {
    let newest = Newest::read(root).map_or(0, |newest| newest.line);
    let journal = read(&root.join(JOURNAL))?.unwrap_or_default();
    let snapshots = [SNAPSHOT, OLDER].map(|name| {
        StateSnapshot::read(&root.join(name))
            .ok()
            .and_then(|snapshot| snapshot.file().map(|file| file.seq))
            .unwrap_or(0)
    });
    let journal = Journal::read(&journal, u64::MAX, Writer::Own).last;
    Ok(snapshots.into_iter().chain([newest, journal]).max().unwrap_or(0))
}
