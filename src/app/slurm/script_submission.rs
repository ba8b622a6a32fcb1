//! Submits a user's batch script as a Slurm job: the intent is stored before the request, and the answer
//! after it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::app::answered::SubmissionResult;
use crate::app::context::Context;
use crate::app::session::{JobsLook, QueueSession};
use crate::app::{input, state};
use crate::settings::process_environment;
use hsched_engine::store::{StateError, run_folder, script_chains};
use hsched_engine::{
    Answer, Event, Keeper as _, RequestPart, ResumePoint, ScriptJob, State, TaggedJob, apply,
};
use hsched_model::ErrorId;
use hsched_slurm::System;
use hsched_ui::{Exit, Failure};

/// A script that is about to be submitted.
pub(crate) struct NewScript<'a> {
    pub job: ScriptJob,
    /// The file passed to sbatch; `None`: the stored text.
    pub path: Option<&'a Path>,
    pub bytes: &'a [u8],
}

/// Suffix of a script's name for the file with the environment of its submission.
const ENVIRONMENT: &str = ".environment";

/// Returns the file with the stored text of a script of this name.
pub(crate) fn kept_script(root: &Path, run: &str, file_name: &str) -> PathBuf {
    run_folder(root, run).join(file_name)
}

/// Submits a script once and returns the answer. If Slurm has certainly not accepted it, nothing of it is
/// kept.
///
/// # Errors
/// If nothing was submitted: a job with that name has not ended or is from a job file, the state cannot be
/// written, or Slurm does not answer.
pub(crate) fn submit(context: &Context, new: NewScript<'_>) -> Result<SubmissionResult, Failure> {
    let nothing = |failure: Failure| state::undone(failure, "nothing was submitted");
    let wrong = |error: StateError| nothing(state::failure(&error));
    let directory = state::open(context).map_err(nothing)?;
    let rules = state::rules(context);
    let mut session = QueueSession::of_queue(context, &directory, rules, &[], false).map_err(nothing)?;
    let seen = session.look().map_err(nothing)?;
    session.leave_untold(&seen);
    let JobsLook { at, events, queue, .. } = seen;
    let NewScript { job, path, bytes } = new;
    if let Err(failure) = refuse_taken(context, &job, &queue, &session.state) {
        // The observation is stored anyway: it includes the time since which a job has been missing.
        session.keep(at, &events, &[]).map_err(wrong)?;
        return Err(failure);
    }
    let run = job.submission.run.clone();
    let file_name = file_name(&job);
    // Only a change of the GPU type requires a new submission.
    let environment = job.may.contains(&RequestPart::Type).then(environment);
    let files = files(&file_name, bytes, environment.as_deref());
    let folder = directory.create_run(&run, &files).map_err(wrong)?;
    let path = path.map_or_else(|| folder.join(&file_name), Path::to_owned);
    let before: Vec<ScriptJob> = session.state.scripts.clone();
    session.state.scripts.retain(|script| script.name != job.name);
    session.state.scripts.push(job.clone());
    if let Err(error) = session.keep(at, &events, &[]) {
        directory.remove_run(&run);
        return Err(wrong(error));
    }
    let answer = session.world.submit_script(&job, &path.display().to_string(), None);
    let event = Event::Answer { of: job.key(), answer: answer.clone() };
    let kept = session.ledger.add(at, &event);
    apply(&mut session.state, at, &event, &session.rules);
    let answered = SubmissionResult { job: job.name.clone(), answer, beginning: ResumePoint::First };
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
        // The job's answer is reported anyway.
        context.terminal.say(&state::failure(&error).to_string());
    }
    Ok(answered)
}

/// Returns the files of a run of a script.
fn files<'a>(file_name: &str, bytes: &'a [u8], environment: Option<&'a [u8]>) -> Vec<(String, &'a [u8])> {
    let kept = environment.map(|text| (format!("{file_name}{ENVIRONMENT}"), text));
    std::iter::once((file_name.to_owned(), bytes)).chain(kept).collect()
}

/// Returns the name of a script's file.
fn file_name(script: &ScriptJob) -> String {
    let name = Path::new(&script.script).file_name().filter(|_| script.script != "-");
    name.map_or_else(|| "script".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Returns the environment as `NAME=VALUE`, each terminated by a zero byte.
fn environment() -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in process_environment() {
        text.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
    }
    text
}

/// The stored data of a script's last submission.
pub(crate) struct KeptScript {
    pub bytes: Vec<u8>,
    environment: Vec<u8>,
    /// The file to submit: the user's if its text is unchanged, else the stored one.
    pub path: PathBuf,
    /// Starts programs with the environment and directory of that submission.
    pub runner: System,
}

impl KeptScript {
    /// Reads the stored data of a script's last submission.
    ///
    /// # Errors
    /// If no state directory is known, or a stored file cannot be read.
    pub(crate) fn read(context: &Context, script: &ScriptJob) -> Result<Self, Failure> {
        let name = file_name(script);
        let kept = kept_script(&state::root(context)?, &script.submission.run, &name);
        let bytes = input::raw_bytes(&kept)?;
        let is_kept = script.may.contains(&RequestPart::Type);
        let environment = kept.with_file_name(format!("{name}{ENVIRONMENT}"));
        let environment = if is_kept { input::raw_bytes(&environment)? } else { Vec::new() };
        let variables = environment.split(|byte| *byte == 0).filter_map(|text| {
            let equals = text.iter().position(|byte| *byte == b'=')?;
            let word = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            Some((word(&text[..equals]), word(&text[equals + 1..])))
        });
        let limit = Duration::try_from_secs_f64(context.settings.slurm_timeout.0).unwrap_or(System::LIMIT);
        let runner = System::new(variables, limit).in_directory(Path::new(&script.submitted_in));
        let original = PathBuf::from(&script.script);
        let is_same = script.script != "-" && input::raw_bytes(&original).is_ok_and(|text| text == bytes);
        Ok(Self { path: if is_same { original } else { kept }, bytes, environment, runner })
    }
}

/// Resubmits scripts whose pending submission was cancelled in order to submit them again; reports each
/// answer. Gives up a script whose stored data cannot be read; one that Slurm cannot accept now stays for the
/// next turn.
///
/// # Errors
/// If the state cannot be written.
pub(crate) fn submit_next(
    context: &Context,
    session: &mut QueueSession<'_>,
    tell: &mut dyn FnMut(&Event),
) -> Result<(), Failure> {
    let wrong = |error: StateError| state::failure(&error);
    cancel_for_next(context, session, tell)?;
    let between: Vec<ScriptJob> =
        session.state.scripts.iter().filter(|script| script.is_between()).cloned().collect();
    for script in between {
        let at = state::now(context);
        let run = state::new_run(context)?;
        let kept = match KeptScript::read(context, &script) {
            Ok(kept) => kept,
            Err(failure) => {
                if let Some(script_job) = session.state.script_mut(&script.name) {
                    script_job.give_up(at, &format!("cannot be submitted again: {}", failure.message));
                }
                session.keep(at, &[], &[]).map_err(wrong)?;
                continue;
            }
        };
        let files = files(&file_name(&script), &kept.bytes, Some(&kept.environment));
        session.directory.create_run(&run, &files).map_err(wrong)?;
        let Some(script_job) = session.state.script_mut(&script.name) else { continue };
        script_job.begin_next(&run, at);
        let job = script_job.clone();
        session.keep(at, &[], &[]).map_err(wrong)?;
        let path = kept.path.display().to_string();
        let answer = session.world.submit_script(&job, &path, Some(&kept.runner));
        if let Answer::Deferred { message } | Answer::Unreachable { message } = &answer {
            context.note(&format!("{} is submitted again at the next turn: {message}", script.name));
            if let Some(script_job) = session.state.script_mut(&script.name) {
                *script_job = script;
            }
            session.keep(at, &[], &[]).map_err(wrong)?;
            session.directory.remove_run(&run);
            continue;
        }
        let event = Event::Answer { of: job.key(), answer };
        session.ledger.add(at, &event).map_err(wrong)?;
        apply(&mut session.state, at, &event, &session.rules);
        tell(&event);
    }
    Ok(())
}

/// Repeats the cancellation of a pending job that should be resubmitted, after hsched was killed in between.
fn cancel_for_next(
    context: &Context,
    session: &mut QueueSession<'_>,
    tell: &mut dyn FnMut(&Event),
) -> Result<(), Failure> {
    let is_left = |script: &&ScriptJob| script.next.is_some() && !script.is_between();
    let left: Vec<ScriptJob> = session.state.scripts.iter().filter(is_left).cloned().collect();
    for script in left {
        let Some(job_id) = script.submission.job_id else { continue };
        let at = state::now(context);
        let answer = session.world.cancel_pending(&script, job_id);
        let event = Event::Answer { of: script.key(), answer };
        session.ledger.add(at, &event).map_err(|error| state::failure(&error))?;
        apply(&mut session.state, at, &event, &session.rules);
        tell(&event);
    }
    Ok(())
}

/// Refuses the name of another job that has not ended, or of a job from a job file, so that nothing is
/// submitted twice.
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
        Err(Failure::new(Exit::Failed, message)
            .id(ErrorId::AlreadyQueued)
            .hint(format!("hsched cancel {name} cancels it"))
            .hint(other))
    };
    if let Some(queued) = queue.iter().find(|candidate| candidate.name == name.as_str()) {
        return twice(format!("job {}, {}", queued.id, queued.state));
    }
    if let Some(known) = state.script(name).filter(|script_job| !script_job.is_over()) {
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
        return Err(Failure::new(Exit::Failed, message).id(ErrorId::NameTaken).hint(other));
    }
    Ok(())
}
