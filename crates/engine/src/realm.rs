//! Where submissions go, Slurm's queue or devices at hand, and the words of messages for each.

use hsched_model::JobId;

/// Where submissions go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Realm {
    /// To Slurm's queue, as jobs.
    #[default]
    Queue,
    /// Onto devices at hand, as processes.
    Devices,
}

impl Realm {
    /// Returns the command that carries out what is decided there.
    #[must_use]
    pub fn follower(self) -> &'static str {
        match self {
            Self::Queue => "hsched watch",
            Self::Devices => "hsched run",
        }
    }

    /// Returns what is said of a job that is there and must not come a second time; its name follows.
    #[must_use]
    pub fn already(self) -> &'static str {
        match self {
            Self::Queue => "already in the queue",
            Self::Devices => "already under hsched run",
        }
    }

    /// Returns what is said of a submission that got this number.
    #[must_use]
    pub fn submitted(self, id: JobId) -> String {
        match self {
            Self::Queue => format!("submitted as job {id}"),
            Self::Devices => format!("started as process {id}"),
        }
    }

    /// Returns what is said of the continuation of a chain that got this number.
    #[must_use]
    pub fn continued(self, id: JobId) -> String {
        match self {
            Self::Queue => format!("continuation queued as job {id}"),
            Self::Devices => format!("continuation started as process {id}"),
        }
    }

    /// Returns what is said of a submission that got this number and waits beside another of its job.
    #[must_use]
    pub fn beside(self, id: JobId) -> String {
        match self {
            Self::Queue => format!("also queued as job {id}"),
            Self::Devices => format!("also started as process {id}"),
        }
    }

    /// Returns what is said of a submission that runs under this number.
    #[must_use]
    pub fn running(self, id: JobId) -> String {
        match self {
            Self::Queue => format!("running as job {id}"),
            Self::Devices => format!("running as process {id}"),
        }
    }

    /// Returns what is said of a submission that would never be accepted; the reason follows.
    #[must_use]
    pub fn refused(self) -> &'static str {
        match self {
            Self::Queue => "refused by Slurm",
            Self::Devices => "cannot be started",
        }
    }

    /// Returns what is said of one that is not accepted now; the reason follows.
    #[must_use]
    pub fn deferred(self) -> &'static str {
        match self {
            Self::Queue => "Slurm does not accept it now",
            Self::Devices => "cannot be started now",
        }
    }

    /// Returns what is said of one that came to nothing for another reason, which follows.
    #[must_use]
    pub fn failed(self) -> &'static str {
        match self {
            Self::Queue => "could not be submitted",
            Self::Devices => "could not be started",
        }
    }
}
