//! Jobs with predecessors (`after`): which job each waits for, and which can never start.

use std::collections::BTreeMap;

use crate::mark::wait_for;
use crate::{Action, JobState, Outcome, Phase, State};
use hsched_model::{JobName, Time};

/// Marks every waiting job with the one that it waits for; ends those that come after one that did not complete.
///
/// A job that nobody remembers has completed: those that had not were waited for.
pub(super) fn settle(state: &mut State, at: Time) -> Vec<Action> {
    let mut actions = Vec::new();
    if state.jobs.iter().all(|tracked| tracked.job.after.is_empty()) {
        return actions;
    }
    loop {
        let open = not_completed(state);
        let before = actions.len();
        let waiting = state.jobs.iter_mut().filter(|job| matches!(job.phase, Phase::Waiting { .. }));
        for tracked in waiting {
            let first = tracked.job.after.iter().find_map(|name| Some((name.clone(), *open.get(name)?)));
            actions.extend(tracked.stand_behind(first, at));
        }
        let given_up = |action: &Action| matches!(action, Action::GiveUp { .. });
        if !actions[before..].iter().any(given_up) {
            return actions;
        }
    }
}

/// Returns the jobs that have not completed, with what became of those that never will.
fn not_completed(state: &State) -> BTreeMap<JobName, Option<&'static str>> {
    let end = |tracked: &JobState| match &tracked.phase {
        Phase::Ended { outcome: Outcome::Completed, .. } => None,
        Phase::Ended { outcome: Outcome::Cancelled, .. } => Some(Some("was cancelled")),
        Phase::Ended { outcome: Outcome::Failed { .. }, .. } => Some(Some("failed")),
        Phase::Waiting { .. } | Phase::Submitted(_) => Some(None),
    };
    state.jobs.iter().filter_map(|tracked| Some((tracked.job.name.clone(), end(tracked)?))).collect()
}

impl JobState {
    /// Takes in the first job that it comes after and that has not completed, and what became of that.
    fn stand_behind(&mut self, first: Option<(JobName, Option<&'static str>)>, at: Time) -> Option<Action> {
        match first {
            None => {
                if self.awaits.take().is_some() {
                    wait_for(self, Self::NOT_PLANNED, at);
                }
                None
            }
            Some((name, None)) => {
                let why = format!("depends on {name}, which has not completed");
                self.awaits = Some(name);
                wait_for(self, &why, at)
            }
            Some((name, Some(end))) => {
                let why = format!("depends on {name}, which {end}");
                self.awaits = None;
                self.finish(at, Outcome::Failed { reason: why.clone() });
                Some(Action::GiveUp { job: self.job.name.clone(), why })
            }
        }
    }
}
