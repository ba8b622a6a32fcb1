//! A plan file's entry for one job: its verdict, GPUs, ranks and times.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan_file::PlanSpeed;
use crate::{Problem, Rank, Sharing, Slot, Verdict};
use hsched_model::number::to_f64;
use hsched_model::{GpuType, JobName, NodeName};

/// The decision for one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedJob {
    pub name: JobName,
    pub verdict: PlanVerdict,
    /// The job's partition, or several separated by commas, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    pub reason: Option<String>,
    pub jct_s: Option<f64>,
    /// The job's deadline in seconds from the start of the plan; 0 if it has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
    pub epoch_s: Option<f64>,
    pub compute_s: Option<f64>,
    pub comm_s: Option<f64>,
    pub throughput: Option<f64>,
    /// How the batch is divided.
    pub sharing: Option<Sharing>,
    pub gpus: Vec<PlanGpus>,
    pub ranks: Vec<PlanRank>,
    /// Replicas in ring order, if the job defines replicas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<PlanReplica>,
    /// Speeds used for the offered types, if they differ from the speeds in `spec`.
    #[serde(default)]
    pub speeds: Vec<PlanSpeed>,
    pub notes: Vec<String>,
    /// The job in the format of a job file, with all defaults filled in.
    pub spec: Value,
}

/// The plan's decision about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanVerdict {
    Place,
    Defer,
    Reject,
}

/// Some GPUs of one type on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanGpus {
    pub node: NodeName,
    #[serde(rename = "type")]
    pub gpu_type: GpuType,
    pub count: u32,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRank {
    pub rank: usize,
    pub node: NodeName,
    #[serde(rename = "type")]
    pub gpu_type: GpuType,
    pub local_rank: u32,
    /// Index of its replica, if the job defines replicas; batch and samples then refer to the replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<usize>,
    pub batch: u64,
    pub samples: u64,
}

/// One replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanReplica {
    pub replica: usize,
    pub gpus: Vec<PlanGpus>,
    pub batch: u64,
    pub samples: u64,
}

impl PlannedJob {
    pub(super) fn new(problem: &Problem, job: usize, verdict: &Verdict, spec: Value) -> Self {
        let model = &problem.jobs[job];
        let (written, reason) = match verdict {
            Verdict::Place(_) => (PlanVerdict::Place, None),
            Verdict::Defer { reason } => (PlanVerdict::Defer, Some(reason.clone())),
            Verdict::Reject { reason } => (PlanVerdict::Reject, Some(reason.clone())),
        };
        let placement = verdict.placement();
        let node = |index: usize| problem.nodes[index].name.clone();
        let gpu_type = |index: usize| problem.gpu_types[index].clone();
        let gpus = |slot: &Slot| PlanGpus {
            node: node(slot.node),
            gpu_type: gpu_type(slot.gpu_type),
            count: slot.count,
        };
        let by_replica = placement.filter(|_| model.replica.is_some());
        let by_replica =
            by_replica.map(|placement| model.ranks_by_replica(&placement.ranks)).unwrap_or_default();
        let replica_of: Vec<usize> =
            (0..).zip(&by_replica).flat_map(|(replica, ranks)| ranks.iter().map(move |_| replica)).collect();
        let replica = |(number, ranks): (usize, &&[Rank])| {
            let mut gpus: Vec<PlanGpus> = Vec::new();
            for rank in *ranks {
                let node = node(rank.node);
                match gpus.iter_mut().find(|gpus| gpus.node == node) {
                    Some(gpus) => gpus.count += 1,
                    None => gpus.push(PlanGpus { node, gpu_type: gpu_type(rank.gpu_type), count: 1 }),
                }
            }
            PlanReplica { replica: number, gpus, batch: ranks[0].batch, samples: ranks[0].samples }
        };
        let rank = |(number, rank): (usize, &Rank)| PlanRank {
            replica: replica_of.get(number).copied(),
            rank: number,
            node: node(rank.node),
            gpu_type: gpu_type(rank.gpu_type),
            local_rank: rank.local_rank,
            batch: rank.batch,
            samples: rank.samples,
        };
        let samples = to_f64(model.samples_per_epoch);
        Self {
            name: model.name.clone(),
            verdict: written,
            partition: None,
            reason,
            jct_s: placement.map(|placement| placement.jct(model.epochs).0),
            deadline_s: model.aims.deadline.map(|deadline| deadline.since(problem.now).0),
            epoch_s: placement.map(|placement| placement.epoch.total()),
            compute_s: placement.map(|placement| placement.epoch.compute),
            comm_s: placement.map(|placement| placement.epoch.comm),
            throughput: placement.map(|placement| samples / placement.epoch.compute),
            sharing: placement.map(|placement| placement.sharing),
            gpus: placement.map(|p| p.slots.iter().map(gpus).collect()).unwrap_or_default(),
            ranks: placement.map(|p| p.ranks.iter().enumerate().map(rank).collect()).unwrap_or_default(),
            replicas: by_replica.iter().enumerate().map(replica).collect(),
            speeds: PlanSpeed::of(problem, job),
            notes: model.notes(problem),
            spec,
        }
    }
}
