//! Observations: what a world shows at one moment.

use crate::{Answer, End, EpochReport, Gpus, ScriptSighting, Stall, SubmissionKey};
use hsched_model::{Cluster, JobId, Time};

/// The cluster, the jobs in its queue and what their ranks reported, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    pub at: Time,
    /// All nodes, with what all jobs use.
    pub cluster: Cluster,
    /// The submissions that Slurm knows, or that left word of their end.
    pub sightings: Vec<Sighting>,
    /// Submissions that are in the queue for a job of the state, and are none that the job has.
    pub strays: Vec<Sighting>,
    /// The jobs of scripts that Slurm knows.
    pub scripts: Vec<ScriptSighting>,
    /// Epochs that were reported since the last look, in order.
    pub epochs: Vec<(SubmissionKey, EpochReport)>,
    /// What is odd about rank 0's reports.
    pub odd: Vec<(SubmissionKey, String)>,
    /// Running submissions that are stuck.
    pub stalls: Vec<(SubmissionKey, Stall)>,
    /// Why the check of submissions failed: their ends, with the node.
    pub unfit: Vec<(SubmissionKey, End)>,
    /// What could not be read, for people.
    pub notes: Vec<String>,
}

impl Observation {
    /// Returns a cluster at a moment at which nothing is seen of any job.
    pub fn new(at: Time, cluster: Cluster) -> Self {
        Self {
            at,
            cluster,
            sightings: Vec::new(),
            strays: Vec::new(),
            scripts: Vec::new(),
            epochs: Vec::new(),
            odd: Vec::new(),
            stalls: Vec::new(),
            unfit: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// A job that hsched submitted and that has not ended, whether the state knows it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedJob {
    /// The job's name in its job file.
    pub name: String,
    pub id: JobId,
    /// Its state, in the words of the batch system.
    pub state: String,
}

/// A submission as Slurm shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    pub of: SubmissionKey,
    pub job_id: JobId,
    pub submit_time: Option<String>,
    pub state: QueueState,
    /// Why it waits in the queue, where Slurm says so.
    pub reason: Option<QueueReason>,
}

/// Why a submission waits in the queue. For people alone: nothing is decided by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueReason {
    /// In Slurm's words, such as `Priority` or `JobHeldUser`.
    pub text: String,
    /// Whether it waits until somebody does something, and not for its turn.
    pub is_stuck: bool,
}

/// Where a submission stands.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueState {
    Pending,
    /// On these GPUs, where that can be told.
    Running {
        since: Option<Time>,
        gpus: Option<Gpus>,
    },
    Ended {
        end: End,
        at: Option<Time>,
        /// When it had started, where that is known.
        since: Option<Time>,
    },
    /// Whoever was to start it says that he did not, and why.
    NotStarted(Answer),
}
