//! Planning from where the jobs stand: who may use what, and the plan of a policy, checked.

use std::collections::BTreeMap;

use crate::engine::{Attempt, Batch, Phase, Rules, State, Tracked, Trials};
use crate::model::{
    Access, Cluster, GpuType, Held, Holdings, Job, JobName, NodeName, Offer, PlacedRank, Seconds,
};
use crate::policy::{CheckedPlan, Memory, Objective, Placement, Policy, Problem, Rank, verify};
use crate::throughput::ThroughputMatrix;

/// How plans are made, and what can be asked meanwhile.
pub struct Planner<'a> {
    pub policy: &'a dyn Policy,
    pub objective: Objective,
    pub seed: u64,
    /// Unique id for the run that is submitted now.
    pub run: &'a str,
    /// Called when a search begins, which may have time of its own.
    pub begin: &'a dyn Fn(),
    /// Whether the search is to end with the best so far.
    pub stop: &'a dyn Fn() -> bool,
    /// How long a job of the batch would wait in the queue, where somebody knows.
    pub queue_wait: &'a dyn Fn(&Batch, usize) -> Option<Seconds>,
}

/// The jobs that have not ended and have nodes to run on, and the whole cluster.
pub(super) struct Scope<'a> {
    pub cluster: &'a Cluster,
    pub jobs: Vec<&'a Tracked>,
    pub state: &'a State,
    pub rules: &'a Rules,
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

/// Returns why a job can run nowhere, if no node is in a partition that it goes to.
pub(super) fn nowhere(job: &Job, cluster: &Cluster, rules: &Rules) -> Option<String> {
    let (unknown, known) = cluster.unknown_partition(cluster.partition_of(job, &rules.defaults)?)?;
    let known: Vec<&str> = known.into_iter().collect();
    Some(format!("no node of this cluster is in partition {unknown:?}; partitions: {}", known.join(", ")))
}

impl<'a> Scope<'a> {
    /// Returns what there is to plan.
    pub(super) fn new(state: &'a State, cluster: &'a Cluster, rules: &'a Rules) -> Self {
        let is_in =
            |tracked: &&Tracked| !tracked.phase.is_over() && nowhere(&tracked.job, cluster, rules).is_none();
        Self { cluster, jobs: state.jobs.iter().filter(is_in).collect(), state, rules }
    }

    /// Returns which nodes its jobs may use.
    fn access(&self) -> Access {
        Access::new(self.cluster, self.jobs.iter().map(|tracked| &tracked.job), &self.rules.defaults)
    }

    /// Returns whether a job may run on nodes where another one has GPUs.
    pub(super) fn wants_nodes_of(&self, tracked: &Tracked, other: &Tracked) -> bool {
        let may_use = self.may_use(&tracked.job);
        other.phase.attempt().is_some_and(|attempt| attempt.gpus.0.keys().any(may_use))
    }

    /// Returns whether a job may run on a node of that name.
    fn may_use<'b>(&'b self, job: &Job) -> impl Fn(&NodeName) -> bool + use<'b> {
        let access = Access::new(self.cluster, [job], &self.rules.defaults);
        move |name| self.cluster.node(name).is_none_or(|node| access.needs(node).is_some())
    }

    /// Returns what `movers` and jobs without GPUs may use together: what is free, what the movers hold, less what
    /// is promised to other jobs in the queue.
    pub(super) fn offer(&self, movers: &[&Tracked]) -> Offer {
        let mut mine = Holdings::new();
        for tracked in movers {
            let Phase::Running(attempt) = &tracked.phase else { continue };
            let needs = self.rules.defaults.rank_needs(&tracked.job);
            for (node, gpu_type, count) in attempt.gpus.iter() {
                let held: &mut Held = mine.entry(node.clone()).or_default();
                *held.gpus.entry(gpu_type.clone()).or_default() += count;
                held.cpus += u64::from(count) * needs.cpus;
                held.memory += u64::from(count) * needs.memory;
            }
        }
        let mut offer = Offer::free(self.cluster, &self.access(), &mine);
        let is_mover = |tracked: &Tracked| movers.iter().any(|mover| mover.job.name == tracked.job.name);
        let others = || self.state.jobs.iter().filter(|tracked| !is_mover(tracked));
        for tracked in others() {
            if let Some(attempt) = promised(tracked) {
                attempt.gpus.take_from(&mut offer, &self.may_use(&tracked.job));
            }
        }
        keep_to_capacity(&mut offer, others(), &self.rules.capacity);
        offer
    }

    /// Returns what jobs may wait for in Slurm's queue: all that is up, whoever holds it, less what jobs of ours have
    /// or wait for.
    pub(super) fn offer_in_time(&self) -> Offer {
        let mut offer = Offer::up(self.cluster, &self.access());
        for tracked in &self.state.jobs {
            if let Some(attempt) = tracked.phase.attempt() {
                attempt.gpus.take_from(&mut offer, &self.may_use(&tracked.job));
            }
        }
        keep_to_capacity(&mut offer, self.state.jobs.iter(), &self.rules.capacity);
        offer
    }

    /// Returns the problem of placing `jobs` on `offer` with the speeds known by now; `None` where there are no jobs.
    pub(super) fn problem(&self, jobs: &[Job], offer: &Offer) -> Option<Problem> {
        let Self { cluster, rules, state, .. } = self;
        let types = Problem::types_of(cluster);
        let mut speeds = ThroughputMatrix::new(jobs, &types, &state.cache, rules.defaults.estimate);
        for (number, job) in jobs.iter().enumerate() {
            let avoided = state.find(&job.name).map(|tracked| &tracked.avoids);
            avoided.into_iter().flatten().for_each(|gpu_type| speeds.leave_out(number, gpu_type));
        }
        let access = Access::new(cluster, jobs, &rules.defaults);
        let rates = (rules.network, rules.intra_node);
        Problem::new((cluster, &access), offer, jobs, &speeds, rates).ok()
    }

    /// Returns a checked plan for `jobs` on `offer`; `None` where there are no jobs.
    ///
    /// # Errors
    /// Why the policy gives no plan that obeys the rules, for people.
    pub(super) fn draft(
        &self,
        jobs: &[&Tracked],
        offer: Offer,
        planner: &Planner<'_>,
    ) -> Result<Option<Draft>, String> {
        let rest: Vec<Job> = jobs.iter().map(|tracked| tracked.rest()).collect();
        let Some(mut problem) = self.problem(&rest, &offer) else { return Ok(None) };
        problem.objective = planner.objective;
        problem.seed = planner.seed;
        (planner.begin)();
        let plan = planner.policy.plan(&problem, &mut Memory::default(), planner.stop);
        let plan = plan.map_err(|error| error.to_string())?;
        let plan = verify(&problem, plan).map_err(|violations| {
            let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
            format!("policy {} returned an invalid plan: {}", planner.policy.name(), list.join("; "))
        })?;
        let epochs_done = jobs.iter().map(|tracked| tracked.epochs_done).collect();
        Ok(Some(Draft { jobs: rest, epochs_done, problem, plan, offer }))
    }
}

/// Returns an attempt that waits for GPUs which the cluster does not show as used yet.
fn promised(tracked: &Tracked) -> Option<&Attempt> {
    match &tracked.phase {
        Phase::Meant(attempt) | Phase::Pending(attempt) => Some(attempt),
        Phase::Stopping { attempt, .. } => Some(attempt).filter(|attempt| attempt.started.is_none()),
        _ => None,
    }
}

/// Lowers an offer to what the capacity leaves beside the GPUs of other jobs; no capacity is no limit.
fn keep_to_capacity<'a>(
    offer: &mut Offer,
    others: impl Iterator<Item = &'a Tracked>,
    capacity: &BTreeMap<GpuType, u32>,
) {
    if capacity.is_empty() {
        return;
    }
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

impl Draft {
    /// Returns the placement of a job, and its place in the problem.
    pub(super) fn placement(&self, name: &JobName) -> Option<(usize, &Placement)> {
        let index = self.jobs.iter().position(|job| job.name == *name)?;
        Some((index, self.plan.verdicts()[index].placement()?))
    }

    /// Returns the GPU types of a job's placement that its file does not list.
    pub(super) fn trials(&self, name: &JobName) -> Trials {
        let placed = self.placement(name);
        placed.map_or_else(Trials::default, |(job, placement)| Trials::of(&self.problem, job, placement))
    }

    /// Returns the ranks of a placement with their names.
    pub(super) fn ranks(&self, placement: &Placement) -> Vec<PlacedRank> {
        named_ranks(&self.problem, placement)
    }

    /// Returns the draft as what is to be submitted.
    pub(super) fn into_batch(self, planner: &Planner<'_>, cluster: Cluster) -> Batch {
        let Self { jobs, epochs_done, problem, plan, offer } = self;
        let run = planner.run.to_owned();
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
