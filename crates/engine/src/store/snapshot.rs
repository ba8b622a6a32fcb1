//! The snapshot's file, with a checksum.

use std::path::Path;

use serde::Deserialize;

use crate::store::files::read;
use crate::store::seal::{FILE, SealVerdict};
use crate::store::state_file::{StateFile, UnusableState};
use crate::store::{StateError, state_before};

/// The content of a snapshot file.
pub(super) enum StateSnapshot {
    Missing,
    Sound(StateFile),
    /// Without a checksum, because version 0.1.0 wrote it or a person changed it.
    Unsealed(StateFile),
    /// The damage of the file.
    Damaged(String),
}

/// Written by a person in place of the checksum after changing a snapshot.
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
    /// If it cannot be read, or is intact but unusable, for example because another version wrote it.
    pub(super) fn read(path: &Path) -> Result<Self, StateError> {
        match read(path)? {
            Some(bytes) => Self::parse(path, &bytes),
            None => Ok(Self::Missing),
        }
    }

    /// Parses the text of the snapshot in the file `path`.
    ///
    /// # Errors
    /// If it is intact but unusable.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, StateError> {
        // An editor may have added a byte order mark.
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let verdict = FILE.check(text);
        if verdict == SealVerdict::Damaged {
            return Ok(Self::Damaged("its checksum does not match".into()));
        }
        let unusable = |what| StateError::Damaged { path: path.to_owned(), what };
        Ok(match (StateFile::parse(text), verdict) {
            // The file is unchanged since it was written, so an older copy would be no better.
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

    /// Returns the snapshot's state, unless it is missing or damaged.
    pub(super) fn file(&self) -> Option<&StateFile> {
        match self {
            Self::Sound(file) | Self::Unsealed(file) => Some(file),
            Self::Missing | Self::Damaged(_) => None,
        }
    }

    /// Returns the fault of the snapshot, if it has one.
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
/// If it cannot be written as JSON.
pub(super) fn text(file: &StateFile) -> Result<String, StateError> {
    file.to_json().map(|text| FILE.put(text))
}

/// Returns whether a text is valid without a checksum, because a version without checksums wrote it or a
/// person changed it.
fn is_unsealed(text: &[u8]) -> bool {
    let seal = serde_json::from_slice::<SealFields>(text);
    seal.is_ok_and(|seal| seal.sha256.as_deref() == Some(BY_HAND) || seal.schema == state_before::UNSEALED)
}
