//! Where submissions go (Slurm's queue or local devices), and the wording of messages for each.

use hsched_model::JobId;

/// Where submissions go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// To Slurm's queue, as jobs.
    #[default]
    Queue,
    /// To local devices, as processes.
    Devices,
}

impl BackendKind {
    /// Returns the command that carries out decisions for this backend.
    pub fn follower(self) -> &'static str {
        match self {
            Self::Queue => "hsched watch",
            Self::Devices => "hsched run",
        }
    }

    /// Returns the start of the message for a job that is already present and must not be submitted again;
    /// its name follows.
    pub fn already(self) -> &'static str {
        match self {
            Self::Queue => "already in the queue",
            Self::Devices => "already under hsched run",
        }
    }

    /// Returns the message for a submission that received this id. The id of a guard is left out, because no
    /// command needs it.
    pub fn submitted(self, id: JobId) -> String {
        match self {
            Self::Queue => format!("submitted as job {id}"),
            Self::Devices => "started".to_owned(),
        }
    }

    /// Returns the message for the continuation of a chain that received this number.
    pub fn continued(self, id: JobId) -> String {
        match self {
            Self::Queue => format!("continuation queued as job {id}"),
            Self::Devices => "continuation started".to_owned(),
        }
    }

    /// Returns the message for a submission that received this number and is pending beside another one of
    /// its job.
    pub fn beside(self, id: JobId) -> String {
        match self {
            Self::Queue => format!("also queued as job {id}"),
            Self::Devices => "also started".to_owned(),
        }
    }

    /// Returns the message for a submission that runs under this number.
    pub fn running(self, id: JobId) -> String {
        match self {
            Self::Queue => format!("running as job {id}"),
            Self::Devices => "running".to_owned(),
        }
    }

    /// Returns the start of the message for a submission that would never be accepted; the reason follows.
    pub fn refused(self) -> &'static str {
        match self {
            Self::Queue => "refused by Slurm",
            Self::Devices => "cannot be started",
        }
    }

    /// Returns the start of the message for a submission that is not accepted now; the reason follows.
    pub fn deferred(self) -> &'static str {
        match self {
            Self::Queue => "Slurm does not accept it now",
            Self::Devices => "cannot be started now",
        }
    }

    /// Returns the start of the message for a submission that failed for another reason, which follows.
    pub fn failed(self) -> &'static str {
        match self {
            Self::Queue => "could not be submitted",
            Self::Devices => "could not be started",
        }
    }
}
