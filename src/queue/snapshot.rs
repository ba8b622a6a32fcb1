//! The queue of a cluster at one moment, as plain data: what is saved, and what the model starts from.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::{GpuType, NodeName, Seconds, Time};

/// The schema that this version writes and reads.
const SCHEMA: &str = "hsched.queue/1";

/// A cluster's nodes, partitions and jobs at one moment, and what is known of its past.
///
/// What a site hides is missing here, and `notes` says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    pub accounts: Vec<AccountStanding>,
    /// Jobs of the last days that have ended; `None` where the site hides them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Ended>>,
    /// From when on the history is whole, by the time of submission; `None` is seven days ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_since: Option<Time>,
    /// What is missing and why, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A node with GPUs, or any node that jobs of the queue compete for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
pub struct GpuCount {
    #[serde(rename = "type")]
    pub gpu_type: GpuType,
    pub count: u32,
}

/// A partition: its nodes are those that name it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Accounts that alone may use it; `None` where all may or nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounts: Option<BTreeSet<String>>,
    /// QOS that alone may use it; `None` where all may or nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<BTreeSet<String>>,
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
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

/// Where a job runs and since when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Running {
    pub since: Time,
    pub holds: Vec<Held>,
}

/// What a running job holds in one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
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
#[serde(deny_unknown_fields)]
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
}

/// An account of the user's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountStanding {
    pub name: String,
    /// The account's default for the user.
    #[serde(default, skip_serializing_if = "is_false")]
    pub default: bool,
    /// The priority of a job submitted now, by the weights and `sshare`; `None` where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u64>,
}

/// A job that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

/// Why a text is no snapshot.
#[derive(Debug, Error)]
pub enum SnapshotError {
    #[error("this is no snapshot of a queue: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the snapshot has schema {0:?}; this version reads {SCHEMA:?}")]
    Schema(String),
    #[error("the snapshot has a time that is no time: {0}")]
    Time(String),
    #[error("the snapshot names node {0} twice")]
    Node(NodeName),
}

impl Snapshot {
    /// Returns a snapshot in which there is nothing.
    #[must_use]
    pub fn empty(taken_at: Time) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            taken_at,
            cluster: None,
            nodes: Vec::new(),
            partitions: Vec::new(),
            reservations: Vec::new(),
            jobs: Vec::new(),
            scheduling: Scheduling::default(),
            others_hidden: false,
            accounts: Vec::new(),
            history: None,
            history_since: None,
            notes: Vec::new(),
        }
    }

    /// Returns the snapshot that a text holds.
    ///
    /// # Errors
    /// When the text is no JSON, of another schema, names a node twice, or says what cannot be.
    pub fn parse(text: &str) -> Result<Self, SnapshotError> {
        #[derive(Deserialize)]
        struct Header {
            schema: String,
        }
        let header: Header = serde_json::from_str(text)?;
        if header.schema != SCHEMA {
            return Err(SnapshotError::Schema(header.schema));
        }
        let snapshot: Self = serde_json::from_str(text)?;
        let mut names = BTreeSet::new();
        if let Some(node) = snapshot.nodes.iter().find(|node| !names.insert(&node.name)) {
            return Err(SnapshotError::Node(node.name.clone()));
        }
        snapshot.check_times()?;
        Ok(snapshot)
    }

    /// Returns the snapshot as JSON, in lines.
    ///
    /// # Errors
    /// When a number in it is none.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    /// Checks that no duration is below zero and no reservation or run ends before it begins.
    fn check_times(&self) -> Result<(), SnapshotError> {
        let wrong = |what: String| Err(SnapshotError::Time(what));
        let is_duration = |time: &Option<Seconds>| time.is_none_or(|time| time.0 >= 0.0);
        if let Some(job) = self.jobs.iter().find(|job| !is_duration(&job.limit_s)) {
            return wrong(format!("the limit of job {} is below zero", job.id));
        }
        if let Some(own) = self.reservations.iter().find(|own| own.end < own.start) {
            return wrong(format!("reservation {} ends before it starts", own.name));
        }
        let history = self.history.as_deref().unwrap_or_default();
        if history.iter().any(|job| job.started.is_some_and(|start| job.ended < start)) {
            return wrong("a job of the history ends before it starts".to_owned());
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{
        "schema": "hsched.queue/1", "taken_at": 1000.0,
        "nodes": [{"name": "n1", "gpus": [{"type": "a100", "count": 4}]}, {"name": "n2", "use": "drained"}],
        "jobs": [
            {"id": "7", "limit_s": 3600, "asks": {"gpus": [{"type": "a100", "count": 1}]},
             "running": {"since": 900.0, "holds": [{"node": "n1", "gpus": [{"type": "a100", "count": 1}]}]}},
            {"id": "8_[1-5%2]", "array": "8", "tasks": 5, "at_once": 2, "asks": {"nodes": 2, "gpus": [{"count": 4}]}}
        ]
    }"#;

    #[test]
    fn what_is_left_out_is_unknown_and_what_is_saved_is_read() {
        let snapshot = Snapshot::parse(SMALL).expect("a snapshot");
        let [running, array] = snapshot.jobs.as_slice() else { panic!("{:?}", snapshot.jobs) };
        assert_eq!(
            (running.tasks, running.asks.nodes, running.limit_s, running.priority),
            (1, 1, Some(Seconds(3600.0)), None)
        );
        assert_eq!((array.tasks, array.at_once, array.asks.nodes), (5, Some(2), 2));
        assert_eq!((snapshot.nodes[0].usable, snapshot.nodes[1].usable), (NodeUse::Up, NodeUse::Drained));
        assert_eq!((snapshot.history.as_ref(), snapshot.scheduling.backfill), (None, None));
        let text = snapshot.to_json().expect("JSON");
        assert_eq!(Snapshot::parse(&text).expect("a snapshot"), snapshot);
        assert!(!text.contains("null"), "{text}");
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let check = |from: &str, to: &str, words: &str| {
            assert!(SMALL.contains(from), "{from}");
            let error = Snapshot::parse(&SMALL.replace(from, to)).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        };
        check("queue/1", "queue/2", "has schema \"hsched.queue/2\"; this version reads \"hsched.queue/1\"");
        check("\"n2\"", "\"n1\"", "names node n1 twice");
        check("\"limit_s\": 3600", "\"limit_s\": -1", "the limit of job 7 is below zero");
        check("\"limit_s\"", "\"limitt_s\"", "limitt_s");
    }
}
