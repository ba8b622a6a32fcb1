//! The cost of late jobs in a plan, if few late jobs are the objective.

use crate::{CheckedPlan, Objective, Problem, Verdict, cost};
use hsched_model::number::{to_f64, to_usize};

/// Until when a job is in time, and what it costs that it is late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    /// Seconds from now; below zero where the deadline has passed.
    pub within: f64,
    /// Seconds that a late job's completion time counts more.
    pub late: f64,
}

/// The deadlines that count in a problem's objective; none where the objective is another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dues {
    /// By job.
    jobs: Vec<Option<Due>>,
    late: f64,
}

/// How many of the jobs with a deadline are done by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    pub met: usize,
    /// Jobs with a deadline, also those that wait.
    pub all: usize,
}

/// A late job costs so many times what all jobs could take: one late job less is then worth any time, and the part of
/// a bound that stems from late jobs can be told from that of their times.
const MANY: f64 = 10.0;

/// Rounding makes no bound prove one late job more.
const SLACK: f64 = 1e-6;

/// Rounding makes no job late, relative.
const ROUNDING: f64 = 1e-9;

impl Due {
    /// Returns what a completion time counts, in seconds.
    pub fn cost(self, time: f64) -> f64 {
        if self.is_late(time) { time + self.late } else { time }
    }

    /// Returns whether a job that takes so long is late.
    pub fn is_late(self, time: f64) -> bool {
        time > self.within + ROUNDING * self.within.abs()
    }

    /// Returns the longest time in which a job is not late.
    pub(super) fn longest(self) -> f64 {
        self.within + ROUNDING * self.within.abs()
    }
}

impl Dues {
    /// Returns the deadlines of a problem's jobs, if its objective is about them.
    pub fn of(problem: &Problem) -> Self {
        if problem.objective != Objective::Deadlines {
            return Self::default();
        }
        let all = || MANY * problem.present().map(|job| longest_time(problem, job)).sum::<f64>();
        let late = if problem.late > 0.0 { problem.late } else { all() };
        let due = |job: usize| {
            let deadline = problem.jobs[job].aims.deadline?;
            Some(Due { within: deadline.0 - problem.now.0, late })
        };
        Self { jobs: (0..problem.jobs.len()).map(due).collect(), late }
    }

    /// Returns a job's deadline, if it counts.
    pub fn due(&self, job: usize) -> Option<Due> {
        self.jobs.get(job).copied().flatten()
    }

    /// Returns what a job's completion time counts in the objective, in seconds.
    pub fn cost(&self, job: usize, time: f64) -> f64 {
        self.due(job).map_or(time, |due| due.cost(time))
    }

    /// Returns what a late job costs, in seconds; `None` where nothing is said about deadlines.
    pub fn late(&self) -> Option<f64> {
        (self.late > 0.0).then_some(self.late)
    }

    /// Returns how many of the jobs that a plan places are late.
    pub fn late_in(&self, problem: &Problem, plan: &CheckedPlan) -> usize {
        let is_late = |(job, verdict): (usize, &Verdict)| {
            let time = verdict.placement()?.jct(problem.jobs[job].epochs);
            Some(self.due(job)?.is_late(time.0))
        };
        plan.verdicts().iter().enumerate().filter(|verdict| is_late(*verdict) == Some(true)).count()
    }

    /// Returns how many jobs must be late in any plan of `count` jobs with an objective of at least `bound`: the times
    /// together are far below the cost of one.
    pub fn least_late(&self, bound: f64, count: usize) -> usize {
        let Some(late) = self.late() else { return 0 };
        let sum = bound * to_f64(count);
        to_usize((sum / late - 1.0 / MANY - SLACK).ceil().max(0.0))
    }
}

impl Deadlines {
    /// Returns how many deadlines a plan meets; `None` where no job has one. A job that waits meets none yet.
    pub fn of(problem: &Problem, plan: &CheckedPlan) -> Option<Self> {
        let mut deadlines = Self { met: 0, all: 0 };
        for (model, verdict) in problem.jobs.iter().zip(plan.verdicts()) {
            let Some(deadline) = model.aims.deadline else { continue };
            deadlines.all += 1;
            let due = Due { within: deadline.0 - problem.now.0, late: 0.0 };
            let in_time = |verdict: &Verdict| Some(!due.is_late(verdict.placement()?.jct(model.epochs).0));
            deadlines.met += usize::from(in_time(verdict) == Some(true));
        }
        (deadlines.all > 0).then_some(deadlines)
    }

    /// Returns the share that is met.
    pub fn share(self) -> f64 {
        to_f64(self.met) / to_f64(self.all)
    }
}

/// Returns what no legal bundle of a job exceeds: all on one GPU of its slowest type, with a ring of endless length.
fn longest_time(problem: &Problem, job: usize) -> f64 {
    let model = &problem.jobs[job];
    let (batch, samples) = (to_f64(model.global_batch), to_f64(model.samples_per_epoch));
    let step = model.types.iter().flatten().map(|model| {
        let micro = model.max_batch.map_or(1.0, |most| (batch / to_f64(most)).max(1.0));
        model.speed.alpha() * micro + model.speed.beta() * batch
    });
    let slowest = step.fold(0.0, f64::max);
    let inside = problem.nodes.iter().map(|node| node.intra_node.bytes_per_second());
    let ring = inside.fold(problem.network.bytes_per_second(), f64::min);
    model.completion_time(samples / batch * slowest + 2.0 * cost::comm_time(model, 2, ring))
}
