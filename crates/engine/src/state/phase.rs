//! The phase of a job: waiting, submitted, or ended with an outcome.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Stage, Submission, SubmissionRecord};
use hsched_model::Time;

/// The phase of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not submitted: waits for GPUs, at least until the given time.
    Waiting {
        not_before: Option<Time>,
        reason: String,
    },
    /// Slurm has the job, or may have it, as one or several submissions. Never empty.
    Submitted(Vec<Submission>),
    Ended {
        at: Time,
        outcome: Outcome,
    },
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    Failed { reason: String },
    Cancelled,
}

impl Phase {
    /// Returns the submissions that have not ended.
    pub fn submissions(&self) -> &[Submission] {
        if let Self::Submitted(submissions) = self { submissions } else { &[] }
    }

    pub(crate) fn submissions_mut(&mut self) -> &mut [Submission] {
        if let Self::Submitted(submissions) = self { submissions } else { &mut [] }
    }

    /// Returns the most advanced submission, the first if several are equal; it represents the job in
    /// output.
    pub fn foremost(&self) -> Option<&Submission> {
        self.submissions().iter().rev().max_by_key(|submission| submission.stage.rank())
    }

    /// Returns the record of the most advanced submission.
    pub fn attempt(&self) -> Option<&SubmissionRecord> {
        self.foremost().map(|submission| &submission.attempt)
    }

    /// Returns the record of the running submission, the first of several.
    pub fn running(&self) -> Option<&SubmissionRecord> {
        self.submissions()
            .iter()
            .find(|submission| submission.is_running())
            .map(|submission| &submission.attempt)
    }

    /// Returns why the most advanced submission is pending, in Slurm's words.
    pub fn queue_reason(&self) -> Option<&String> {
        let foremost = self.foremost().filter(|submission| submission.stage == Stage::Pending)?;
        foremost.attempt.reason.as_ref()
    }

    /// Returns whether Slurm has the job, or may have it.
    pub fn is_submitted(&self) -> bool {
        matches!(self, Self::Submitted(_))
    }

    /// Returns whether the job has ended for good.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }

    /// Returns whether the job ended before a moment.
    pub fn ended_before(&self, moment: Time) -> bool {
        matches!(self, Self::Ended { at, .. } if *at < moment)
    }

    /// Returns the phase in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Waiting { .. } => "waiting",
            Self::Submitted(_) => self.foremost().map_or("submitting", |submission| submission.stage.word()),
            Self::Ended { outcome, .. } => outcome.word(),
        }
    }
}

impl Outcome {
    /// Returns the outcome in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { reason } if reason.starts_with("failed") => f.write_str(reason),
            Self::Failed { reason } => write!(f, "failed: {reason}"),
            other => f.write_str(other.word()),
        }
    }
}
