//! Observations: what a world shows at one moment.

use crate::{Answer, End, EpochReport, Gpus, ScriptSighting, Stall, SubmissionKey};
use hsched_model::{Cluster, JobId, Time};

/// The cluster, the jobs in its queue and what their ranks reported, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    pub at: Time,
    /// All nodes, with the resources in use by all jobs.
    pub cluster: Cluster,
    /// The submissions that Slurm knows or whose end was recorded.
    pub sightings: Vec<Sighting>,
    /// Submissions in the queue that name a job of the state but are not among its current ones.
    pub strays: Vec<Sighting>,
    /// The jobs of scripts that Slurm knows.
    pub scripts: Vec<ScriptSighting>,
    /// Epochs that were reported since the last observation, in order.
    pub epochs: Vec<(SubmissionKey, EpochReport)>,
    /// Unexpected content of rank 0's reports.
    pub odd: Vec<(SubmissionKey, String)>,
    /// Running submissions that are stuck.
    pub stalls: Vec<(SubmissionKey, Stall)>,
    /// Why the check of submissions failed: their ends, with the node.
    pub unfit: Vec<(SubmissionKey, End)>,
    /// Notes for the user on data that could not be read.
    pub notes: Vec<String>,
}

impl Observation {
    /// Returns an observation of a cluster at one moment without any jobs.
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

/// A job that hsched submitted and that has not ended, even if the state does not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedJob {
    /// The job's name in its job file.
    pub name: String,
    pub id: JobId,
    /// The batch job's state, in the words of the batch system.
    pub state: String,
}

/// A submission as Slurm shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    pub of: SubmissionKey,
    pub job_id: JobId,
    pub submit_time: Option<String>,
    pub state: QueueState,
    /// Why the submission is pending, if Slurm gives a reason.
    pub reason: Option<QueueReason>,
}

/// Why a submission is pending. It is shown to users and has no influence on decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueReason {
    /// In Slurm's words, such as `Priority` or `JobHeldUser`.
    pub text: String,
    /// Whether the job waits for a person's action instead of its turn.
    pub is_stuck: bool,
}

/// The queue state of a submission.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueState {
    Pending,
    /// The GPUs on which the submission runs, if they are known.
    Running {
        since: Option<Time>,
        gpus: Option<Gpus>,
    },
    Ended {
        end: End,
        at: Option<Time>,
        /// The time at which the submission started, if known.
        since: Option<Time>,
    },
    /// The program that should have started the submission reports that it did not, and why.
    NotStarted(Answer),
}
