//! Events: facts about jobs and nodes that change the state.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Gpus, QueueReason, ScriptFacts, Stall, SubmissionKey};
use hsched_model::{Availability, Job, JobId, JobName, NodeName, Seconds, Time};

/// A fact about jobs or nodes that changes the state.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The user added a job, for the first time or again. A job with finished epochs resumes after them
    /// unless it has completed, its epochs belong to other work or the user requests a restart.
    Added {
        job: Box<Job>,
        restart: bool,
    },
    /// The user requested cancellation of a job.
    CancelAsked {
        job: JobName,
    },
    /// Slurm's answer to a request about a submission; ignored unless the job has that submission.
    Answer {
        of: SubmissionKey,
        answer: Answer,
    },
    /// News of a submission; ignored unless the job has that submission.
    News {
        of: SubmissionKey,
        news: News,
    },
    /// An earlier submission of a job is still in Slurm's queue; `None`: it has left the queue.
    Stray {
        job: JobName,
        job_id: Option<JobId>,
    },
    /// A submission presumed lost is in the queue.
    Found {
        of: SubmissionKey,
        job_id: JobId,
        submit_time: Option<String>,
    },
    /// A node accepts no new work.
    NodeDown {
        node: NodeName,
        state: Availability,
        reason: Option<String>,
    },
    NodeBack {
        node: NodeName,
    },
    /// A node that accepted no new work is no longer part of the cluster, or no longer has GPUs.
    NodeGone {
        node: NodeName,
    },
}

/// The outcome of a request about a submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Answer {
    /// sbatch printed the job's number.
    Submitted { job_id: JobId },
    /// sbatch rejected the submission permanently.
    Refused { message: String },
    /// sbatch rejected the submission for now.
    Deferred { message: String },
    /// The request did not reach Slurm.
    Unreachable { message: String },
    /// The request may or may not have reached Slurm.
    Unclear { message: String },
    /// The submission was asked to save and end.
    Stopped,
    /// Slurm received the request to end the job.
    Killed,
    /// The request to end the job did not reach Slurm.
    NotStopped { message: String },
    /// Slurm has changed the request.
    Amended,
    /// Slurm has not changed the request.
    NotAmended { message: String },
    /// New shares are stored where the ranks look for them.
    Shared,
    /// The ranks accept no other shares.
    NotShared { message: String },
}

/// An observation about a submission.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// Slurm does not list the submission, for the first time.
    Missing,
    /// Slurm has not listed the submission for a long time, and there is no trace of a run.
    NeverSubmitted,
    /// The submission is pending in the queue.
    Queued { job_id: JobId, submit_time: Option<String> },
    /// Slurm gives another reason why the submission is pending.
    Waits(QueueReason),
    /// The submission's processes run, on these GPUs if known.
    Started { job_id: JobId, submit_time: Option<String>, at: Time, gpus: Option<Gpus> },
    /// Rank 0 has reported an epoch.
    Epoch(EpochReport),
    /// Slurm reports other facts about the job of a script.
    Facts(ScriptFacts),
    /// Rank 0's reports contain something unexpected; reported once.
    Odd { what: String },
    /// The submission is stuck, or makes progress again.
    Stalled(Option<Stall>),
    /// The submission has left the queue.
    Ended { end: End, at: Time },
}

/// An epoch as its ranks reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochReport {
    /// Epoch number, from 1.
    pub epoch: u64,
    /// Time at which the report was seen.
    pub at: Time,
    /// Length of the epoch as measured by rank 0.
    pub length: Option<Seconds>,
    /// The reports of the ranks that have reported.
    pub ranks: Vec<RankReport>,
    /// Metrics from rank 0, by name.
    pub metrics: Vec<(String, f64)>,
}

/// One rank's line about an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct RankReport {
    pub rank: usize,
    /// The rank's node, if samples show it.
    pub node: Option<NodeName>,
    /// Number of samples that the rank trained in the epoch.
    pub samples: u64,
    /// Compute time, without waiting for other ranks.
    pub compute: Seconds,
    /// Size and mean time of its (micro-)steps, if the rank reports them.
    pub step: Option<StepTiming>,
    /// Step times that the rank measured at other sizes before its first epoch.
    pub probes: Vec<StepTiming>,
    /// The rank's share of each global batch, if it reports one.
    pub share: Option<ReportedShare>,
}

/// The share of a rank in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedShare {
    /// Samples.
    pub batch: u64,
    /// Version of the shares that the rank adopted while running, 0 for those from its start; `None` if it
    /// accepts no others.
    pub version: Option<u64>,
}

/// The time of a (micro-)step of a given size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTiming {
    /// Samples.
    pub batch: u64,
    pub time: Seconds,
}

/// How a submission ended, according to Slurm, to its script or to hsched; `Other` is for Slurm states that
/// this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Exit status 0.
    Completed,
    /// The ranks saved and want to continue (exit status 85).
    Saved,
    TimedOut,
    Failed {
        exit: u8,
        signal: u8,
    },
    OutOfMemory,
    NodeFailed,
    /// The check before the first step failed (exit status 87), on this node if known.
    Unfit {
        node: Option<NodeName>,
        why: String,
    },
    BootFailed,
    Preempted,
    /// The deadline given to Slurm has passed.
    Deadline,
    Cancelled,
    /// Another submission of the race started first.
    Yielded,
    /// The submission ended in this way before it had claimed the job of its race, so the race's other
    /// submissions can still claim the job. [`apply`](fn@crate::apply) keeps the inner end.
    Untaken(Box<Self>),
    /// The submission stopped on request or at its time limit before the last epoch and saved nothing.
    Cut,
    /// Like `Cut`, but the stop signal killed its commands, because they do not handle it.
    Unhandled,
    /// The hsched process that ran it ended, after letting it save if possible. The job is not to blame,
    /// however often this happens.
    Interrupted,
    /// Like `Interrupted`, but its program wrote no checkpoint.
    InterruptedUnsaved,
    /// Slurm no longer knows the submission, and it recorded no exit.
    Vanished,
    /// This many tasks of an array did not complete; `first` is how the first of them ended.
    Tasks {
        failed: u64,
        all: u64,
        first: Box<Self>,
    },
    /// A state unknown to this version, as printed.
    Other(String),
}

impl End {
    /// Returns whether the cause of the end lies outside the training.
    pub(crate) fn is_from_outside(&self) -> bool {
        matches!(
            self,
            Self::NodeFailed | Self::Unfit { .. } | Self::BootFailed | Self::Preempted | Self::Vanished
        )
    }

    /// Returns whether the submission is known to have saved nothing when it stopped.
    pub(super) fn is_unsaved(&self) -> bool {
        matches!(self, Self::Cut | Self::Unhandled | Self::InterruptedUnsaved)
    }

    /// Returns whether the submission stopped on request or at its time limit.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::Saved | Self::TimedOut | Self::Cut | Self::Unhandled)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed => f.write_str("completed"),
            Self::Saved => f.write_str("saved a checkpoint"),
            Self::TimedOut => f.write_str("reached its time limit"),
            Self::Failed { exit, signal: 0 } => write!(f, "failed with exit status {exit}"),
            Self::Failed { signal, .. } => write!(f, "was killed by signal {signal}"),
            Self::OutOfMemory => f.write_str("ran out of memory"),
            Self::NodeFailed => f.write_str("lost a node"),
            Self::Unfit { node: Some(node), why } => write!(f, "failed its check on node {node}: {why}"),
            Self::Unfit { node: None, why } => write!(f, "failed its check before the first step: {why}"),
            Self::BootFailed => f.write_str("lost a node that did not boot"),
            Self::Preempted => f.write_str("was preempted"),
            Self::Deadline => f.write_str("passed its deadline"),
            Self::Cancelled => f.write_str("was cancelled"),
            Self::Yielded => f.write_str("another request started first"),
            Self::Untaken(end) => end.fmt(f),
            Self::Cut | Self::Unhandled | Self::Interrupted | Self::InterruptedUnsaved => {
                f.write_str("was interrupted")
            }
            Self::Vanished => f.write_str("is no longer known to Slurm"),
            Self::Tasks { failed, all, first } => {
                write!(f, "{failed} of {all} tasks did not complete; the first {first}")
            }
            Self::Other(text) => write!(f, "ended in state {text}"),
        }
    }
}
