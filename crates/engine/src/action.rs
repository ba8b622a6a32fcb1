//! Actions: what the engine wants a world to do.

use crate::{Amendment, NewShares, Run, SubmissionKey};
use hsched_model::{JobId, JobName};
use hsched_plan::throughput::{Lesson, Sample};

/// Something to do, with the reason for people.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Give the jobs of this run to Slurm.
    Submit(Box<Run>),
    /// Ask a running job to save and end.
    Stop { of: SubmissionKey, job_id: JobId, why: String },
    /// Have Slurm end a job.
    Cancel { of: SubmissionKey, job_id: JobId, why: String },
    /// Change what a pending job asks for; it keeps its place in the queue.
    Amend { of: SubmissionKey, job_id: JobId, to: Box<Amendment>, why: String },
    /// Give the ranks of a running job other shares.
    Share { of: SubmissionKey, job_id: JobId, shares: Box<NewShares>, why: String },
    /// Keep a job as it is until a later turn.
    Wait { job: JobName, why: String },
    /// End a pending job that can never start. The state already records the end.
    GiveUp { job: JobName, why: String },
    /// Store newly measured GPU speeds, with a lesson for each sample. The state's cache already has them.
    Learn { job: JobName, samples: Vec<Sample>, lessons: Vec<Lesson> },
}

impl Action {
    /// Returns whether the action sends a request to Slurm.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::Submit(_) | Self::Stop { .. } | Self::Cancel { .. } | Self::Amend { .. })
    }
}
