//! The queue of a cluster at a given time, as plain data: the saved form, and the input of the model.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Limit, Shares};
use hsched_model::serde_defaults::{is_false, is_one, one};
use hsched_model::{Asks, GpuType, NodeName, Seconds, Time};

/// The schema that this version writes and reads.
pub(super) const SCHEMA: &str = "hsched.queue/1";

/// A cluster's nodes, partitions and jobs at a given time, and known facts about its past.
///
/// Data hidden by the site are missing, and `notes` say so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub schema: String,
    /// Time at which the queue was read.
    pub taken_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    pub nodes: Vec<QueueNode>,
    /// Partitions that are up, or whose state is unknown.
    #[serde(default)]
    pub partitions: Vec<QueuePartition>,
    /// The states of the other partitions, such as `DOWN`, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub closed_partitions: BTreeMap<String, String>,
    /// The default partition, if it is one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_default: Option<String>,
    #[serde(default)]
    pub reservations: Vec<Reservation>,
    /// Running and pending jobs, in any order.
    #[serde(default)]
    pub jobs: Vec<QueueJob>,
    #[serde(default)]
    pub scheduling: Scheduling,
    /// Whether the site hides other users' jobs (`PrivateData`); free resources and pending jobs are then
    /// unknown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub others_hidden: bool,
    /// The accounts that the user may use, if Slurm shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<QueueAccount>,
    /// Fair-share data, if Slurm shows them for all users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// Ended jobs of the last days; `None` if the site hides them, or if they could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<EndedJob>>,
    /// Submit time from which the history is complete; `None` means that no job of the last seven days is
    /// missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_since: Option<Time>,
    /// End time until which the history is complete; `None` means the last end in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_until: Option<Time>,
    /// Limits of QOS and associations; `None` if they could not be read, empty if Slurm enforces none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<Limit>>,
    /// The parent account of each account.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parent_accounts: BTreeMap<String, String>,
    /// Flags of each QOS that has any: `OverPartQOS`, `NoReserve`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub qos_flags: BTreeMap<String, BTreeSet<String>>,
    /// Contribution of each QOS to the priority of its jobs; empty if QOS has no weight.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub qos_priority: BTreeMap<String, f64>,
    /// The QOS whose jobs each QOS may preempt (`PreemptType=preempt/qos`). A QOS that contains itself preempts
    /// its own jobs of lower priority.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub qos_preempts: BTreeMap<String, BTreeSet<String>>,
    /// The names of the cluster's generic resources (`GresTypes`); `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gres_types: Option<BTreeSet<String>>,
    /// The user who read the queue, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Notes on missing data, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A node with GPUs, or another node for which queued jobs compete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueNode {
    pub name: NodeName,
    #[serde(default)]
    pub partitions: BTreeSet<String>,
    #[serde(default)]
    pub gpus: Vec<GpuCount>,
    /// CPUs; `None` if unknown, in which case they count as unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u64>,
    /// Memory in MiB; `None` if unknown, in which case it counts as unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub features: BTreeSet<String>,
    /// Whether new jobs can start on the node.
    #[serde(rename = "use", default)]
    pub usable: NodeUse,
}

/// Whether a node accepts new jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeUse {
    #[default]
    Up,
    /// Running jobs may end there, but no new job starts in the foreseeable future.
    Drained,
    /// Down, failed, restarting or unknown: no job runs there.
    Down,
}

/// A number of GPUs of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuCount {
    #[serde(rename = "type")]
    pub gpu_type: GpuType,
    pub count: u32,
}

/// A partition; nodes list their partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of Slurm")]
pub struct QueuePartition {
    pub name: String,
    /// Whether this is the default partition.
    #[serde(default, skip_serializing_if = "is_false")]
    pub default: bool,
    /// Walltime of jobs that set none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time_s: Option<Seconds>,
    /// Longest walltime; `None` means unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_s: Option<Seconds>,
    /// Maximum number of nodes per job; `None` means unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    /// Slurm's `PriorityTier`: jobs of a higher tier are scheduled first, regardless of their priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u32>,
    /// The only accounts that may use the partition; `None` if all may, or if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounts: Option<BTreeSet<String>>,
    /// The only QOS that may use the partition; `None` if all may, or if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<BTreeSet<String>>,
    /// The accounts that may not use the partition; Slurm ignores them if `accounts` is set.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deny_accounts: BTreeSet<String>,
    /// The QOS that may not use the partition; Slurm ignores them if `qos` is set.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deny_qos: BTreeSet<String>,
    /// The QOS whose limits apply to its jobs (`QoS`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_qos: Option<String>,
    /// Whether its jobs may be preempted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub preemptible: bool,
    /// Whether its preempted jobs are suspended: they keep their GPUs and memory.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspends: bool,
    /// Whether jobs get their nodes exclusively (`OverSubscribe=EXCLUSIVE`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// Billing, if the site defines it (`TRESBillingWeights`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing: Option<Billing>,
}

/// A partition's `TRESBillingWeights`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Billing {
    /// Weights by Slurm's TRES name: `cpu` (one CPU), `mem` (one GiB), `gres/gpu`, `gres/gpu:a100` (one GPU).
    pub weights: BTreeMap<String, f64>,
    #[serde(default)]
    pub weigh: Weigh,
}

/// How the weighted TRES of a job are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weigh {
    #[default]
    Sum,
    /// The maximum (`PriorityFlags=MAX_TRES`).
    Max,
}

/// Nodes reserved for users or for maintenance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reservation {
    pub name: String,
    pub nodes: BTreeSet<NodeName>,
    pub start: Time,
    pub end: Time,
    /// Users who may submit to the reservation by its name; empty for maintenance, or if only accounts may.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub users: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub accounts: BTreeSet<String>,
}

/// A pending or running job; the pending tasks of an array form one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueJob {
    /// The id as printed by Slurm: `12`, `11_3`, `11_[4-9%2]`, `9+1`.
    pub id: String,
    /// The id of the array to which the task or tasks belong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// Number of pending tasks that this entry represents.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub tasks: u32,
    /// Maximum number of the array's tasks that run at the same time (`%`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// Whether the job belongs to the user.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ours: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// Partitions in which the job may start, or the one in which it runs. Empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<Time>,
    /// The job's walltime; `None` means the maximum of its partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<Seconds>,
    pub asks: Asks,
    /// The job's nodes and its start; `None` while the job is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<HeldNodes>,
    /// The reservation to which the job was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// Why the job is pending, in Slurm's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the job waits for something other than room: `Dependency`, `BeginTime`, a hold, limits of its
    /// QOS or account.
    #[serde(default, skip_serializing_if = "is_false")]
    pub waits_for_other: bool,
    /// The job's earliest possible start, if it waits for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Time>,
    /// The ids of the jobs that must end before this one may start. Empty if it waits for none, or not only
    /// for their ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The job's nice value, which reduces its priority.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nice: i64,
}

/// The nodes and the start of a running job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldNodes {
    pub since: Time,
    pub holds: Vec<NodeHolding>,
}

/// Resources that a running job holds on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeHolding {
    pub node: NodeName,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuCount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
}

/// The cluster's scheduling parameters; `None` if unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scheduling {
    /// Time between two passes of the backfill scheduler (`bf_interval`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<Seconds>,
    /// Number of jobs that a pass processes (`bf_max_job_test`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Time for which a pass looks ahead (`bf_window`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_s: Option<Seconds>,
    /// Whether backfill scheduling is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<bool>,
    /// Whether every job gets whole nodes (`select/linear`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub whole_nodes: bool,
    /// Hourly growth of a pending job's priority, measured between two snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_per_hour: Option<f64>,
    /// How long jobs may exceed their time limits (`OverTimeLimit`); `None`: not at all, or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtime_s: Option<Seconds>,
    /// The configured contribution of age to priorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<AgeWeight>,
}

/// The contribution of age to a pending job's priority: `weight` from `max_s` on, and proportional before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgeWeight {
    /// Slurm's `PriorityWeightAge`.
    pub weight: f64,
    /// Slurm's `PriorityMaxAge`.
    pub max_s: Seconds,
}

/// An account of the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueAccount {
    pub name: String,
    /// Whether this is the user's default account.
    #[serde(default, skip_serializing_if = "is_false")]
    pub default: bool,
    /// The priority of a job submitted now, from the weights and `sshare`; `None` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u64>,
    /// The QOS of a job that sets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// The QOS that jobs of this account may set; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_qos: Vec<String>,
}

/// A job that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedJob {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    pub asks: Asks,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<Seconds>,
    /// The job's priority at submission, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u64>,
    pub submitted: Time,
    /// `None` if the job was cancelled before it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    pub ended: Time,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}
