//! The file operations of the protocol, behind a trait so that tests can stop it at any write; and the format
//! of its files.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The schema of the files that contain more than a word.
const SCHEMA: &str = "hsched.pool/1";

/// Small files below the folder of a pool; paths are relative to it.
pub trait PoolFiles {
    type Error;

    /// Returns a file's text; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self, path: &str) -> Result<Option<String>, Self::Error>;

    /// Replaces a file as a whole.
    ///
    /// # Errors
    /// If it cannot be written.
    fn replace(&self, path: &str, text: &str) -> Result<(), Self::Error>;

    /// Creates a file atomically; returns true if it did, false if the file exists.
    ///
    /// # Errors
    /// If it cannot be written.
    fn claim(&self, path: &str, text: &str) -> Result<bool, Self::Error>;

    /// Returns the sorted names in a folder; empty if the folder does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    fn list(&self, folder: &str) -> Result<Vec<String>, Self::Error>;

    /// Returns the error for a file with unexpected content.
    fn damaged(&self, path: &str, what: &str) -> Self::Error;
}

/// A file to be written.
#[derive(Serialize)]
struct WrittenFile<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    content: &'a T,
}

/// The schema of a file; files of the first pools have none.
#[derive(Deserialize)]
struct PoolFileHeader {
    schema: Option<String>,
}

/// Returns the text of a file with this content.
///
/// # Errors
/// If the content cannot be represented as JSON.
pub(crate) fn write<T: Serialize>(content: &T) -> Result<String, String> {
    serde_json::to_string(&WrittenFile { schema: SCHEMA, content }).map_err(|error| error.to_string())
}

/// Returns the content of a file.
///
/// # Errors
/// If another version wrote the text, or it is damaged; the error describes the problem.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let header: PoolFileHeader = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if let Some(schema) = header.schema.filter(|schema| schema != SCHEMA) {
        return Err(format!(
            "its schema is {schema}; this version reads {SCHEMA}: use the version of hsched that submitted the pool"
        ));
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Orders, PoolReport};

    #[test]
    fn files_say_their_version_and_later_ones_are_refused() {
        let report = PoolReport { beat: 7, ..PoolReport::default() };
        let text = write(&report).expect("text");
        assert!(text.starts_with("{\"schema\":\"hsched.pool/1\",\"beat\":7,"), "{text}");
        assert_eq!(parse::<PoolReport>(&text).as_ref(), Ok(&report));
        // Files of the first pools have no schema.
        let before = text.replace("\"schema\":\"hsched.pool/1\",", "");
        assert_eq!(parse::<PoolReport>(&before), Ok(report));
        let told = parse::<PoolReport>(&text.replace("pool/1", "pool/2")).expect_err("a later version");
        assert_eq!(
            told,
            "its schema is hsched.pool/2; this version reads hsched.pool/1: use the version of hsched that submitted the pool"
        );
        assert!(parse::<Orders>("{}").is_err());
    }
}
