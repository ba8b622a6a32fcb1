//! The file of measured speeds (schema `hsched.cache/1`): read whole, replaced whole, never guessed at.

#![expect(clippy::disallowed_methods, reason = "this room is where state is read")]

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::Utf8Error;

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use super::row::RecordRow;
use crate::store::names::{SPEEDS, chain, unmarked};
use crate::store::{StateDir, StateError, random};
use crate::throughput::Cache;

/// The schema that this version writes and reads.
const SCHEMA: &str = "hsched.cache/1";

/// Measured speeds, and who adds to them here.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedFile {
    /// Identity of this state directory among those whose speeds are merged.
    pub contributor: String,
    pub cache: Cache,
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
    #[error("schema is {found}, this version reads {SCHEMA:?}")]
    Schema { found: String },
    #[error("{place}: {what}")]
    Content { place: String, what: String },
    #[error("no name can be drawn for who measures here")]
    Nameless {
        #[source]
        source: io::Error,
    },
}

impl SpeedFileError {
    /// Returns whether the file is damaged, rather than another version's or unreadable.
    pub(in crate::store) fn is_damage(&self) -> bool {
        match self {
            Self::Encoding { .. } | Self::Json { .. } | Self::Csv { .. } | Self::Content { .. } => true,
            Self::Schema { found } => !is_version(found),
            Self::Read { .. } | Self::Nameless { .. } => false,
        }
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
struct Contents {
    schema: Option<Value>,
    contributor: String,
    speeds: Vec<RecordRow>,
}

impl SpeedFile {
    /// Returns where the measured speeds of a state directory are.
    #[must_use]
    pub fn path(state: &Path) -> PathBuf {
        state.join(SPEEDS)
    }

    /// Reads the measured speeds of a state directory; none where it has no such file.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged or of another version.
    pub fn load(state: &Path) -> Result<Self, SpeedFileError> {
        match std::fs::read(Self::path(state)) {
            Ok(bytes) => {
                let text = std::str::from_utf8(&bytes);
                Self::parse(unmarked(text.map_err(|source| SpeedFileError::Encoding { source })?))
            }
            // A state directory that cannot be made is the trouble of whoever makes it.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Self::empty()
            }
            Err(source) => Err(SpeedFileError::Read { source }),
        }
    }

    /// Replaces the file of a state directory, which is locked.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, state: &StateDir) -> Result<(), StateError> {
        state.replace_speeds(&self.to_json())
    }

    /// Reads the file's text; keys that this version does not know are passed over.
    ///
    /// # Errors
    /// When the text is damaged or of another schema.
    pub fn parse(text: &str) -> Result<Self, SpeedFileError> {
        let json = |source| SpeedFileError::Json { source };
        let contents = serde_json::from_str(text);
        // What another version wrote need not have the form of this one's: its schema is looked at on its own.
        let found = match &contents {
            Ok(Contents { schema, .. }) => Some(schema.clone()),
            Err(_) => serde_json::from_str::<Schema>(text).ok().map(|own| own.schema),
        };
        if let Some(found) = found.filter(|found| found.as_ref().and_then(Value::as_str) != Some(SCHEMA)) {
            let found = found.map_or_else(|| "missing".to_owned(), |schema| schema.to_string());
            return Err(SpeedFileError::Schema { found });
        }
        let Contents { contributor, speeds, .. } = contents.map_err(json)?;
        let mut cache = Cache::default();
        speeds.into_iter().try_for_each(|row| row.restore(&mut cache))?;
        Ok(Self { contributor, cache })
    }

    /// Returns the file's text: JSON, a record on each line.
    #[must_use]
    pub fn to_json(&self) -> String {
        let rows = self.cache.records().map(|(key, contributor, record)| {
            // Only a map with keys that are no text could not be written, and a row has none.
            serde_json::to_string(&RecordRow::new(key, contributor, record)).unwrap_or_default()
        });
        let rows = rows.collect::<Vec<_>>().join(",\n");
        let (schema, contributor) = (json!(SCHEMA), json!(self.contributor));
        format!("{{\"schema\": {schema}, \"contributor\": {contributor}, \"speeds\": [\n{rows}\n]}}\n")
    }

    /// Returns the file of a state directory in which nothing was measured yet.
    ///
    /// # Errors
    /// When the system has no random number for the contributor's name.
    pub(in crate::store) fn empty() -> Result<Self, SpeedFileError> {
        let number = random::number().map_err(|source| SpeedFileError::Nameless { source })?;
        Ok(Self { contributor: format!("{number:016x}"), cache: Cache::default() })
    }
}

/// Returns whether a schema, as JSON, is that of measured speeds, of whatever version.
fn is_version(schema: &str) -> bool {
    let version = schema.strip_prefix("\"hsched.cache/").and_then(|rest| rest.strip_suffix('"'));
    version.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
