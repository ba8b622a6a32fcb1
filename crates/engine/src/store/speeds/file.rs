//! The file of measured speeds (schema `hsched.cache/1`): read whole, replaced whole, never guessed at.

#![expect(clippy::disallowed_methods, reason = "this module is where state is read")]

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::Utf8Error;

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use super::row::RecordRow;
use crate::store::names::{SPEEDS, chain, unmarked};
use crate::store::seal::{FILE, SealVerdict};
use crate::store::snapshot::BY_HAND;
use crate::store::{StateDir, StateError, random};
use hsched_plan::throughput::Cache;

/// The schema that this version writes and reads.
const SCHEMA: &str = "hsched.cache/1";

/// Measured speeds, and who adds to them here.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedFile {
    /// Identity of this state directory among those whose speeds are merged.
    pub contributor: String,
    pub cache: Cache,
    /// How often it has been saved; 0 if it does not say: version 0.1.0 wrote it, or `cache export`.
    pub saves: u64,
}

/// Why a text is no file of measured speeds that this version can use.
#[derive(Debug, Error)]
pub enum SpeedFileError {
    #[error("cannot be read")]
    Read {
        #[source]
        source: io::Error,
    },
    #[error("not a file of measured speeds, or a damaged one")]
    Encoding {
        #[source]
        source: Utf8Error,
    },
    #[error("not a file of measured speeds, or a damaged one")]
    Json {
        #[source]
        source: serde_json::Error,
    },
    #[error("not a table of measured speeds, or a damaged one")]
    Csv {
        #[source]
        source: csv::Error,
    },
    #[error("its schema is {found}; this version reads {SCHEMA:?}")]
    Schema { found: String },
    #[error("its checksum does not match")]
    Checksum,
    #[error("it has no checksum")]
    NoChecksum,
    #[error("{place}: {what}")]
    Content { place: String, what: String },
    #[error("cannot generate a random name for the contributor")]
    Nameless {
        #[source]
        source: io::Error,
    },
}

impl SpeedFileError {
    /// Returns whether the file is damaged, rather than another version's or unreadable.
    pub(in crate::store) fn is_damage(&self) -> bool {
        match self {
            Self::Encoding { .. }
            | Self::Json { .. }
            | Self::Csv { .. }
            | Self::Checksum
            | Self::NoChecksum
            | Self::Content { .. } => true,
            Self::Schema { found } => !is_version(found),
            Self::Read { .. } | Self::Nameless { .. } => false,
        }
    }

    /// Returns whether the file is not as its checksum says: damaged, or edited.
    pub fn is_of_checksum(&self) -> bool {
        matches!(self, Self::Checksum | Self::NoChecksum)
    }

    /// Returns the error of a state directory whose speeds cannot be used.
    pub(in crate::store) fn in_state(self, root: &Path) -> StateError {
        let path = SpeedFile::path(root);
        match self {
            Self::Read { source } => StateError::Read { path, source },
            Self::Nameless { source } => StateError::Random { source },
            other => StateError::Damaged { path, what: chain(&other) },
        }
    }
}

#[derive(Deserialize)]
struct Schema {
    schema: Option<Value>,
}

#[derive(Deserialize)]
struct SpeedFileContents {
    schema: Option<Value>,
    contributor: String,
    saves: Option<u64>,
    speeds: Vec<RecordRow>,
    sha256: Option<String>,
}

impl SpeedFile {
    /// Returns where the measured speeds of a state directory are.
    pub fn path(state: &Path) -> PathBuf {
        state.join(SPEEDS)
    }

    /// Reads the measured speeds of a state directory; none where it has no such file.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged or of another version.
    pub fn load(state: &Path) -> Result<Self, SpeedFileError> {
        Self::load_checked(state).map(|(file, _)| file)
    }

    /// Reads the measured speeds as [`Self::load`] does, and says what their checksum does; nothing where there is no file.
    ///
    /// # Errors
    /// Those of [`Self::load`].
    pub(in crate::store) fn load_checked(
        state: &Path,
    ) -> Result<(Self, Option<SealVerdict>), SpeedFileError> {
        match std::fs::read(Self::path(state)) {
            Ok(bytes) => {
                let text = std::str::from_utf8(&bytes);
                let text = unmarked(text.map_err(|source| SpeedFileError::Encoding { source })?);
                Self::parse(text).map(|file| (file, Some(FILE.check(text.as_bytes()))))
            }
            // A state directory that cannot be made is the trouble of whoever makes it.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Ok((Self::empty()?, None))
            }
            Err(source) => Err(SpeedFileError::Read { source }),
        }
    }

    /// Replaces the file of a state directory, which is locked.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&mut self, state: &StateDir) -> Result<(), StateError> {
        self.saves += 1;
        state.replace_speeds(&FILE.put(self.text(&format!(" \"saves\": {},", self.saves))))
    }

    /// Reads the file's text; keys that this version does not know are passed over. A text without a checksum is
    /// right if version 0.1.0 or `cache export` wrote it, or if a person says so.
    ///
    /// # Errors
    /// When the text is damaged or of another schema.
    pub fn parse(text: &str) -> Result<Self, SpeedFileError> {
        let verdict = FILE.check(text.as_bytes());
        if verdict == SealVerdict::Damaged {
            return Err(SpeedFileError::Checksum);
        }
        let json = |source| SpeedFileError::Json { source };
        let contents = serde_json::from_str(text);
        // What another version wrote need not have the form of this one's: its schema is looked at on its own.
        let found = match &contents {
            Ok(SpeedFileContents { schema, .. }) => Some(schema.clone()),
            Err(_) => serde_json::from_str::<Schema>(text).ok().map(|schema| schema.schema),
        };
        if let Some(found) = found.filter(|found| found.as_ref().and_then(Value::as_str) != Some(SCHEMA)) {
            let found = found.map_or_else(|| "missing".to_owned(), |schema| schema.to_string());
            return Err(SpeedFileError::Schema { found });
        }
        let SpeedFileContents { contributor, saves, speeds, sha256, .. } = contents.map_err(json)?;
        let is_unsealed = match sha256 {
            Some(word) => word == BY_HAND,
            None => saves.is_none(),
        };
        if verdict == SealVerdict::Unsealed && !is_unsealed {
            return Err(SpeedFileError::NoChecksum);
        }
        let mut cache = Cache::default();
        speeds.into_iter().try_for_each(|row| row.restore(&mut cache))?;
        Ok(Self { contributor, cache, saves: saves.unwrap_or_default() })
    }

    /// Returns the file's text for other people, who may edit it: JSON, a record on each line, without a checksum.
    pub fn to_json(&self) -> String {
        self.text("")
    }

    /// Returns the file's text, with more keys before the speeds.
    fn text(&self, more: &str) -> String {
        let rows = self.cache.records().map(|(key, contributor, record)| {
            // Only a map with keys that are no text could not be written, and a row has none.
            serde_json::to_string(&RecordRow::new(key, contributor, record)).unwrap_or_default()
        });
        let rows = rows.collect::<Vec<_>>().join(",\n");
        let (schema, contributor) = (json!(SCHEMA), json!(self.contributor));
        format!(
            "{{\"schema\": {schema}, \"contributor\": {contributor},{more} \"speeds\": [\n{rows}\n]\n}}\n"
        )
    }

    /// Returns the file of a state directory in which nothing was measured yet.
    ///
    /// # Errors
    /// When the system has no random number for the contributor's name.
    pub(in crate::store) fn empty() -> Result<Self, SpeedFileError> {
        let number = random::number().map_err(|source| SpeedFileError::Nameless { source })?;
        Ok(Self { contributor: format!("{number:016x}"), cache: Cache::default(), saves: 0 })
    }
}

/// Returns whether a schema, as JSON, is that of measured speeds, of whatever version.
fn is_version(schema: &str) -> bool {
    let version = schema.strip_prefix("\"hsched.cache/").and_then(|rest| rest.strip_suffix('"'));
    version.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
