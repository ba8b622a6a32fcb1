//! Least attained service first, as in Tiresias: a few queues by GPU time, with FIFO order inside each.

use std::collections::BTreeSet;

use crate::kit::{LastingOrder, OrderKey, SchedulingState, Seat, order};
use crate::{
    Budget, Entry, JobModel, Knowledge, Make, Plan, Policy, PolicyError, Problem, ProblemChanges, Repacking,
};
use hsched_model::{Seconds, Time};

/// The GPU-seconds at which a job moves to the next queue: 1, 10 and 100 GPU-hours.
const LIMITS: [f64; 3] = [3_600.0, 36_000.0, 360_000.0];

/// Tolerance for sums of times, in GPU-seconds.
const SLACK: f64 = 1e-6;

/// Minimum delay before the policy asks to be called at a queue limit, in seconds.
const LEAST_WAIT: f64 = 0.01;

/// The registry entry of least attained service.
pub(crate) const LAS: Entry = Entry {
    name: "las",
    make: Make::Policy { make: |parameters| Ok(Box::new(Las::new(parameters.repacking))), watched: false },
    objectives: &[],
    flags: &[],
    knows: &[Knowledge::Speeds],
    knows_replicas: true,
};

/// Least attained service.
struct Las {
    state: SchedulingState,
    running: LastingOrder,
    /// Approximate times in seconds at which running jobs move to the next queue, in order.
    crossings: BTreeSet<(u64, usize)>,
    crossing: Vec<Option<u64>>,
}

/// Maximum relative error of the times in [`Las::crossings`].
const ABOUT: f64 = 1e-9;

impl Las {
    fn new(repacking: Repacking) -> Self {
        let state = SchedulingState::new(repacking);
        Self { state, running: LastingOrder::default(), crossings: BTreeSet::new(), crossing: Vec::new() }
    }

    /// Updates the changed jobs, and those that moved to the next queue.
    fn sync(&mut self, problem: &Problem) {
        let now = problem.now;
        self.state.sync(problem, &|model, _| rank(model, now));
        let seat_rank = |seat: &Seat| (level(seat.attained(now)) as u64, seat.arrival);
        self.running.sync(problem, &self.state, seat_rank);
        match &problem.changed {
            ProblemChanges::All => {
                self.crossings.clear();
                self.crossing.clear();
                problem.present().for_each(|job| self.foresee(job, now));
            }
            ProblemChanges::Since { came, left, other } => {
                left.iter().chain(came).chain(other).for_each(|&job| self.foresee(job, now));
            }
        }
        let until = order(now.0 + about(now));
        while let Some(&(at, job)) = self.crossings.first().filter(|(at, _)| *at <= until) {
            self.running.set(job, Some(seat_rank(&self.state.seats[job])));
            self.foresee(job, now);
            // The job is still just below its limit.
            if self.crossing[job].is_some_and(|next| next <= at.max(until)) {
                self.set_crossing(job, Some(until + 1));
            }
        }
        debug_assert!(
            self.running.all().iter().all(|&(rank, job)| rank == seat_rank(&self.state.seats[job]))
        );
    }

    /// Computes when a job moves to the next queue.
    fn foresee(&mut self, job: usize, now: Time) {
        let seat = self.state.seats.get(job).filter(|_| self.state.line.is_running(job));
        let wait = seat.and_then(|seat| crosses(seat.attained(now), seat.gpus));
        self.set_crossing(job, wait.map(|wait| order(now.0 + wait)));
    }

    fn set_crossing(&mut self, job: usize, at: Option<u64>) {
        if self.crossing.len() <= job {
            self.crossing.resize(job + 1, None);
        }
        if let Some(before) = std::mem::replace(&mut self.crossing[job], at) {
            self.crossings.remove(&(before, job));
        }
        self.crossings.extend(at.map(|at| (at, job)));
    }

    /// Returns the seconds until the first running job moves to the next queue.
    fn first_crossing(&self, now: Time) -> Option<f64> {
        let (first, _) = self.crossings.first()?;
        let until = order(f64::from_bits(*first) + about(now));
        let near = self.crossings.range(..=(until, usize::MAX));
        let wait = |&(_, job): &(u64, usize)| {
            let seat = &self.state.seats[job];
            crosses(seat.attained(now), seat.gpus)
        };
        near.filter_map(wait).min_by(f64::total_cmp)
    }

    /// Returns the result of [`Self::first_crossing`] by checking all running jobs.
    fn first_of_all(&self, now: Time) -> Option<f64> {
        let seats = self.running.all().into_iter().map(|(_, job)| self.state.seats[job]);
        seats.filter_map(|seat| crosses(seat.attained(now), seat.gpus)).min_by(f64::total_cmp)
    }
}

fn about(now: Time) -> f64 {
    LEAST_WAIT + ABOUT * now.0.abs()
}

/// Returns the seconds until a job with this attained service moves to the next queue; `None` if it never
/// does.
fn crosses(attained: f64, gpus: u32) -> Option<f64> {
    let limit = LIMITS.get(level(attained)).filter(|_| gpus > 0)?;
    Some(((limit - attained) / f64::from(gpus)).max(LEAST_WAIT))
}

fn level(attained: f64) -> usize {
    LIMITS.iter().filter(|limit| attained >= *limit - SLACK).count()
}

fn rank(model: &JobModel, now: Time) -> OrderKey {
    (level(model.progress.attained(now)) as u64, order(model.progress.arrival.0))
}

impl Policy for Las {
    fn name(&self) -> &'static str {
        "las"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        self.sync(problem);
        // A job that changes its GPUs appears in both sets; using the earlier time causes at worst one
        // unnecessary decision.
        let stay = self.first_crossing(problem.now);
        debug_assert_eq!(stay, self.first_of_all(problem.now));
        let state = &mut self.state;
        let wants = state.in_lasting_order(&mut self.running);
        let changed: Vec<usize> = wants.iter().map(|want| want.job).collect();
        let changes = state.carry_out(problem, wants);
        let change = changed.into_iter().filter_map(|job| {
            let gpus = state.floor.held(job).iter().map(|slot| slot.count).sum();
            crosses(problem.jobs[job].progress.attained(problem.now), gpus)
        });
        let soonest = stay.into_iter().chain(change).min_by(f64::total_cmp);
        Ok(Plan { changes, wake: soonest.map(|wait| problem.now.after(Seconds(wait))), ..Plan::default() })
    }
}
