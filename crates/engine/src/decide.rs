//! One decision: checks whether one is due, asks the policy and records its plan in the state.

use crate::fingerprint::fingerprint;
use crate::mark::{intend, wait_for};
use crate::plan_executor::{Effects, execute_plan};
use crate::timeouts::Timeouts;
use crate::view::{Nowhere, ProblemContext, View, is_ready};
use crate::{
    Action, AfterStop, Inquiry, JobState, Phase, Planner, Rules, State, WaitQuestion, chain, early, lateness,
    promise, shares, stall,
};
use hsched_model::{Cluster, Time};
use hsched_plan::{CheckedPlan, PolicyError};

/// Actions to take, questions about waits and start estimates, and messages about how the actions were
/// decided.
#[derive(Default)]
pub(super) struct TurnDecision {
    pub actions: Vec<Action>,
    pub questions: Vec<WaitQuestion>,
    pub inquiries: Vec<Inquiry>,
    pub notes: Vec<String>,
}

/// Returns whether no decision is due: the input equals that of the last decision, no wait or timeout has
/// ended, no further deadline has become unreachable, no new shares must be written, and no next piece must
/// be queued.
pub(super) fn is_settled(
    state: &State,
    at: Time,
    cluster: &Cluster,
    rules: &Rules,
    planner: &Planner<'_>,
) -> bool {
    let patience = Timeouts::new(cluster, rules, at);
    shares::unwritten(state).next().is_none()
        && state.wake.is_none_or(|wake| wake > at)
        && state
            .jobs
            .iter()
            .all(|tracked| patience.end(tracked).next().is_none() && !tracked.is_newly_late(at))
        && !has_next_piece(state, at, rules)
        && state.decided.is_some_and(|decided| decided == fingerprint(state, at, cluster, rules, planner))
}

/// Returns the actions to take now, and marks them in the state first.
pub(super) fn decide(
    state: &mut State,
    at: Time,
    cluster: &Cluster,
    rules: &Rules,
    planner: &mut Planner<'_>,
) -> TurnDecision {
    let patience = Timeouts::new(cluster, rules, at);
    let mut actions: Vec<Action> = state.jobs.iter().flat_map(|tracked| patience.end(tracked)).collect();
    for action in &actions {
        intend(state, action, AfterStop::GoOn, at);
    }
    let (stops, mut notes) = early::stop(state, at, cluster);
    actions.extend(stops);
    actions.extend(stall::end(state, at));
    actions.extend(shares::unwritten(state));
    let warnings = lateness::warn(state, at);
    if !warnings.is_empty() {
        // The policy may react to the warning.
        state.decided = None;
        notes.extend(warnings);
    }
    let seen = fingerprint(state, at, cluster, rules, planner);
    let is_due = state.wake.is_some_and(|wake| wake <= at);
    if state.decided == Some(seen) && !is_due && !has_next_piece(state, at, rules) {
        return TurnDecision { actions, notes, ..TurnDecision::default() };
    }
    let view = {
        let Planner { objective, seed, forecasts, start_estimates, policy, .. } = &*planner;
        let (objective, seed, queues) = (*objective, *seed, policy.queues());
        let aims =
            ProblemContext { objective, seed, forecasts, start_estimates: start_estimates.as_ref(), queues };
        View::new(state, at, cluster, rules, aims)
    };
    let mut nowhere = Nowhere::new(cluster, rules);
    for tracked in state.jobs.iter_mut().filter(|tracked| is_ready(tracked, at)) {
        if let Some(why) = nowhere.why(&tracked.job) {
            actions.extend(wait_for(tracked, &why, at));
        }
    }
    (state.decided, state.wake) = (Some(seen), None);
    let Some(mut view) = view else { return TurnDecision { actions, notes, ..TurnDecision::default() } };
    let corrected = shares::correct(state, &view, planner.policy.sharing());
    if !corrected.is_empty() {
        // The policy sees these jobs in the state after their actions.
        let Planner { objective, seed, forecasts, start_estimates, policy, .. } = &*planner;
        let (objective, seed, queues) = (*objective, *seed, policy.queues());
        let aims =
            ProblemContext { objective, seed, forecasts, start_estimates: start_estimates.as_ref(), queues };
        view = View::new(state, at, cluster, rules, aims).unwrap_or(view);
        actions.extend(corrected);
    }
    let (questions, inquiries, told) = match ask(state, &view, planner) {
        Ok(plan) => {
            match plan.plan().wake {
                // The policy decides again at the next turn.
                Some(wake) if wake <= at => state.decided = None,
                wake => state.wake = wake,
            }
            let Effects { actions: planned, questions, inquiries } =
                execute_plan(state, &view, &plan, cluster, rules, planner, at);
            if planned.iter().any(Action::is_request) {
                // The outcome of these actions counts as a change even if the state then looks the same: a
                // request may have failed.
                state.decided = None;
            }
            actions.extend(planned);
            // Not every policy gives a reason for each pending job.
            let unplanned = |tracked: &JobState| matches!(&tracked.phase, Phase::Waiting { reason, .. } if reason == JobState::NOT_PLANNED);
            for job in (0..view.names.len()).filter(|&job| view.problem.jobs[job].progress.is_ready()) {
                let tracked = view.tracked_mut(state, job);
                if unplanned(tracked) {
                    actions.extend(wait_for(tracked, "other jobs have priority", at));
                }
            }
            (questions, inquiries, plan.plan().notes.clone())
        }
        Err(error) => {
            let why = format!("not planned: {error}");
            let is_ready = |job: &usize| view.problem.jobs[*job].progress.is_ready();
            let ready = (0..view.names.len()).filter(is_ready);
            actions.extend(ready.filter_map(|job| wait_for(view.tracked_mut(state, job), &why, at)));
            (Vec::new(), Vec::new(), Vec::new())
        }
    };
    notes.extend(told);
    TurnDecision { actions, questions, inquiries, notes }
}

/// Returns whether the next piece of any job must be queued.
fn has_next_piece(state: &State, at: Time, rules: &Rules) -> bool {
    state.jobs.iter().any(|tracked| chain::due(tracked, at, rules).is_some())
}

/// Returns the policy's checked plan; the policy's memory is stored in the state.
fn ask(state: &mut State, view: &View, planner: &mut Planner<'_>) -> Result<CheckedPlan, PolicyError> {
    let policy = &mut *planner.policy;
    if let Some(memory) = state.memory.as_ref().filter(|memory| memory.policy == policy.name()) {
        policy.remember(memory);
    }
    let mut plan = policy.decide(&view.problem, &planner.budget)?;
    state.memory = policy.memory();
    promise::put_first(state, view, &mut plan.changes);
    hsched_plan::checked(policy.name(), &view.problem, plan)
}
