//! The snapshot's file, with a checksum.

use std::path::Path;

use serde::Deserialize;

use crate::store::StateError;
use crate::store::files::read;
use crate::store::seal::{FILE, Verdict};
use crate::store::state_file::{StateFile, Unusable};

/// A snapshot as it was found.
pub(super) enum Snapshot {
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
struct Checksum {
    sha256: Option<String>,
}

impl Snapshot {
    /// Reads a snapshot.
    ///
    /// # Errors
    /// When it cannot be read or used although it is intact: another version wrote it, for example.
    pub(super) fn read(path: &Path) -> Result<Self, StateError> {
        let Some(bytes) = read(path)? else { return Ok(Self::Missing) };
        // An editor may have put a byte order mark before it.
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        let verdict = FILE.check(text);
        if verdict == Verdict::Damaged {
            return Ok(Self::Damaged("its checksum does not match".into()));
        }
        let unusable = |what| StateError::Damaged { path: path.to_owned(), what };
        Ok(match (StateFile::parse(text), verdict) {
            // It is as it was written, so an older copy would be no better.
            (Err(Unusable::Foreign(what)), _) | (Err(Unusable::Wrong(what)), Verdict::Whole) => {
                return Err(unusable(what));
            }
            (Err(Unusable::Wrong(what)), _) => Self::Damaged(what),
            (Ok(file), Verdict::Whole) => Self::Sound(file),
            (Ok(file), _) if file.is_unsealed() || is_by_hand(text) => Self::Unsealed(file),
            (Ok(_), _) => Self::Damaged("it has no checksum".into()),
        })
    }

    /// Returns what is wrong with it, if anything.
    pub(super) fn trouble(&self) -> Option<String> {
        match self {
            Self::Missing => Some("is missing".into()),
            Self::Damaged(what) => Some(format!("is damaged ({what})")),
            Self::Unsealed(_) => Some("has no checksum".into()),
            Self::Sound(_) => None,
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

fn is_by_hand(text: &[u8]) -> bool {
    let checksum = serde_json::from_slice::<Checksum>(text);
    checksum.is_ok_and(|own| own.sha256.as_deref() == Some(BY_HAND))
}
