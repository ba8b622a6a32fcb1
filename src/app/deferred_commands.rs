//! Deferred `add` and `cancel`: left while another hsched holds the lock, applied by the next one that holds it.

use crate::app::adding::{events_of, new_names};
use crate::app::after::refuse_unknown;
use crate::app::context::Context;
use crate::app::copies::refuse_others;
use crate::app::session::{Backend, JobsLook, Session, backend_kind};
use crate::app::state;
use crate::app::submission::in_queue;
use crate::error::Failure;
use crate::exit::Exit;
use hsched_engine::store::{DeferredChange, DeferredCommand, Peeked, StateDir};
use hsched_engine::{BackendKind, Event, Phase, Rules, State, TaggedJob, apply};
use hsched_model::{JobName, Time};

/// Returns what is said of a deferred command that was left.
pub(crate) fn left(backend: BackendKind) -> String {
    let follower = backend.follower();
    format!("another hsched holds the state directory: {follower} applies this command at its next turn")
}

/// Returns who carries out what was left, as JSON has it.
pub(crate) fn word(backend: BackendKind) -> &'static str {
    match backend {
        BackendKind::Queue => "watch",
        BackendKind::Devices => "run",
    }
}

/// Leaves a deferred command for who holds the lock next.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn leave(context: &Context, wanted: DeferredChange) -> Result<(), Failure> {
    let left = DeferredCommand::leave(&state::root(context)?, state::now(context), wanted);
    left.map(drop).map_err(|error| state::failure(&error))
}

/// Returns the state without the lock, as it will be once all deferred commands are taken in.
///
/// # Errors
/// When a file cannot be used.
pub(crate) fn expected(context: &Context, rules: &Rules) -> Result<State, Failure> {
    expected_there(context, rules).map(|(state, _)| state)
}

/// The same, with where its jobs go.
///
/// # Errors
/// When a file cannot be used.
pub(crate) fn expected_there(context: &Context, rules: &Rules) -> Result<(State, BackendKind), Failure> {
    let peeked = StateDir::peek(&state::root(context)?, rules).map_err(|error| state::failure(&error))?;
    let Peeked { mut state, deferred_commands: commands, cluster, .. } = peeked;
    let backend = backend_kind(cluster.as_deref());
    let rules = Rules { backend, ..rules.clone() };
    for command in &commands {
        play(&mut state, command, command.at, &[], &rules);
    }
    Ok((state, backend))
}

/// Takes all deferred commands into a session's state and writes it down; returns what has happened by that. A dry run writes nothing.
///
/// # Errors
/// When the state cannot be written or Slurm prints nonsense: then the state is as it was, and the deferred commands wait. Where Slurm
/// does not answer, deferred commands that need it wait.
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
        // What runs on devices is in the state; there is no queue to look at.
        if !looked && session.rules.backend == BackendKind::Queue && needs_look(command, &next) {
            match session.look_into(&mut next) {
                Ok(now) => (seen, looked) = (now, true),
                // The others wait with it: they are in order.
                Err(failure) if failure.exit == Exit::SlurmUnavailable => break,
                Err(failure) => return Err(failure),
            }
            events.append(&mut seen.events);
        }
        let (played, impossible) = play(&mut next, command, seen.at, &seen.queue, &session.rules);
        events.extend(played);
        taken.push((command, impossible));
    }
    if !taken.is_empty() && !session.dry_run {
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

/// Shows in a state, for people, what is wanted and was not taken in yet; `follower` is the command that will.
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
            // One that waits has not ended before it is taken in.
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

/// Changes the state by a deferred command, as if its command had the lock; returns what happened, and what was impossible.
fn play(
    state: &mut State,
    command: &DeferredCommand,
    at: Time,
    queue: &[TaggedJob],
    rules: &Rules,
) -> (Vec<Event>, Option<String>) {
    let impossible = match &command.wanted {
        DeferredChange::Add { jobs, restart } => {
            if let Err(failure) = refuse_unknown(jobs, state).and_then(|()| refuse_others(jobs, state)) {
                return (Vec::new(), Some(format!("{}; nothing was added", failure.message)));
            }
            let names = new_names(jobs, state, *restart);
            match in_queue(&names, queue, state, rules.backend) {
                Some(twice) => {
                    let why = format!("{}: {}; nothing was added", rules.backend.already(), twice.jobs);
                    return (Vec::new(), Some(why));
                }
                None => None,
            }
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

/// Returns whether what Slurm has decides about a deferred command. A job in the queue that the state does not know keeps an added
/// one of its name waiting, so it decides nothing.
fn needs_look(command: &DeferredCommand, state: &State) -> bool {
    let in_slurm = |name: &JobName| state.find(name).is_some_and(|job| job.phase.is_submitted());
    matches!(&command.wanted, DeferredChange::Add { jobs, .. } if jobs.iter().any(|job| in_slurm(&job.name)))
}

/// Returns a deferred command in words.
fn describe(command: &DeferredCommand) -> String {
    let (word, names): (&str, Vec<&str>) = match &command.wanted {
        DeferredChange::Add { jobs, .. } => ("add", jobs.iter().map(|job| job.name.as_str()).collect()),
        DeferredChange::Cancel { jobs } => ("cancel", jobs.iter().map(JobName::as_str).collect()),
    };
    format!("deferred hsched {word} of {}", names.join(", "))
}
