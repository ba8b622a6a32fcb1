//! The jobs of a problem as tasks, updated with each change.

use crate::classes::{Classes, steps_per_epoch};
use crate::horizon::task::{Task, TaskPlacement};
use crate::progress::EpochsLeft;
use crate::{HoldStage, JobModel, Problem, ProblemChanges};
use hsched_model::Time;
use hsched_model::number::to_f64;

/// The jobs that may receive GPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster {
    pub classes: Classes,
    /// GPUs by type that the jobs may use together.
    pub offered: Vec<u32>,
    /// Entries by job index; `None` for jobs that are absent, need no decision or have no bundle.
    entries: Vec<Option<RosterEntry>>,
    /// Number of entries.
    count: usize,
    /// The mean weight of the jobs in the last full decision.
    mean_weight: f64,
}

/// A job's data until the problem reports a change.
#[derive(Clone, Debug)]
struct RosterEntry {
    class: usize,
    /// Steps per epoch.
    steps: f64,
    weight: f64,
    arrival: Time,
    /// Estimated total number of epochs, and the remaining ones.
    work: f64,
    left: EpochsLeft,
    /// Restart cost in seconds.
    restart: f64,
    started: bool,
    placement: Option<TaskPlacement>,
}

impl Roster {
    /// Updates the changed jobs, or all of them if `anew` is given: the GPUs by type that the jobs may use.
    pub(super) fn follow(&mut self, problem: &Problem, anew: Option<&Vec<u32>>) {
        if let Some(offered) = anew {
            self.offered.clone_from(offered);
            self.classes.look_at(problem, &self.offered);
            (self.entries, self.count) = (Vec::new(), 0);
            problem.present().for_each(|job| self.put(problem, job));
        } else if let ProblemChanges::Since { came, left, other } = &problem.changed {
            for &job in left {
                self.set(job, None);
            }
            came.iter().chain(other).for_each(|&job| self.put(problem, job));
        }
    }

    fn put(&mut self, problem: &Problem, job: usize) {
        let model = &problem.jobs[job];
        let entry = model.progress.is_decided_on().then(|| self.entry(problem, job)).flatten();
        // A job that at present has no bundle waits until nodes return.
        let entry = entry.filter(|entry| self.classes.list()[entry.class].fastest > 0.0);
        self.set(job, entry);
    }

    fn entry(&mut self, problem: &Problem, job: usize) -> Option<RosterEntry> {
        let model = &problem.jobs[job];
        let progress = &model.progress;
        let known = self.entries.get(job).and_then(Option::as_ref);
        let (class, steps) = match known {
            Some(known) => (known.class, known.steps),
            None => (self.classes.number(model), steps_per_epoch(model)),
        };
        let placement = self.placement(model, class, steps);
        Some(RosterEntry {
            class,
            steps,
            weight: problem.objective.weight(model),
            arrival: progress.arrival,
            work: progress.work,
            left: EpochsLeft::of(progress)?,
            restart: progress.restart_cost.0,
            started: progress.started.is_some() || placement.is_some(),
            placement,
        })
    }

    fn set(&mut self, job: usize, entry: Option<RosterEntry>) {
        if self.entries.len() <= job {
            self.entries.resize(job + 1, None);
        }
        self.count += usize::from(entry.is_some());
        self.count -= usize::from(self.entries[job].is_some());
        self.entries[job] = entry;
    }

    /// Returns whether a job may receive GPUs.
    pub(super) fn has(&self, job: usize) -> bool {
        self.entries.get(job).is_some_and(Option::is_some)
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the indices of the jobs by arrival.
    pub(super) fn by_arrival(&self) -> Vec<usize> {
        let there = self.entries.iter().enumerate();
        // The lists are preallocated, because growing lists are copied repeatedly and decisions are frequent.
        let mut jobs = Vec::with_capacity(self.count);
        jobs.extend(there.filter_map(|(job, entry)| Some((entry.as_ref()?.arrival.0, job))));
        jobs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        jobs.into_iter().map(|(_, job)| job).collect()
    }

    /// Stores the mean weight of these jobs. Weights are relative to it, so prices do not depend on their
    /// unit.
    pub(super) fn weigh(&mut self, jobs: &[usize]) {
        let weights = jobs.iter().filter_map(|&job| Some(self.entries[job].as_ref()?.weight));
        let count = to_f64(jobs.len());
        self.mean_weight = weights.sum::<f64>() / count;
    }

    /// Returns a job as a task.
    pub(super) fn task(&self, now: Time, job: usize) -> Option<Task> {
        let entry = self.entries.get(job)?.as_ref()?;
        Some(Task {
            class: entry.class,
            weight: entry.weight / self.mean_weight,
            left: entry.left.at(now) * entry.steps,
            whole: entry.work * entry.steps,
            age: now.since(entry.arrival).0,
            restart: entry.restart,
            started: entry.started,
            placement: entry.placement.clone(),
        })
    }

    fn placement(&self, model: &JobModel, class: usize, steps: f64) -> Option<TaskPlacement> {
        let hold = model.progress.running().next()?;
        let HoldStage::Running { epoch, movable, .. } = hold.stage else { return None };
        let mut counts = vec![0; self.offered.len()];
        hold.slots.iter().for_each(|slot| counts[slot.gpu_type] += slot.count);
        let bundle = self.classes.list()[class].bundles.find(&counts);
        Some(TaskPlacement { counts: counts.into(), speed: steps / epoch, movable, bundle })
    }
}
