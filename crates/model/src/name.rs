//! Names of jobs and nodes that are safe in file names, job scripts and Slurm options.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A job's name: letters, digits, `-`, `_` and `.`, unique within a plan. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct JobName(Arc<str>);

/// A Slurm node name: letters, digits, `-`, `_` and `.`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct NodeName(Arc<str>);

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    #[error("a {kind} name must not be empty")]
    Empty { kind: &'static str },
    #[error(
        "{kind} name {name:?} contains {character:?}; only letters, digits, '-', '_' and '.' are allowed"
    )]
    Character { kind: &'static str, name: String, character: char },
    #[error("{kind} name {name:?} must begin with a letter or a digit")]
    Start { kind: &'static str, name: String },
    #[error("{kind} name is {length} characters long; at most {limit} are allowed")]
    Long { kind: &'static str, length: usize, limit: usize },
}

/// Maximum length of a name; file names are limited to 255 bytes, and names get suffixes.
const LIMIT: usize = 200;

impl JobName {
    /// Returns the name.
    ///
    /// # Errors
    /// If the text is empty or too long, contains a disallowed character, or begins with one of `-_.`.
    pub fn new(name: &str) -> Result<Self, NameError> {
        checked("job", name).map(Self)
    }

    /// Returns the name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl NodeName {
    /// Returns the name.
    ///
    /// # Errors
    /// If the text is empty or too long, contains a disallowed character, or begins with one of `-_.`.
    pub fn new(name: &str) -> Result<Self, NameError> {
        checked("node", name).map(Self)
    }

    /// Returns the name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for JobName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(&name)
    }
}

impl TryFrom<String> for NodeName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(&name)
    }
}

fn checked(kind: &'static str, name: &str) -> Result<Arc<str>, NameError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let Some(first) = name.chars().next() else {
        return Err(NameError::Empty { kind });
    };
    if let Some(character) = name.chars().find(|&c| !allowed(c)) {
        return Err(NameError::Character { kind, name: name.chars().take(LIMIT).collect(), character });
    }
    if !first.is_ascii_alphanumeric() {
        return Err(NameError::Start { kind, name: name.to_owned() });
    }
    if name.len() > LIMIT {
        return Err(NameError::Long { kind, length: name.len(), limit: LIMIT });
    }
    Ok(Arc::from(name))
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_could_act_on_are_refused() {
        for bad in ["", "$(touch /pwned)", "a b", "a/b", "..", "-rf", "a\nb", "é", &"x".repeat(201)] {
            assert!(JobName::new(bad).is_err(), "{bad:?}");
        }
        for good in ["resnet18", "a-b_c.2", "0"] {
            assert_eq!(JobName::new(good).expect("allowed").as_str(), good);
        }
    }
}
