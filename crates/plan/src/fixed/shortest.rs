//! The job that can end soonest comes first, by time (`srtf`) or by time times GPUs (`srsf`).

use crate::kit::{OrderKey, order};
use crate::kit::{Rates, SchedulingState};
use crate::{Budget, Entry, JobModel, Knowledge, Make, Plan, Policy, PolicyError, Problem, Repacking};

/// The registry entry of shortest remaining time first.
pub(crate) const SRTF: Entry = Entry {
    name: "srtf",
    make: Make::Policy {
        make: |parameters| Ok(Box::new(Shortest::time(parameters.repacking))),
        watched: false,
    },
    objectives: &[],
    flags: &[],
    knows: &[Knowledge::Lengths, Knowledge::Speeds],
    knows_replicas: true,
};

/// The registry entry of shortest remaining service first.
pub(crate) const SRSF: Entry = Entry {
    name: "srsf",
    make: Make::Policy {
        make: |parameters| Ok(Box::new(Shortest::service(parameters.repacking))),
        watched: false,
    },
    ..SRTF
};

/// Shortest remaining time, or service, first.
struct Shortest {
    name: &'static str,
    /// Whether a job's time is multiplied by its requested GPUs.
    counts_gpus: bool,
    state: SchedulingState,
}

impl Shortest {
    fn time(repacking: Repacking) -> Self {
        Self { name: "srtf", counts_gpus: false, state: SchedulingState::new(repacking) }
    }

    fn service(repacking: Repacking) -> Self {
        Self { name: "srsf", counts_gpus: true, state: SchedulingState::new(repacking) }
    }
}

impl Policy for Shortest {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let Self { counts_gpus, state, .. } = self;
        let rank = |left: f64, rates: &Rates, arrival: u64| -> OrderKey {
            let gpus = if *counts_gpus { f64::from(rates.least_gpus()) } else { 1.0 };
            (order(left / rates.best * gpus), arrival)
        };
        let now = problem.now;
        let waiting = |model: &JobModel, rates: &Rates| {
            rank(model.progress.left(now), rates, order(model.progress.arrival.0))
        };
        state.sync(problem, &waiting);
        let running = state.running(|job, seat, rates| {
            let left = seat.left(now).unwrap_or_else(|| problem.jobs[job].progress.left(now));
            rank(left, rates, seat.arrival)
        });
        let wants = state.in_order(&running);
        Ok(Plan { changes: state.carry_out(problem, wants), ..Plan::default() })
    }
}
