//! Assigns a GPU and a time to each task, in order: the place where the task starts or ends first.

use std::collections::BTreeSet;

use crate::hare::gaps::Gaps;
use hsched_plan::kit::{TIE, TaskJob, TaskRun, Tasks};

/// The rule for assigning a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assign {
    /// To the GPU that is free first, as stated in the paper.
    Available,
    /// To the GPU on which the task ends first.
    #[default]
    Finish,
    /// To the GPU on which the task ends first; it may fill gaps between earlier tasks.
    Insert,
}

/// A place for a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub gpu: usize,
    pub start: f64,
}

/// The times at which the GPUs of each type finish their assigned tasks, in ascending order.
struct Shelves {
    /// Times as bits, whose order is the same because no time is negative.
    free: Vec<BTreeSet<(u64, usize)>>,
    /// By GPU, the time at which it finishes its assigned tasks, as bits.
    since: Vec<u64>,
}

impl Assign {
    /// All rules with their names on the command line.
    pub const NAMES: [(&'static str, Self); 3] =
        [("available", Self::Available), ("finish", Self::Finish), ("insert", Self::Insert)];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, assign)| *assign == self).map_or("", |(name, _)| name)
    }
}

/// Returns the schedule of rounds that are assigned in this order.
pub fn schedule(tasks: &Tasks, rounds: &[(usize, u64)], assign: Assign) -> Vec<TaskRun> {
    let mut shelves = Shelves::new(tasks);
    let mut gaps = Gaps::new(tasks.gpus.len());
    // Earliest start of each job's next round.
    let mut ready: Vec<f64> = tasks.jobs.iter().map(|job| job.arrival).collect();
    let mut runs = Vec::with_capacity(rounds.len());
    for &(number, round) in rounds {
        let (job, from) = (&tasks.jobs[number], ready[number]);
        for task in 1..=job.scale {
            let spot = match assign {
                Assign::Available => shelves.soonest_free(job, from),
                Assign::Finish => shelves.soonest_done(job, from),
                Assign::Insert => gaps.soonest_done(tasks, job, from),
            };
            let Some(Spot { gpu, start }) = spot else { break };
            let gpu_type = tasks.gpus[gpu].gpu_type;
            let Some(time) = job.times[gpu_type] else { break };
            let computed = start + time;
            let synced = computed + job.sync;
            match assign {
                Assign::Insert => gaps.take(gpu, start, computed),
                _ => shelves.take(gpu, gpu_type, computed),
            }
            ready[number] = ready[number].max(synced);
            runs.push(TaskRun { job: number, round: round + 1, task, gpu, start, computed, synced });
        }
    }
    runs
}

impl Shelves {
    fn new(tasks: &Tasks) -> Self {
        let mut free = vec![BTreeSet::new(); tasks.counts.len()];
        for (number, gpu) in tasks.gpus.iter().enumerate() {
            free[gpu.gpu_type].insert((0, number));
        }
        Self { free, since: vec![0; tasks.gpus.len()] }
    }

    /// Returns the GPU that is free first; among equal ones the one on which the task is shortest, then the
    /// first.
    fn soonest_free(&self, job: &TaskJob, from: f64) -> Option<Spot> {
        let first = |gpu_type: usize| Some(f64::from_bits(self.free[gpu_type].first()?.0));
        let usable = || (0..self.free.len()).filter_map(|ty| Some((ty, job.times[ty]?, first(ty)?)));
        let soonest = usable().map(|(_, _, free)| free).min_by(f64::total_cmp)?;
        let latest = soonest * (1.0 + TIE);
        let tied = || usable().filter(|(_, _, free)| *free <= latest);
        let shortest = tied().map(|(_, time, _)| time).min_by(f64::total_cmp)? * (1.0 + TIE);
        let short = tied().filter(|(_, time, _)| *time <= shortest);
        let (gpu, free) =
            short.filter_map(|(ty, _, _)| self.first_within(ty, 0.0, latest)).min_by_key(|(gpu, _)| *gpu)?;
        Some(Spot { gpu, start: free.max(from) })
    }

    /// Returns the GPU on which a task ends first; among equal ones the one that is free last, then the
    /// first.
    fn soonest_done(&self, job: &TaskJob, from: f64) -> Option<Spot> {
        let usable = || (0..self.free.len()).filter_map(|ty| Some((ty, job.times[ty]? + job.sync)));
        let soonest = |ty: usize| Some(f64::from_bits(self.free[ty].first()?.0).max(from));
        let ends = usable().filter_map(|(ty, long)| Some(soonest(ty)? + long));
        let latest_end = ends.min_by(f64::total_cmp)? * (1.0 + TIE);
        // The task ends in time on a GPU if the GPU is free by the end minus the task's duration.
        let tied = || usable().map(|(ty, long)| (ty, latest_end - long)).filter(|(_, by)| *by >= from);
        let free = tied().filter_map(|(ty, by)| self.last_before(ty, by)).max_by(f64::total_cmp)?;
        let early = free * (1.0 - TIE);
        let (gpu, free) =
            tied().filter_map(|(ty, by)| self.first_within(ty, early, by)).min_by_key(|(gpu, _)| *gpu)?;
        Some(Spot { gpu, start: free.max(from) })
    }

    /// Returns the latest time up to a given time at which a GPU of a type becomes free.
    fn last_before(&self, gpu_type: usize, by: f64) -> Option<f64> {
        let within = self.free[gpu_type].range(..=(by.to_bits(), usize::MAX));
        within.last().map(|(free, _)| f64::from_bits(*free))
    }

    /// Returns the GPU of a type with the lowest number among those that become free between two times, and
    /// when it becomes free.
    fn first_within(&self, gpu_type: usize, early: f64, late: f64) -> Option<(usize, f64)> {
        let within = (late >= early)
            .then(|| self.free[gpu_type].range((early.to_bits(), 0)..=(late.to_bits(), usize::MAX)))?;
        within.map(|(free, gpu)| (*gpu, f64::from_bits(*free))).min_by_key(|(gpu, _)| *gpu)
    }

    /// Records that a GPU computes until the given time.
    fn take(&mut self, gpu: usize, gpu_type: usize, until: f64) {
        let before = std::mem::replace(&mut self.since[gpu], until.to_bits());
        self.free[gpu_type].remove(&(before, gpu));
        self.free[gpu_type].insert((until.to_bits(), gpu));
    }
}
