//! The steps of a cancellation: observe, record the request, call Slurm.

use std::collections::BTreeMap;

use crate::app::session::{JobsLook, Session};
use crate::app::state;
use hsched_engine::{
    Action, AfterStop, Answer, BackendKind, Event, ScriptJob, Stage, Submission, Update, apply,
};
use hsched_model::JobName;
use hsched_ui::{Exit, Failure};

/// Observes the jobs and updates the state, unless the backend is Slurm and Slurm can have none of these
/// jobs; returns the error if Slurm did not answer.
pub(crate) fn look(
    session: &mut Session<'_>,
    names: &[JobName],
) -> Result<(JobsLook, Option<Failure>), Failure> {
    let state = &session.state;
    let in_slurm = |name: &JobName| {
        state.find(name).is_some_and(|job| job.phase.is_submitted())
            || state.script(name).is_some_and(|script| !script.is_over())
    };
    if session.rules.backend == BackendKind::Queue && !names.iter().any(in_slurm) {
        return Ok((JobsLook::nothing(session.context), None));
    }
    match session.look() {
        Ok(seen) => Ok((seen, None)),
        Err(failure) if failure.exit == Exit::SlurmUnavailable => {
            Ok((JobsLook::nothing(session.context), Some(failure)))
        }
        Err(failure) => Err(failure),
    }
}

/// Records the cancellation in the state, and returns a request for each submission that Slurm has.
pub(crate) fn request_cancel(session: &mut Session<'_>, names: &[JobName], seen: &JobsLook) -> Vec<Action> {
    let Session { state, rules, .. } = session;
    for event in names.iter().map(asked) {
        apply(state, seen.at, &event, rules);
    }
    let submissions = names.iter().filter_map(|name| state.find(name)).flat_map(|tracked| {
        tracked.phase.submissions().iter().map(|submission| (&tracked.job.name, submission))
    });
    let request = |(name, submission): (&JobName, &Submission)| {
        let Stage::Stopping { then: AfterStop::Cancel, .. } = submission.stage else { return None };
        let (of, why) = (submission.attempt.key(name), "cancelled by the user".to_owned());
        Some(Action::Cancel { of, job_id: submission.attempt.job_id?, why })
    };
    let scripts = names.iter().filter_map(|name| state.script(name));
    let of_script = |script: &ScriptJob| {
        let why = "cancelled by the user".to_owned();
        Some(Action::Cancel { of: script.key(), job_id: script.due_cancel()?, why })
    };
    submissions.filter_map(request).chain(scripts.filter_map(of_script)).collect()
}

fn asked(name: &JobName) -> Event {
    Event::CancelAsked { job: name.clone() }
}

/// Stores the observation, the cancellation and the planned requests.
pub(crate) fn keep(
    session: &mut Session<'_>,
    names: &[JobName],
    seen: &JobsLook,
    actions: &[Action],
) -> Result<(), Failure> {
    let events: Vec<Event> = seen.events.iter().cloned().chain(names.iter().map(asked)).collect();
    session.keep(seen.at, &events, actions).map_err(|error| state::failure(&error))
}

/// Makes the requests; returns the error for each job whose request failed.
pub(crate) fn act(
    session: &mut Session<'_>,
    actions: &[Action],
    seen: &JobsLook,
) -> Result<BTreeMap<JobName, String>, Failure> {
    let mut failures = BTreeMap::new();
    for action in actions {
        let mut tell = |told: Update<'_>| {
            if let Update::Event(Event::Answer { of, answer: Answer::NotStopped { message } }) = told {
                failures.insert(of.job.clone(), message.clone());
            }
        };
        session.carry_out(action, seen.at, &mut tell).map_err(|error| state::failure(&error))?;
    }
    Ok(failures)
}
