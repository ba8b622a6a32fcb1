//! `hlas` and `hlas-p` with knowledge of the arrived jobs: an idle group gets the tasks of the job with the
//! least service.

use hsched_model::number::to_f64;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use serde_json::{Map, json};

use crate::hlas::{Groups, HlasParameters, Ladder, Predictor, grouping, round_time};
use crate::replay::{EventKind, ReplayEvent, TaskFacts, TaskHistory, TaskPolicy};
use hsched_model::Time;
use hsched_plan::Rounds;
use hsched_plan::kit::{TaskGpu, TaskRun, Tasks};

/// `hlas` and `hlas-p` as in the paper.
#[derive(Clone, Debug)]
pub(crate) struct TasksOfHlas {
    pub parameters: HlasParameters,
}

impl TaskPolicy for TasksOfHlas {
    fn name(&self) -> &'static str {
        self.parameters.name()
    }

    fn play(&self, tasks: &Tasks, keys: &[&Rounds]) -> TaskHistory {
        play(tasks, keys, &self.parameters)
    }
}

/// Times with a smaller difference count as equal, in seconds.
const SAME: f64 = 1e-9;

/// A future event; the queue of events stores its time as bits, whose order is the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TaskEvent {
    /// All GPUs of a group have finished.
    Idle(usize),
    /// The gradients of all tasks of a job's round have arrived.
    Synced(usize),
}

/// The progress of a job.
#[derive(Clone, Default)]
struct TaskService {
    done: u64,
    predicted: u64,
    /// Number of rounds whose service no longer counts.
    forgiven: u64,
    /// Assigned tasks of the current round.
    handed_out: u64,
    /// Time at which the gradients of the assigned tasks have arrived.
    synced: f64,
    /// Time at which the job began to wait.
    waits_since: f64,
}

struct TaskWorld<'a> {
    tasks: &'a Tasks,
    keys: &'a [&'a Rounds],
    parameters: &'a HlasParameters,
    groups: Groups,
    /// T̄ by job: the time of a round on an average group.
    round_times: Vec<Option<f64>>,
    now: f64,
    due: BinaryHeap<Reverse<(u64, TaskEvent)>>,
    idle: BTreeSet<usize>,
    ladder: Ladder,
    jobs: Vec<TaskService>,
    predictor: Predictor,
    runs: Vec<TaskRun>,
    queued: Vec<ReplayEvent>,
    decisions: u64,
}

/// Returns the history of all jobs; `keys` are their settings for rounds.
fn play(tasks: &Tasks, keys: &[&Rounds], parameters: &HlasParameters) -> TaskHistory {
    let groups = grouping(tasks, parameters.grouping);
    let round_times: Vec<Option<f64>> =
        tasks.jobs.iter().map(|job| round_time(tasks, &groups, job)).collect();
    let usual = || Ladder::usual_thresholds(round_times.iter().copied().flatten().collect());
    let mut world = TaskWorld {
        tasks,
        keys,
        parameters,
        now: 0.0,
        due: BinaryHeap::new(),
        idle: (0..groups.len()).collect(),
        ladder: Ladder::new(parameters.thresholds.clone().unwrap_or_else(usual)),
        jobs: vec![TaskService::default(); tasks.jobs.len()],
        predictor: Predictor::default(),
        runs: Vec::new(),
        queued: Vec::new(),
        decisions: 0,
        groups,
        round_times,
    };
    world.play();
    let facts = TaskFacts {
        groups: named(tasks, &world.groups),
        round_times: world.round_times,
        ..TaskFacts::default()
    };
    TaskHistory { runs: world.runs, queued: world.queued, facts, decisions: world.decisions }
}

impl TaskWorld<'_> {
    fn play(&mut self) {
        let mut arrivals: Vec<usize> =
            (0..self.tasks.jobs.len()).filter(|job| self.round_times[*job].is_some()).collect();
        arrivals.sort_by(|a, b| self.arrival(*a).total_cmp(&self.arrival(*b)).then(a.cmp(b)));
        let mut next = arrivals.into_iter().peekable();
        loop {
            let arrival = next.peek().map(|job| self.arrival(*job));
            let due = self.due.peek().map(|Reverse((at, _))| f64::from_bits(*at));
            let Some(first) = [arrival, due].into_iter().flatten().min_by(f64::total_cmp) else { break };
            self.now = first;
            let synced = self.happen(first + SAME);
            for job in synced {
                self.finish_round(job);
            }
            let mut came = BTreeSet::new();
            while let Some(job) = next.next_if(|job| self.arrival(*job) <= first + SAME) {
                self.now = self.now.max(self.arrival(job));
                came.insert(job);
            }
            for job in came {
                self.jobs[job].predicted =
                    if self.parameters.predicts { self.keys[job].predicted } else { 0 };
                self.enter(job);
            }
            self.promote();
            self.serve();
        }
    }

    fn arrival(&self, job: usize) -> f64 {
        self.tasks.jobs[job].arrival
    }

    /// Processes the events up to a time; returns the jobs whose round is finished, in the order of the file.
    fn happen(&mut self, until: f64) -> BTreeSet<usize> {
        let mut synced = BTreeSet::new();
        while let Some(&Reverse((at, due))) = self.due.peek() {
            if f64::from_bits(at) > until {
                break;
            }
            self.due.pop();
            self.now = self.now.max(f64::from_bits(at));
            match due {
                TaskEvent::Idle(group) => drop(self.idle.insert(group)),
                TaskEvent::Synced(job) => drop(synced.insert(job)),
            }
        }
        synced
    }

    fn finish_round(&mut self, job: usize) {
        let task_service = &mut self.jobs[job];
        task_service.done += 1;
        task_service.predicted = task_service.predicted.saturating_sub(1);
        (task_service.handed_out, task_service.synced) = (0, 0.0);
        let Rounds { model, .. } = self.keys[job];
        if task_service.done == self.tasks.jobs[job].rounds {
            self.predictor.ended(model, task_service.done);
            return;
        }
        if self.parameters.predicts && task_service.predicted == 0 && self.keys[job].predicted == 0 {
            self.jobs[job].predicted = self.predict(job);
        }
        self.enter(job);
    }

    /// Returns the predicted number of remaining epochs.
    fn predict(&self, job: usize) -> u64 {
        let losses = |job: usize| {
            let all = &self.keys[job].losses;
            &all[..all.len().min(usize::try_from(self.jobs[job].done).unwrap_or(usize::MAX))]
        };
        let model = &self.keys[job].model;
        let job_losses = losses(job);
        if job_losses.len() as u64 != self.jobs[job].done {
            return 0;
        }
        let others = (0..self.jobs.len()).filter(|other| {
            let TaskService { done, .. } = self.jobs[*other];
            *other != job && self.keys[*other].model == *model && done < self.tasks.jobs[*other].rounds
        });
        let best = others.filter_map(|other| losses(other).last().copied()).min_by(f64::total_cmp);
        self.predictor.epochs_left(model, job_losses, best)
    }

    /// Adds a waiting job to its level, and records this as an event.
    fn enter(&mut self, job: usize) {
        let service = self.service(job);
        let TaskService { done, predicted, .. } = self.jobs[job];
        let level = self.ladder.enter(job, service, predicted);
        self.jobs[job].waits_since = self.now;
        let facts = [
            ("level", json!(level + 1)),
            ("epochs_done", json!(done)),
            // Predicted lower bound on the job's remaining epochs.
            ("predicted_epochs", json!(predicted)),
        ];
        let facts: Map<_, _> = facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        self.queued
            .push(ReplayEvent { facts, ..ReplayEvent::of_job(Time(self.now), EventKind::Queued, job) });
    }

    /// Returns the counted service in seconds of an average group.
    fn service(&self, job: usize) -> f64 {
        let TaskService { done, predicted, forgiven, .. } = self.jobs[job];
        to_f64(done + predicted - forgiven) * self.round_times[job].unwrap_or(0.0)
    }

    /// Moves jobs that have waited too long to the first level.
    fn promote(&mut self) {
        let Some(factor) = self.parameters.promote else { return };
        for job in self.ladder.below_first() {
            if self.now - self.jobs[job].waits_since > factor * self.service(job) {
                self.jobs[job].forgiven = self.jobs[job].done + self.jobs[job].predicted;
                self.ladder.promote(job);
            }
        }
    }

    /// Gives every idle group tasks of the first waiting job that can use the group.
    fn serve(&mut self) {
        for group in self.idle.clone() {
            if self.ladder.is_empty() {
                break;
            }
            let can_use = |job: usize| self.groups[group].iter().any(|gpu| self.time(job, *gpu).is_some());
            if let Some(job) = self.ladder.first(can_use) {
                self.decisions += 1;
                self.hand_out(job, group);
            }
        }
    }

    /// Returns the seconds that a task of a job computes on a GPU; `None` if the job cannot use the GPU.
    fn time(&self, job: usize, gpu: usize) -> Option<f64> {
        self.tasks.jobs[job].times[self.tasks.gpus[gpu].gpu_type]
    }

    /// Assigns tasks of a job to a group, one for each GPU, the fastest first.
    fn hand_out(&mut self, job: usize, group: usize) {
        let model = &self.tasks.jobs[job];
        let timed = |gpu: &usize| Some((self.time(job, *gpu)?, *gpu));
        let mut usable: Vec<(f64, usize)> = self.groups[group].iter().filter_map(timed).collect();
        usable.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let task_service = &mut self.jobs[job];
        let mut idle_at = self.now;
        for (time, gpu) in usable {
            if task_service.handed_out == model.scale {
                break;
            }
            task_service.handed_out += 1;
            let computed = self.now + time;
            let (round, task, start) = (task_service.done + 1, task_service.handed_out, self.now);
            let synced = computed + model.sync;
            self.runs.push(TaskRun { job, round, task, gpu, start, computed, synced });
            task_service.synced = task_service.synced.max(synced);
            idle_at = idle_at.max(computed);
        }
        self.idle.remove(&group);
        self.due.push(Reverse((idle_at.to_bits(), TaskEvent::Idle(group))));
        if task_service.handed_out == model.scale {
            self.due.push(Reverse((task_service.synced.to_bits(), TaskEvent::Synced(job))));
            self.ladder.leave(job);
        } else {
            self.ladder.begin(job);
        }
    }
}

/// Returns the GPUs with these indices.
fn named(tasks: &Tasks, groups: &[Vec<usize>]) -> Vec<Vec<TaskGpu>> {
    groups.iter().map(|group| group.iter().map(|gpu| tasks.gpus[*gpu]).collect()).collect()
}
