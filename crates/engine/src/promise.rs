//! Starts the runs of a sweep in the order of their predicted metrics, if the user requests it.

use std::collections::BTreeMap;

use crate::view::View;
use crate::{JobState, State};
use hsched_model::GoalMode;
use hsched_plan::{Decision, JobModel};

impl JobState {
    /// Returns the predicted metric for the last epoch, where smaller is better; infinity if runs are not
    /// sorted by predictions, or there is none.
    pub(super) fn promise(&self) -> f64 {
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

/// Gives a plan's placements on free GPUs for waiting runs of a sweep to the runs with the best predictions, and
/// sorts its requests for such runs by their predictions, because Slurm prefers earlier requests. Runs are
/// exchanged only if a policy sees no difference between them except their progress.
pub(super) fn put_first(state: &State, view: &View, changes: &mut [(usize, Decision)]) {
    let jobs = &view.problem.jobs;
    let sweep = |run: usize| view.tracked(state, run).job.variant.as_ref().map(|variant| &variant.sweep);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (run, model) in jobs.iter().enumerate() {
        let waits = model.progress.is_ready() && model.progress.holds.is_empty();
        if !waits || !view.tracked(state, run).job.promising_first || sweep(run).is_none() {
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

/// Gives the plan's placements for some of these runs to the runs with the best predictions.
fn swap(state: &State, view: &View, mut runs: Vec<usize>, changes: &mut [(usize, Decision)]) {
    let promises: BTreeMap<usize, f64> =
        runs.iter().map(|&run| (run, view.tracked(state, run).promise())).collect();
    sort_requests(&promises, changes);
    let is_place = |decision: &Decision| matches!(decision, Decision::Place { queued: false, .. });
    let placed: Vec<usize> = changes
        .iter()
        .filter(|(run, decision)| is_place(decision) && promises.contains_key(run))
        .map(|(run, _)| *run)
        .collect();
    runs.sort_by(|a, b| promises[a].total_cmp(&promises[b]));
    let first = &runs[..placed.len()];
    let goes: Vec<usize> = placed.iter().filter(|run| !first.contains(run)).copied().collect();
    let comes = first.iter().filter(|run| !placed.contains(run)).copied();
    let other: BTreeMap<usize, usize> =
        goes.into_iter().zip(comes).flat_map(|(goes, comes)| [(goes, comes), (comes, goes)]).collect();
    for (run, _) in changes {
        *run = other.get(run).copied().unwrap_or(*run);
    }
}

/// Sorts the requests of some runs by their predictions. A run keeps its request, because the time limit
/// depends on the run.
fn sort_requests(promises: &BTreeMap<usize, f64>, changes: &mut [(usize, Decision)]) {
    let is_request = |(run, decision): &(usize, Decision)| {
        promises.contains_key(run) && matches!(decision, Decision::Place { queued: true, .. })
    };
    let places: Vec<usize> = (0..changes.len()).filter(|&place| is_request(&changes[place])).collect();
    let mut sorted: Vec<(usize, Decision)> = places.iter().map(|&place| changes[place].clone()).collect();
    sorted.sort_by(|(a, _), (b, _)| promises[a].total_cmp(&promises[b]));
    for (place, change) in places.into_iter().zip(sorted) {
        changes[place] = change;
    }
}

/// Returns whether two jobs differ only in their names, epochs, progress and rounds.
fn are_alike(first: &JobModel, second: &JobModel) -> bool {
    let JobModel { name, epochs, progress, rounds, .. } = first.clone();
    JobModel { name, epochs, progress, rounds, ..second.clone() } == *first
}
