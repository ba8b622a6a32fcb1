//! The file of measured speeds (schema `hsched.cache/1` or `/2`), always read and replaced as a whole.

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

/// The schema of speeds of single GPUs.
const SINGLE: &str = "hsched.cache/1";

/// The schema of a file with a speed of a replica of several GPUs. Version 0.2.0, which takes all speeds for
/// those of one GPU, refuses such a file and leaves it unchanged.
const REPLICAS: &str = "hsched.cache/2";

/// What hsched does without the measured speeds.
pub(in crate::store) const WITHOUT: &str =
    "hsched uses the speeds of the job files until it has measured new ones";

/// Measured speeds, and this directory's contributor id.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedFile {
    /// Id of this state directory when speeds are merged.
    pub contributor: String,
    pub cache: Cache,
    /// Number of times that the file has been saved; 0 if unknown, because version 0.1.0 or `cache export`
    /// wrote it.
    pub saves: u64,
}

/// Why a text is not a file of measured speeds for this version.
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
    #[error("its schema is {found}; this version reads {SINGLE:?} and {REPLICAS:?}")]
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

    /// Returns whether the checksum is missing or does not match, because the file is damaged or was edited.
    pub fn is_of_checksum(&self) -> bool {
        matches!(self, Self::Checksum | Self::NoChecksum)
    }

    /// Returns the rest of a sentence about a damaged file that begins with its name.
    pub fn damage(&self) -> String {
        format!("is damaged ({}); {WITHOUT}", chain(self))
    }

    /// Returns the error for a state directory with unusable speeds.
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
    /// Returns the path of a state directory's measured speeds.
    pub fn path(state: &Path) -> PathBuf {
        state.join(SPEEDS)
    }

    /// Reads the measured speeds of a state directory; empty if the file is missing.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged or of another version.
    pub fn load(state: &Path) -> Result<Self, SpeedFileError> {
        Self::load_checked(state).map(|(file, _)| file)
    }

    /// Reads the measured speeds like [`Self::load`], but a damaged file counts as empty.
    ///
    /// The second value is the damage, if there is any.
    ///
    /// # Errors
    /// If the file cannot be read or is of another version.
    pub fn load_or_empty(state: &Path) -> Result<(Self, Option<SpeedFileError>), SpeedFileError> {
        match Self::load(state) {
            Err(error) if error.is_damage() => Ok((Self::empty()?, Some(error))),
            other => other.map(|file| (file, None)),
        }
    }

    /// Reads the measured speeds like [`Self::load`], with the result of the checksum test; `None` if the
    /// file is missing.
    ///
    /// # Errors
    /// The errors of [`Self::load`].
    pub(in crate::store) fn load_checked(
        state: &Path,
    ) -> Result<(Self, Option<SealVerdict>), SpeedFileError> {
        match std::fs::read(Self::path(state)) {
            Ok(bytes) => {
                let text = std::str::from_utf8(&bytes);
                let text = unmarked(text.map_err(|source| SpeedFileError::Encoding { source })?);
                Self::parse(text).map(|file| (file, Some(FILE.check(text.as_bytes()))))
            }
            // If the state directory cannot be created, the code that creates it reports that.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Ok((Self::empty()?, None))
            }
            Err(source) => Err(SpeedFileError::Read { source }),
        }
    }

    /// Replaces the file of a state directory, which is locked.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&mut self, state: &StateDir) -> Result<(), StateError> {
        self.saves += 1;
        state.replace_speeds(&FILE.put(self.text(&format!(" \"saves\": {},", self.saves))))
    }

    /// Parses the file's text; unknown keys are ignored. A text without a checksum is valid if version 0.1.0
    /// or `cache export` wrote it, or if a person marked it as edited.
    ///
    /// # Errors
    /// If the text is damaged or of another schema.
    pub fn parse(text: &str) -> Result<Self, SpeedFileError> {
        let verdict = FILE.check(text.as_bytes());
        if verdict == SealVerdict::Damaged {
            return Err(SpeedFileError::Checksum);
        }
        let json = |source| SpeedFileError::Json { source };
        let contents = serde_json::from_str(text);
        // Another version's file may have another structure, so its schema is checked separately.
        let found = match &contents {
            Ok(SpeedFileContents { schema, .. }) => Some(schema.clone()),
            Err(_) => serde_json::from_str::<Schema>(text).ok().map(|schema| schema.schema),
        };
        let is_known = |found: &Option<Value>| {
            let word = found.as_ref().and_then(Value::as_str);
            word.is_some_and(|word| [SINGLE, REPLICAS].contains(&word))
        };
        if let Some(found) = found.filter(|found| !is_known(found)) {
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

    /// Returns the file's text for other people, who may edit it: JSON with one record per line, without a
    /// checksum.
    pub fn to_json(&self) -> String {
        self.text("")
    }

    /// Returns the file's text, with additional keys before the speeds.
    fn text(&self, more: &str) -> String {
        let rows = self.cache.records().map(|(key, contributor, record)| {
            // Serialization fails only for maps with non-text keys, and a row has none.
            serde_json::to_string(&RecordRow::new(key, contributor, record)).unwrap_or_default()
        });
        let rows = rows.collect::<Vec<_>>().join(",\n");
        let schema = if self.cache.has_replicas() { REPLICAS } else { SINGLE };
        let (schema, contributor) = (json!(schema), json!(self.contributor));
        format!(
            "{{\"schema\": {schema}, \"contributor\": {contributor},{more} \"speeds\": [\n{rows}\n]\n}}\n"
        )
    }

    /// Returns the file of a state directory without measurements.
    ///
    /// # Errors
    /// If the system has no random number for the contributor's name.
    pub(in crate::store) fn empty() -> Result<Self, SpeedFileError> {
        let number = random::number().map_err(|source| SpeedFileError::Nameless { source })?;
        Ok(Self { contributor: format!("{number:016x}"), cache: Cache::default(), saves: 0 })
    }
}

/// Returns whether a schema, as JSON, is that of measured speeds in any version.
fn is_version(schema: &str) -> bool {
    let version = schema.strip_prefix("\"hsched.cache/").and_then(|rest| rest.strip_suffix('"'));
    version.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
