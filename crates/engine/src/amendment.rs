//! Updates of pending requests in place, and the questions about the queue that come before them.

use serde::{Deserialize, Serialize};

use crate::Gpus;
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Job, JobId, PlacedRank, Seconds, Terms};

/// GPUs as Slurm is asked for them: so many of a type on each of some nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    pub nodes: u32,
    pub per_node: u32,
    #[serde(rename = "type")]
    pub gpu_type: GpuType,
}

/// What a pending request is changed to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Amendment {
    /// `None`: its GPUs stay, and only the limit is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The ranks as they are planned then, rank 0 first.
    pub ranks: Vec<PlacedRank>,
    #[serde(rename = "epoch_s")]
    pub epoch: Seconds,
    #[serde(rename = "communication_s")]
    pub communication: Seconds,
    /// The time limit.
    pub minutes: u64,
    /// What each rank needs beside its GPU; memory in bytes, 0 where nobody says.
    pub cpus: u64,
    pub memory: u64,
    /// The account and the partitions that it goes to then, where the job leaves several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Terms>,
    /// That the limit ends it before what is left of the job is done, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<String>,
}

/// What must be known of the queue about a job: when each of its requests would start.
#[derive(Clone, Debug, PartialEq)]
pub struct Inquiry {
    /// The job's number in the problem of this turn.
    pub job: usize,
    /// The job as it is still to be trained.
    pub rest: Job,
    /// The pending submissions, by their place among all of the job.
    pub pending: Vec<Option<JobId>>,
    /// Whether others may be queued beside these.
    pub races: bool,
    pub options: Vec<Wanted>,
}

/// A request that might be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub kind: Kind,
    /// How long the job would run.
    pub run: Seconds,
    /// The accounts and partitions that it could go to, by their numbers among all that the job leaves; none where every limit is
    /// shorter than the run of a job that cannot go on after it.
    pub ways: Vec<(usize, Terms)>,
    /// The pending request that could be changed to it.
    pub in_place: Option<JobId>,
    /// The ways on which another pending request of the job waits for these GPUs with the same limit: a change to that is no gain.
    pub there: Vec<usize>,
}

impl Inquiry {
    /// Returns whether something of the job waits in the queue.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.pending.iter().any(Option::is_some)
    }
}

impl Amendment {
    /// Returns the time limit.
    #[must_use]
    pub fn limit(&self) -> Seconds {
        Seconds(to_f64(self.minutes) * 60.0)
    }
}

impl Kind {
    /// Returns what ranks are for; `None` where nodes or types differ, for which no ordinary job can ask.
    #[must_use]
    pub fn of(ranks: &[PlacedRank]) -> Option<Self> {
        let gpus = Gpus::of(ranks);
        let (_, gpu_type, per_node) = gpus.iter().next()?;
        let is_one = gpus.iter().all(|(_, own, count)| own == gpu_type && count == per_node);
        let nodes = u32::try_from(gpus.0.len()).ok()?;
        // Ranks of several types on one node are several entries of it.
        (is_one && nodes * per_node == gpus.total()).then(|| Self {
            nodes,
            per_node,
            gpu_type: gpu_type.clone(),
        })
    }
}
