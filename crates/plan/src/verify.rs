//! The independent check of a plan, which every plan passes before it is rendered, simulated or submitted.
//!
//! It does not use the policies' functions: it recomputes capacities, limits, shares and times from the
//! formulas, and the step time by bisection where policies solve it exactly.

use hsched_model::number::to_f64;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use thiserror::Error;

use crate::{
    Decision, JobModel, Placement, Plan, PolicyError, Problem, Rank, Sharing, Slot, TakenResources,
    TypeModel, Verdict,
};
use hsched_model::JobName;

/// A plan that obeys every rule of its problem.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedPlan {
    plan: Plan,
    jobs: usize,
    /// Computed on first use, because a decision about thousands of pending jobs needs no verdicts.
    verdicts: OnceLock<Vec<Verdict>>,
}

/// A rule that a plan violates: an error of the policy, unless the plan was read from a file.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Violation {
    #[error("decides on job number {job}, but there are {jobs} jobs")]
    Number { job: usize, jobs: usize },
    #[error("{node} gives {given} GPUs of type {gpu_type}, but it has {offered}")]
    Capacity { node: String, gpu_type: String, given: u64, offered: u64 },
    #[error("{node} has too little {what} for the ranks on it")]
    Host { node: String, what: &'static str },
    #[error("the jobs have {held} GPUs of type {gpu_type} in total; the limit is {most}")]
    Limit { gpu_type: String, held: u64, most: u32 },
    #[error("job {job}: {what}")]
    Job { job: JobName, what: String },
}

/// Relative tolerance of comparisons of times, batches and shares.
const TOLERANCE: f64 = 1e-6;

/// Reason for a job that the plan does not name.
const UNDECIDED: &str = "the policy does not change it";

impl CheckedPlan {
    /// Returns the decisions by job; jobs that the plan does not name are deferred.
    pub fn verdicts(&self) -> &[Verdict] {
        self.verdicts.get_or_init(|| {
            let undecided = || Verdict::Defer { reason: UNDECIDED.to_owned() };
            let mut verdicts: Vec<Verdict> = (0..self.jobs).map(|_| undecided()).collect();
            for (job, decision) in &self.plan.changes {
                verdicts[*job] = decision.verdict();
            }
            verdicts
        })
    }

    /// Returns the indices of the jobs that the plan places.
    pub fn placed(&self) -> Vec<usize> {
        let verdicts = self.verdicts().iter().enumerate();
        verdicts.filter(|(_, verdict)| verdict.placement().is_some()).map(|(job, _)| job).collect()
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the owned plan.
    pub(crate) fn into_plan(self) -> Plan {
        self.plan
    }
}

/// Checks a plan.
///
/// The GPUs of jobs that the plan does not name are counted together with its assignments.
///
/// # Errors
/// The rules that the plan violates; if it names a job that does not exist, only that.
pub fn verify(problem: &Problem, plan: Plan) -> Result<CheckedPlan, Vec<Violation>> {
    verify_change(problem, &TakenResources::of(problem), &plan)?;
    Ok(CheckedPlan { plan, jobs: problem.jobs.len(), verdicts: OnceLock::new() })
}

/// Checks a plan against the resources of all jobs; the cost depends only on its changes.
///
/// # Errors
/// The rules that the plan violates; if it names a job that does not exist, only that.
pub fn verify_change(problem: &Problem, taken: &TakenResources, plan: &Plan) -> Result<(), Vec<Violation>> {
    let jobs = problem.jobs.len();
    let mut violations = Vec::new();
    let mut named = BTreeSet::new();
    for (job, decision) in &plan.changes {
        let Some(model) = problem.jobs.get(*job) else {
            return Err(vec![Violation::Number { job: *job, jobs }]);
        };
        let mut wrong = |what: String| violations.push(Violation::Job { job: model.name.clone(), what });
        if !named.insert(*job) {
            wrong("has two decisions".to_owned());
        }
        for placement in placements(decision) {
            broken_rules(problem, model, placement).into_iter().for_each(&mut wrong);
        }
        let waits = model.progress.holds.is_empty();
        if !placements(decision).is_empty() && waits && !model.progress.is_ready() {
            wrong("has GPUs before it may run again".to_owned());
        }
        if matches!(decision, Decision::Place { placements, .. } if placements.is_empty()) {
            wrong("has no GPUs".to_owned());
        }
    }
    violations.extend(taken.exceeded(problem, plan));
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// Checks a policy's plan.
///
/// # Errors
/// If the plan violates rules, which is an error of the policy.
pub fn checked(policy: &'static str, problem: &Problem, plan: Plan) -> Result<CheckedPlan, PolicyError> {
    verify(problem, plan).map_err(|violations| {
        let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
        PolicyError::BreaksRules { policy, violations: violations.join("; ") }
    })
}

pub(super) fn placements(decision: &Decision) -> &[Placement] {
    match decision {
        Decision::Place { placements, .. } => placements,
        Decision::Adjust { placement, .. } => std::slice::from_ref(placement),
        Decision::Defer { .. } | Decision::Finish { .. } | Decision::Reject { .. } => &[],
    }
}

fn broken_rules(problem: &Problem, job: &JobModel, placement: &Placement) -> Vec<String> {
    let mut broken = Vec::new();
    for rank in &placement.ranks {
        if job.types.get(rank.gpu_type).copied().flatten().is_none() {
            broken.push(format!("may not use GPU type number {}", rank.gpu_type));
        }
    }
    if !broken.is_empty() || placement.ranks.is_empty() {
        broken.push("has no legal ranks".into());
        return broken;
    }
    let replicas = replicas(job, &placement.ranks, &mut broken);
    let heads: Vec<Rank> = replicas.iter().map(|replica| replica[0]).collect();
    let models: Vec<TypeModel> = heads.iter().filter_map(|rank| job.types[rank.gpu_type]).collect();
    check_ranks(job, placement, &models, &mut broken);
    check_batches(job, &heads, &models, &mut broken);
    check_times(problem, job, placement, &replicas, &heads, &models, &mut broken);
    broken
}

/// Returns the ranks of each replica, or single ranks if the job has no replicas; adds to `broken` if the
/// ranks of a replica differ, are too few, or are on several nodes although that is not allowed.
fn replicas<'a>(job: &JobModel, ranks: &'a [Rank], broken: &mut Vec<String>) -> Vec<&'a [Rank]> {
    let Some(replica_model) = &job.replica else { return ranks.chunks(1).collect() };
    let (mut replicas, mut at) = (Vec::new(), 0);
    while at < ranks.len() {
        let first = ranks[at];
        let end = (at + replica_model.sizes[first.gpu_type].max(1) as usize).min(ranks.len());
        let replica = &ranks[at..end];
        let same = |rank: &Rank| {
            (rank.gpu_type, rank.batch, rank.samples) == (first.gpu_type, first.batch, first.samples)
        };
        if replica.len() != replica_model.sizes[first.gpu_type] as usize || !replica.iter().all(same) {
            broken.push("has a replica whose ranks differ, or are too few".into());
        }
        if replica_model.same_node && replica.iter().any(|rank| rank.node != first.node) {
            broken.push("has a replica that is not on one node".into());
        }
        replicas.push(replica);
        at = end;
    }
    replicas
}

fn check_ranks(job: &JobModel, placement: &Placement, models: &[TypeModel], broken: &mut Vec<String>) {
    let count = models.len();
    let limits = job.min_gpus as usize..=job.max_gpus as usize;
    if !limits.contains(&count) {
        broken.push(format!("has {count} ranks, but {} to {} are allowed", job.min_gpus, job.max_gpus));
    }
    if count > 1 && models.iter().any(|model| model.single_rank) {
        broken.push("has a MIG slice in a ring".into());
    }
    let mut by_slot: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    let mut local: BTreeMap<usize, u32> = BTreeMap::new();
    let mut node_before = None;
    for rank in &placement.ranks {
        *by_slot.entry((rank.node, rank.gpu_type)).or_default() += 1;
        let next = local.entry(rank.node).or_default();
        let apart = *next > 0 && node_before != Some(rank.node);
        if rank.local_rank != *next || (apart && job.replica.as_ref().is_none_or(|replica| replica.same_node))
        {
            broken.push("has ranks of one node that are not consecutive".into());
        }
        *next += 1;
        node_before = Some(rank.node);
    }
    let slot = |slot: &Slot| ((slot.node, slot.gpu_type), slot.count);
    let distinct = placement.slots.len() == by_slot.len();
    if !distinct || placement.slots.iter().map(slot).collect::<BTreeMap<_, _>>() != by_slot {
        broken.push("has ranks that do not match its GPUs".into());
    }
}

fn check_batches(job: &JobModel, ranks: &[Rank], models: &[TypeModel], broken: &mut Vec<String>) {
    let quantum = job.batch_quantum;
    // A plan file may contain any numbers, whose sum must not overflow.
    let sum = |part: fn(&Rank) -> u64| ranks.iter().map(|rank| u128::from(part(rank))).sum::<u128>();
    if sum(|rank| rank.batch) != job.global_batch.into()
        || sum(|rank| rank.samples) != job.samples_per_epoch.into()
    {
        broken.push("has shares that do not add up".into());
    }
    if ranks.iter().any(|rank| rank.batch < quantum || rank.batch % quantum != 0) {
        broken.push(format!("has a batch that is not a positive multiple of {quantum}"));
    }
    if ranks.iter().any(|rank| rank.batch > ranks[0].batch) {
        broken.push("has a rank with a larger batch than rank 0".into());
    }
    let too_large =
        |(rank, model): (&Rank, &TypeModel)| model.max_batch.is_some_and(|most| rank.batch > most);
    if !job.accumulate && ranks.iter().zip(models).any(too_large) {
        broken.push("has a batch that its GPU cannot hold".into());
    }
}

fn check_times(
    problem: &Problem,
    job: &JobModel,
    placement: &Placement,
    replicas: &[&[Rank]],
    heads: &[Rank],
    models: &[TypeModel],
    broken: &mut Vec<String>,
) {
    if job.sharing == Sharing::Equal && placement.sharing != Sharing::Equal {
        broken.push("does not share its batch in equal parts".into());
    }
    let batch = to_f64(job.global_batch);
    let step = match placement.sharing {
        Sharing::Balanced => balanced_step(job, heads, broken),
        Sharing::Equal => equal_step(job, models, broken),
    };
    let count = to_f64(heads.len());
    let volume = 2.0 * (count - 1.0) / count * job.model_bytes * job.syncs_per_epoch * (1.0 - job.overlap);
    let comm = if heads.len() > 1 { volume / slowest_link(problem, replicas) } else { 0.0 };
    let compute = to_f64(job.samples_per_epoch) / batch * step;
    let agree = |a: f64, b: f64| (a - b).abs() <= TOLERANCE * (a.abs() + b.abs()) + f64::MIN_POSITIVE;
    if !agree(placement.epoch.compute, compute) || !agree(placement.epoch.comm, comm) {
        let (stated, other) = (placement.epoch.total(), compute + comm);
        broken.push(format!("claims {stated} s per epoch, but the formulas give {other} s"));
    }
}

/// Returns the time in which the ranks together take the batch, by bisection.
fn balanced_step(job: &JobModel, ranks: &[Rank], broken: &mut Vec<String>) -> f64 {
    let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
    for rank in ranks {
        *counts.entry(rank.gpu_type).or_default() += 1;
    }
    let models = counts.iter().filter_map(|(gpu_type, count)| Some((job.types[*gpu_type]?, *count)));
    let models: Vec<(TypeModel, u32)> = models.collect();
    let batch = to_f64(job.global_batch);
    let handed_out = |time: f64| {
        models.iter().map(|(model, count)| f64::from(*count) * share(job, *model, time)).sum::<f64>()
    };
    let (mut low, mut high) = (0.0, 1.0);
    while handed_out(high) < batch && high < 1e18 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            // There is no floating-point number between the limits.
            break;
        }
        if handed_out(middle) < batch {
            low = middle;
        } else {
            high = middle;
        }
    }
    if handed_out(high) < batch * (1.0 - TOLERANCE) {
        broken.push("has GPUs that cannot hold its batch".into());
    }
    let quantum = to_f64(job.batch_quantum);
    if models.iter().any(|(model, _)| share(job, *model, high) < quantum * (1.0 - TOLERANCE)) {
        broken.push("has a rank whose best share is below the quantum".into());
    }
    high
}

/// Returns the slowest rank's time for its equal part of the batch.
fn equal_step(job: &JobModel, models: &[TypeModel], broken: &mut Vec<String>) -> f64 {
    let part = to_f64(job.global_batch) / to_f64(models.len());
    if part < to_f64(job.batch_quantum) * (1.0 - TOLERANCE) {
        broken.push("has more ranks than quanta in its batch".into());
    }
    let time = |model: &TypeModel| {
        let passes = model.max_batch.map_or(1.0, |memory| (part / to_f64(memory)).max(1.0));
        model.speed.alpha() * passes + model.speed.beta() * part
    };
    models.iter().map(time).fold(0.0, f64::max)
}

/// Returns the samples that one GPU takes in `time` seconds: the inverse of α max(1, b/m) + β b, within its
/// limit.
fn share(job: &JobModel, model: TypeModel, time: f64) -> f64 {
    let (alpha, beta) = (model.speed.alpha(), model.speed.beta());
    let unlimited = ((time - alpha) / beta).max(0.0);
    match model.max_batch.map(to_f64) {
        Some(memory) if unlimited > memory && job.accumulate => time * memory / (alpha + beta * memory),
        Some(memory) => unlimited.min(memory),
        None => unlimited,
    }
}

/// Returns the slowest link of a ring that visits the nodes in order: the network between two nodes, and a
/// node's internal links if two replicas meet there.
fn slowest_link(problem: &Problem, replicas: &[&[Rank]]) -> f64 {
    let mut on_node: BTreeMap<usize, u32> = BTreeMap::new();
    for replica in replicas {
        for node in replica.iter().map(|rank| rank.node).collect::<BTreeSet<_>>() {
            *on_node.entry(node).or_default() += 1;
        }
    }
    let shared = on_node.iter().filter(|(_, count)| **count > 1);
    let mut links: Vec<f64> =
        shared.map(|(&node, _)| problem.nodes[node].intra_node.bytes_per_second()).collect();
    if on_node.len() > 1 {
        links.push(problem.network.bytes_per_second());
    }
    links.into_iter().fold(f64::INFINITY, f64::min)
}
