//! Why a world of real jobs cannot be observed, or cannot act.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::store::StateError;

/// A fault between hsched and the system that runs the jobs.
#[derive(Debug, Error)]
pub enum LiveError {
    /// Slurm, or another system that runs the jobs, does not answer or gives an unreadable answer.
    #[error(transparent)]
    System(Box<dyn Error + Send + Sync>),
    #[error(transparent)]
    State(#[from] StateError),
    /// A path that cannot be written into a script, or a plan that cannot be written to a file.
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
    /// Returns the error in one line; errors of the state and of reports include their causes.
    pub fn in_one_line(&self) -> String {
        match self {
            Self::State(error) => error.in_one_line(),
            Self::Reports { source, .. } => format!("{self}: {source}"),
            Self::System(_) | Self::Scripts { .. } => self.to_string(),
        }
    }
}

/// A keeper that stores nothing cannot fail.
impl From<Infallible> for LiveError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
