//! The order in which the runs of a sweep start: by their predicted metrics, if the user requests it, else
//! shuffled if the rule `halving` compares them, because it compares early runs with few others.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::view::View;
use crate::{JobState, State};
use hsched_model::GoalMode;
use hsched_plan::{Decision, JobModel};

/// The rank of a waiting run among those of its sweep; lower ranks start first, equal ones in the order of
/// the state.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartRank {
    promise: f64,
    shuffled: u64,
}

impl StartRank {
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.promise.total_cmp(&other.promise).then(self.shuffled.cmp(&other.shuffled))
    }
}

impl JobState {
    /// Returns the job's rank among the waiting runs of its sweep.
    pub(super) fn start_rank(&self) -> StartRank {
        let shuffled = if self.is_shuffled() { self.position() } else { 0 };
        StartRank { promise: self.promise(), shuffled }
    }

    /// Returns whether the job is a run of a sweep with the rule `halving` that has finished no epoch. Other
    /// runs are ahead of it.
    fn is_shuffled(&self) -> bool {
        self.job.variant.is_some() && self.halved().is_some() && self.epochs_done == 0
    }

    /// Returns the job's position in a shuffled sweep. It depends only on the values of the run, so that
    /// further runs do not change the order of the others.
    fn position(&self) -> u64 {
        let values = self.job.variant.as_ref().map(|variant| Value::from(variant.parameters.clone()));
        let digest = Sha256::digest(values.unwrap_or_default().to_string());
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Returns the predicted metric for the last epoch, negated if larger values are better; infinity if runs
    /// are not sorted by predictions, or there is none.
    fn promise(&self) -> f64 {
        let target = self.job.target.as_ref().filter(|_| self.job.promising_first);
        let Some(target) = target else { return f64::INFINITY };
        let predicted = self.free_verdict().and_then(|verdict| verdict.prediction);
        let Some(mean) = predicted.map(|prediction| prediction.mean) else { return f64::INFINITY };
        match target.mode {
            GoalMode::Min => mean,
            GoalMode::Max => -mean,
        }
    }
}

/// Gives a plan's placements on free GPUs for waiting runs of a sweep to the runs that are to start first, and
/// sorts its requests for such runs in the same way, because Slurm prefers earlier requests. Runs are
/// exchanged only if a policy sees no difference between them except their progress.
pub(super) fn put_first(state: &State, view: &View, changes: &mut [(usize, Decision)]) {
    let jobs = &view.problem.jobs;
    let sweep = |run: usize| view.tracked(state, run).job.variant.as_ref().map(|variant| &variant.sweep);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (run, model) in jobs.iter().enumerate() {
        let waits = model.progress.is_ready() && model.progress.holds.is_empty();
        let tracked = view.tracked(state, run);
        let is_ordered = tracked.job.promising_first || tracked.is_shuffled();
        if !waits || !is_ordered || sweep(run).is_none() {
            continue;
        }
        let is_like = |group: &&mut Vec<usize>| {
            group.first().is_some_and(|&first| sweep(first) == sweep(run) && are_alike(&jobs[first], model))
        };
        match groups.iter_mut().find(is_like) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    for group in groups {
        swap(state, view, group, changes);
    }
}

/// Moves the plan's placements for some of these runs to those with the lowest ranks.
fn swap(state: &State, view: &View, mut runs: Vec<usize>, changes: &mut [(usize, Decision)]) {
    let ranks: BTreeMap<usize, StartRank> =
        runs.iter().map(|&run| (run, view.tracked(state, run).start_rank())).collect();
    sort_requests(&ranks, changes);
    let is_place = |decision: &Decision| matches!(decision, Decision::Place { queued: false, .. });
    let placed: Vec<usize> = changes
        .iter()
        .filter(|(run, decision)| is_place(decision) && ranks.contains_key(run))
        .map(|(run, _)| *run)
        .collect();
    runs.sort_by(|a, b| ranks[a].compare(&ranks[b]));
    let first = &runs[..placed.len()];
    let goes: Vec<usize> = placed.iter().filter(|run| !first.contains(run)).copied().collect();
    let comes = first.iter().filter(|run| !placed.contains(run)).copied();
    let other: BTreeMap<usize, usize> =
        goes.into_iter().zip(comes).flat_map(|(goes, comes)| [(goes, comes), (comes, goes)]).collect();
    for (run, _) in changes {
        *run = other.get(run).copied().unwrap_or(*run);
    }
}

/// Sorts the requests of some runs by their ranks. A run keeps its request, whose time limit is its own.
fn sort_requests(ranks: &BTreeMap<usize, StartRank>, changes: &mut [(usize, Decision)]) {
    let is_request = |(run, decision): &(usize, Decision)| {
        ranks.contains_key(run) && matches!(decision, Decision::Place { queued: true, .. })
    };
    let places: Vec<usize> = (0..changes.len()).filter(|&place| is_request(&changes[place])).collect();
    let mut sorted: Vec<(usize, Decision)> = places.iter().map(|&place| changes[place].clone()).collect();
    sorted.sort_by(|(a, _), (b, _)| ranks[a].compare(&ranks[b]));
    for (place, change) in places.into_iter().zip(sorted) {
        changes[place] = change;
    }
}

/// Returns whether two jobs differ only in their names, epochs, progress and rounds.
fn are_alike(first: &JobModel, second: &JobModel) -> bool {
    let JobModel { name, epochs, progress, rounds, .. } = first.clone();
    JobModel { name, epochs, progress, rounds, ..second.clone() } == *first
}
