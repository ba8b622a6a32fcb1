//! Events of a replay, for `simulate --events`.

use serde_json::{Map, Value};

use hsched_model::{Seconds, Time};
use hsched_plan::Slot;
use hsched_plan::kit::TaskRun;

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayEvent {
    pub at: Time,
    pub kind: EventKind,
    /// The job, by index in the trace's file.
    pub job: Option<usize>,
    /// The node, by index in the problem.
    pub node: Option<usize>,
    /// The GPUs of the job after the event.
    pub slots: Vec<Slot>,
    /// Time from the event during which the job does not train: its restart, and its wait in the queue if it
    /// was moved.
    pub restart: Option<Seconds>,
    /// The reason, if there is one.
    pub why: String,
    /// The task that begins to compute.
    pub task: Option<TaskRun>,
    /// The policy's data about the event: its additional keys and values in `--events`.
    pub facts: Map<String, Value>,
}

/// The kind of an event; events at the same time are ordered by kind, then by the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
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

impl EventKind {
    /// Returns the name of the event in `--events`.
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

impl ReplayEvent {
    /// Returns an event of a job.
    pub fn of_job(at: Time, kind: EventKind, job: usize) -> Self {
        Self { job: Some(job), ..Self::new(at, kind) }
    }

    /// Returns an event of a node.
    pub fn of_node(at: Time, kind: EventKind, node: usize) -> Self {
        Self { node: Some(node), ..Self::new(at, kind) }
    }

    /// Returns an event.
    pub fn new(at: Time, kind: EventKind) -> Self {
        Self {
            at,
            kind,
            job: None,
            node: None,
            slots: Vec::new(),
            restart: None,
            why: String::new(),
            task: None,
            facts: Map::new(),
        }
    }
}
