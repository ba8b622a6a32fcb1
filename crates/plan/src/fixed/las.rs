//! Least attained service first, as Tiresias does it: a few queues by GPU time, FIFO inside.

use crate::kit::SchedulingState;
use crate::kit::{Rank, order};
use crate::{Budget, Entry, JobModel, Make, Plan, Policy, PolicyError, Problem, Repacking};
use hsched_model::{Seconds, Time};

/// The GPU-seconds at which a job goes to the next queue: 1, 10 and 100 GPU-hours.
const LIMITS: [f64; 3] = [3_600.0, 36_000.0, 360_000.0];

/// Slack for sums of times, in GPU-seconds.
const SLACK: f64 = 1e-6;

/// The shortest time after which a decision about a limit is asked for, in seconds.
const LEAST_WAIT: f64 = 0.01;

/// Least attained service among the policies.
pub(crate) const LAS: Entry = Entry {
    name: "las",
    make: Make::Policy { make: |parameters| Ok(Box::new(Las::new(parameters.repacking))), watched: false },
    objectives: &[],
    flags: &[],
};

/// Least attained service.
struct Las {
    state: SchedulingState,
}

impl Las {
    fn new(repacking: Repacking) -> Self {
        Self { state: SchedulingState::new(repacking) }
    }
}

fn level(attained: f64) -> usize {
    LIMITS.iter().filter(|limit| attained >= *limit - SLACK).count()
}

fn rank(model: &JobModel, now: Time) -> Rank {
    (level(model.progress.attained(now)) as u64, order(model.progress.arrival.0))
}

impl Policy for Las {
    fn name(&self) -> &'static str {
        "las"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let state = &mut self.state;
        state.sync(problem, &|model, _| rank(model, problem.now));
        let running = state.running(|_, seat, _| (level(seat.attained(problem.now)) as u64, seat.arrival));
        let wants = state.in_order(&running);
        let changed: Vec<usize> = wants.iter().map(|want| want.job).collect();
        let changes = state.carry_out(problem, wants);
        let crosses = |attained: f64, gpus: u32| {
            let limit = LIMITS.get(level(attained)).filter(|_| gpus > 0)?;
            Some(((limit - attained) / f64::from(gpus)).max(LEAST_WAIT))
        };
        // A job that changes its GPUs is among both: the sooner time is a decision too many at worst.
        let stay = running.iter().filter_map(|&(_, job)| {
            let seat = &state.seats[job];
            crosses(seat.attained(problem.now), seat.gpus)
        });
        let change = changed.into_iter().filter_map(|job| {
            let gpus = state.floor.held(job).iter().map(|slot| slot.count).sum();
            crosses(problem.jobs[job].progress.attained(problem.now), gpus)
        });
        let holders = stay.chain(change);
        let soonest = holders.min_by(f64::total_cmp);
        Ok(Plan { changes, wake: soonest.map(|wait| problem.now.after(Seconds(wait))), ..Plan::default() })
    }
}
