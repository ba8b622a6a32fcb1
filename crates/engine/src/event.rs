//! Events: what can happen to jobs and nodes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Gpus, QueueReason, ScriptFacts, Stall, SubmissionKey};
use hsched_model::{Availability, Job, JobId, JobName, NodeName, Seconds, Time};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Its owner added a job, for the first time or again; one that has done epochs goes on after them, or begins
    /// anew where its owner wants a restart.
    Added {
        job: Box<Job>,
        restart: bool,
    },
    /// Its owner wants no more of a job.
    CancelAsked {
        job: JobName,
    },
    /// Slurm's answer to what was asked of it about a submission; without meaning unless the job has that one.
    Answer {
        of: SubmissionKey,
        answer: Answer,
    },
    /// News of a submission; without meaning unless the job has that one.
    News {
        of: SubmissionKey,
        news: News,
    },
    /// Slurm has an earlier submission of a job that waits here, or not any more.
    Stray {
        job: JobName,
        job_id: Option<JobId>,
    },
    /// Slurm has a submission after all that was given up as lost.
    Found {
        of: SubmissionKey,
        job_id: JobId,
        submit_time: Option<String>,
    },
    /// A node takes no new work.
    NodeDown {
        node: NodeName,
        state: Availability,
        reason: Option<String>,
    },
    NodeBack {
        node: NodeName,
    },
}

/// What came of a request about a submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Answer {
    /// sbatch printed its number.
    Submitted { job_id: JobId },
    /// sbatch said no.
    Refused { message: String },
    /// sbatch said that it may be taken later.
    Deferred { message: String },
    /// The request did not reach Slurm.
    Unreachable { message: String },
    /// Nobody knows whether Slurm heard the request.
    Unclear { message: String },
    /// It was asked to save and end.
    Stopped,
    /// Slurm was told to end it.
    Killed,
    /// The request to end it did not get through.
    NotStopped { message: String },
    /// Slurm has changed what it asks for.
    Amended,
    /// Slurm has not changed what it asks for.
    NotAmended { message: String },
    /// New shares are where its ranks look for them.
    Shared,
    /// Its ranks cannot be given other shares.
    NotShared { message: String },
}

/// What is seen of a submission.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// Slurm does not know it, for the first time.
    Missing,
    /// Slurm has not known it for long and nothing shows that it ever ran.
    NeverSubmitted,
    /// It waits in the queue.
    Queued { job_id: JobId, submit_time: Option<String> },
    /// Slurm has another reason now for which it waits.
    Waits(QueueReason),
    /// Its processes run, on these GPUs where that is known.
    Started { job_id: JobId, submit_time: Option<String>, at: Time, gpus: Option<Gpus> },
    /// Rank 0 has reported an epoch.
    Epoch(EpochReport),
    /// Slurm says something else of the job of a script.
    Facts(ScriptFacts),
    /// Something about rank 0's reports is odd; told once.
    Odd { what: String },
    /// It does not get on, or gets on again.
    Stalled(Option<Stall>),
    /// It has left the queue.
    Ended { end: End, at: Time },
}

/// An epoch as its ranks reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochReport {
    /// Counts from 1.
    pub epoch: u64,
    /// When it was seen.
    pub at: Time,
    /// Length of the epoch as rank 0 saw it.
    pub length: Option<Seconds>,
    /// What each rank reported, those that did.
    pub ranks: Vec<RankReport>,
    /// What rank 0 says of the training, by name.
    pub metrics: Vec<(String, f64)>,
}

/// One rank's line about an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct RankReport {
    pub rank: usize,
    /// The node that it is on, where samples tell.
    pub node: Option<NodeName>,
    /// Samples of the epoch that it trained.
    pub samples: u64,
    /// Time that it computed, without waiting for others.
    pub compute: Seconds,
    /// Size and mean time of its (micro-)steps, where it says so itself.
    pub step: Option<Timed>,
    /// What it measured at other sizes before its first epoch.
    pub probes: Vec<Timed>,
    /// Its share of each global batch, where it says so.
    pub share: Option<ReportedShare>,
}

/// The share that a rank had in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedShare {
    /// Samples.
    pub batch: u64,
    /// Version of the shares that it took while it ran, 0 for those with which it was started; `None` where it takes no others.
    pub version: Option<u64>,
}

/// The time of a (micro-)step at some size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// Samples.
    pub batch: u64,
    pub time: Seconds,
}

/// How a submission ended: every end that Slurm knows, those unheard of included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Exit status 0.
    Completed,
    /// The ranks saved and want to go on (exit status 85).
    Saved,
    TimedOut,
    Failed {
        exit: u8,
        signal: u8,
    },
    OutOfMemory,
    NodeFailed,
    /// The check before its first step failed (exit status 87), on this node where that is known.
    Unfit {
        node: Option<NodeName>,
        why: String,
    },
    BootFailed,
    Preempted,
    /// The deadline that Slurm was given has passed.
    Deadline,
    Cancelled,
    /// Another submission of its race started before it.
    Yielded,
    /// It ended so before it had taken the job of its race: the others can still have it. [`apply`](fn@crate::apply) keeps what is inside.
    Untaken(Box<Self>),
    /// It stopped on request or at its time limit before the last epoch, and saved nothing.
    Cut,
    /// As `Cut`, since the signal to stop killed its commands: they do not handle it.
    Unhandled,
    /// The hsched that ran it ended, and let it save if it could; the job is not to blame, however often.
    Interrupted,
    /// Slurm does not know it any more, and it left no word.
    Vanished,
    /// Of the tasks of an array these many did not complete; the first one ended so.
    Tasks {
        failed: u64,
        all: u64,
        first: Box<Self>,
    },
    /// A state that this version does not know, as printed.
    Other(String),
}

impl End {
    /// Returns whether something other than the training brought the end.
    pub fn is_from_outside(&self) -> bool {
        matches!(
            self,
            Self::NodeFailed | Self::Unfit { .. } | Self::BootFailed | Self::Preempted | Self::Vanished
        )
    }

    /// Returns whether it stopped on request or at its time limit.
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
            Self::Cut | Self::Unhandled | Self::Interrupted => f.write_str("was interrupted"),
            Self::Vanished => f.write_str("is no longer known to Slurm"),
            Self::Tasks { failed, all, first } => {
                write!(f, "{failed} of {all} tasks did not complete; the first {first}")
            }
            Self::Other(text) => write!(f, "ended in state {text}"),
        }
    }
}
