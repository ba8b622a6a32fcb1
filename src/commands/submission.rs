//! From a checked plan to jobs in Slurm's queue: prepare everything, record what is meant, then act.

use std::fmt;
use std::path::{Path, PathBuf};

use nix::sys::signal::{SigSet, Signal};

use crate::commands::context::{Context, slurm_failure};
use crate::commands::planning::Planned;
use crate::commands::{input, speeds};
use crate::error::Failure;
use crate::exit::Exit;
use crate::model::{Job, Seconds, Selector};
use crate::render::{Batch, Facts, is_constraint, render};
use crate::slurm::{JobId, QueuedJob, SubmitError, Submitted, Tag, sbatch};
use crate::store::{Entry, Run, RunError, Runs};

/// How the user wants a plan submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    pub run: &'a str,
    pub pin: bool,
    /// Options for sbatch, as they are.
    pub sbatch: &'a [String],
}

/// A job ready to be given to sbatch.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub name: String,
    pub script: String,
}

/// What came of a job's submission.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Submitted(Submitted),
    Refused(String),
    /// sbatch gave no clear answer, and the queue does not show the job.
    Unknown(String),
    Unreachable(String),
    /// Not tried, for an answer before it.
    NotTried,
}

/// What came of all submissions.
pub(super) struct Outcome {
    pub folder: PathBuf,
    pub answers: Vec<Answer>,
}

/// Returns the scripts of the chosen jobs that the plan places.
///
/// # Errors
/// When a template is wrong or the site cannot start such a placement.
pub(super) fn prepare(
    context: &Context,
    planned: &Planned,
    chosen: &[usize],
    wish: Wish<'_>,
) -> Result<Vec<Prepared>, Failure> {
    let template = input::template(context)?;
    let settings = &context.settings;
    let defaults = &settings.jobs;
    let plan_id = planned.file.id().map_err(|error| Failure::from_error(Exit::Internal, &error))?;
    let state = speeds::state_dir(context)?;
    let mut prepared = Vec::new();
    let own_options = chosen.iter().flat_map(|&index| &planned.jobs[index].launch.sbatch);
    refuse_options(wish.sbatch.iter().chain(&defaults.sbatch).chain(own_options))?;
    let mut untyped = planned.file.untyped();
    if wish.sbatch.iter().any(|word| is_constraint(word)) {
        for selector in untyped.values_mut() {
            *selector = Selector::Name;
        }
    }
    for &index in chosen {
        // From the checked plan, never from the file that it was read from.
        let Some(placement) = planned.plan.verdicts()[index].placement() else { continue };
        let job = &planned.jobs[index];
        let ranks = planned.named_ranks(placement);
        let name = job.name.to_string();
        let workdir = absolute(&context.directory, job.launch.workdir.as_deref().unwrap_or("."));
        if !workdir.is_dir() {
            context.note(&format!("{name}: workdir {} does not exist here", workdir.display()));
        }
        let checkpoints = format!("checkpoints/{name}");
        let checkpoints = job.launch.checkpoint.dir.as_deref().unwrap_or(&checkpoints);
        let facts = Facts {
            run: wish.run,
            plan: &plan_id,
            comment: Tag { run: wish.run.to_owned(), job: name.clone() }.to_comment(),
            ranks: &ranks,
            pinned: wish.pin || planned.file.pinned,
            predicted: placement.jct(job.epochs),
            limit: partition_limit(planned, job, defaults.partition.as_deref()),
            epochs_done: 0,
            checkpoint_dir: text(&absolute(&workdir, checkpoints))?,
            report_dir: text(&state.join("runs").join(wish.run).join("report").join(&name))?,
            workdir: text(&workdir)?,
            device_order: planned.file.device_order(),
            untyped: untyped.clone(),
        };
        let batch = Batch::new(job, defaults, facts).map_err(|error| {
            Failure::from_error(Exit::BadInput, &error)
                .hint("submit the others with --job, or keep this job to one type with gpu_types")
        })?;
        let script =
            render(&template, &batch).map_err(|error| Failure::from_error(Exit::BadInput, &error))?;
        prepared.push(Prepared { name, script });
    }
    Ok(prepared)
}

/// What sbatch must not be told: the option, the shortest form that it understands, and why.
const REFUSED: [(&str, &str, &str); 5] = [
    ("--comment", "--com", "the comment is how hsched finds its jobs in the queue"),
    ("--array", "--ar", "the tasks of an array would be the same ranks"),
    ("--test-only", "--te", "it submits nothing; try --dry-run"),
    ("--wait", "--wait", "hsched does not wait for its jobs"),
    ("--wrap", "--wr", "the script is hsched's"),
];

/// Refuses options for sbatch with which a submission could not be told from a failure, or found again.
fn refuse_options<'a>(options: impl Iterator<Item = &'a String>) -> Result<(), Failure> {
    for option in options {
        let name = option.split_once('=').map_or(option.as_str(), |(name, _)| name);
        let long = match name {
            short if short.starts_with("-a") => "--array",
            short if short.starts_with("-W") => "--wait",
            long => long,
        };
        let refused =
            |(full, shortest, _): &&(&str, &str, &str)| full.starts_with(long) && long.starts_with(shortest);
        if let Some((_, _, why)) = REFUSED.iter().find(refused) {
            let message = format!("sbatch option {option:?}: {why}");
            return Err(Failure::new(Exit::BadInput, message).hint("leave the option out"));
        }
    }
    Ok(())
}

/// Submits the prepared jobs one after the other, telling each answer as it comes.
///
/// Everything is on disk before the first is submitted. A refused job does not keep the others back; an
/// unclear answer does.
///
/// # Errors
/// When nothing was submitted: a job is in the queue already, the state cannot be written, Slurm does not
/// answer.
pub(super) fn submit(
    context: &Context,
    planned: &Planned,
    prepared: &[Prepared],
    wish: Wish<'_>,
    tell: &dyn Fn(&Prepared, &Answer),
) -> Result<Outcome, Failure> {
    let state = speeds::state_dir(context)?;
    let runs = Runs::open(&state).map_err(|error| nothing_submitted(&error))?;
    refuse_queued(context, prepared)?;
    let plan_id = planned.file.id().map_err(|error| Failure::from_error(Exit::Internal, &error))?;
    let plan = planned.file.to_json().map_err(|error| Failure::from_error(Exit::Internal, &error))?;
    let scripts = prepared.iter().map(|job| (script_name(&job.name), job.script.as_str()));
    let files: Vec<(String, &str)> = scripts.chain([("plan.json".to_owned(), plan.as_str())]).collect();
    let mut run = runs.create(wish.run, &plan_id, &files).map_err(|error| nothing_submitted(&error))?;
    let mut answers = vec![Answer::NotTried; prepared.len()];
    let mut tried = 0;
    for (job, slot) in prepared.iter().zip(&mut answers) {
        // A signal that came in between sbatch's answer and its record would lose the job.
        let held = hold_signals();
        let (answer, recorded) = submit_one(context, &mut run, job, wish);
        *slot = answer;
        tried += 1;
        tell(job, slot);
        drop(held);
        if let Err(error) = recorded {
            context.terminal.say(&format!("{}: {}: {slot}", state_failure(&error), job.name));
            break;
        }
        if !matches!(slot, Answer::Submitted(_) | Answer::Refused(_)) {
            break;
        }
    }
    prepared.iter().zip(&answers).skip(tried).for_each(|(job, answer)| tell(job, answer));
    Ok(Outcome { folder: run.folder().to_owned(), answers })
}

fn submit_one(
    context: &Context,
    run: &mut Run,
    job: &Prepared,
    wish: Wish<'_>,
) -> (Answer, Result<(), RunError>) {
    let name = job.name.as_str();
    if let Err(error) = run.record(&Entry::Intent { job: name }) {
        return (Answer::NotTried, Err(error));
    }
    let script = run.folder().join(script_name(name)).display().to_string();
    let answer = match sbatch::submit(&context.slurm, &sbatch::command(&script, wish.sbatch)) {
        Ok(submitted) => Answer::Submitted(submitted),
        Err(SubmitError::Refused { message }) => Answer::Refused(message),
        Err(SubmitError::Unreachable { source }) => Answer::Unreachable(slurm_failure(&source).message),
        Err(SubmitError::Unknown { message }) => match find_queued(context, wish.run, name) {
            Some(id) => Answer::Submitted(Submitted { id, cluster: None }),
            None => Answer::Unknown(message),
        },
    };
    let entry = match &answer {
        Answer::Submitted(submitted) => {
            let job_id = submitted.id.to_string();
            return (answer.clone(), run.record(&Entry::Submitted { job: name, job_id: &job_id }));
        }
        Answer::Refused(message) | Answer::Unreachable(message) => Entry::Refused { job: name, message },
        Answer::Unknown(message) => Entry::Unknown { job: name, message },
        Answer::NotTried => return (answer, Ok(())),
    };
    let recorded = run.record(&entry);
    (answer, recorded)
}

/// Looks for a job whose submission had no clear answer.
fn find_queued(context: &Context, run: &str, name: &str) -> Option<JobId> {
    let (queue, _) = input::queue(context).ok()?;
    let wanted = Tag { run: run.to_owned(), job: name.to_owned() };
    let own = queue.into_iter().filter(|queued| queued.tag().as_ref() == Some(&wanted));
    own.map(|queued| queued.id).min()
}

/// Refuses everything when one of the jobs is in the queue already: nothing is ever submitted twice.
fn refuse_queued(context: &Context, prepared: &[Prepared]) -> Result<(), Failure> {
    let (queue, _) = input::queue(context)?;
    let active = |queued: &&QueuedJob| !queued.state.is_final();
    let twice = prepared.iter().filter_map(|job| {
        let same = |queued: &&QueuedJob| queued.tag().is_some_and(|tag| tag.job == job.name);
        // Components of a heterogeneous job have the same tag; the first is the job.
        let queued = queue.iter().filter(active).filter(same).min_by_key(|queued| queued.id)?;
        Some(format!("{} (job {}, {})", job.name, queued.id, queued.state))
    });
    let twice: Vec<String> = twice.collect();
    if twice.is_empty() {
        return Ok(());
    }
    let message = format!("in the queue already: {}; nothing was submitted", twice.join(", "));
    Err(Failure::new(Exit::Failed, message)
        .hint("cancel it with scancel, give the new job another name, or choose others with --job"))
}

/// Returns the least walltime limit of the partitions that a job may go to, where all are known.
fn partition_limit(planned: &Planned, job: &Job, setting: Option<&str>) -> Option<Seconds> {
    let partitions = &planned.file.partitions;
    let named = job.launch.partition.as_deref().or(setting);
    let names: Vec<&str> = match named {
        Some(names) => names.split(',').map(str::trim).collect(),
        None => partitions.iter().filter(|own| own.default).map(|own| own.name.as_str()).collect(),
    };
    let limit = |name: &&str| partitions.iter().find(|own| own.name == *name)?.max_time_s;
    names.iter().filter_map(limit).min_by(f64::total_cmp).map(Seconds)
}

fn script_name(job: &str) -> String {
    format!("{job}.sbatch")
}

/// Returns the path from `base`, with a leading `./` or a lone `.` resolved.
pub(super) fn absolute(base: &Path, path: impl AsRef<Path>) -> PathBuf {
    base.join(path).components().collect()
}

fn text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(Exit::BadInput, format!("{}: a path in a job script must be UTF-8", path.display()))
    })
}

pub(super) fn state_failure(error: &RunError) -> Failure {
    let exit = if matches!(error, RunError::Locked { .. }) { Exit::Locked } else { Exit::Failed };
    Failure::from_error(exit, error)
}

/// Returns the failure of a state that could not be prepared, before anything was submitted.
fn nothing_submitted(error: &RunError) -> Failure {
    state_failure(error).hint(match error {
        RunError::Locked { .. } => "nothing was submitted; try again when it has ended",
        RunError::Exists { .. } => "nothing was submitted; give another --run-id",
        RunError::Write { .. } => "nothing was submitted; name another directory with --set state_dir=DIR",
    })
}

/// Holds back the signals that end a process, until the returned value is dropped.
fn hold_signals() -> Option<HeldSignals> {
    let mut signals = SigSet::empty();
    signals.extend([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    signals.thread_block().ok()?;
    Some(HeldSignals(signals))
}

/// Signals held back.
struct HeldSignals(SigSet);

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // Cannot fail for signals that exist; nothing could be done about it here either.
        let _ = self.0.thread_unblock();
    }
}

impl Answer {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Submitted(_) => "submitted",
            Self::Refused(_) => "refused",
            Self::Unknown(_) => "unknown",
            Self::Unreachable(_) => "unreachable",
            Self::NotTried => "not_tried",
        }
    }

    pub(super) fn job_id(&self) -> Option<String> {
        match self {
            Self::Submitted(submitted) => Some(submitted.id.to_string()),
            _ => None,
        }
    }

    pub(super) fn message(&self) -> Option<&str> {
        match self {
            Self::Refused(message) | Self::Unknown(message) | Self::Unreachable(message) => Some(message),
            Self::Submitted(_) | Self::NotTried => None,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submitted(submitted) => write!(f, "submitted as job {}", submitted.id),
            Self::Unknown(message) => {
                write!(f, "nobody knows whether it was submitted ({message}); look at squeue --me")
            }
            Self::Refused(message) | Self::Unreachable(message) => write!(f, "not submitted: {message}"),
            Self::NotTried => write!(f, "not submitted: not tried after what came before"),
        }
    }
}

impl Outcome {
    /// Returns the exit code: 4 when some were submitted and others not.
    pub(super) fn exit(&self) -> Exit {
        let submitted = |answer: &&Answer| matches!(answer, Answer::Submitted(_));
        let count = self.answers.iter().filter(submitted).count();
        let unreachable = self.answers.iter().any(|answer| matches!(answer, Answer::Unreachable(_)));
        match count {
            _ if count == self.answers.len() => Exit::Done,
            0 if unreachable => Exit::SlurmUnavailable,
            0 => Exit::Failed,
            _ => Exit::PartlySubmitted,
        }
    }
}
