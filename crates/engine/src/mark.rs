//! Records a decision in the state before any request: jobs that are about to end, and the reasons why other
//! jobs wait.

use crate::{Action, AfterStop, JobState, Phase, Stage, State};
use hsched_model::Time;

/// Records in the state that a job is about to be ended and what follows, or that its request is about to be
/// changed. The outcome is then known to be intended.
pub(super) fn intend(state: &mut State, action: &Action, then: AfterStop, at: Time) {
    if let Action::Amend { of, to, .. } = action {
        let submission = state.find_mut(&of.job).and_then(|tracked| tracked.submission_mut(of));
        if let Some(submission) = submission {
            submission.attempt.amendment = Some(to.clone());
        }
        return;
    }
    let (Action::Stop { of, .. } | Action::Cancel { of, .. }) = action else { return };
    let Some(submission) = state.find_mut(&of.job).and_then(|tracked| tracked.submission_mut(of)) else {
        return;
    };
    if matches!(submission.stage, Stage::Pending | Stage::Running) {
        submission.end(at, then);
    }
}

/// Records why a job waits; a reason that differs from the previous one is reported.
pub(super) fn wait_for(tracked: &mut JobState, why: &str, at: Time) -> Option<Action> {
    let Phase::Waiting { reason, .. } = &mut tracked.phase else { return None };
    if reason == why {
        return None;
    }
    why.clone_into(reason);
    tracked.last = (at, why.to_owned());
    Some(Action::Wait { job: tracked.job.name.clone(), why: why.to_owned() })
}
