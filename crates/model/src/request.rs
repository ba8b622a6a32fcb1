//! What a job may ask of the cluster's queue.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::serde_defaults::{is_false, is_one, one};
use crate::{GpuType, NodeName, QueueChoice, Seconds, Time, Walltime};

/// The number of a request among those of a job, by which what is known of it is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// A job as it might be submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// No other request of the job has it.
    pub id: RequestId,
    pub asks: Asks,
    /// One, or several with commas, in any of which it may start; `None` is the cluster's default.
    pub partition: Option<String>,
    pub account: Option<String>,
    /// The walltime that it asks for.
    pub limit: Seconds,
    /// How long it is expected to run once it has started; at most its limit.
    pub run: Seconds,
    pub further: FurtherOptions,
}

/// What options of `sbatch` ask for that is neither in [`Asks`] nor in a request itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FurtherOptions {
    /// `None`: that of jobs that name none.
    pub qos: Option<String>,
    /// The reservation that it is submitted to.
    pub reservation: Option<String>,
    /// When it may start at the earliest.
    pub begin: Option<Time>,
    /// What it gives up of its priority.
    pub nice: i64,
}

/// What all options for `sbatch` of a job mean for its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SbatchOptions {
    /// Which nodes, and whether for itself; what it needs of them is not in here.
    pub asks: Asks,
    pub further: FurtherOptions,
    /// Options that matter and that no estimate takes into account, as they were written.
    pub not_counted: Vec<String>,
}

/// A request and what is known of it before it is in any queue.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestOption {
    pub request: Request,
    pub gpu_type: GpuType,
    pub gpus: u32,
    /// How long the training takes in one piece,
    pub in_one: Seconds,
    /// and in all, each further piece beginning with a restart.
    pub run: Seconds,
    pub queue_choice: QueueChoice,
    /// Its limit, and how many runs of it the training takes: more than 1 where the partition's longest is too short.
    pub walltime: Walltime,
    pub cost: Option<Cost>,
    /// Whether it may be stopped for others.
    pub preemptible: bool,
    /// Options of the job that matter and that no estimate takes into account.
    pub not_counted: Vec<String>,
}

/// What a run is charged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    pub hours: f64,
    pub unit: Unit,
}

/// In what a cost is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// By the partition's `TRESBillingWeights`.
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
    /// Returns its number among those of the job.
    pub fn id(&self) -> RequestId {
        self.request.id
    }

    /// Returns the GPUs on each node.
    pub fn per_node(&self) -> u32 {
        self.gpus / self.request.asks.nodes.max(1)
    }

    /// Returns for how long nothing trains where the first piece waits so long: each further one waits as long, part of that while the
    /// one before it runs.
    pub fn waits(&self, start: Seconds) -> Seconds {
        Seconds(start.0 + self.walltime.gaps(start).0)
    }

    /// Returns what each of some requests costs; `None` where that is unknown, or they are not all charged in one unit and cannot be
    /// compared.
    pub fn costs(list: &[&Self]) -> Vec<Option<f64>> {
        let units = || list.iter().filter_map(|option| option.cost).map(|cost| cost.unit);
        let is_one_unit = units().all(|unit| Some(unit) == units().next());
        list.iter().map(|option| option.cost.filter(|_| is_one_unit).map(|cost| cost.hours)).collect()
    }
}

/// What a job asks for on each of its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asks {
    /// The fewest nodes that it asks for, at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub nodes: u32,
    /// GPUs on each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuAsk>,
    /// CPUs on each node; `None` where unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u64>,
    /// Memory on each node in MiB; `None` where unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Whether it wants its nodes for itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// The constraint as given to Slurm: `a100`, `a100|v100`, `ib&a100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<String>,
    /// Nodes that it must have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodelist: BTreeSet<NodeName>,
    /// Nodes that it must not have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub exclude: BTreeSet<NodeName>,
}

/// GPUs that are asked for on each node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuAsk {
    /// `None`: of any type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<GpuType>,
    pub count: u32,
}
