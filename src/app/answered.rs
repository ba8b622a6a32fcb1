//! The result of a job's submission, for people and for programs.

use std::fmt;

use hsched_engine::{Answer, Beginning};
use hsched_model::{JobId, JobName};

/// What came of a job's submission, and where the job begins.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub job: JobName,
    /// The answer to a request to submit: one of the first five.
    pub answer: Answer,
    pub beginning: Beginning,
}

impl Answered {
    /// Returns the number of the job that Slurm has now.
    pub(crate) fn job_id(&self) -> Option<JobId> {
        match self.answer {
            Answer::Submitted { job_id } => Some(job_id),
            _ => None,
        }
    }

    /// Returns whether it is certain that Slurm has no job.
    pub(crate) fn is_not_submitted(&self) -> bool {
        matches!(self.answer, Answer::Refused { .. } | Answer::Deferred { .. } | Answer::Unreachable { .. })
    }

    /// Returns the word for it in JSON.
    pub(crate) fn word(&self) -> &'static str {
        match self.answer {
            Answer::Submitted { .. } => "submitted",
            Answer::Refused { .. } | Answer::Deferred { .. } => "refused",
            Answer::Unreachable { .. } => "unreachable",
            _ => "unknown",
        }
    }

    /// Returns what was said where nothing was submitted for certain.
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

impl fmt::Display for Answered {
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
