//! What a job may ask of the cluster's queue.

use serde::{Deserialize, Serialize};

use crate::serde_defaults::{is_false, is_one, one};
use crate::{GpuType, QueueChoice, Seconds, Walltime};

/// The number of a request among those of a job, by which what is known of it is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// A job as it might be submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// No other request of the job has it.
    pub id: RequestId,
    pub asks: Asks,
    /// `None` is the cluster's default.
    pub partition: Option<String>,
    pub account: Option<String>,
    /// The walltime that it asks for.
    pub limit: Seconds,
    /// How long it is expected to run once it has started; at most its limit.
    pub run: Seconds,
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
        let units = || list.iter().filter_map(|own| own.cost).map(|cost| cost.unit);
        let is_one_unit = units().all(|unit| Some(unit) == units().next());
        list.iter().map(|own| own.cost.filter(|_| is_one_unit).map(|cost| cost.hours)).collect()
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
