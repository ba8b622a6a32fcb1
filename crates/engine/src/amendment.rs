//! Updates of pending requests in place, and the questions about the queue that come before them.

use serde::{Deserialize, Serialize};

use crate::{Gpus, Stage, Submission, SubmissionRecord};
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Job, JobDefaults, JobId, PlacedRank, QueueChoice, RequestOption, Seconds};
use hsched_plan::throughput::ThroughputMatrix;

/// GPUs of a request to Slurm: the same number of one type on each of several nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GpuRequest {
    pub nodes: u32,
    pub per_node: u32,
    #[serde(rename = "type")]
    pub gpu_type: GpuType,
}

/// New values of a pending request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Amendment {
    /// `None`: the GPUs stay the same and only the limit changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<GpuRequest>,
    /// The planned ranks after the update, rank 0 first.
    pub ranks: Vec<PlacedRank>,
    #[serde(rename = "epoch_s")]
    pub epoch: Seconds,
    #[serde(rename = "communication_s")]
    pub communication: Seconds,
    /// The time limit.
    pub minutes: u64,
    /// CPUs and memory of each rank; memory in bytes, 0 if unknown.
    pub cpus: u64,
    pub memory: u64,
    /// The account and partitions after the update, if the job leaves several open.
    #[serde(rename = "terms", default, skip_serializing_if = "Option::is_none")]
    pub queue_choice: Option<QueueChoice>,
    /// A message that the limit ends the job before its remaining work is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<String>,
}

/// A question about the queue: a job's possible requests and when each would start.
#[derive(Clone, Debug, PartialEq)]
pub struct Inquiry {
    /// The job's number in the problem of this turn.
    pub job: usize,
    /// The job with its remaining epochs.
    pub rest: Job,
    /// Known speeds of the job on the GPUs of the cluster.
    pub speeds: ThroughputMatrix,
    /// The shortest limit that a request may have, if partitions allow it.
    pub at_least: Option<Seconds>,
    /// Whether the job can resume after its time limit.
    pub resumes: bool,
    /// Whether the job leaves its account or partition open.
    pub goes_elsewhere: bool,
    pub submissions: Vec<Submission>,
}

impl Inquiry {
    /// Returns an entry for each of the job's submissions, in order: its id if it is pending.
    pub fn pending(&self) -> Vec<Option<JobId>> {
        let id = |submission: &Submission| {
            submission.attempt.job_id.filter(|_| submission.stage == Stage::Pending)
        };
        self.submissions.iter().map(id).collect()
    }

    /// Returns whether a submission of the job is pending.
    pub fn waits(&self) -> bool {
        self.pending().iter().any(Option::is_some)
    }

    /// Returns whether more submissions may be queued beside the pending ones.
    pub fn races(&self) -> bool {
        self.submissions.iter().any(|submission| submission.attempt.race)
    }

    /// Returns the pending submission that could be changed to a request; `None` if there is none, or if
    /// another submission of the job already makes the same request.
    pub fn in_place(&self, request: &RequestOption, defaults: &JobDefaults) -> Option<JobId> {
        let submission = Submission::changeable(&self.submissions, &GpuRequest::asked(request))?;
        let others = || self.submissions.iter().filter(|other| *other != submission);
        let is_there = others().any(|other| self.asks_for(&other.attempt, request, defaults));
        submission.attempt.job_id.filter(|_| !is_there)
    }

    /// Returns whether a submission already requests the GPUs of `request` with the same limit. If the job
    /// leaves its account or partition open, the account must also be the same, and the submission's
    /// partitions must include that of `request`. For a submission without a queue choice, only the GPUs are
    /// compared.
    fn asks_for(&self, attempt: &SubmissionRecord, request: &RequestOption, defaults: &JobDefaults) -> bool {
        let amendment = attempt.amendment.as_ref();
        let own_kind = amendment.and_then(|to| to.kind.clone()).or_else(|| GpuRequest::of(&attempt.ranks));
        if own_kind != Some(GpuRequest::asked(request)) {
            return false;
        }
        let choice = amendment.and_then(|to| to.queue_choice.as_ref()).or(attempt.queue_choice.as_ref());
        let has = |names: &str, name: &str| names.split(',').any(|known| known.trim() == name);
        let queue_choice = &request.queue_choice;
        choice.is_none_or(|choice| {
            let is_within = match (&choice.partition, &queue_choice.partition) {
                (Some(all), Some(name)) => has(all, name),
                (all, name) => all == name,
            };
            let minutes =
                QueueChoice { basis: queue_choice.basis, at_least: queue_choice.at_least, ..choice.clone() }
                    .walltime(&self.rest, request.in_one, defaults)
                    .minutes;
            let is_elsewhere = self.goes_elsewhere && !(choice.account == queue_choice.account && is_within);
            !is_elsewhere && minutes == request.walltime.minutes
        })
    }
}

impl Amendment {
    /// Returns the time limit.
    pub fn limit(&self) -> Seconds {
        Seconds(to_f64(self.minutes) * 60.0)
    }
}

impl GpuRequest {
    /// Returns the GPUs of a request.
    pub fn asked(request: &RequestOption) -> Self {
        let (nodes, per_node) = (request.request.asks.nodes, request.per_node());
        Self { nodes, per_node, gpu_type: request.gpu_type.clone() }
    }

    /// Returns the GPUs of `ranks`; `None` if nodes or types differ, because an ordinary Slurm job cannot
    /// request such GPUs.
    pub fn of(ranks: &[PlacedRank]) -> Option<Self> {
        let gpus = Gpus::of(ranks);
        let (_, gpu_type, per_node) = gpus.iter().next()?;
        let is_one = gpus.iter().all(|(_, candidate, count)| candidate == gpu_type && count == per_node);
        let nodes = u32::try_from(gpus.0.len()).ok()?;
        // Ranks of several types on one node are separate entries.
        (is_one && nodes * per_node == gpus.total()).then(|| Self {
            nodes,
            per_node,
            gpu_type: gpu_type.clone(),
        })
    }
}
