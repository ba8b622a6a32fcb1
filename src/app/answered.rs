//! The result of a job's submission, for people and for programs.

use std::fmt;

use hsched_engine::Beginning;
use hsched_model::{JobId, JobName};

/// What came of a job's submission.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Submitted(JobId),
    Refused(String),
    /// sbatch gave no clear answer, and the queue does not show the job.
    Unknown(String),
    Unreachable(String),
}

/// What came of a job's submission, and where the job begins.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub job: JobName,
    pub answer: Answer,
    pub beginning: Beginning,
}

impl Answer {
    pub(crate) fn of(answer: &hsched_engine::Answer) -> Self {
        match answer {
            hsched_engine::Answer::Submitted { job_id } => Self::Submitted(*job_id),
            hsched_engine::Answer::Refused { message } | hsched_engine::Answer::Deferred { message } => {
                Self::Refused(message.clone())
            }
            hsched_engine::Answer::Unreachable { message } => Self::Unreachable(message.clone()),
            hsched_engine::Answer::Unclear { message } => Self::Unknown(message.clone()),
            other @ (hsched_engine::Answer::Stopped
            | hsched_engine::Answer::Killed
            | hsched_engine::Answer::NotStopped { .. }
            | hsched_engine::Answer::Amended
            | hsched_engine::Answer::NotAmended { .. }) => Self::Unknown(format!("{other:?}")),
        }
    }

    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Submitted(_) => "submitted",
            Self::Refused(_) => "refused",
            Self::Unknown(_) => "unknown",
            Self::Unreachable(_) => "unreachable",
        }
    }

    pub(crate) fn job_id(&self) -> Option<String> {
        match self {
            Self::Submitted(job_id) => Some(job_id.to_string()),
            _ => None,
        }
    }

    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Refused(message) | Self::Unknown(message) | Self::Unreachable(message) => Some(message),
            Self::Submitted(_) => None,
        }
    }
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let submitted = matches!(self.answer, Answer::Submitted(_));
        let clause = if submitted { self.beginning.clause() } else { String::new() };
        write!(f, "{}: {}{clause}", self.job, self.answer)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submitted(job_id) => write!(f, "submitted as job {job_id}"),
            Self::Unknown(message) => {
                write!(f, "unclear whether it was submitted ({message}); check squeue --me")
            }
            Self::Refused(message) | Self::Unreachable(message) => write!(f, "not submitted: {message}"),
        }
    }
}
