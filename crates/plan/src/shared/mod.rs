//! Rules for a policy on a shared cluster: only decisions that are safe when other users may take released
//! GPUs are carried out.
//!
//! The wrapped policy decides as if moves were immediate. No running job is stopped only to wait, jobs that
//! do not save are left alone, a move must be worth its wait in the queue, and the GPUs assigned to a job are
//! reserved until it has them.

mod alone;
mod projected;
mod promise;
mod safe;

pub(crate) use self::alone::SolePolicy;

use std::collections::BTreeMap;

use crate::shared::projected::ProjectedProblem;
use crate::shared::promise::Promise;
use crate::shared::safe::PlacementRequest;
use crate::{
    Budget, Decision, HoldStage, Memory, Moves, Placement, Plan, Policy, PolicyError, Problem, Replanning,
    WaitForecast,
};
use hsched_model::{Seconds, Time};

/// A policy over time with the rules of a shared cluster.
pub(crate) struct SharedPolicy {
    inner: Box<dyn Policy>,
    rules: SharedRules,
    /// Decisions that are not yet known to have been carried out.
    promises: Vec<Promise>,
}

/// The rules that have parameters.
#[derive(Clone, Copy)]
struct SharedRules {
    moves: Moves,
    queue_patience: Seconds,
}

/// The known cost of a job's move.
#[derive(Clone, Copy)]
struct Price {
    /// The total of the known parts.
    cost: Seconds,
    /// Whether the cost includes the wait in the queue.
    has_wait: bool,
}

/// Reason of a pending job whose GPUs are not free yet.
const NOT_FREE_YET: &str = "waiting for its GPUs to be released";

impl SharedPolicy {
    /// Returns a policy with the rules of a shared cluster, whose parameters are in `rules`. The wrapped
    /// policy should not rely on stopping jobs.
    pub(crate) fn new(inner: Box<dyn Policy>, rules: &Replanning) -> Self {
        let rules = SharedRules { moves: rules.moves, queue_patience: rules.queue_patience };
        Self { inner, rules, promises: Vec::new() }
    }

    /// Returns the plan that carries out requests and promises, and remembers them until they are carried
    /// out.
    fn plan(&mut self, shown: &ProjectedProblem<'_>, plan: Plan, requests: Vec<PlacementRequest>) -> Plan {
        let problem = shown.real;
        let mut changes: Vec<(usize, Decision)> = Vec::new();
        self.promises.clear();
        for request in shown.kept().into_iter().chain(requests) {
            self.promises.push(Promise::new(problem, request.job, &request.placement));
            let decision = if request.later {
                Decision::Defer { why: NOT_FREE_YET.to_owned() }
            } else {
                Decision::Place { placements: vec![request.placement], queued: false, why: request.why }
            };
            let waits = problem.jobs[request.job].progress.is_ready();
            if waits || matches!(decision, Decision::Place { .. }) {
                changes.push((request.job, decision));
            }
        }
        let mut is_named = vec![false; problem.jobs.len()];
        for (job, _) in &changes {
            is_named[*job] = true;
        }
        for (job, decision) in plan.changes {
            let waits = problem.jobs[job].progress.is_ready();
            let decision = match decision {
                Decision::Place { .. } => Decision::Defer { why: NOT_FREE_YET.to_owned() },
                other => other,
            };
            let is_end = matches!(decision, Decision::Finish { .. });
            if !is_named[job] && !shown.is_settled(job) && (waits || is_end) {
                changes.push((job, decision));
            }
        }
        Plan { changes, ..plan }
    }

    /// Returns when the policy should decide again: immediately if a move would be beneficial after the
    /// current epoch, when a submission has waited too long, or when the plan requests it.
    fn wake(
        &self,
        shown: &ProjectedProblem<'_>,
        looked_at: &BTreeMap<usize, Price>,
        plan: &Plan,
    ) -> Option<Time> {
        let now = shown.real.now;
        // The move was no longer beneficial when the current epoch was included.
        let soon = looked_at.values().any(|price| !price.has_wait).then_some(now);
        let times = [plan.wake, soon, shown.next_late(self.rules.queue_patience)];
        times.into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

impl Policy for SharedPolicy {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn inner(&self) -> Option<&dyn Policy> {
        Some(self.inner.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Policy> {
        Some(self.inner.as_mut())
    }

    fn parameters(&self) -> String {
        format!("{}, {}", self.inner.parameters(), self.rules.moves.words())
    }

    /// Returns no round length: the policy decides after every change, because a move waits in the queue for
    /// longer than a round.
    fn round(&self) -> Option<Seconds> {
        None
    }

    /// Returns false: the cost of a start is the wait in the queue, which is estimated.
    fn starts_cost(&self) -> bool {
        false
    }

    fn decide(&mut self, problem: &Problem, budget: &Budget<'_>) -> Result<Plan, PolicyError> {
        let before = self.inner.memory();
        let mut looked_at: BTreeMap<usize, Price> = BTreeMap::new();
        loop {
            let sharing = self.inner.sharing();
            let shown = ProjectedProblem::new(problem, sharing, &self.promises, self.rules, &looked_at);
            let plan = self.inner.decide(&shown.problem, budget)?;
            let requests = shown.safe(&plan.changes);
            let is_priced = |job: &usize| looked_at.get(job).is_some_and(|price| price.has_wait);
            let movers =
                requests.iter().filter(|request| shown.runs(request.job) && !is_priced(&request.job));
            let movers: Vec<&PlacementRequest> = movers.collect();
            if movers.is_empty() {
                let mut plan = self.plan(&shown, plan, requests);
                plan.wake = self.wake(&shown, &looked_at, &plan);
                return Ok(plan);
            }
            let mut questions = Vec::new();
            for PlacementRequest { job, placement, .. } in movers {
                let known = looked_at.get(job).copied();
                match price(&shown, *job, placement, known) {
                    Some(price) => drop(looked_at.insert(*job, price)),
                    None => questions.push((*job, placement.clone())),
                }
            }
            // The wrapped policy decides again from its earlier memory, because a decision that is not
            // carried out must have no effect.
            if let Some(memory) = &before {
                self.inner.remember(memory);
            }
            if !questions.is_empty() {
                return Ok(Plan { questions, ..Plan::default() });
            }
        }
    }

    fn memory(&self) -> Option<Memory> {
        promise::write(self.name(), &self.promises, self.inner.memory())
    }

    fn remember(&mut self, memory: &Memory) {
        if let Some(promises) = promise::recall(memory, self.inner.as_mut()) {
            self.promises = promises;
        }
    }
}

/// Returns the cost of a running job's move: the restart, the progress in the current epoch, which may be
/// lost, and the wait in the queue. If the progress may be lost and no cost is `known` yet, the wait is left
/// out, so that estimates are requested only for moves that are beneficial without it. `None` while the queue
/// estimate is missing.
fn price(
    shown: &ProjectedProblem<'_>,
    job: usize,
    placement: &Placement,
    known: Option<Price>,
) -> Option<Price> {
    let problem = shown.real;
    let progress = &problem.jobs[job].progress;
    let under_way = under_way(problem, job);
    let cost = progress.restart_cost.0 + under_way;
    if known.is_none() && under_way > 0.0 {
        return Some(Price { cost: Seconds(cost), has_wait: false });
    }
    let mut held = progress.holds.iter().flat_map(|hold| &hold.slots);
    // While this job holds GPUs of these nodes, or other jobs hold the GPUs, the queue estimate would only
    // reflect the ends of these jobs.
    let is_its_own = held.any(|held| placement.slots.iter().any(|slot| slot.node == held.node));
    let wait = if is_its_own || !shown.is_free(job, placement) {
        0.0
    } else {
        let is_about = |known: &&WaitForecast| known.job == job && known.slots == placement.slots;
        let forecast = problem.forecasts.iter().find(is_about)?;
        forecast.wait.map_or(0.0, |wait| wait.0)
    };
    Some(Price { cost: Seconds(cost + wait), has_wait: true })
}

/// Returns a running job's progress in the current epoch, in seconds.
fn under_way(problem: &Problem, job: usize) -> f64 {
    let held = problem.jobs[job].progress.holds.iter().map(|hold| match hold.stage {
        HoldStage::Running { under_way, .. } => under_way,
        _ => 0.0,
    });
    held.fold(0.0, f64::max)
}
