//! What Slurm says about a job's state.

use std::fmt;

/// A job's state, as squeue and sacct spell it in full.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobState {
    Pending,
    Configuring,
    Running,
    Suspended,
    Stopped,
    Completing,
    Completed,
    Cancelled,
    Failed,
    Timeout,
    NodeFail,
    BootFail,
    OutOfMemory,
    Deadline,
    Preempted,
    Requeued,
    /// A state this version does not know, as printed.
    Other(String),
}

/// The states that jobs end in come last.
const NAMES: [(&str, JobState); 16] = [
    ("PENDING", JobState::Pending),
    ("CONFIGURING", JobState::Configuring),
    ("RUNNING", JobState::Running),
    ("SUSPENDED", JobState::Suspended),
    ("STOPPED", JobState::Stopped),
    ("COMPLETING", JobState::Completing),
    ("REQUEUED", JobState::Requeued),
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

    /// Returns whether the job holds nodes now.
    #[must_use]
    pub fn holds_nodes(&self) -> bool {
        matches!(self, Self::Configuring | Self::Running | Self::Suspended | Self::Stopped | Self::Completing)
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
            assert!(!(state.is_final() && state.holds_nodes()));
        }
        assert_eq!(JobState::parse("CANCELLED by 1000"), JobState::Cancelled);
        assert_eq!(JobState::parse(" SPECIAL_EXIT "), JobState::Other("SPECIAL_EXIT".to_owned()));
    }
}
