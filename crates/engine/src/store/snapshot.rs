//! The snapshot's file, with a checksum.

use std::path::Path;

use serde::Deserialize;

use crate::store::files::read;
use crate::store::seal::{FILE, SealVerdict};
use crate::store::state_file::{StateFile, UnusableState};
use crate::store::{StateError, state_before};

/// A snapshot as it was found.
pub(super) enum StateSnapshot {
    Missing,
    Sound(StateFile),
    /// Without a checksum: the previous version wrote it, or a person changed it.
    Unsealed(StateFile),
    /// How it is damaged.
    Damaged(String),
}

/// What a person who changes a snapshot writes in place of its checksum.
pub const BY_HAND: &str = "edited";

#[derive(Deserialize)]
struct SealFields {
    schema: String,
    sha256: Option<String>,
}

impl StateSnapshot {
    /// Reads a snapshot.
    ///
    /// # Errors
    /// When it cannot be read or used although it is intact: another version wrote it, for example.
    pub(super) fn read(path: &Path) -> Result<Self, StateError> {
        match read(path)? {
            Some(bytes) => Self::parse(path, &bytes),
            None => Ok(Self::Missing),
        }
    }

    /// Reads the text of a snapshot, which is in the file `path`.
    ///
    /// # Errors
    /// When it cannot be used although it is intact.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, StateError> {
        // An editor may have put a byte order mark before it.
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let verdict = FILE.check(text);
        if verdict == SealVerdict::Damaged {
            return Ok(Self::Damaged("its checksum does not match".into()));
        }
        let unusable = |what| StateError::Damaged { path: path.to_owned(), what };
        Ok(match (StateFile::parse(text), verdict) {
            // It is as it was written, so an older copy would be no better.
            (Err(UnusableState::Foreign(what)), _)
            | (Err(UnusableState::Wrong(what)), SealVerdict::Whole) => {
                return Err(unusable(what));
            }
            (Err(UnusableState::Wrong(what)), _) if is_unsealed(text) => return Err(unusable(what)),
            (Err(UnusableState::Wrong(what)), _) => Self::Damaged(what),
            (Ok(file), SealVerdict::Whole) => Self::Sound(file),
            (Ok(file), _) if is_unsealed(text) => Self::Unsealed(file),
            (Ok(_), _) => Self::Damaged("it has no checksum".into()),
        })
    }

    /// Returns its state, unless it is damaged.
    pub(super) fn file(&self) -> Option<&StateFile> {
        match self {
            Self::Sound(file) | Self::Unsealed(file) => Some(file),
            Self::Missing | Self::Damaged(_) => None,
        }
    }

    /// Returns what is wrong with it, if anything.
    pub(super) fn trouble(&self) -> Option<String> {
        match self {
            Self::Missing => Some("is missing".into()),
            Self::Damaged(what) => Some(format!("is damaged ({what})")),
            Self::Unsealed(_) | Self::Sound(_) => None,
        }
    }
}

/// Returns the text of a snapshot with its checksum.
///
/// # Errors
/// When it cannot be written as JSON.
pub(super) fn text(file: &StateFile) -> Result<String, StateError> {
    file.to_json().map(|text| FILE.put(text))
}

/// Returns whether a text is right without a checksum: a version wrote it that knew none, or a person changed it.
fn is_unsealed(text: &[u8]) -> bool {
    let seal = serde_json::from_slice::<SealFields>(text);
    seal.is_ok_and(|seal| seal.sha256.as_deref() == Some(BY_HAND) || seal.schema == state_before::UNSEALED)
}
