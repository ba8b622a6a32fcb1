//! What happens in a replay, for whoever wants to follow it.

use crate::model::{Seconds, Time};
use crate::policy::{CopyShare, HadarRound, Slot, TaskRun};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub at: Time,
    pub kind: Kind,
    /// The job, by its place in the trace's file.
    pub job: Option<usize>,
    /// The node, by its number in the problem.
    pub node: Option<usize>,
    /// The GPUs that the job has from now on.
    pub slots: Vec<Slot>,
    /// Until when a restart keeps the job from its training.
    pub restart: Option<Seconds>,
    /// Why, where somebody said.
    pub why: String,
    /// The task that begins to compute.
    pub task: Option<TaskRun>,
    /// How a job queues.
    pub queued: Option<Queued>,
    /// What a round of `hadar` was like, its jobs by their places in the trace's file.
    pub round: Option<Box<HadarRound>>,
    /// What a round of `hadare` was like.
    pub copies: Option<Box<CopyRound>>,
}

/// A round of `hadare`.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyRound {
    /// Counted from 1 at the time 0.
    pub number: u64,
    /// The jobs that are there, in the order of the file.
    pub jobs: Vec<CopyBid>,
    /// The part of all nodes' time in which copies trained.
    pub cru: f64,
}

/// What a job got in a round of `hadare`.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyBid {
    /// The job, by its place in the trace's file.
    pub job: usize,
    /// In the order in which it took its nodes.
    pub copies: Vec<CopyShare>,
    pub steps_left: u64,
}

/// How a job enters the queues of `hlas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Counted from 1, the least served.
    pub level: u64,
    pub epochs_done: u64,
    /// Epochs that it is expected to train yet, at least.
    pub predicted_epochs: u64,
}

/// What happened; events of one moment come in this order, then in that of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Arrived,
    Started,
    Stopped,
    Moved,
    Completed,
    Failed,
    Round,
    Task,
    Queued,
    NodeDown,
    NodeBack,
}

impl Kind {
    /// Returns the event's name in `--events`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Arrived => "arrived",
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Moved => "moved",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Round => "round",
            Self::Task => "task",
            Self::Queued => "queued",
            Self::NodeDown => "node-down",
            Self::NodeBack => "node-back",
        }
    }
}

impl Event {
    /// Returns an event of a job.
    pub(super) fn of_job(at: Time, kind: Kind, job: usize) -> Self {
        Self { job: Some(job), ..Self::new(at, kind) }
    }

    /// Returns an event of a node.
    pub(super) fn of_node(at: Time, kind: Kind, node: usize) -> Self {
        Self { node: Some(node), ..Self::new(at, kind) }
    }

    /// Returns an event.
    pub(super) fn new(at: Time, kind: Kind) -> Self {
        Self {
            at,
            kind,
            job: None,
            node: None,
            slots: Vec::new(),
            restart: None,
            why: String::new(),
            task: None,
            queued: None,
            round: None,
            copies: None,
        }
    }
}
