//! The explanation of a job's state, as plain data.

use crate::LimitUse;
use crate::why::Ahead;
use hsched_model::Time;

/// What a job's state comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// It is pending, and time or the ends of other jobs start it.
    Waits,
    /// It is pending and never starts unless it is changed.
    Never,
    /// It is pending and starts only after somebody releases it.
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

/// What `scontrol show job` says of a pending job that the queue does not show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobFacts {
    pub dependency: Option<String>,
    pub licenses: Option<String>,
    /// When it may start at the earliest.
    pub eligible: Option<Time>,
    pub deadline: Option<Time>,
    pub restarts: u32,
}

/// Why a job is where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitExplanation {
    pub kind: StateKind,
    /// Slurm's reason, as printed.
    pub reason: Option<String>,
    /// Why, in sentences; what time does not lift comes first.
    pub why: Vec<String>,
    /// What the user can do, in sentences.
    pub way_out: Vec<String>,
    /// The limit that holds it up, if there is one.
    pub limit: Option<LimitUse>,
    /// The jobs before it; `None` if they are unknown or do not matter.
    pub ahead: Option<Ahead>,
}
