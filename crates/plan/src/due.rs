//! The cost of late jobs in a plan, for the objective `deadlines`.

use crate::{CheckedPlan, Objective, Problem, Verdict, cost};
use hsched_model::number::{to_f64, to_usize};

/// A job's deadline, and the cost of missing it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    /// Seconds from now; negative if the deadline has passed.
    pub within: f64,
    /// Seconds added to the completion time of a late job.
    pub late: f64,
}

/// The deadlines that count in a problem's objective; empty for other objectives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dues {
    /// Deadlines by job.
    jobs: Vec<Option<Due>>,
    late: f64,
}

/// The number of jobs that meet their deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    pub met: usize,
    /// Number of jobs with a deadline, including those that the plan does not place.
    pub all: usize,
}

/// A late job costs this many times the longest possible total of all jobs. Avoiding one late job is then
/// worth any delay, and the number of late jobs in a bound can be separated from the completion times.
const MANY: f64 = 10.0;

/// Tolerance that prevents rounding errors from proving one more late job.
const SLACK: f64 = 1e-6;

/// Relative tolerance so that rounding errors make no job late.
const ROUNDING: f64 = 1e-9;

impl Due {
    /// Returns the cost of a completion time, in seconds.
    pub fn cost(self, time: f64) -> f64 {
        if self.is_late(time) { time + self.late } else { time }
    }

    /// Returns whether a job with this completion time is late.
    pub fn is_late(self, time: f64) -> bool {
        time > self.within + ROUNDING * self.within.abs()
    }

    /// Returns the longest completion time that is not late.
    pub(super) fn longest(self) -> f64 {
        self.within + ROUNDING * self.within.abs()
    }
}

impl Dues {
    /// Returns the deadlines of a problem's jobs, if its objective uses them.
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

    /// Returns the cost of a job's completion time in the objective, in seconds.
    pub fn cost(&self, job: usize, time: f64) -> f64 {
        self.due(job).map_or(time, |due| due.cost(time))
    }

    /// Returns the cost of a late job, in seconds; `None` for objectives without deadlines.
    pub fn late(&self) -> Option<f64> {
        (self.late > 0.0).then_some(self.late)
    }

    /// Returns the number of placed jobs of a plan that will be late.
    pub fn late_in(&self, problem: &Problem, plan: &CheckedPlan) -> usize {
        let is_late = |(job, verdict): (usize, &Verdict)| {
            let time = verdict.placement()?.jct(problem.jobs[job].epochs);
            Some(self.due(job)?.is_late(time.0))
        };
        plan.verdicts().iter().enumerate().filter(|verdict| is_late(*verdict) == Some(true)).count()
    }

    /// Returns the minimum number of late jobs in any plan of `count` jobs with an objective of at least
    /// `bound`; all completion times together cost far less than one late job.
    pub fn least_late(&self, bound: f64, count: usize) -> usize {
        let Some(late) = self.late() else { return 0 };
        let sum = bound * to_f64(count);
        to_usize((sum / late - 1.0 / MANY - SLACK).ceil().max(0.0))
    }
}

impl Deadlines {
    /// Returns how many deadlines a plan meets; `None` if no job has one. A job without a placement meets
    /// none.
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

    /// Returns the fraction of deadlines met.
    pub fn share(self) -> f64 {
        to_f64(self.met) / to_f64(self.all)
    }
}

/// Returns an upper limit of a job's completion time on all legal bundles: all samples on one GPU of its
/// slowest type, with the communication of an infinitely long ring.
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
