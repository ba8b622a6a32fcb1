//! Planning from where the jobs stand: who may use what, and the plan of a policy, checked.

use std::collections::BTreeMap;

use crate::engine::{Batch, Phase, Rules, State, Tracked};
use crate::model::{
    Cluster, GpuType, Held, Holdings, Job, JobName, NodeName, Offer, PlacedRank, RankNeeds, Seconds,
};
use crate::policy::{CheckedPlan, Memory, Objective, Placement, Policy, Problem, Rank, verify};
use crate::throughput::ThroughputMatrix;

/// How plans are made, and what can be asked meanwhile.
pub struct Planner<'a> {
    pub policy: &'a dyn Policy,
    pub objective: Objective,
    pub seed: u64,
    /// Unique id for the run that is submitted now; groups of jobs get it with a number.
    pub run: &'a str,
    /// Called when a search begins, which may have time of its own.
    pub begin: &'a dyn Fn(),
    /// Whether the search is to end with the best so far.
    pub stop: &'a dyn Fn() -> bool,
    /// How long a job of the batch would wait in the queue, where somebody knows.
    pub queue_wait: &'a dyn Fn(&Batch, usize) -> Option<Seconds>,
}

/// Jobs that use the same nodes, and those nodes.
pub(super) struct Group<'a> {
    pub cluster: Cluster,
    pub jobs: Vec<&'a Tracked>,
    /// Why there are no nodes for them, where their partition is none of the cluster's.
    pub nowhere: Option<String>,
}

/// A plan for some jobs as they are still to be trained.
#[derive(Clone)]
pub(super) struct Draft {
    pub jobs: Vec<Job>,
    pub epochs_done: Vec<u64>,
    pub problem: Problem,
    pub plan: CheckedPlan,
    pub offer: Offer,
}

/// Returns the jobs that have not ended, by the partitions that they go to.
pub(super) fn groups<'a>(state: &'a State, cluster: &Cluster, rules: &Rules) -> Vec<Group<'a>> {
    let mut by_partition: BTreeMap<Option<&str>, Vec<&Tracked>> = BTreeMap::new();
    for tracked in state.jobs.iter().filter(|tracked| !tracked.phase.is_over()) {
        by_partition.entry(partition(tracked, cluster, rules)).or_default().push(tracked);
    }
    let group = |(partition, jobs): (Option<&str>, Vec<&'a Tracked>)| Group {
        cluster: partition.map_or_else(|| cluster.clone(), |names| cluster.in_partitions(names)),
        jobs,
        nowhere: partition.and_then(|names| nowhere(cluster, names)),
    };
    by_partition.into_iter().map(group).collect()
}

/// Returns why jobs of some partitions can go nowhere, if so.
fn nowhere(cluster: &Cluster, partitions: &str) -> Option<String> {
    let (unknown, known) = cluster.unknown_partition(partitions)?;
    let known: Vec<&str> = known.into_iter().collect();
    Some(format!("partition {unknown:?} has no node in this cluster; there are: {}", known.join(", ")))
}

/// Returns the partition that a job goes to, or several with commas, where that can be told.
fn partition<'a>(tracked: &'a Tracked, cluster: &'a Cluster, rules: &'a Rules) -> Option<&'a str> {
    let named = tracked.job.launch.partition.as_deref().or(rules.defaults.partition.as_deref());
    named.or_else(|| cluster.default_partition())
}

/// Returns whether a job of a partition may run on a node.
fn can_use(cluster: &Cluster, node: &NodeName, partition: Option<&str>) -> bool {
    let (Some(node), Some(names)) = (cluster.node(node), partition) else { return true };
    node.partitions.is_empty() || names.split(',').any(|name| node.partitions.contains(name.trim()))
}

/// Returns what `movers` and jobs without GPUs may use together: what is free, what the movers hold, less what
/// is promised to other jobs in the queue.
pub(super) fn offer(state: &State, group: &Group<'_>, movers: &[&Tracked], rules: &Rules) -> Offer {
    let needs = |tracked: &&Tracked| rank_needs(&tracked.job, rules);
    let mut mine = Holdings::new();
    for tracked in movers {
        let Phase::Running(attempt) = &tracked.phase else { continue };
        for (node, gpu_type, count) in attempt.gpus.iter() {
            let held: &mut Held = mine.entry(node.clone()).or_default();
            *held.gpus.entry(gpu_type.clone()).or_default() += count;
            held.cpus += u64::from(count) * needs(tracked).cpus;
            held.memory += u64::from(count) * needs(tracked).memory;
        }
    }
    let mut offer = Offer::free(&group.cluster, group.rank_needs(rules), &mine);
    let is_mover = |tracked: &Tracked| movers.iter().any(|mover| mover.job.name == tracked.job.name);
    for tracked in state.jobs.iter().filter(|tracked| !is_mover(tracked)) {
        if let Phase::Meant(attempt) | Phase::Pending(attempt) = &tracked.phase {
            let partition = partition(tracked, &group.cluster, rules);
            attempt.gpus.take_from(&mut offer, &|node| can_use(&group.cluster, node, partition));
        }
    }
    if !rules.capacity.is_empty() {
        let others = state.jobs.iter().filter(|tracked| !is_mover(tracked));
        keep_to_capacity(&mut offer, others, &rules.capacity);
    }
    offer
}

/// Returns what jobs may wait for in Slurm's queue: all that is up, whoever holds it, less what jobs of ours have or
/// wait for.
pub(super) fn offer_in_time(state: &State, group: &Group<'_>, rules: &Rules) -> Offer {
    let mut offer = Offer::up(&group.cluster, group.rank_needs(rules));
    for tracked in &state.jobs {
        if let Some(attempt) = tracked.phase.attempt() {
            let partition = partition(tracked, &group.cluster, rules);
            attempt.gpus.take_from(&mut offer, &|node| can_use(&group.cluster, node, partition));
        }
    }
    if !rules.capacity.is_empty() {
        keep_to_capacity(&mut offer, state.jobs.iter(), &rules.capacity);
    }
    offer
}

/// Returns what a rank of the job needs beside its GPU.
fn rank_needs(job: &Job, rules: &Rules) -> RankNeeds {
    let memory = job.launch.memory_per_gpu.or(rules.defaults.memory_per_gpu);
    RankNeeds {
        cpus: job.launch.cpus_per_gpu.unwrap_or(rules.defaults.cpus_per_gpu).into(),
        memory: memory.map_or(0, |memory| memory.0),
    }
}

impl Group<'_> {
    /// Returns what a rank of any of the jobs needs.
    fn rank_needs(&self, rules: &Rules) -> RankNeeds {
        let needs = || self.jobs.iter().map(|tracked| rank_needs(&tracked.job, rules));
        RankNeeds {
            cpus: needs().map(|own| own.cpus).max().unwrap_or(1),
            memory: needs().map(|own| own.memory).max().unwrap_or(0),
        }
    }
}

/// Lowers an offer to what the capacity leaves beside the GPUs of other jobs.
fn keep_to_capacity<'a>(
    offer: &mut Offer,
    others: impl Iterator<Item = &'a Tracked>,
    capacity: &BTreeMap<GpuType, u32>,
) {
    let mut left = capacity.clone();
    for attempt in others.filter_map(|tracked| tracked.phase.attempt()) {
        for (gpu_type, count) in attempt.gpus.by_type() {
            let own = left.entry(gpu_type).or_default();
            *own = own.saturating_sub(count);
        }
    }
    for node in &mut offer.nodes {
        for (gpu_type, count) in &mut node.gpus {
            let own = left.entry(gpu_type.clone()).or_default();
            *count = (*count).min(*own);
            *own -= *count;
        }
        node.gpus.retain(|(_, count)| *count > 0);
    }
    offer.nodes.retain(|node| !node.gpus.is_empty());
}

/// Returns a checked plan for `jobs` on `offer`; `None` where the policy gives none that obeys the rules.
pub(super) fn draft(
    jobs: &[&Tracked],
    offer: Offer,
    group: &Group<'_>,
    state: &State,
    (rules, planner): (&Rules, &Planner<'_>),
) -> Option<Draft> {
    let rest: Vec<Job> = jobs.iter().map(|tracked| tracked.rest()).collect();
    let mut problem = problem(&rest, &offer, group, state, rules)?;
    problem.objective = planner.objective;
    problem.seed = planner.seed;
    (planner.begin)();
    let plan = planner.policy.plan(&problem, &mut Memory::default(), planner.stop).ok()?;
    let plan = verify(&problem, plan).ok()?;
    let epochs_done = jobs.iter().map(|tracked| tracked.epochs_done).collect();
    Some(Draft { jobs: rest, epochs_done, problem, plan, offer })
}

/// Returns the problem of placing `jobs` on `offer` with the speeds known by now.
pub(super) fn problem(
    jobs: &[Job],
    offer: &Offer,
    group: &Group<'_>,
    state: &State,
    rules: &Rules,
) -> Option<Problem> {
    let types = Problem::types_of(&group.cluster);
    let speeds = ThroughputMatrix::new(jobs, &types, &state.cache);
    Problem::new(&group.cluster, offer, jobs, &speeds, (rules.network, rules.intra_node)).ok()
}

impl Draft {
    /// Returns the placement of a job, and its place in the problem.
    pub(super) fn placement(&self, name: &JobName) -> Option<(usize, &Placement)> {
        let index = self.jobs.iter().position(|job| job.name == *name)?;
        Some((index, self.plan.verdicts()[index].placement()?))
    }

    /// Returns the ranks of a placement with their names.
    pub(super) fn ranks(&self, placement: &Placement) -> Vec<PlacedRank> {
        named_ranks(&self.problem, placement)
    }

    /// Returns the draft as what is to be submitted.
    pub(super) fn into_batch(self, run: String, planner: &Planner<'_>, cluster: Cluster) -> Batch {
        let Self { jobs, epochs_done, problem, plan, offer } = self;
        let policy = planner.policy.name().to_owned();
        let submitted = plan.placed();
        Batch { run, jobs, submitted, epochs_done, problem, plan, offer, cluster, policy }
    }
}

/// Returns the ranks of a placement with their names.
#[must_use]
pub fn named_ranks(problem: &Problem, placement: &Placement) -> Vec<PlacedRank> {
    let rank = |rank: &Rank| PlacedRank {
        node: problem.nodes[rank.node].name.clone(),
        gpu_type: problem.gpu_types[rank.gpu_type].clone(),
        local_rank: rank.local_rank,
        batch: rank.batch,
        samples: rank.samples,
    };
    placement.ranks.iter().map(rank).collect()
}
