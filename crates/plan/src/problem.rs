//! The problem: everything that a policy may look at, numbered for fast access.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Eligibility, JobModel, Slot};
use hsched_model::{BitRate, Cluster, GpuType, NodeName, RankNeeds, RequestId, RequestOption, Seconds, Time};

/// The jobs and where they stand, the GPUs that they have or may get, and what is to be minimised.
///
/// GPU types, nodes and jobs are known by their index in the vectors here.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Types of the cluster, by name. Where some jobs may use some nodes of a type and others not, the type stands
    /// here once for each such part of its nodes: to a policy these are different types.
    pub gpu_types: Vec<GpuType>,
    /// The name of each entry of `gpu_types` for people, unique: `v100`, or `v100@gpu` for a part.
    pub labels: Vec<String>,
    /// Nodes with GPUs on offer.
    pub nodes: Vec<WorkerNode>,
    /// GPUs by type over all nodes of the cluster, in whatever state: what could ever be offered.
    pub ceiling: Vec<u32>,
    /// Rate between nodes.
    pub network: BitRate,
    /// Jobs in the order of the job file.
    pub jobs: Vec<JobModel>,
    pub objective: Objective,
    /// What a late job costs where that is known, in seconds, and 0 elsewhere: a part of a problem takes it from the whole.
    pub late: f64,
    pub seed: u64,
    pub now: Time,
    /// The most GPUs of some types that all jobs may hold together.
    pub limits: Vec<TypeLimit>,
    /// How long the queue would hold up what a policy asked about.
    pub forecasts: Vec<WaitForecast>,
    /// What is known of the queue about requests; `None` if it was not computed.
    pub start_estimates: Option<Vec<JobStartEstimates>>,
    /// What is not as it was when the policy decided last.
    pub changed: Changed,
}

/// What is not as it was at the previous decision of the same policy.
///
/// A caller that decides often keeps one problem up to date and names what changed, so that a decision costs no more than
/// that. A job's number then stays while the job is there, and is given to another one only after the policy was told
/// that the job left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Changed {
    /// Anything may have changed, nodes too.
    #[default]
    All,
    /// Nothing but these jobs.
    Since {
        /// Jobs that are new.
        came: Vec<usize>,
        /// Numbers of jobs that are gone; none of them is in `came`.
        left: Vec<usize>,
        /// Other jobs whose progress changed, also by the policy's own plan. The progress of a job that runs on is no
        /// change: its `Progress` knows it.
        other: Vec<usize>,
    },
}

/// A node's GPUs for the jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerNode {
    pub name: NodeName,
    /// GPUs by type that are free or that running jobs of the problem have.
    pub gpus: Vec<u32>,
    /// Rate between this node's GPUs.
    pub intra_node: BitRate,
    /// All GPUs by type, including those in use; none where the node is not up.
    pub up: Vec<u32>,
    /// CPUs and memory, where ranks must find room beside the GPUs.
    pub host: Option<Host>,
}

/// What of a node ranks need beside GPUs; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub cpus: Option<Room>,
    /// In bytes.
    pub memory: Option<Room>,
}

/// Some amount on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What is free or what running jobs of the problem have.
    pub free: u64,
    /// All, whoever has it.
    pub total: u64,
}

/// The most GPUs of a kind that the jobs may hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeLimit {
    /// The types that count together.
    pub gpu_types: Vec<usize>,
    pub most: u32,
}

/// What is known of the queue about one job on some GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitForecast {
    pub job: usize,
    pub slots: Vec<Slot>,
    /// How long the job would wait; `None` if that is unknown.
    pub wait: Option<Seconds>,
}

/// What a job may ask of the queue, and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStartEstimates {
    pub job: usize,
    /// How long the job waits in all with each of its submissions as it is; `None` where that does not wait or nobody can say.
    pub stays: Vec<Option<Seconds>>,
    /// Whether others may be queued beside what waits.
    pub races: bool,
    /// What it may ask for, each with an id of its own.
    pub requests: Vec<RequestStartEstimate>,
    /// What it must not ask for: the limit is shorter than the run of a job that cannot go on after it.
    pub cut: Vec<RequestOption>,
}

/// A request, and when it would start on average; `None` if that is unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestStartEstimate {
    pub request: RequestOption,
    /// Submitted now.
    pub anew: Option<Seconds>,
    /// In the place of a pending one that is changed to it; `None` where none can be.
    pub in_place: Option<Seconds>,
}

impl JobStartEstimates {
    /// Returns the request of this id.
    pub fn request(&self, id: RequestId) -> Option<&RequestOption> {
        self.requests.iter().map(|estimate| &estimate.request).find(|option| option.id() == id)
    }
}

/// What a plan minimises, over the jobs it places.
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
    /// The number of jobs that miss their deadlines, and among equals the mean job completion time: a late job's time counts
    /// more than all jobs could take ([`crate::Dues`]).
    Deadlines,
}

/// Why jobs and cluster make no problem.
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

    /// Returns the number of a type on one of the nodes.
    pub fn type_on(&self, node: usize, gpu_type: &GpuType) -> Option<usize> {
        let counts = self.nodes.get(node)?.gpus.iter().zip(&self.gpu_types);
        counts
            .enumerate()
            .find(|(_, (count, name))| **count > 0 && *name == gpu_type)
            .map(|(number, _)| number)
    }

    /// Returns the number of GPUs by the name of their type.
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

    /// Returns the numbers of the jobs that are there: a caller that keeps its problem up to date leaves vacancies.
    pub fn present(&self) -> impl Iterator<Item = usize> {
        let jobs = self.jobs.iter().enumerate();
        jobs.filter(|(_, job)| job.progress.waits != Eligibility::Gone).map(|(number, _)| number)
    }

    /// Returns the GPUs on offer, by type.
    pub fn offered(&self) -> Vec<u32> {
        (0..self.gpu_types.len()).map(|ty| self.nodes.iter().map(|node| node.gpus[ty]).sum()).collect()
    }
}

impl Host {
    /// Returns for how many ranks with these needs there is room, when no job of the problem has any.
    pub(super) fn ranks(self, needs: RankNeeds) -> u64 {
        needs.ranks(self.cpus.map(|room| room.free), self.memory.map(|room| room.free))
    }
}

impl WorkerNode {
    /// Returns a node with these GPUs on offer, of which nobody holds any.
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

    /// Returns what a job's completion time counts: its weight where the objective is weighted, else one.
    pub fn weight(self, job: &JobModel) -> f64 {
        match self {
            Self::Weighted => job.weight,
            Self::MeanJct | Self::Makespan | Self::Deadlines => 1.0,
        }
    }

    /// Returns the value over pairs of weight and completion time in seconds, or what that costs ([`crate::Dues`]); 0
    /// for none.
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
