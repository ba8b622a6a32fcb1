//! Deferred `add` and `cancel`: stored while another hsched holds the lock, and applied by the next lock
//! holder.

use crate::app::adding::{events_of, new_names};
use crate::app::after::refuse_unknown;
use crate::app::context::Context;
use crate::app::copies::refuse_others;
use crate::app::session::{Backend, JobsLook, Session, backend_kind};
use crate::app::state;
use crate::app::submission::in_queue;
use hsched_engine::store::{DeferredChange, DeferredCommand, StateDir, StateView};
use hsched_engine::{BackendKind, Event, Phase, Rules, State, TaggedJob, apply};
use hsched_model::{JobName, Time};
use hsched_ui::{Exit, Failure};

/// Returns the message for a stored deferred command.
pub(crate) fn left(backend: BackendKind) -> String {
    let follower = backend.follower();
    format!("another hsched holds the state directory: {follower} applies this command at its next turn")
}

/// Returns the process that will carry out a deferred command, as a JSON word.
pub(crate) fn word(backend: BackendKind) -> &'static str {
    match backend {
        BackendKind::Queue => "watch",
        BackendKind::Devices => "run",
    }
}

/// Stores a deferred command for the next lock holder.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn leave(context: &Context, wanted: DeferredChange) -> Result<(), Failure> {
    let left = DeferredCommand::leave(&state::root(context)?, state::now(context), wanted);
    left.map(drop).map_err(|error| state::failure(&error))
}

/// Returns the state, read without the lock, with all deferred commands applied.
///
/// # Errors
/// If a file cannot be used.
pub(crate) fn expected(context: &Context, rules: &Rules) -> Result<State, Failure> {
    expected_there(context, rules).map(|(state, _)| state)
}

/// Returns the state of [`expected`] together with the backend of its jobs.
///
/// # Errors
/// If a file cannot be used.
pub(crate) fn expected_there(context: &Context, rules: &Rules) -> Result<(State, BackendKind), Failure> {
    let peeked = StateDir::peek(&state::root(context)?, rules).map_err(|error| state::failure(&error))?;
    let StateView { mut state, deferred_commands: commands, cluster, .. } = peeked;
    let backend = backend_kind(cluster.as_deref());
    let rules = Rules { backend, ..rules.clone() };
    for command in &commands {
        play(&mut state, command, command.at, &[], &rules);
    }
    Ok((state, backend))
}

/// Applies all deferred commands to a session's state and stores it; returns the resulting events.
///
/// # Errors
/// If the state cannot be written or Slurm prints unreadable output; the state is then unchanged and the
/// deferred commands stay. A missing answer of Slurm is no error: the first deferred command that needs one
/// then stays, with all later ones.
pub(crate) fn take_in<W: Backend + ?Sized>(session: &mut Session<'_, W>) -> Result<Vec<Event>, Failure> {
    let context = session.context;
    let (commands, troubles) = session.ledger.deferred_commands();
    for trouble in &troubles {
        context.warn(trouble);
    }
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    let mut next = session.state.clone();
    let mut seen = JobsLook::nothing(context);
    let (mut looked, mut events, mut taken) = (false, Vec::new(), Vec::new());
    for command in &commands {
        // Jobs on devices are in the state, so there is no queue to read.
        if !looked && session.rules.backend == BackendKind::Queue && needs_look(command, &next) {
            match session.look_into(&mut next) {
                Ok(now) => (seen, looked) = (now, true),
                // Later commands also wait, because they are applied in order.
                Err(failure) if failure.exit == Exit::SlurmUnavailable => break,
                Err(failure) => return Err(failure),
            }
            events.append(&mut seen.events);
        }
        let (played, impossible) = play(&mut next, command, seen.at, &seen.queue, &session.rules);
        events.extend(played);
        taken.push((command, impossible));
    }
    if !taken.is_empty() {
        session.ledger.take(seen.at, &next, &events, &taken).map_err(|error| state::failure(&error))?;
    }
    for (command, impossible) in &taken {
        if let Some(why) = impossible {
            context.warn(&format!("{}: {why}", describe(command)));
        }
    }
    session.state = next;
    Ok(events)
}

/// Shows pending deferred commands in a state for output; `follower` is the command that will apply them.
pub(crate) fn show(state: &mut State, commands: &[DeferredCommand], rules: &Rules, follower: &str) {
    for command in commands {
        for event in events_of(&command.wanted, state) {
            let (name, what) = match &event {
                Event::Added { job, .. } => {
                    (job.name.clone(), format!("{follower} adds it at its next turn"))
                }
                Event::CancelAsked { job } => {
                    (job.clone(), format!("{follower} cancels it at its next turn"))
                }
                _ => continue,
            };
            let waits = |state: &State| {
                state.find(&name).is_some_and(|job| matches!(job.phase, Phase::Waiting { .. }))
            };
            // A waiting job cannot end before the command is applied.
            if matches!(event, Event::Added { .. }) || !waits(state) {
                apply(state, command.at, &event, rules);
            }
            if let Some(script) = state.script_mut(&name).filter(|script| !script.is_over()) {
                script.last = (command.at, what);
                continue;
            }
            let Some(tracked) = state.find_mut(&name).filter(|tracked| !tracked.phase.is_over()) else {
                continue;
            };
            if let Phase::Waiting { not_before, reason } = &mut tracked.phase {
                (*not_before, *reason) = (None, what.clone());
            }
            tracked.last = (command.at, what);
        }
    }
}

/// Applies a deferred command to the state as if its command held the lock; returns the events, and what was
/// impossible.
fn play(
    state: &mut State,
    command: &DeferredCommand,
    at: Time,
    queue: &[TaggedJob],
    rules: &Rules,
) -> (Vec<Event>, Option<String>) {
    let impossible = match &command.wanted {
        DeferredChange::Add { jobs, restart, planned_by } => {
            if let Err(failure) = refuse_unknown(jobs, state).and_then(|()| refuse_others(jobs, state)) {
                return (Vec::new(), Some(format!("{}; nothing was added", failure.message)));
            }
            let names = new_names(jobs, state, *restart);
            if let Some(twice) = in_queue(&names, queue, state, rules.backend) {
                let why = format!("{}: {}; nothing was added", rules.backend.already(), twice.jobs);
                return (Vec::new(), Some(why));
            }
            if planned_by.is_some() {
                state.planned_by.clone_from(planned_by);
            }
            None
        }
        DeferredChange::Cancel { jobs } => {
            let unknown = jobs.iter().filter(|job| state.find(job).is_none() && state.script(job).is_none());
            let unknown: Vec<&str> = unknown.map(JobName::as_str).collect();
            (!unknown.is_empty()).then(|| format!("no such job: {}", unknown.join(", ")))
        }
    };
    let events = events_of(&command.wanted, state);
    for event in &events {
        apply(state, at, event, rules);
    }
    (events, impossible)
}

/// Returns whether a deferred command depends on Slurm's queue. A queued job that the state does not know
/// only delays an added one with its name, so it does not count.
fn needs_look(command: &DeferredCommand, state: &State) -> bool {
    let in_slurm = |name: &JobName| state.find(name).is_some_and(|job| job.phase.is_submitted());
    matches!(&command.wanted, DeferredChange::Add { jobs, .. } if jobs.iter().any(|job| in_slurm(&job.name)))
}

/// Describes a deferred command in words.
fn describe(command: &DeferredCommand) -> String {
    let (word, names): (&str, Vec<&str>) = match &command.wanted {
        DeferredChange::Add { jobs, .. } => ("add", jobs.iter().map(|job| job.name.as_str()).collect()),
        DeferredChange::Cancel { jobs } => ("cancel", jobs.iter().map(JobName::as_str).collect()),
    };
    format!("deferred hsched {word} of {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_fixtures::engine_states::rules;

    #[test]
    fn a_deferred_addition_sets_the_policy() {
        let mut state = State::default();
        let mut add = |planned_by: Option<&str>| {
            let planned_by = planned_by.map(str::to_owned);
            let wanted = DeferredChange::Add { jobs: Vec::new(), restart: false, planned_by };
            let command = DeferredCommand { id: "1".into(), at: Time(0.0), wanted };
            play(&mut state, &command, Time(0.0), &[], &rules());
            state.planned_by.clone()
        };
        assert_eq!(add(Some("--policy sjf")).as_deref(), Some("--policy sjf"));
        assert_eq!(add(None).as_deref(), Some("--policy sjf"));
    }
}
