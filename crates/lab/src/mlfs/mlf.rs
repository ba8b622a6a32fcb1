//! `mlf-h`: starts jobs in the order of MLF-H's priorities and never stops them.
//!
//! All ranks of a job hold its model and run together, so a job is a single task without a graph. Servers
//! cannot be overloaded, because GPUs are assigned as a whole.

use crate::LabPolicy;
use crate::mlfs::MlfsParameters;
use crate::mlfs::{PriorityInputs, whole};
use hsched_model::Time;
use hsched_model::number::to_usize;
use hsched_plan::kit::Want;
use hsched_plan::kit::{OrderKey, order};
use hsched_plan::kit::{Rates, SchedulingState, fastest};
use hsched_plan::{Budget, Entry, JobModel, Knowledge, Make, Plan, Policy, PolicyError, Problem, Repacking};

/// An upper bound on priorities; jobs are ranked by the distance of their priority from it.
const BASE: f64 = 1e7;

pub(crate) const MLF_H: LabPolicy = LabPolicy::of_gangs(Entry {
    name: "mlf-h",
    make: Make::Policy { make: |_| Ok(Box::<MlfH>::default()), watched: true },
    objectives: &[],
    flags: &[],
    knows: &[Knowledge::Lengths, Knowledge::Speeds, Knowledge::Losses, Knowledge::Deadlines],
    knows_replicas: false,
});

/// MLF-H for whole jobs.
#[derive(Default)]
struct MlfH {
    state: SchedulingState,
    parameters: MlfsParameters,
}

impl MlfH {
    /// Returns the position of a job in line: the highest priority first.
    ///
    /// The passing of time adds equally to every waiting job. The rank therefore uses arrival times instead
    /// of waiting times, and only jobs with a deadline change their rank over time.
    fn rank(&self, model: &JobModel, rates: &Rates, now: Time) -> OrderKey {
        let arrival = model.progress.arrival.0;
        let inputs = priority_inputs(model, rates, now, -arrival);
        let priority = whole(inputs.parts(&self.parameters), &self.parameters).whole;
        (order(BASE - priority), order(arrival))
    }
}

/// Returns the inputs of a job's priority, with the given waiting time in seconds.
pub(super) fn priority_inputs<'a>(
    model: &'a JobModel,
    rates: &Rates,
    now: Time,
    waited: f64,
) -> PriorityInputs<'a> {
    let left = model.progress.left(now);
    let done = model.rounds.losses.len().min(whole_epochs(model.progress.work - left));
    PriorityInputs {
        urgency: model.aims.urgency,
        losses: &model.rounds.losses[..done],
        size: 1.0,
        to_deadline: model.aims.deadline.map(|deadline| deadline.0 - now.0),
        left: if rates.best > 0.0 { left / rates.best } else { f64::INFINITY },
        waited,
    }
}

/// Returns the number of whole epochs.
fn whole_epochs(epochs: f64) -> usize {
    to_usize((epochs + 1e-9).max(0.0))
}

impl Policy for MlfH {
    fn name(&self) -> &'static str {
        "mlf-h"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let mut state = std::mem::take(&mut self.state);
        state.sync(problem, &|model, rates| self.rank(model, rates, problem.now));
        let due = problem.present().filter(|&job| problem.jobs[job].aims.deadline.is_some());
        for job in due.filter(|&job| problem.jobs[job].progress.is_ready()) {
            let rates = state.rates(job);
            let rank = self.rank(&problem.jobs[job], rates, problem.now);
            let shape = rates.shape();
            state.line.remove(job);
            state.line.wait(job, shape, rank);
        }
        let mut room = state.floor.idle.clone();
        let mut wants = Vec::new();
        let mut merge = state.line.merge();
        while let Some(next) = merge.next(&state.line) {
            let rates = state.rates(next.job);
            if let Some(gpu_type) = fastest(rates, &room, None) {
                room[gpu_type] -= rates.asks;
                wants.push(Want::place(next.job, state.counts(next.job, gpu_type)));
            } else {
                merge.drop_shape(&next);
            }
        }
        let changes = state.floor.carry_out(problem, wants, Repacking::Off);
        self.state = state;
        Ok(Plan { changes, ..Plan::default() })
    }
}
