//! Why a state directory cannot be used.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::store::names::chain;

/// Why the state directory cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
    #[error("{}: locked by another hsched", path.display())]
    Locked {
        path: PathBuf,
        /// The process id of the lock's holder, if it is recorded.
        by: Option<u32>,
    },
    #[error("run {id} already exists in {}", folder.display())]
    Exists { id: String, folder: PathBuf },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("{} is missing", path.display())]
    Missing { path: PathBuf },
    #[error("{}: the state is damaged and cannot be rebuilt from the other files\n  {}", path.display(), known.join("\n  "))]
    Lost {
        path: PathBuf,
        /// The known facts about each file, a sentence each.
        known: Vec<String>,
        /// The readable file with the newest state.
        restore: Option<PathBuf>,
    },
    #[error("{}: the state is intact; nothing was restored", path.display())]
    Whole { path: PathBuf },
    #[error("other users can write to {} (mode {mode:o}), and hsched runs commands from it as \
        you", path.display())]
    Open { path: PathBuf, mode: u32 },
    #[error("the jobs in {} are on cluster {saved}, but this Slurm is cluster {here}", path.display())]
    OtherCluster { path: PathBuf, saved: String, here: String },
    #[error("cannot read random numbers from the system")]
    Random {
        #[source]
        source: io::Error,
    },
    #[error("the state cannot be written as JSON")]
    Json {
        #[source]
        source: serde_json::Error,
    },
}

impl StateError {
    /// Returns the error with its causes.
    pub fn in_one_line(&self) -> String {
        chain(self)
    }
}
