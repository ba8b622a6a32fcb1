//! A job's possible requests to the cluster's queue.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::serde_defaults::{is_false, is_one, one};
use crate::{GpuType, NodeName, QueueChoice, Seconds, Time, Walltime};

/// The number of a request among those of a job, which identifies its estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// A job in a form in which it might be submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Unique among the job's requests.
    pub id: RequestId,
    pub asks: Asks,
    /// One or several partitions, separated by commas; the job may start in any of them. `None` means the
    /// cluster's default.
    pub partition: Option<String>,
    pub account: Option<String>,
    /// The requested walltime.
    pub limit: Seconds,
    /// The request's expected run time after the start; at most its limit.
    pub run: Seconds,
    pub further: FurtherOptions,
}

/// Effects of `sbatch` options that are neither in [`Asks`] nor in other fields of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FurtherOptions {
    /// `None`: the default QOS.
    pub qos: Option<String>,
    /// The reservation in which the submission runs.
    pub reservation: Option<String>,
    /// The submission's earliest possible start.
    pub begin: Option<Time>,
    /// The submission's nice value, which reduces its priority.
    pub nice: i64,
}

/// The effect of all of a job's `sbatch` options on its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SbatchOptions {
    /// The nodes, and whether the job needs them exclusively; resources are not included.
    pub asks: Asks,
    pub further: FurtherOptions,
    /// Relevant options that estimates ignore, as written.
    pub not_counted: Vec<String>,
}

/// A request with the data that are known before it is queued.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestOption {
    pub request: Request,
    pub gpu_type: GpuType,
    pub gpus: u32,
    /// Duration of the training in one piece.
    pub in_one: Seconds,
    /// Total duration, with a restart at the beginning of each further piece.
    pub run: Seconds,
    pub queue_choice: QueueChoice,
    /// The request's limit, and the number of submissions that the training takes: more than 1 if the
    /// partition's longest limit is too short.
    pub walltime: Walltime,
    pub cost: Option<Cost>,
    /// Whether the job may be preempted.
    pub preemptible: bool,
    /// Ids of the user's running jobs that Slurm may preempt for the request.
    pub preempts: Vec<String>,
    /// Relevant options of the job that estimates ignore.
    pub not_counted: Vec<String>,
}

/// The cost of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    pub hours: f64,
    pub unit: Unit,
}

/// The unit of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The partition's `TRESBillingWeights`.
    Billing,
    /// Reference GPU units.
    Rgu,
}

impl Unit {
    /// Returns the unit of a cost in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Billing => "billing-hours",
            Self::Rgu => "RGU-hours",
        }
    }
}

impl RequestOption {
    /// Returns the request's number among those of the job.
    pub fn id(&self) -> RequestId {
        self.request.id
    }

    /// Returns the number of GPUs per node.
    pub fn per_node(&self) -> u32 {
        self.gpus / self.request.asks.nodes.max(1)
    }

    /// Removes the requests for which Slurm may preempt running jobs of the user, unless there are no others.
    pub fn spare_own(list: &mut Vec<Self>) {
        if list.iter().any(|option| option.preempts.is_empty()) {
            list.retain(|option| option.preempts.is_empty());
        }
    }

    /// Returns the total time without training if the first piece waits this long: each further piece waits
    /// as long, partly while the previous one runs.
    pub fn waits(&self, start: Seconds) -> Seconds {
        Seconds(start.0 + self.walltime.gaps(start).0)
    }

    /// Returns the cost of each request; `None` if it is unknown, or if the requests have different units and
    /// cannot be compared.
    pub fn costs(list: &[&Self]) -> Vec<Option<f64>> {
        let units = || list.iter().filter_map(|option| option.cost).map(|cost| cost.unit);
        let is_one_unit = units().all(|unit| Some(unit) == units().next());
        list.iter().map(|option| option.cost.filter(|_| is_one_unit).map(|cost| cost.hours)).collect()
    }
}

/// A job's request per node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asks {
    /// Minimum number of nodes, at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub nodes: u32,
    /// GPUs per node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuAsk>,
    /// CPUs per node; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u64>,
    /// Memory per node in MiB; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Whether the job requests exclusive nodes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// The constraint as given to Slurm: `a100`, `a100|v100`, `ib&a100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<String>,
    /// Required nodes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodelist: BTreeSet<NodeName>,
    /// Excluded nodes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub exclude: BTreeSet<NodeName>,
}

/// Requested GPUs per node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuAsk {
    /// `None`: any type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<GpuType>,
    pub count: u32,
}
