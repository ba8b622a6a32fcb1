//! Events of a replay, for `simulate --events`.

use serde_json::{Map, Value};

use hsched_model::{Seconds, Time};
use hsched_plan::Slot;
use hsched_plan::kit::TaskRun;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayEvent {
    pub at: Time,
    pub kind: EventKind,
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
    /// What the policy tells of it: further keys and values of the event in `--events`.
    pub facts: Map<String, Value>,
}

/// What happened; events of one moment come in this order, then in that of the file.
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
    /// Returns the event's name in `--events`.
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
