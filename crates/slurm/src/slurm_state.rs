//! The state of a Slurm job.

use std::fmt;

/// A job's state, as squeue and sacct spell it in full.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlurmState {
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
    /// A state unknown to this version, as printed.
    Other(String),
}

/// The names printed by `job_state_string` of Slurm 20.11 to 26.05. Final states come last.
const NAMES: [(&str, SlurmState); 25] = [
    ("PENDING", SlurmState::Pending),
    ("CONFIGURING", SlurmState::Configuring),
    ("RUNNING", SlurmState::Running),
    ("SUSPENDED", SlurmState::Suspended),
    ("STOPPED", SlurmState::Stopped),
    ("RESIZING", SlurmState::Resizing),
    ("SIGNALING", SlurmState::Signaling),
    ("COMPLETING", SlurmState::Completing),
    ("STAGE_OUT", SlurmState::StageOut),
    ("REQUEUED", SlurmState::Requeued),
    ("REQUEUE_FED", SlurmState::RequeueFed),
    ("REQUEUE_HOLD", SlurmState::RequeueHold),
    ("RESV_DEL_HOLD", SlurmState::ResvDelHold),
    ("SPECIAL_EXIT", SlurmState::SpecialExit),
    ("EXPEDITING", SlurmState::Expediting),
    ("REVOKED", SlurmState::Revoked),
    ("COMPLETED", SlurmState::Completed),
    ("CANCELLED", SlurmState::Cancelled),
    ("FAILED", SlurmState::Failed),
    ("TIMEOUT", SlurmState::Timeout),
    ("NODE_FAIL", SlurmState::NodeFail),
    ("BOOT_FAIL", SlurmState::BootFail),
    ("OUT_OF_MEMORY", SlurmState::OutOfMemory),
    ("DEADLINE", SlurmState::Deadline),
    ("PREEMPTED", SlurmState::Preempted),
];

impl SlurmState {
    /// Returns the state; never fails. `CANCELLED by 1000` is a cancelled job.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let word = text.split_whitespace().next().unwrap_or("").trim_end_matches('+');
        let known = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        known.map_or_else(|| Self::Other(text.to_owned()), |(_, state)| state.clone())
    }

    /// Returns whether the job holds nodes now; `nodes` is its node list. In an unknown state it holds the
    /// nodes that Slurm lists, if any.
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

    /// Returns whether the job waits in the queue for its first or another start.
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

    /// Returns whether the job is held until a person releases it.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::RequeueHold | Self::ResvDelHold | Self::SpecialExit)
    }

    /// Returns whether the job has ended for good, successfully or not.
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

impl fmt::Display for SlurmState {
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
            assert_eq!(SlurmState::parse(name), *state);
            assert_eq!(state.to_string(), *name);
            let kinds = [state.is_final(), state.is_pending(), state.holds_nodes("")];
            let count = kinds.iter().filter(|is| **is).count();
            // A revoked job runs on another cluster of the federation.
            assert_eq!(count, usize::from(*state != SlurmState::Revoked), "{name}");
            assert!(!state.is_held() || state.is_pending(), "{name}");
        }
        assert_eq!(SlurmState::parse("CANCELLED by 1000"), SlurmState::Cancelled);
        let new = SlurmState::parse(" NEWLY_MADE ");
        assert_eq!(new, SlurmState::Other("NEWLY_MADE".to_owned()));
        assert!(new.holds_nodes("n1") && !new.holds_nodes("") && !new.is_pending() && !new.is_final());
    }
}
