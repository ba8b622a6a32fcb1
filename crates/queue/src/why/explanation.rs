//! The explanation of a job's state, as plain data.

use crate::LimitUse;
use crate::why::Ahead;
use hsched_model::Time;

/// The kind of a job's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// The job is pending, and time or the ends of other jobs will start it.
    Waits,
    /// The job is pending and never starts without a change.
    Never,
    /// The job is pending and held until a person releases it.
    Held,
    Running,
    Ended,
}

impl StateKind {
    /// Returns the kind in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Never => "never",
            Self::Held => "held",
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

/// Details from `scontrol show job` about a pending job that the queue lacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobFacts {
    pub dependency: Option<String>,
    pub licenses: Option<String>,
    /// The job's earliest possible start.
    pub eligible: Option<Time>,
    pub deadline: Option<Time>,
    pub restarts: u32,
}

/// Why a job has its state.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitExplanation {
    pub kind: StateKind,
    /// Slurm's reason, as printed.
    pub reason: Option<String>,
    /// The causes, in sentences; causes that time does not lift come first.
    pub why: Vec<String>,
    /// What the user can do, in sentences.
    pub way_out: Vec<String>,
    /// The limit that delays the job, if there is one.
    pub limit: Option<LimitUse>,
    /// The jobs before this one; `None` if they are unknown or irrelevant.
    pub ahead: Option<Ahead>,
}
