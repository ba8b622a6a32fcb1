//! Slurm's answers, and figures and lists made from them, that are reused for some time: one file each, with
//! its time.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::store::StateError;
use crate::store::files::{read, replace, write_error};
use hsched_model::{Seconds, Time};

/// The last answer to a query, and the last attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CachedOutput {
    /// The output and its time; `None` if there never was any.
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub at: Time,
    /// Time and duration of the last attempt, successful or not.
    #[serde(default)]
    pub tried: Time,
    #[serde(default)]
    pub took: Seconds,
    /// Why the last attempt failed.
    #[serde(default)]
    pub failure: Option<String>,
}

/// A folder of answers: `STATE/queue/NAME.json`.
///
/// Files are written without the lock: each is replaced atomically, and either of two answers is valid.
#[derive(Clone, Debug)]
pub struct OutputCache {
    folder: PathBuf,
}

impl OutputCache {
    /// Returns the cache of a state directory; reads and creates nothing yet.
    pub fn of(root: &Path) -> Self {
        Self { folder: root.join("queue") }
    }

    /// Returns the cached output of a query; an unreadable file counts as missing.
    pub fn get(&self, name: &str) -> CachedOutput {
        let bytes = read(&self.path(name)).ok().flatten().unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Stores an answer.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, name: &str, answer: &CachedOutput) -> Result<(), StateError> {
        let path = self.path(name);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(write_error(&path))?;
        let text = serde_json::to_string(answer).map_err(|source| StateError::Json { source })?;
        replace(&path, &text, None)
    }

    /// Stores a list whose numbers the user may refer to. If it cannot be written, removes the earlier list, whose
    /// numbers have another meaning.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_list(&self, name: &str, list: &CachedOutput) -> Result<(), StateError> {
        self.keep(name, list).inspect_err(|_| {
            let _ = std::fs::remove_file(self.path(name));
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_and_a_damaged_one_is_none() {
        let root = tempfile::tempdir().expect("a directory");
        let answers = OutputCache::of(root.path());
        assert_eq!(answers.get("squeue"), CachedOutput::default());
        let answer = CachedOutput { text: Some("7\n".to_owned()), at: Time(5.0), ..CachedOutput::default() };
        answers.keep("squeue", &answer).expect("written");
        assert_eq!(answers.get("squeue"), answer);
        std::fs::write(root.path().join("queue/squeue.json"), "{").expect("written");
        assert_eq!(answers.get("squeue"), CachedOutput::default());
    }
}
