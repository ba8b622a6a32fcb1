//! One step: applies events to the state, then decides which actions follow.

use crate::decide::{TurnDecision, decide, is_settled};
use crate::{
    Action, Event, Inquiry, JobState, Phase, Planner, Rules, ScriptJob, State, WaitQuestion, after, apply,
};
use hsched_model::{Cluster, Time};

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The state with the planned actions; it is stored before any of them is carried out.
    pub state: State,
    /// The actions, in order.
    pub actions: Vec<Action>,
    /// Questions of the policy; the step is repeated with their answers.
    pub questions: Vec<WaitQuestion>,
    /// Questions about all requests that jobs could wait for.
    pub inquiries: Vec<Inquiry>,
    /// Notes for the user on the decision, such as why a policy gives no plan.
    pub notes: Vec<String>,
}

/// Returns the state after `events` and the actions that follow.
///
/// Equal arguments give equal results. Every submission comes from a plan that was verified, and no request
/// concerns a job that has ended. Jobs that ended long ago are forgotten.
pub fn step(
    mut state: State,
    at: Time,
    events: &[Event],
    cluster: &Cluster,
    rules: &Rules,
    planner: &mut Planner<'_>,
) -> Step {
    let mut actions: Vec<Action> =
        events.iter().filter_map(|event| apply(&mut state, at, event, rules)).collect();
    // Before a job is forgotten, the jobs that depend on it learn how it ended.
    actions.extend(after::settle(&mut state, at));
    state.jobs.retain(|tracked| is_remembered(tracked, at));
    state.scripts.retain(|script| is_script_remembered(script, at));
    actions.extend(state.scripts.iter().filter_map(cancel_script));
    let TurnDecision { actions: mut decided, questions, inquiries, notes } =
        decide(&mut state, at, cluster, rules, planner);
    actions.append(&mut decided);
    Step { state, actions, questions, inquiries, notes }
}

/// Returns whether a step would leave the state unchanged and do nothing.
pub(super) fn is_idle(
    state: &State,
    at: Time,
    events: &[Event],
    cluster: &Cluster,
    rules: &Rules,
    planner: &Planner<'_>,
) -> bool {
    events.is_empty()
        && state.jobs.iter().all(|tracked| is_remembered(tracked, at))
        && state
            .scripts
            .iter()
            .all(|script| is_script_remembered(script, at) && script.due_cancel().is_none())
        && is_settled(state, at, cluster, rules, planner)
}

/// Returns the request that ends a script that the user cancelled.
fn cancel_script(script: &ScriptJob) -> Option<Action> {
    let why = "cancelled by the user".to_owned();
    Some(Action::Cancel { of: script.key(), job_id: script.due_cancel()?, why })
}

fn is_script_remembered(script: &ScriptJob, at: Time) -> bool {
    script.end.as_ref().is_none_or(|end| at.since(end.at) < Rules::REMEMBERED)
}

fn is_remembered(tracked: &JobState, at: Time) -> bool {
    match tracked.phase {
        Phase::Ended { at: ended, .. } => at.since(ended) < Rules::REMEMBERED,
        _ => true,
    }
}
