//! From a batch script of the user's to a job in Slurm's queue: the intent is on disk before the request, the answer after it.

use std::path::Path;

use crate::app::answered::Answered;
use crate::app::context::Context;
use crate::app::session::{QueueSession, Seen};
use crate::app::state;
use crate::error::Failure;
use crate::exit::Exit;
use hsched_engine::store::{StateError, script_chains};
use hsched_engine::{Event, Keeper as _, ResumePoint, ScriptJob, State, TaggedJob, apply};

/// A script that is about to be submitted.
pub(crate) struct NewScript<'a> {
    pub job: ScriptJob,
    /// The file that sbatch gets; `None`: the text as it is kept.
    pub path: Option<&'a Path>,
    /// The name of the kept file, and its text.
    pub file_name: &'a str,
    pub bytes: &'a [u8],
}

/// Submits a script once, and returns what came of it. Where Slurm has certainly not taken it, nothing of it is kept.
///
/// # Errors
/// When nothing was submitted: a job of that name has not ended, the state cannot be written, Slurm does not answer.
pub(crate) fn submit(context: &Context, new: NewScript<'_>) -> Result<Answered, Failure> {
    let nothing = |failure: Failure| state::undone(failure, "nothing was submitted");
    let wrong = |error: StateError| nothing(state::failure(&error));
    let directory = state::open(context).map_err(nothing)?;
    let rules = state::rules(context);
    let mut session = QueueSession::of_queue(context, &directory, rules, &[], false).map_err(nothing)?;
    let seen = session.look().map_err(nothing)?;
    session.leave_untold(&seen);
    let Seen { at, events, queue, .. } = seen;
    let NewScript { job, path, file_name, bytes } = new;
    if let Err(failure) = refuse_taken(context, &job, &queue, &session.state) {
        // What was seen counts all the same: since when a job has been missing, for one.
        session.keep(at, &events, &[]).map_err(wrong)?;
        return Err(failure);
    }
    let run = job.submission.run.clone();
    let folder = directory.create_run(&run, &[(file_name.to_owned(), bytes)]).map_err(wrong)?;
    let path = path.map_or_else(|| folder.join(file_name), Path::to_owned);
    let before: Vec<ScriptJob> = session.state.scripts.clone();
    session.state.scripts.retain(|own| own.name != job.name);
    session.state.scripts.push(job.clone());
    if let Err(error) = session.keep(at, &events, &[]) {
        directory.remove_run(&run);
        return Err(wrong(error));
    }
    let answer = session.world.submit_script(&job, &path.display().to_string());
    let event = Event::Answer { of: job.key(), answer: answer.clone() };
    let kept = session.ledger.add(at, &event);
    apply(&mut session.state, at, &event, &session.rules);
    let answered = Answered { job: job.name.clone(), answer, beginning: ResumePoint::First };
    let kept = kept.and_then(|()| {
        if !answered.is_not_submitted() {
            return Ok(());
        }
        session.state.scripts = before;
        let kept = session.keep(at, &[], &[]);
        directory.remove_run(&run);
        kept
    });
    if let Err(error) = kept {
        // What became of the job is told all the same.
        context.terminal.say(&state::failure(&error).to_string());
    }
    Ok(answered)
}

/// Refuses a name that another job has which has not ended, or a job of a job file: nothing is ever submitted twice.
fn refuse_taken(
    context: &Context,
    job: &ScriptJob,
    queue: &[TaggedJob],
    state: &State,
) -> Result<(), Failure> {
    let name = &job.name;
    let other = "to submit it beside that one, name it: hsched submit SCRIPT -- --job-name=OTHER";
    let twice = |what: String| {
        let message = format!("already in the queue: {name} ({what}); nothing was submitted");
        Err(Failure::new(Exit::Failed, message).hint(format!("hsched cancel {name} cancels it")).hint(other))
    };
    if let Some(queued) = queue.iter().find(|own| own.name == name.as_str()) {
        return twice(format!("job {}, {}", queued.id, queued.state));
    }
    if let Some(known) = state.script(name).filter(|own| !own.is_over()) {
        return twice(known.submission.job_id.map_or_else(
            || "Slurm has not confirmed the submission yet; try again in a minute".to_owned(),
            |id| format!("job {id}, not in Slurm's queue at the moment"),
        ));
    }
    let chains = script_chains(&state::root(context)?);
    if chains.iter().any(|chain| chain.name == name.as_str() && !chain.state().is_over()) {
        return twice("a chain of pieces".to_owned());
    }
    if state.find(name).is_some() {
        let message = format!("{name} is a job of a job file; nothing was submitted");
        return Err(Failure::new(Exit::Failed, message).hint(other));
    }
    Ok(())
}
