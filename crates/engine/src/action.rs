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
    /// Leave a job where it is, for now.
    Wait { job: JobName, why: String },
    /// A job that waits never starts; the state says that it has ended.
    GiveUp { job: JobName, why: String },
    /// Ranks have shown how fast their GPUs are; the state's cache knows already. A lesson for each sample.
    Learn { job: JobName, samples: Vec<Sample>, lessons: Vec<Lesson> },
}

impl Action {
    /// Returns whether something is asked of Slurm.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::Submit(_) | Self::Stop { .. } | Self::Cancel { .. } | Self::Amend { .. })
    }
}
