//! The jobs of a problem as tasks, kept up to date with what changes.

use crate::classes::{Classes, steps_per_epoch};
use crate::horizon::task::{Task, TaskPlacement};
use crate::{Changed, JobModel, Problem, Stage};
use hsched_model::number::to_f64;

/// The jobs that may be given GPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster {
    pub classes: Classes,
    /// GPUs by type that the jobs may have together.
    pub offered: Vec<u32>,
    /// By job number; `None` for those that are not there, or not to be decided on.
    entries: Vec<Option<RosterEntry>>,
    /// How many there are.
    count: usize,
    /// The mean of their weights when they were last weighed.
    mean_weight: f64,
}

/// What does not change while a job is there.
#[derive(Clone, Copy, Debug)]
struct RosterEntry {
    class: usize,
    /// Steps of an epoch.
    steps: f64,
}

impl Roster {
    /// Takes up what changed; or everything, where there are now so many GPUs by type for the jobs together.
    pub(super) fn follow(&mut self, problem: &Problem, anew: Option<&Vec<u32>>) {
        if let Some(offered) = anew {
            self.offered.clone_from(offered);
            self.classes.look_at(problem, &self.offered);
            (self.entries, self.count) = (Vec::new(), 0);
            problem.present().for_each(|job| self.put(problem, job));
        } else if let Changed::Since { came, left, other } = &problem.changed {
            for &job in left {
                self.set(job, None);
            }
            came.iter().chain(other).for_each(|&job| self.put(problem, job));
        }
    }

    fn put(&mut self, problem: &Problem, job: usize) {
        let model = &problem.jobs[job];
        let known = self.entries.get(job).copied().flatten();
        let entry = model.progress.is_decided_on().then(|| {
            known.unwrap_or_else(|| RosterEntry {
                class: self.classes.number(model),
                steps: steps_per_epoch(model),
            })
        });
        // A job for which there is no bundle now waits until nodes come back.
        let entry = entry.filter(|entry| self.classes.list()[entry.class].fastest > 0.0);
        self.set(job, entry);
    }

    fn set(&mut self, job: usize, entry: Option<RosterEntry>) {
        if self.entries.len() <= job {
            self.entries.resize(job + 1, None);
        }
        self.count += usize::from(entry.is_some());
        self.count -= usize::from(self.entries[job].is_some());
        self.entries[job] = entry;
    }

    /// Returns whether a job may be given GPUs.
    pub(super) fn has(&self, job: usize) -> bool {
        self.entries.get(job).is_some_and(Option::is_some)
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the numbers of the jobs by arrival.
    pub(super) fn by_arrival(&self, problem: &Problem) -> Vec<usize> {
        let there = self.entries.iter().enumerate().filter(|(_, entry)| entry.is_some());
        let mut jobs: Vec<usize> = there.map(|(job, _)| job).collect();
        let arrival = |job: usize| problem.jobs[job].progress.arrival.0;
        jobs.sort_by(|&a, &b| arrival(a).total_cmp(&arrival(b)).then(a.cmp(&b)));
        jobs
    }

    /// Takes the mean of these jobs' weights for 1, so that prices do not depend on their unit.
    pub(super) fn weigh(&mut self, problem: &Problem, jobs: &[usize]) {
        let weights = jobs.iter().map(|&job| problem.objective.weight(&problem.jobs[job]));
        let count = to_f64(jobs.len());
        self.mean_weight = weights.sum::<f64>() / count;
    }

    /// Returns a job as a task.
    pub(super) fn task(&self, problem: &Problem, job: usize) -> Option<Task> {
        let entry = self.entries.get(job).copied().flatten()?;
        let model = &problem.jobs[job];
        let progress = &model.progress;
        let place = self.place(model, entry);
        Some(Task {
            class: entry.class,
            weight: problem.objective.weight(model) / self.mean_weight,
            left: progress.left(problem.now) * entry.steps,
            whole: progress.work * entry.steps,
            age: problem.now.since(progress.arrival).0,
            restart: progress.restart_cost.0,
            started: progress.started.is_some() || place.is_some(),
            placement: place,
        })
    }

    fn place(&self, model: &JobModel, entry: RosterEntry) -> Option<TaskPlacement> {
        let hold = model.progress.running().next()?;
        let Stage::Running { epoch, movable, .. } = hold.stage else { return None };
        let mut counts = vec![0; self.offered.len()];
        hold.slots.iter().for_each(|slot| counts[slot.gpu_type] += slot.count);
        let bundle = self.classes.list()[entry.class].bundles.find(&counts);
        Some(TaskPlacement { counts, speed: entry.steps / epoch, movable, bundle })
    }
}
