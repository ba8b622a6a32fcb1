//! Reads a plan file back into a problem and a plan; the file may be outdated or edited by hand.
//!
//! The contents are not trusted before [`verify`](crate::verify()) and [`PlanFile::check`] have accepted
//! them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::plan_file::file::{PlanFile, PlanFileError, wrong};
use crate::plan_file::{PlanNode, PlanVerdict, PlannedJob};
use crate::throughput::{Cache, ThroughputMatrix};
use crate::{Assignment, CheckedPlan, Placement, Plan, Problem, Rank, Slot, Verdict};
use hsched_model::{
    Access, BitRate, Cluster, Estimates, GpuStock, GpuType, Job, JobDefaults, Node, OfferedNode,
};

/// Maximum number of GPUs of a cluster, as in cluster files.
const GPU_LIMIT: u64 = 1_000_000;

/// Relative tolerance between two computations of a time.
const TOLERANCE: f64 = 1e-6;

impl PlanFile {
    /// Returns the problem of the plan, as far as its check requires.
    ///
    /// # Errors
    /// If a name or number in the file is invalid.
    pub fn problem(&self, jobs: &[Job]) -> Result<Problem, PlanFileError> {
        let nodes = self.offered()?;
        let network = BitRate::new(self.network_gbps);
        let network = network.ok_or_else(|| wrong("network_gbps".into(), "must be above 0"))?;
        for (index, partition) in self.partitions.iter().enumerate() {
            if partition.max_time_s.is_some_and(|limit| limit <= 0.0) {
                return Err(wrong(format!("partitions[{index}].max_time_s"), "must be above 0"));
            }
        }
        let types = nodes.iter().flat_map(|node| &node.gpus).map(|(ty, _)| ty.clone());
        let types: Vec<GpuType> = types.collect::<BTreeSet<_>>().into_iter().collect();
        let jobs = self.as_planned(jobs)?;
        let speeds = ThroughputMatrix::new(&jobs, &types, &Cache::default(), Estimates::Off);
        let cluster = self.cluster(&nodes);
        let access = Access::new(&cluster, &jobs, &JobDefaults::default());
        let problem = Problem::on(&cluster, &access, &nodes, &jobs, &speeds, network, network);
        problem.map_err(|error| wrong("jobs".into(), &error.to_string()))
    }

    /// Returns the unverified plan, with the indices of `problem`.
    ///
    /// # Errors
    /// If a rank is on an unknown node or type, or if a placed job has no `sharing` or may not run on its
    /// GPUs.
    pub fn plan(&self, problem: &Problem) -> Result<Plan, PlanFileError> {
        let verdict = |(index, job): (usize, &PlannedJob)| job.verdict(problem, index);
        let verdicts = self.jobs.iter().enumerate().map(verdict).collect::<Result<_, _>>()?;
        Ok(Assignment { verdicts, categories: self.categories, stopped: false, bound: None }.into())
    }

    /// Checks that the file's other data about each job follow from its verdict and shares.
    ///
    /// # Errors
    /// If they do not; the error names the first difference.
    pub fn check(&self, problem: &Problem, plan: &CheckedPlan) -> Result<(), PlanFileError> {
        for (index, (job, verdict)) in self.jobs.iter().zip(plan.verdicts()).enumerate() {
            job.check(index, &PlannedJob::new(problem, index, verdict, Value::Null))?;
            let Some(placement) = verdict.placement() else { continue };
            let right = Placement::new(problem, index, &placement.slots, placement.sharing);
            if right.is_none_or(|right| right.ranks != placement.ranks) {
                return Err(wrong(
                    job.place(index),
                    "its batches and samples do not match the speeds of its GPUs",
                ));
            }
        }
        Ok(())
    }

    /// Returns the jobs with the speeds and the partition that the plan used, because the cache and the
    /// settings may have changed since.
    fn as_planned(&self, jobs: &[Job]) -> Result<Vec<Job>, PlanFileError> {
        let mut jobs = jobs.to_vec();
        for (index, (job, planned)) in jobs.iter_mut().zip(&self.jobs).enumerate() {
            job.launch.partition.clone_from(&planned.partition);
            if !planned.speeds.is_empty() {
                // The speeds apply to whole replicas.
                *job = job.with_speeds_of_replicas().into_owned();
            }
            for planned_speed in &planned.speeds {
                let what = "speeds has neither samples_per_s nor alpha_s and beta_s";
                let speed = planned_speed.speed().ok_or_else(|| wrong(planned.place(index), what))?;
                job.throughput.insert(planned_speed.gpu_type.clone(), speed);
            }
        }
        Ok(jobs)
    }

    /// Returns the offered nodes as a separate cluster.
    fn cluster(&self, nodes: &[OfferedNode]) -> Cluster {
        let node = |(node, offered): (&PlanNode, &OfferedNode)| {
            let stock = |(gpu_type, total): &(GpuType, u32)| GpuStock {
                gpu_type: gpu_type.clone(),
                total: *total,
                used: 0,
                memory: None,
            };
            let gpus = offered.gpus.iter().map(stock).collect();
            Node { gpus, partitions: node.partitions.clone(), ..Node::new(offered.name.clone()) }
        };
        Cluster { nodes: self.nodes.iter().zip(nodes).map(node).collect(), ..Cluster::default() }
    }

    fn offered(&self) -> Result<Vec<OfferedNode>, PlanFileError> {
        let mut nodes = Vec::new();
        let (mut names, mut gpus) = (BTreeSet::new(), 0_u64);
        for (index, node) in self.nodes.iter().enumerate() {
            let place = || format!("nodes[{index}]");
            let what = "has a GPU type twice, or no rate above 0";
            let offered = node.offered().ok_or_else(|| wrong(place(), what))?;
            if !names.insert(&node.name) {
                return Err(wrong(place(), &format!("{} appears twice", node.name)));
            }
            gpus = offered.gpus.iter().fold(gpus, |sum, &(_, count)| sum.saturating_add(count.into()));
            if gpus > GPU_LIMIT {
                let message = format!("brings the plan to {gpus} GPUs; the limit is {GPU_LIMIT}");
                return Err(wrong(place(), &message));
            }
            nodes.push(offered);
        }
        Ok(nodes)
    }
}

impl PlannedJob {
    fn place(&self, index: usize) -> String {
        format!("jobs[{index}] ({})", self.name)
    }

    fn verdict(&self, problem: &Problem, index: usize) -> Result<Verdict, PlanFileError> {
        let reason = self.reason.clone().unwrap_or_default();
        match self.verdict {
            PlanVerdict::Defer => return Ok(Verdict::Defer { reason }),
            PlanVerdict::Reject => return Ok(Verdict::Reject { reason }),
            PlanVerdict::Place => {}
        }
        let mut counts: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        let mut ranks = Vec::new();
        for rank in &self.ranks {
            let node = problem.nodes.iter().position(|node| node.name == rank.node);
            let cell = node.and_then(|node| Some((node, problem.type_on(node, &rank.gpu_type)?)));
            let Some((node, gpu_type)) = cell else {
                let (number, gpu_type, node) = (rank.rank, rank.gpu_type.as_str(), rank.node.as_str());
                let what =
                    format!("rank {number} is on a GPU that is not available: {gpu_type:?} of {node:?}");
                return Err(wrong(self.place(index), &what));
            };
            *counts.entry((node, gpu_type)).or_default() += 1;
            let (local_rank, batch, samples) = (rank.local_rank, rank.batch, rank.samples);
            ranks.push(Rank { node, gpu_type, local_rank, batch, samples });
        }
        let slot = |((node, gpu_type), count)| Slot { node, gpu_type, count };
        let slots: Vec<Slot> = counts.into_iter().map(slot).collect();
        let sharing = self.sharing.ok_or_else(|| wrong(self.place(index), "sharing is missing"))?;
        let placement = Placement::new(problem, index, &slots, sharing);
        let placement = placement.ok_or_else(|| wrong(self.place(index), "may not run on these GPUs"))?;
        Ok(Verdict::Place(Placement { ranks, ..placement }))
    }

    fn check(&self, index: usize, expected: &Self) -> Result<(), PlanFileError> {
        let times = [
            ("jct_s", self.jct_s, expected.jct_s),
            ("epoch_s", self.epoch_s, expected.epoch_s),
            ("compute_s", self.compute_s, expected.compute_s),
            ("comm_s", self.comm_s, expected.comm_s),
            ("throughput", self.throughput, expected.throughput),
        ];
        let text = |number: Option<f64>| number.map_or_else(|| "null".to_owned(), |n| format!("{n:?}"));
        let wrong_time = times.into_iter().find(|&(_, time, right)| !agree(time, right));
        let what = if let Some((key, written, right)) = wrong_time {
            format!("{key} is {}, but the formulas give {}", text(written), text(right))
        } else if self.ranks != expected.ranks {
            "ranks must count from 0, and must be empty if the verdict is not place".into()
        } else if self.replicas != expected.replicas {
            "replicas do not match the ranks".into()
        } else if self.gpus != expected.gpus {
            "gpus do not match the ranks".into()
        } else if self.reason != expected.reason {
            "reason must be a string if the verdict is not place, otherwise null".into()
        } else {
            return Ok(());
        };
        Err(wrong(self.place(index), &what))
    }
}

impl PlanNode {
    fn offered(&self) -> Option<OfferedNode> {
        let gpus: Vec<(GpuType, u32)> =
            self.gpus.iter().map(|gpus| (gpus.gpu_type.clone(), gpus.count)).collect();
        let types: BTreeSet<&GpuType> = gpus.iter().map(|(gpu_type, _)| gpu_type).collect();
        let each_once = types.len() == gpus.len();
        let intra_node = Some(BitRate::new(self.intra_node_gbps)?);
        each_once.then(|| OfferedNode { name: self.name.clone(), gpus, intra_node })
    }
}

fn agree(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= TOLERANCE * (a.abs() + b.abs()) + f64::MIN_POSITIVE,
        (a, b) => a.is_none() && b.is_none(),
    }
}
