//! The state of a Slurm job.

use std::fmt;

/// A job's state, as squeue and sacct spell it in full.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobState {
    Pending,
    Configuring,
    Running,
    Suspended,
    Stopped,
    Resizing,
    Signaling,
    Completing,
    StageOut,
    Requeued,
    RequeueFed,
    RequeueHold,
    ResvDelHold,
    SpecialExit,
    Expediting,
    Revoked,
    Completed,
    Cancelled,
    Failed,
    Timeout,
    NodeFail,
    BootFail,
    OutOfMemory,
    Deadline,
    Preempted,
    /// A state this version does not know, as printed.
    Other(String),
}

/// The names that `job_state_string` of Slurm 20.11 to 26.05 prints. The states that jobs end in come last.
const NAMES: [(&str, JobState); 25] = [
    ("PENDING", JobState::Pending),
    ("CONFIGURING", JobState::Configuring),
    ("RUNNING", JobState::Running),
    ("SUSPENDED", JobState::Suspended),
    ("STOPPED", JobState::Stopped),
    ("RESIZING", JobState::Resizing),
    ("SIGNALING", JobState::Signaling),
    ("COMPLETING", JobState::Completing),
    ("STAGE_OUT", JobState::StageOut),
    ("REQUEUED", JobState::Requeued),
    ("REQUEUE_FED", JobState::RequeueFed),
    ("REQUEUE_HOLD", JobState::RequeueHold),
    ("RESV_DEL_HOLD", JobState::ResvDelHold),
    ("SPECIAL_EXIT", JobState::SpecialExit),
    ("EXPEDITING", JobState::Expediting),
    ("REVOKED", JobState::Revoked),
    ("COMPLETED", JobState::Completed),
    ("CANCELLED", JobState::Cancelled),
    ("FAILED", JobState::Failed),
    ("TIMEOUT", JobState::Timeout),
    ("NODE_FAIL", JobState::NodeFail),
    ("BOOT_FAIL", JobState::BootFail),
    ("OUT_OF_MEMORY", JobState::OutOfMemory),
    ("DEADLINE", JobState::Deadline),
    ("PREEMPTED", JobState::Preempted),
];

impl JobState {
    /// Returns the state; never fails. `CANCELLED by 1000` is a cancelled job.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let word = text.split_whitespace().next().unwrap_or("").trim_end_matches('+');
        let known = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        known.map_or_else(|| Self::Other(text.to_owned()), |(_, state)| state.clone())
    }

    /// Returns whether the job holds nodes now; `nodes` is its node list. A state that this version does not know holds the
    /// nodes that Slurm lists, if any.
    #[must_use]
    pub fn holds_nodes(&self, nodes: &str) -> bool {
        match self {
            Self::Configuring
            | Self::Running
            | Self::Suspended
            | Self::Stopped
            | Self::Resizing
            | Self::Signaling
            | Self::Completing
            | Self::StageOut => true,
            Self::Other(_) => !nodes.trim().is_empty(),
            _ => false,
        }
    }

    /// Returns whether the job is in the queue for its first or another start.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(
            self,
            Self::Pending
                | Self::Requeued
                | Self::RequeueFed
                | Self::RequeueHold
                | Self::ResvDelHold
                | Self::SpecialExit
                | Self::Expediting
        )
    }

    /// Returns whether the job starts only after somebody released it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self, Self::RequeueHold | Self::ResvDelHold | Self::SpecialExit)
    }

    /// Returns whether the job has ended for good, in success or not.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Completed
                | Self::Cancelled
                | Self::Failed
                | Self::Timeout
                | Self::NodeFail
                | Self::BootFail
                | Self::OutOfMemory
                | Self::Deadline
                | Self::Preempted
        )
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(text) => f.pad(text),
            known => f.pad(NAMES.iter().find(|(_, state)| state == known).map_or("", |(name, _)| *name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_print_as_they_were_read() {
        for (name, state) in &NAMES {
            assert_eq!(JobState::parse(name), *state);
            assert_eq!(state.to_string(), *name);
            let kinds = [state.is_final(), state.is_pending(), state.holds_nodes("")];
            let count = kinds.iter().filter(|is| **is).count();
            // A revoked job runs in another cluster of the federation.
            assert_eq!(count, usize::from(*state != JobState::Revoked), "{name}");
            assert!(!state.is_held() || state.is_pending(), "{name}");
        }
        assert_eq!(JobState::parse("CANCELLED by 1000"), JobState::Cancelled);
        let new = JobState::parse(" NEWLY_MADE ");
        assert_eq!(new, JobState::Other("NEWLY_MADE".to_owned()));
        assert!(new.holds_nodes("n1") && !new.holds_nodes("") && !new.is_pending() && !new.is_final());
    }
}
