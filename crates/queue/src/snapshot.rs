//! The queue of a cluster at one moment, as plain data: what is saved, and what the model starts from.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Limit, Shares};
use hsched_model::serde_defaults::{is_false, is_one, one};
use hsched_model::{Asks, GpuType, NodeName, Seconds, Time};

/// The schema that this version writes and reads.
pub(super) const SCHEMA: &str = "hsched.queue/1";

/// A cluster's nodes, partitions and jobs at one moment, and what is known of its past.
///
/// What a site hides is missing here, and `notes` says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub schema: String,
    /// When the queue was looked at.
    pub taken_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    pub nodes: Vec<QueueNode>,
    #[serde(default)]
    pub partitions: Vec<QueuePartition>,
    #[serde(default)]
    pub reservations: Vec<Reservation>,
    /// Jobs that run and jobs that wait, in any order.
    #[serde(default)]
    pub jobs: Vec<QueueJob>,
    #[serde(default)]
    pub scheduling: Scheduling,
    /// Whether the site hides the jobs of others (`PrivateData`): what is free and who waits is unknown then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub others_hidden: bool,
    /// The accounts that the user may submit with, where Slurm says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<QueueAccount>,
    /// What fair share goes by, where Slurm shows it of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// Jobs of the last days that have ended; `None` where the site hides them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Ended>>,
    /// From when on the history is whole, by the time of submission; `None` is seven days ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_since: Option<Time>,
    /// Until when it is whole, by the time of the end; `None` is the last of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_until: Option<Time>,
    /// Limits of QOS and associations; `None` if they could not be read, empty if Slurm enforces none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<Limit>>,
    /// The account above each account.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parent_accounts: BTreeMap<String, String>,
    /// Flags of each QOS that has some: `OverPartQOS`, `NoReserve`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub qos_flags: BTreeMap<String, BTreeSet<String>>,
    /// What each QOS adds to the priority of its jobs; empty where QOS do not count for priorities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub qos_priority: BTreeMap<String, f64>,
    /// The user who looked, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What is missing and why, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A node with GPUs, or any node that jobs of the queue compete for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueNode {
    pub name: NodeName,
    #[serde(default)]
    pub partitions: BTreeSet<String>,
    #[serde(default)]
    pub gpus: Vec<GpuCount>,
    /// CPUs; `None` where unknown, and then they never run short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u64>,
    /// Memory in MiB; `None` where unknown, and then it never runs short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub features: BTreeSet<String>,
    /// Whether new work can go there.
    #[serde(rename = "use", default)]
    pub usable: NodeUse,
}

/// Whether a node takes new jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeUse {
    #[default]
    Up,
    /// Running jobs may end there; none starts as long as anybody can foresee.
    Drained,
    /// Down, failed or unknown: nothing runs there.
    Down,
}

/// A number of GPUs of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuCount {
    #[serde(rename = "type")]
    pub gpu_type: GpuType,
    pub count: u32,
}

/// A partition: its nodes are those that name it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuePartition {
    pub name: String,
    /// Whether jobs that name no partition go here.
    #[serde(default, skip_serializing_if = "is_false")]
    pub default: bool,
    /// Walltime of jobs that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time_s: Option<Seconds>,
    /// Longest walltime; `None` is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_s: Option<Seconds>,
    /// Most nodes of one job; `None` is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    /// Slurm's `PriorityTier`: jobs of a higher tier go first, whatever their priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u32>,
    /// Accounts that alone may use it; `None` if all may, or if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounts: Option<BTreeSet<String>>,
    /// QOS that alone may use it; `None` if all may, or if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<BTreeSet<String>>,
    /// The QOS whose limits hold for its jobs (`QoS`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_qos: Option<String>,
    /// Whether its jobs may be stopped for others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub preemptible: bool,
    /// Whether a job gets its nodes for itself (`OverSubscribe=EXCLUSIVE`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// What is charged, where the site says (`TRESBillingWeights`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing: Option<Billing>,
}

/// A partition's `TRESBillingWeights`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Billing {
    /// Weights by TRES as Slurm names them: `cpu` (one CPU), `mem` (one GiB), `gres/gpu`, `gres/gpu:a100` (one GPU).
    pub weights: BTreeMap<String, f64>,
    #[serde(default)]
    pub weigh: Weigh,
}

/// How the weighted TRES of a job become one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weigh {
    #[default]
    Sum,
    /// The largest counts (`PriorityFlags=MAX_TRES`).
    Max,
}

/// Nodes that are kept for somebody or for maintenance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reservation {
    pub name: String,
    pub nodes: BTreeSet<NodeName>,
    pub start: Time,
    pub end: Time,
    /// Who may submit to it by name; empty for maintenance.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub users: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub accounts: BTreeSet<String>,
}

/// A job of the queue; the waiting tasks of an array are one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueJob {
    /// As Slurm shows it: `12`, `11_3`, `11_[4-9%2]`, `9+1`.
    pub id: String,
    /// The id of the array that it is a task of, or tasks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// Waiting tasks that it stands for.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub tasks: u32,
    /// Most tasks of the array that run at once (`%`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// Whether the user submitted it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ours: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// Partitions that it may start in; that of a running job. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<Time>,
    /// Its walltime; `None` is its partition's longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<Seconds>,
    pub asks: Asks,
    /// Since when and where it runs; `None` while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// The reservation that it was submitted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// Why it waits, in Slurm's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it waits for something else than room: `Dependency`, `BeginTime`, held, limits of its QOS or account.
    #[serde(default, skip_serializing_if = "is_false")]
    pub waits_for_other: bool,
    /// When it may start at the earliest, if it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Time>,
    /// The ids of the jobs that must end before it may start. Empty where it waits for none, or for something else than their ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// What it gave up of its priority.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nice: i64,
}

/// Where a job runs and since when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Running {
    pub since: Time,
    pub holds: Vec<NodeHolding>,
}

/// What a running job holds in one node.
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

/// How the cluster schedules, as far as it says; `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scheduling {
    /// Time between two passes of the backfill scheduler (`bf_interval`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<Seconds>,
    /// Jobs that a pass looks at (`bf_max_job_test`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// How far a pass looks ahead (`bf_window`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_s: Option<Seconds>,
    /// Whether jobs are backfilled at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<bool>,
    /// Whether every job gets whole nodes (`select/linear`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub whole_nodes: bool,
    /// How much the priority of a waiting job grows in an hour, seen between two snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_per_hour: Option<f64>,
    /// How long jobs may run beyond their time limits (`OverTimeLimit`); `None`: not at all, or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtime_s: Option<Seconds>,
    /// What age adds to priorities by the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<AgeWeight>,
}

/// What age adds to the priority of a pending job: `weight` at `max_s` and later, in proportion before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgeWeight {
    /// Slurm's `PriorityWeightAge`.
    pub weight: f64,
    /// Slurm's `PriorityMaxAge`.
    pub max_s: Seconds,
}

/// An account of the user's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueAccount {
    pub name: String,
    /// The account's default for the user.
    #[serde(default, skip_serializing_if = "is_false")]
    pub default: bool,
    /// The priority of a job submitted now, by the weights and `sshare`; `None` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u64>,
    /// The QOS of a job that names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// The QOS that its jobs may name; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_qos: Vec<String>,
}

/// A job that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    pub asks: Asks,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<Seconds>,
    /// Its priority when it was submitted, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u64>,
    pub submitted: Time,
    /// `None`: it was cancelled before it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    pub ended: Time,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}
