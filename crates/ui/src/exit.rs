//! The exit codes, which are part of the documented interface.

use hsched_model::ErrorId;

/// How a command ended; the discriminant is the exit code of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    /// The command failed.
    Failed = 1,
    /// The command line was wrong.
    Usage = 2,
    /// No job could be placed, a job was rejected, or jobs are left that cannot start or, in a simulation,
    /// did not end.
    Unplaced = 3,
    /// Some jobs were submitted, others not.
    PartlySubmitted = 4,
    /// Slurm is missing or does not answer.
    SlurmUnavailable = 69,
    /// A bug in hsched.
    Internal = 70,
    /// Another hsched holds the lock of the state.
    Locked = 75,
    /// A file or a setting is invalid.
    BadInput = 78,
    /// `run` was asked to end before all jobs had ended; it saved and stopped the running jobs.
    Saved = 85,
    Interrupted = 130,
}

impl Exit {
    /// All exit codes in ascending order.
    pub const ALL: [Self; 11] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Unplaced,
        Self::PartlySubmitted,
        Self::SlurmUnavailable,
        Self::Internal,
        Self::Locked,
        Self::BadInput,
        Self::Saved,
        Self::Interrupted,
    ];

    /// Returns the meaning of the code for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "bad command line",
            Self::Unplaced => "no job placed, or a job rejected",
            Self::PartlySubmitted => "partly submitted",
            Self::SlurmUnavailable => "Slurm missing or unreachable",
            Self::Internal => "internal error",
            Self::Locked => "state locked by another hsched",
            Self::BadInput => "bad file or configuration",
            Self::Saved => "jobs saved and stopped early",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns the name of the code in JSON errors.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Unplaced => "unplaced",
            Self::PartlySubmitted => "partly_submitted",
            Self::SlurmUnavailable => "slurm_unavailable",
            Self::Internal => "internal",
            Self::Locked => "locked",
            Self::BadInput => "bad_input",
            Self::Saved => "saved",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns the general kind of a failure with this code.
    pub fn id(self) -> ErrorId {
        match self {
            Self::Done | Self::Failed => ErrorId::Failed,
            Self::Usage => ErrorId::Usage,
            Self::Unplaced => ErrorId::Unplaced,
            Self::PartlySubmitted => ErrorId::PartlySubmitted,
            Self::SlurmUnavailable => ErrorId::SlurmUnavailable,
            Self::Internal => ErrorId::Internal,
            Self::Locked => ErrorId::Locked,
            Self::BadInput => ErrorId::BadInput,
            Self::Saved => ErrorId::Saved,
            Self::Interrupted => ErrorId::Interrupted,
        }
    }

    /// Returns the exit code as a number.
    pub fn code(self) -> u8 {
        self as u8
    }
}
