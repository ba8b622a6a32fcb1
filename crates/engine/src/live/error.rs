//! Why a world of real jobs shows nothing, or nothing may be done.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::store::StateError;

/// A fault between hsched and what runs the jobs.
#[derive(Debug, Error)]
pub enum LiveError {
    /// What runs the jobs does not answer, or cannot be understood.
    #[error(transparent)]
    System(Box<dyn Error + Send + Sync>),
    #[error(transparent)]
    State(#[from] StateError),
    /// A path that no script can hold, or a plan that no file can.
    #[error("{message}")]
    Scripts { message: String },
    #[error("cannot read the reports in {}", folder.display())]
    Reports {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl LiveError {
    /// Returns the error with its causes.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        match self {
            Self::State(error) => error.in_one_line(),
            other => other.to_string(),
        }
    }
}

/// What keeps nothing cannot fail to keep it.
impl From<Infallible> for LiveError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
