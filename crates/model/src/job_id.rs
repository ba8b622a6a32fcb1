//! Slurm's number for a job.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number that Slurm gave a job; a heterogeneous job has one per component.
///
/// It alone does not identify a job: a controller that lost its state gives numbers out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u32);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
