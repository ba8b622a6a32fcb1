//! The result of a job's submission, as text and JSON.

use std::fmt;

use hsched_engine::{Answer, ResumePoint};
use hsched_model::{JobId, JobName};

/// The result of a job's submission, and where the job begins.
#[derive(Clone, Debug)]
pub(crate) struct SubmissionResult {
    pub job: JobName,
    /// The answer to a submission request: one of the first five variants.
    pub answer: Answer,
    pub beginning: ResumePoint,
}

impl SubmissionResult {
    /// Returns the id of the job that Slurm now has.
    pub(crate) fn job_id(&self) -> Option<JobId> {
        match self.answer {
            Answer::Submitted { job_id } => Some(job_id),
            _ => None,
        }
    }

    /// Returns whether Slurm certainly has no job.
    pub(crate) fn is_not_submitted(&self) -> bool {
        matches!(self.answer, Answer::Refused { .. } | Answer::Deferred { .. } | Answer::Unreachable { .. })
    }

    /// Returns the answer as a word for JSON.
    pub(crate) fn word(&self) -> &'static str {
        match self.answer {
            Answer::Submitted { .. } => "submitted",
            Answer::Refused { .. } | Answer::Deferred { .. } => "refused",
            Answer::Unreachable { .. } => "unreachable",
            _ => "unknown",
        }
    }

    /// Returns the message if it is not certain that the job was submitted.
    pub(crate) fn message(&self) -> Option<&str> {
        match &self.answer {
            Answer::Refused { message }
            | Answer::Deferred { message }
            | Answer::Unreachable { message }
            | Answer::Unclear { message } => Some(message),
            _ => None,
        }
    }
}

impl fmt::Display for SubmissionResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.job)?;
        let message = self.message().unwrap_or_default();
        match self.job_id() {
            Some(job_id) => write!(f, "submitted as job {job_id}{}", self.beginning.clause()),
            None if self.is_not_submitted() => write!(f, "not submitted: {message}"),
            None => write!(f, "unclear whether it was submitted ({message}); check squeue --me"),
        }
    }
}
