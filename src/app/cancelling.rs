//! The steps of a cancellation: look, write the wish down, ask Slurm.

use std::collections::BTreeMap;

use crate::app::context::Context;
use crate::app::state::{self, Seen};
use crate::error::Failure;
use crate::exit::Exit;
use hsched_engine::store::Ledger;
use hsched_engine::{Action, Event, Keeper, Rules, Stage, State, Submission, Then, Update, apply, carry_out};
use hsched_model::JobName;
use hsched_slurm::live::SlurmWorld;

/// Brings the state up to date where one of the jobs may be in Slurm; also returns why Slurm did not answer.
pub(crate) fn look(
    context: &Context,
    world: &SlurmWorld<'_>,
    state: &mut State,
    names: &[JobName],
    rules: &Rules,
) -> Result<(Seen, Option<Failure>), Failure> {
    let in_slurm = |name: &JobName| state.find(name).is_some_and(|job| job.phase.is_submitted());
    let nothing = || Seen { at: state::now(context), events: Vec::new(), queue: Vec::new() };
    if !names.iter().any(in_slurm) {
        return Ok((nothing(), None));
    }
    match state::catch_up(context, world, state, rules) {
        Ok(seen) => Ok((seen, None)),
        Err(failure) if failure.exit == Exit::SlurmUnavailable => Ok((nothing(), Some(failure))),
        Err(failure) => Err(failure),
    }
}

/// Writes the wish into the state, and returns what it takes: a request for each submission that Slurm has.
pub(crate) fn wish(state: &mut State, names: &[JobName], seen: &Seen, rules: &Rules) -> Vec<Action> {
    for event in names.iter().map(asked) {
        apply(state, seen.at, &event, rules);
    }
    let submissions = names
        .iter()
        .filter_map(|name| state.find(name))
        .flat_map(|tracked| tracked.phase.submissions().iter().map(|own| (&tracked.job.name, own)));
    let request = |(name, own): (&JobName, &Submission)| {
        let Stage::Stopping { then: Then::Cancel, .. } = own.stage else { return None };
        let (of, why) = (own.attempt.key(name), "cancelled by the user".to_owned());
        Some(Action::Cancel { of, job_id: own.attempt.job_id?, why })
    };
    submissions.filter_map(request).collect()
}

fn asked(name: &JobName) -> Event {
    Event::CancelAsked { job: name.clone() }
}

/// Writes down what was seen, what is wanted and what is about to be asked.
pub(crate) fn keep(
    ledger: &mut Ledger<'_>,
    state: &State,
    names: &[JobName],
    seen: &Seen,
    actions: &[Action],
) -> Result<(), Failure> {
    let events: Vec<Event> = seen.events.iter().cloned().chain(names.iter().map(asked)).collect();
    ledger.keep(seen.at, state, &events, actions).map_err(|error| state::failure(&error))
}

/// Makes the requests; returns why for each job that was not told.
pub(crate) fn act(
    actions: &[Action],
    state: &mut State,
    (world, ledger): (&mut SlurmWorld<'_>, &mut Ledger<'_>),
    seen: &Seen,
    rules: &Rules,
) -> Result<BTreeMap<JobName, String>, Failure> {
    let mut untold = BTreeMap::new();
    for action in actions {
        let mut tell = |told: Update<'_>| {
            if let Update::Event(Event::Answer {
                of,
                answer: hsched_engine::Answer::NotStopped { message },
            }) = told
            {
                untold.insert(of.job.clone(), message.clone());
            }
        };
        carry_out(action, seen.at, (&mut *world, &mut *ledger), state, rules, &mut tell)
            .map_err(|error| state::failure(&error))?;
    }
    Ok(untold)
}
