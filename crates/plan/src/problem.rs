//! The problem: all data that a policy may use, indexed for fast access.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Eligibility, JobModel, Slot};
use hsched_model::{BitRate, Cluster, GpuType, NodeName, RankNeeds, RequestId, RequestOption, Seconds, Time};

/// The jobs with their progress, the GPUs that they have or may get, and the objective.
///
/// GPU types, nodes and jobs are identified by their index in the vectors here.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Types of the cluster, sorted by name. If only some jobs may use some nodes of a type, the type has an
    /// entry for each set of nodes that the same jobs may use: to a policy, these are different types.
    pub gpu_types: Vec<GpuType>,
    /// The unique display name of each entry of `gpu_types`: `v100`, or `v100@gpu` for a part.
    pub labels: Vec<String>,
    /// Nodes with GPUs that jobs have, may get now, or may wait for.
    pub nodes: Vec<WorkerNode>,
    /// GPUs by type over all nodes of the cluster in any state: the maximum that could ever be offered.
    pub ceiling: Vec<u32>,
    /// Rate between nodes.
    pub network: BitRate,
    /// Jobs in the order of the job file.
    pub jobs: Vec<JobModel>,
    pub objective: Objective,
    /// Cost of a late job in seconds if it is known, else 0; a part of a problem inherits it from the whole
    /// problem.
    pub late: f64,
    pub seed: u64,
    pub now: Time,
    /// The maximum number of GPUs of some types that all jobs may hold together.
    pub limits: Vec<TypeLimit>,
    /// Estimated waits in the queue for the policy's questions.
    pub forecasts: Vec<WaitForecast>,
    /// Start estimates of requests; `None` if they were not computed.
    pub start_estimates: Option<Vec<JobStartEstimates>>,
    /// Changes since the policy's last decision.
    pub changed: ProblemChanges,
}

/// Changes since the previous decision of the same policy.
///
/// A caller that decides often updates one problem and lists the changes, so that the cost of a decision
/// depends only on them. A job's index then stays the same while the job exists, and is reused only after the
/// policy was told that the job left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProblemChanges {
    /// Anything may have changed, including nodes.
    #[default]
    All,
    /// Only these jobs have changed.
    Since {
        /// Jobs that are new.
        came: Vec<usize>,
        /// Indices of jobs that are gone; none of them is in `came`.
        left: Vec<usize>,
        /// Other jobs whose progress changed, including by the policy's own plan. A job that keeps running
        /// does not count, because its `Progress` covers later times.
        other: Vec<usize>,
    },
}

/// A node's GPUs for the jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerNode {
    pub name: NodeName,
    /// GPUs by type that are free, or held by running jobs of the problem.
    pub gpus: Vec<u32>,
    /// Rate between this node's GPUs.
    pub intra_node: BitRate,
    /// All GPUs by type, including those in use; all 0 if the node is not up.
    pub up: Vec<u32>,
    /// CPUs and memory, if ranks need them besides the GPUs.
    pub host: Option<Host>,
}

/// A node's resources that ranks need besides GPUs; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub cpus: Option<Room>,
    /// Memory in bytes.
    pub memory: Option<Room>,
}

/// An amount of a resource on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The amount that is free, or held by running jobs of the problem.
    pub free: u64,
    /// The total amount, in use or not.
    pub total: u64,
}

/// The maximum number of GPUs of some types that the jobs may hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeLimit {
    /// The types that are counted together.
    pub gpu_types: Vec<usize>,
    pub most: u32,
}

/// The queue estimate for one job on some GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitForecast {
    pub job: usize,
    pub slots: Vec<Slot>,
    /// The time that the job would wait; `None` if unknown.
    pub wait: Option<Seconds>,
}

/// A job's possible requests to the queue, with their start estimates.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStartEstimates {
    pub job: usize,
    /// Total wait of the job with each of its present submissions; `None` if a submission is not pending or
    /// there is no estimate.
    pub stays: Vec<Option<Seconds>>,
    /// Whether more submissions may be queued beside the pending ones.
    pub races: bool,
    /// The possible requests, each with a unique id.
    pub requests: Vec<RequestStartEstimate>,
    /// Excluded requests: their limit is shorter than the run of a job that cannot resume.
    pub cut: Vec<RequestOption>,
}

/// A request with its mean times until the start.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestStartEstimate {
    pub request: RequestOption,
    /// Time until the start if the request is submitted now; `None` if unknown.
    pub anew: Option<Seconds>,
    /// Time until the start if a pending submission is changed to the request; `None` if none can be changed.
    pub in_place: Option<Seconds>,
}

impl JobStartEstimates {
    /// Returns the request with this id.
    pub fn request(&self, id: RequestId) -> Option<&RequestOption> {
        self.requests.iter().map(|estimate| &estimate.request).find(|option| option.id() == id)
    }
}

/// The quantity that a plan minimises over the jobs that it places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The mean job completion time (eq. 8).
    #[default]
    MeanJct,
    /// The mean of completion times, weighted by the jobs' weights.
    Weighted,
    /// The last completion time.
    Makespan,
    /// The number of jobs that miss their deadlines, then the mean job completion time: a late job costs more
    /// than the completion times of all jobs can add up to ([`crate::Dues`]).
    Deadlines,
}

/// Why jobs and a cluster form no valid problem.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProblemError {
    #[error("there are no jobs to plan")]
    NoJobs,
}

impl Problem {
    /// Returns the GPU types of a cluster, by name: the columns of its throughput matrix.
    pub fn types_of(cluster: &Cluster) -> Vec<GpuType> {
        let stocks = cluster.nodes.iter().flat_map(|node| &node.gpus);
        stocks.map(|stock| stock.gpu_type.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the index of a type on one of the nodes.
    pub fn type_on(&self, node: usize, gpu_type: &GpuType) -> Option<usize> {
        let counts = self.nodes.get(node)?.gpus.iter().zip(&self.gpu_types);
        counts
            .enumerate()
            .find(|(_, (count, name))| **count > 0 && *name == gpu_type)
            .map(|(number, _)| number)
    }

    /// Returns the number of GPUs by type name.
    pub fn by_name(&self, slots: &[Slot]) -> BTreeMap<&GpuType, u32> {
        let mut sum = BTreeMap::new();
        for slot in slots {
            *sum.entry(&self.gpu_types[slot.gpu_type]).or_default() += slot.count;
        }
        sum
    }

    /// Returns GPUs in words: `2 t4 + 3 v100`.
    pub fn named(&self, slots: &[Slot]) -> String {
        let types = self.by_name(slots);
        types.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(" + ")
    }

    /// Returns the indices of the jobs that exist; a caller that updates its problem leaves gaps.
    pub fn present(&self) -> impl Iterator<Item = usize> {
        let jobs = self.jobs.iter().enumerate();
        jobs.filter(|(_, job)| job.progress.waits != Eligibility::Gone).map(|(number, _)| number)
    }

    /// Returns the offered GPUs, by type.
    pub fn offered(&self) -> Vec<u32> {
        (0..self.gpu_types.len()).map(|ty| self.nodes.iter().map(|node| node.gpus[ty]).sum()).collect()
    }
}

impl Host {
    /// Returns how many ranks with these needs fit if no job of the problem holds resources.
    pub(super) fn ranks(self, needs: RankNeeds) -> u64 {
        needs.ranks(self.cpus.map(|room| room.free), self.memory.map(|room| room.free))
    }
}

impl WorkerNode {
    /// Returns a node with these offered GPUs, none of which is in use.
    pub fn on_offer(name: NodeName, gpus: Vec<u32>, intra_node: BitRate) -> Self {
        Self { name, up: gpus.clone(), gpus, intra_node, host: None }
    }
}

impl Objective {
    /// All objectives.
    pub const ALL: [Self; 4] = [Self::MeanJct, Self::Weighted, Self::Makespan, Self::Deadlines];

    /// All objectives with their names on the command line.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("mean-jct", Self::MeanJct),
        ("weighted", Self::Weighted),
        ("makespan", Self::Makespan),
        ("deadlines", Self::Deadlines),
    ];

    /// Returns the objective's name on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, objective)| *objective == self).map_or("", |(name, _)| name)
    }

    /// Returns the weight of a job's completion time: its own weight for the weighted objective, otherwise
    /// one.
    pub fn weight(self, job: &JobModel) -> f64 {
        match self {
            Self::Weighted => job.weight,
            Self::MeanJct | Self::Makespan | Self::Deadlines => 1.0,
        }
    }

    /// Returns the objective for pairs of weight and completion time in seconds, or cost ([`crate::Dues`]); 0
    /// for an empty list.
    pub fn value(self, jobs: impl IntoIterator<Item = (f64, f64)>) -> f64 {
        let (mut sum, mut weights, mut last) = (0.0, 0.0, 0.0_f64);
        for (weight, jct) in jobs {
            let weight = if self == Self::Weighted { weight } else { 1.0 };
            sum += weight * jct;
            weights += weight;
            last = last.max(jct);
        }
        match self {
            Self::Makespan => last,
            _ if weights == 0.0 => 0.0,
            Self::MeanJct | Self::Weighted | Self::Deadlines => sum / weights,
        }
    }
}
