//! A round of MLF-H: tasks leave overloaded servers, and waiting tasks are placed on the other servers.

use std::collections::BTreeMap;

use crate::mlfs::priority::of_graph;
use crate::mlfs::servers::Loads;
use crate::mlfs::{MlfsParameters, Priority};
use hsched_model::number::{to_f64, to_usize};
use hsched_model::{GraphJob, Server};

/// A task by the index of its job and its index in the job.
pub type TaskName = (usize, usize);

/// Distances with a smaller difference are ties.
const TIE: f64 = 1e-12;

/// The results of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphRound {
    /// O, before any task is moved.
    pub overload: f64,
    /// Whether a task waits, or O exceeds its limit.
    pub busy: bool,
    /// The priority of each present task.
    pub priorities: BTreeMap<TaskName, Priority>,
    /// The tasks removed from their servers.
    pub migrated: Vec<TaskName>,
    pub placed: Vec<GraphPlacement>,
    /// The tasks without a place at the end of the round.
    pub queued: Vec<TaskName>,
}

/// A task that was placed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphPlacement {
    pub task: TaskName,
    pub server: usize,
    pub gpu: usize,
    /// Distance to the ideal place.
    pub distance: f64,
}

/// A round in progress.
struct PlacementRound<'a> {
    jobs: &'a mut [GraphJob],
    parameters: &'a MlfsParameters,
    loads: Loads<'a>,
    priorities: BTreeMap<TaskName, Priority>,
    /// The previous servers of removed tasks.
    before: BTreeMap<TaskName, usize>,
    placed: Vec<GraphPlacement>,
}

/// Runs a round at a time in seconds from the trace's start; jobs that have not arrived are ignored.
pub(super) fn round(
    servers: &[Server],
    jobs: &mut [GraphJob],
    now: f64,
    parameters: &MlfsParameters,
) -> GraphRound {
    let mut loads = Loads::new(servers, parameters);
    let mut priorities = BTreeMap::new();
    let mut waits = false;
    for (number, job) in jobs.iter().enumerate().filter(|(_, job)| job.arrival <= now) {
        for (task, priority) in of_graph(job, now, parameters).into_iter().enumerate() {
            let graph_task = &job.tasks[task];
            if graph_task.is_done() {
                continue;
            }
            priorities.insert((number, task), priority);
            match graph_task.on {
                Some(place) => loads.add(place, graph_task),
                None => waits = true,
            }
        }
    }
    let overload = loads.overload();
    let mut round =
        PlacementRound { jobs, parameters, loads, priorities, before: BTreeMap::new(), placed: Vec::new() };
    let migrated = if parameters.gang { Vec::new() } else { round.relieve() };
    if parameters.gang {
        round.place_jobs();
    } else {
        round.place_tasks();
    }
    let queued = round.waiting();
    let PlacementRound { priorities, placed, .. } = round;
    GraphRound {
        overload,
        busy: waits || overload > parameters.cluster_limit,
        priorities,
        migrated,
        placed,
        queued,
    }
}

impl PlacementRound<'_> {
    fn priority(&self, task: TaskName) -> f64 {
        self.priorities.get(&task).map_or(0.0, |priority| priority.whole)
    }

    /// Returns the tasks without a place.
    fn waiting(&self) -> Vec<TaskName> {
        let waits = |(job, task): &&TaskName| self.jobs[*job].tasks[*task].on.is_none();
        self.priorities.keys().filter(waits).copied().collect()
    }

    /// Returns the tasks on a server.
    fn on(&self, server: usize) -> Vec<TaskName> {
        let is_there =
            |(job, task): &&TaskName| self.jobs[*job].tasks[*task].on.is_some_and(|(task, _)| task == server);
        self.priorities.keys().filter(is_there).copied().collect()
    }

    /// Removes tasks from overloaded servers until they are no longer overloaded; returns the tasks.
    fn relieve(&mut self) -> Vec<TaskName> {
        let mut taken = Vec::new();
        for server in 0..self.loads.count() {
            while self.loads.is_over(server) {
                let Some(task) = self.to_take(server) else { break };
                self.lift(task);
                taken.push(task);
            }
        }
        taken
    }

    fn lift(&mut self, task: TaskName) {
        let graph_task = &mut self.jobs[task.0].tasks[task.1];
        if let Some(place) = graph_task.on.take() {
            self.loads.remove(place, graph_task);
            self.before.insert(task, place.0);
        }
    }

    /// Returns the task to remove from an overloaded server: the one closest to the ideal of high relief and
    /// low cost.
    fn to_take(&self, server: usize) -> Option<TaskName> {
        let all = self.on(server);
        let over = self.loads.over(server);
        let parts = |(job, task): TaskName| self.loads.parts_of(server, self.jobs[job].tasks[task].demand);
        let ideal: [f64; 4] = std::array::from_fn(|resource| {
            let values = all.iter().map(|&task| parts(task)[resource]);
            if over[resource] {
                values.fold(f64::NEG_INFINITY, f64::max)
            } else {
                values.fold(f64::INFINITY, f64::min)
            }
        });
        let traffic = |task: TaskName| self.traffic(task, server);
        let most = all.iter().map(|&task| traffic(task)).fold(0.0, f64::max);
        let mut candidates: Vec<TaskName> = all.clone();
        candidates.retain(|&(job, task)| {
            self.jobs[job].tasks[task].on.is_some_and(|(_, gpu)| self.loads.is_gpu_over(server, gpu))
        });
        if candidates.is_empty() {
            candidates = all;
        } else {
            self.by_low_priority(&mut candidates);
            candidates.truncate(self.share(candidates.len()));
        }
        let distance = |task: TaskName| {
            let task_parts = parts(task);
            let sum: f64 =
                task_parts.iter().zip(ideal).map(|(part, ideal)| (part - ideal) * (part - ideal)).sum();
            let near = if most > 0.0 { traffic(task) / most } else { 0.0 };
            (sum + near * near).sqrt()
        };
        // Ties go to the lowest priority.
        self.by_low_priority(&mut candidates);
        nearest(candidates.into_iter().map(|task| (distance(task), task))).map(|(_, task)| task)
    }

    /// Returns how many of `count` tasks are candidates for the next move, at least one.
    fn share(&self, count: usize) -> usize {
        let share = (self.parameters.part * to_f64(count) - 1e-9).ceil().max(1.0);
        to_usize(share)
    }

    /// Returns the MB that a task exchanges with its job's tasks on a server.
    fn traffic(&self, (job, task): TaskName, server: usize) -> f64 {
        let graph_job = &self.jobs[job];
        let is_there = |other: usize| graph_job.tasks[other].on.is_some_and(|(at, _)| at == server);
        graph_job
            .volumes
            .iter()
            .filter_map(|&(a, b, volume)| match (a == task, b == task) {
                (true, false) if is_there(b) => Some(volume),
                (false, true) if is_there(a) => Some(volume),
                _ => None,
            })
            .sum()
    }

    /// Sorts tasks by priority, highest first, then by arrival, then by the order of the trace.
    fn by_priority(&self, tasks: &mut [TaskName]) {
        tasks.sort_by(|a, b| {
            let arrival = |task: &TaskName| self.jobs[task.0].arrival;
            let first = self.priority(*b).total_cmp(&self.priority(*a));
            first.then(arrival(a).total_cmp(&arrival(b))).then(a.cmp(b))
        });
    }

    /// Sorts tasks by priority, lowest first, then by arrival, then by the order of the trace.
    fn by_low_priority(&self, tasks: &mut [TaskName]) {
        tasks.sort_by(|a, b| {
            let arrival = |task: &TaskName| self.jobs[task.0].arrival;
            let first = self.priority(*a).total_cmp(&self.priority(*b));
            first.then(arrival(a).total_cmp(&arrival(b))).then(a.cmp(b))
        });
    }

    fn place_tasks(&mut self) {
        let mut queue = self.waiting();
        self.by_priority(&mut queue);
        for task in queue {
            self.place(task);
        }
    }

    /// Places jobs in the order of their best tasks: all waiting tasks of a job, or none.
    fn place_jobs(&mut self) {
        let mut queue = self.waiting();
        self.by_priority(&mut queue);
        let mut jobs: Vec<usize> = Vec::new();
        for (job, _) in &queue {
            if !jobs.contains(job) {
                jobs.push(*job);
            }
        }
        for job in jobs {
            let before = self.placed.len();
            let tasks: Vec<TaskName> = queue.iter().filter(|task| task.0 == job).copied().collect();
            if tasks.into_iter().all(|task| self.place(task)) {
                continue;
            }
            for placed in self.placed.split_off(before) {
                self.lift(placed.task);
                self.before.remove(&placed.task);
            }
        }
    }

    /// Places a task on the server closest to the ideal one; returns whether the task has a place.
    fn place(&mut self, task: TaskName) -> bool {
        let graph_task = &self.jobs[task.0].tasks[task.1];
        let free: Vec<usize> =
            (0..self.loads.count()).filter(|&server| !self.loads.is_over(server)).collect();
        let least: [f64; 4] = std::array::from_fn(|resource| {
            free.iter().map(|&server| self.loads.parts(server)[resource]).fold(f64::INFINITY, f64::min)
        });
        let most = free.iter().map(|&server| self.traffic(task, server)).fold(0.0, f64::max);
        let old = self.before.get(&task).copied();
        // The cost of a move, which is the same for all servers.
        let loss = old.map_or(0.0, |_| self.parameters.restart / (self.parameters.restart + graph_task.left));
        let distance = |server: usize| {
            let parts = self.loads.parts(server);
            let sum: f64 = parts.iter().zip(least).map(|(part, least)| (part - least) * (part - least)).sum();
            let apart = if most > 0.0 { 1.0 - self.traffic(task, server) / most } else { 0.0 };
            (sum + apart * apart + loss * loss).sqrt()
        };
        let fitting = free.iter().filter(|server| Some(**server) != old);
        let fitting = fitting
            .filter_map(|&server| Some((distance(server), (server, self.loads.fit(server, graph_task)?))));
        let Some((distance, (server, gpu))) = nearest(fitting) else { return false };
        self.jobs[task.0].tasks[task.1].on = Some((server, gpu));
        self.loads.add((server, gpu), &self.jobs[task.0].tasks[task.1]);
        self.placed.push(GraphPlacement { task, server, gpu, distance });
        true
    }
}

/// Returns the entry with the smallest distance; of ties, the first.
fn nearest<T>(all: impl Iterator<Item = (f64, T)>) -> Option<(f64, T)> {
    all.reduce(|best, entry| if entry.0 < best.0 - TIE { entry } else { best })
}
