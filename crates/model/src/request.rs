//! What a job may ask of the cluster's queue.

use serde::{Deserialize, Serialize};

use crate::{GpuType, Seconds};

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

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
