//! Slurm's job id.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The id that Slurm assigned to a job; each component of a heterogeneous job has one.
///
/// The id alone does not identify a job, because a controller that lost its state assigns ids again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u32);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
