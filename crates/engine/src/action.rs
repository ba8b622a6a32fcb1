//! Actions: decisions of the engine, which a turn carries out in its world or only records.

use crate::{AfterStop, Amendment, NewShares, Run, SubmissionKey};
use hsched_model::{JobId, JobName};
use hsched_plan::throughput::{Lesson, Sample};

/// A decision of the engine; `why` is its reason, as a message for the user. The world carries out the
/// requests and `Share`.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Submit the jobs of this run.
    Submit(Box<Run>),
    /// Ask a running job to save and end; `then` says what follows.
    Stop { of: SubmissionKey, job_id: JobId, then: AfterStop, why: String },
    /// Cancel the Slurm job of a submission, or end its processes on local devices.
    Cancel { of: SubmissionKey, job_id: JobId, why: String },
    /// Change the request of a pending job, which keeps its place in the queue.
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
    /// Returns whether the action is a request to Slurm or to local devices.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::Submit(_) | Self::Stop { .. } | Self::Cancel { .. } | Self::Amend { .. })
    }
}
