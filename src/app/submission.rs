//! Submits a checked plan to Slurm's queue: updates the state, stores the intents, then acts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::app::after::refuse_unknown;
use crate::app::answered::SubmissionResult;
use crate::app::context::Context;
use crate::app::copies::refuse_others;
use crate::app::planning::PlanningResult;
use crate::app::session::{JobsLook, QueueSession};
use crate::app::slurm::sbatch_options::refuse_options;
use crate::app::state;
use hsched_engine::live::{JobScript, absolute, scripts};
use hsched_engine::store::{StateError, run_folder};
use hsched_engine::{
    Action, Answer, BackendKind, Event, PlannedSubmission, ResumePoint, Run, State, SubmissionKey, TaggedJob,
    Update, apply,
};
use hsched_model::{ErrorId, Estimates, Job, JobDefaults, JobId, JobName, Time};
use hsched_plan::Verdict;
use hsched_ui::{Exit, Failure};

/// Options of a submission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubmissionOptions<'a> {
    pub run: &'a str,
    /// Indices in the plan of the jobs to submit.
    pub chosen: &'a [usize],
    pub pin: bool,
    /// Whether jobs with finished epochs start over.
    pub restart: bool,
    /// Options passed unchanged to sbatch.
    pub sbatch: &'a [String],
    /// The policy of the plan, as on the command line.
    pub planned_by: &'a str,
}

/// The results of all submissions.
pub(crate) struct SubmissionOutcome {
    pub folder: PathBuf,
    pub answers: Vec<SubmissionResult>,
}

/// Returns a run of the chosen jobs of a plan, with all of their epochs.
///
/// # Errors
/// If an sbatch option is refused, because hsched decides it itself or because it would lose the job.
pub(crate) fn run(
    context: &Context,
    planned: &PlanningResult,
    options: SubmissionOptions<'_>,
) -> Result<Run, Failure> {
    let sbatch = options.chosen.iter().flat_map(|&index| &planned.jobs[index].launch.sbatch);
    refuse_options(options.sbatch.iter().chain(&context.settings.jobs.sbatch).chain(sbatch))?;
    let mut file = planned.file.clone();
    file.pinned |= options.pin;
    Ok(Run {
        id: options.run.to_owned(),
        jobs: planned.jobs.clone(),
        epochs_done: vec![0; planned.jobs.len()],
        problem: planned.problem.clone(),
        file,
        submissions: PlannedSubmission::of(&planned.plan, options.chosen.iter().copied()).collect(),
    })
}

/// Returns the scripts of a run.
///
/// # Errors
/// If a template is invalid, or the site cannot start one of the placements.
pub(crate) fn prepare(
    context: &Context,
    run: &Run,
    options: SubmissionOptions<'_>,
) -> Result<Vec<(JobName, String)>, Failure> {
    let bad = |message: String| Failure::new(Exit::BadInput, message).id(ErrorId::Template);
    let site = state::site(context, options.sbatch)?;
    let scripts = scripts(run, &site).map_err(bad)?;
    let text = |script: JobScript| {
        script.notes.iter().for_each(|note| context.note(note));
        let resumes = run.jobs.iter().any(|job| job.name == script.of.job && job.resumes());
        match script.walltime.cut(resumes) {
            Some(pieces) if resumes => context.note(&format!(
                "{}: the time limit splits the job into {pieces}; keep hsched watch running: it submits \
                 each continuation",
                script.of.job
            )),
            Some(loses) => context.warn(&format!("{}: {loses}", script.of.job)),
            None => {}
        }
        let text = script.text.map_err(|message| {
            bad(message)
                .hint("submit the other jobs with --job, or limit this job to one GPU type with gpu_types")
        })?;
        Ok((script.of.job, text))
    };
    scripts.into_iter().map(text).collect()
}

/// Submits the jobs of a run one after another and reports each answer, and adds jobs that wait for GPUs to
/// the state.
///
/// Everything is stored before the first submission. A refused job does not stop the others; a deferred, lost
/// or unconfirmed submission does. A job known to the state resumes after its last epoch or starts over
/// ([`ResumePoint`]).
///
/// # Errors
/// If nothing was submitted: a job is already queued, or depends on a job that does not exist; the state
/// cannot be written, or Slurm does not answer.
pub(crate) fn submit(
    context: &Context,
    mut run: Run,
    planned: &PlanningResult,
    options: SubmissionOptions<'_>,
    tell: &dyn Fn(&SubmissionResult),
) -> Result<SubmissionOutcome, Failure> {
    let nothing = |failure: Failure| state::undone(failure, "nothing was submitted");
    let directory = state::open(context).map_err(nothing)?;
    let rules = state::rules(context);
    let mut session =
        QueueSession::of_queue(context, &directory, rules, options.sbatch, false).map_err(nothing)?;
    let seen = session.look().map_err(nothing)?;
    session.leave_untold(&seen);
    let JobsLook { at, mut events, queue, .. } = seen;
    let mut names: Vec<&JobName> =
        run.submissions.iter().map(|submission| &run.jobs[submission.job].name).collect();
    // Several requests of a job count as one job.
    names.dedup();
    if let Some(twice) = in_queue(&names, &queue, &session.state, BackendKind::Queue) {
        // The observation is stored anyway: it includes the time since which a job has been missing.
        session.keep(at, &events, &[]).map_err(|error| nothing(state::failure(&error)))?;
        return Err(Failure::new(
            Exit::Failed,
            format!("already in the queue: {}; nothing was submitted", twice.jobs),
        )
        .id(ErrorId::AlreadyQueued)
        .hint(format!(
            "{}cancel it with {}, rename the new job, or choose other jobs with --job",
            if twice.is_known() { "hsched watch follows it; otherwise " } else { "" },
            twice.cancel(),
        )));
    }

    refuse_unknown(&run.jobs, &session.state).map_err(nothing)?;
    refuse_others(&run.jobs, &session.state).map_err(nothing)?;
    let before = session.state.clone();
    let added = added(context, &run, planned, options);
    let beginnings = beginnings(&added, &before);
    for event in &added {
        apply(&mut session.state, at, event, &session.rules);
    }
    for (job, beginning) in beginnings.iter().filter(|(job, _)| !names.contains(job)) {
        let clause = beginning.clause();
        if !clause.is_empty() {
            context.note(&format!("{job} waits{clause}"));
        }
    }
    mark_submitted(&mut session.state, &mut run, at, &session.rules.defaults);
    session.state.planned_by = Some(options.planned_by.to_owned());
    events.extend(added);
    // A write error must be detected before the state contains the intent.
    session.world.write_run(&run).map_err(|error| nothing(state::live_failure(&error)))?;
    let action = Action::Submit(Box::new(run));
    if let Err(error) = session.keep(at, &events, std::slice::from_ref(&action)) {
        directory.remove_run(options.run);
        return Err(nothing(state::failure(&error)));
    }
    let mut answers = Vec::new();
    let kept = session.carry_out(&action, at, &mut |told| {
        if let Update::Event(Event::Answer { of: SubmissionKey { job, .. }, answer }) = told {
            let beginning = beginnings.get(job).cloned().unwrap_or(ResumePoint::First);
            let answered = SubmissionResult { job: job.clone(), answer: answer.clone(), beginning };
            tell(&answered);
            answers.push(answered);
        }
    });
    session.world.noted.iter().for_each(|note| context.note(note));
    if let Err(error) = kept {
        // The answers for the jobs have been reported.
        context.terminal.say(&state::failure(&error).to_string());
    } else if let Err(error) = forget_refused(&mut session, &before, &answers, at) {
        context.terminal.say(&state::failure(&error).to_string());
    }
    Ok(SubmissionOutcome { folder: run_folder(&state::root(context)?, options.run), answers })
}

/// Returns the events that add the chosen jobs: those submitted, and those that wait; not those that the plan
/// rejects.
fn added(
    context: &Context,
    run: &Run,
    planned: &PlanningResult,
    options: SubmissionOptions<'_>,
) -> Vec<Event> {
    let rejected = |index: usize| matches!(planned.plan.verdicts()[index], Verdict::Reject { .. });
    let chosen = options.chosen.iter().copied().filter(|&index| !rejected(index));
    chosen
        .map(|index| settled(context, &run.jobs[index], options.sbatch))
        .map(|job| Event::Added { job: Box::new(job), restart: options.restart })
        .collect()
}

/// Returns where the jobs added by these events begin.
fn beginnings(added: &[Event], state: &State) -> BTreeMap<JobName, ResumePoint> {
    let beginning = |event: &Event| match event {
        Event::Added { job, restart } => Some((job.name.clone(), ResumePoint::of(job, state, *restart))),
        _ => None,
    };
    added.iter().filter_map(beginning).collect()
}

/// Returns a job with the options and settings of this command, so that later submissions use them as well.
pub(crate) fn settled(context: &Context, job: &Job, sbatch: &[String]) -> Job {
    let mut job = job.clone();
    let launch = &mut job.launch;
    let workdir = absolute(&context.directory, launch.workdir.as_deref().unwrap_or("."));
    launch.workdir = workdir.to_str().map(str::to_owned).or(launch.workdir.take());
    let defaults = &context.settings.jobs;
    launch.account = launch.account.take().or_else(|| defaults.account.clone());
    launch.partition = launch.partition.take().or_else(|| defaults.partition.clone());
    launch.qos = launch.qos.take().or_else(|| defaults.qos.clone());
    launch.sbatch.extend_from_slice(sbatch);
    // The setting `off` is not stored, so that a later command with another setting can use estimates.
    job.estimate = job.estimate.or((defaults.estimate != Estimates::Off).then_some(defaults.estimate));
    job
}

/// Marks the jobs of a run as about to be submitted; those with finished epochs resume.
pub(crate) fn mark_submitted(state: &mut State, run: &mut Run, at: Time, defaults: &JobDefaults) {
    for place in 0..run.submissions.len() {
        let job = run.submissions[place].job;
        let Some(tracked) = state.find_mut(&run.jobs[job].name) else { continue };
        run.epochs_done[job] = tracked.epochs_done;
        run.jobs[job].epochs = tracked.rest().epochs;
        run.submissions[place].least_limit = tracked.least_limit();
        let intent = &run.submissions[place];
        let grace = tracked.job.launch.checkpoint.grace.unwrap_or(defaults.grace);
        let walltime = run.walltime(intent, defaults);
        tracked.intend(run.attempt(intent, at).within(walltime, tracked.resumes(), grace));
    }
}

/// Removes new jobs that Slurm did not accept from the state, so that the user can correct and submit them
/// again; jobs that the state knew before return to their former records.
fn forget_refused(
    session: &mut QueueSession<'_>,
    before: &State,
    answers: &[SubmissionResult],
    at: Time,
) -> Result<(), StateError> {
    let failed = |name: &JobName| {
        let mut job_answers = answers.iter().filter(|answer| answer.job == *name).peekable();
        // Slurm may have accepted some of several requests of a job.
        job_answers.peek().is_some() && job_answers.all(SubmissionResult::is_not_submitted)
    };
    let mut kept = Vec::new();
    for tracked in session.state.jobs.drain(..) {
        if failed(&tracked.job.name) {
            kept.extend(before.find(&tracked.job.name).cloned());
        } else {
            kept.push(tracked);
        }
    }
    session.state.jobs = kept;
    session.keep(at, &[], &[])
}

/// Jobs that must not be submitted because Slurm has them or may have them.
pub(crate) struct Twice {
    /// Description of the jobs.
    pub jobs: String,
    /// Slurm ids of jobs unknown to the state, because it was lost or another state submitted them.
    strangers: Vec<JobId>,
}

impl Twice {
    /// Returns whether the state tracks all of them.
    fn is_known(&self) -> bool {
        self.strangers.is_empty()
    }

    /// Returns the command that cancels them.
    pub(crate) fn cancel(&self) -> String {
        if self.is_known() {
            return "hsched cancel".to_owned();
        }
        let ids: Vec<String> = self.strangers.iter().map(ToString::to_string).collect();
        format!("scancel {} (this state directory does not have it)", ids.join(" "))
    }
}

/// Returns which of the jobs Slurm or `hsched run` has or may have, so that nothing is submitted twice.
pub(crate) fn in_queue(
    names: &[&JobName],
    queue: &[TaggedJob],
    state: &State,
    backend: BackendKind,
) -> Option<Twice> {
    let mut strangers = Vec::new();
    let twice = names.iter().filter_map(|name| {
        let same = queue.iter().filter(|queued| queued.name == name.as_str());
        // Components of a heterogeneous job have the same tag; the first represents the job.
        if let Some(queued) = same.min_by_key(|queued| queued.id) {
            let submissions = state.find(name).map_or(&[][..], |tracked| tracked.phase.submissions());
            if submissions.iter().all(|submission| submission.attempt.job_id != Some(queued.id)) {
                strangers.push(queued.id);
            }
            return Some(format!("{name} (job {}, {})", queued.id, queued.state));
        }
        let attempt = state.find(name)?.phase.attempt()?;
        if backend == BackendKind::Devices {
            return Some(name.to_string());
        }
        let id = attempt.job_id.map_or_else(
            || "Slurm has not confirmed the submission yet; try again in a minute".to_owned(),
            |id| format!("job {id}, not in Slurm's queue at the moment"),
        );
        Some(format!("{name} ({id})"))
    });
    let twice: Vec<String> = twice.collect();
    (!twice.is_empty()).then(|| Twice { jobs: twice.join(", "), strangers })
}

impl SubmissionOutcome {
    /// Returns the exit code: 4 if only some were submitted.
    pub(crate) fn exit(&self) -> Exit {
        let count = self.answers.iter().filter(|answer| answer.job_id().is_some()).count();
        let unreachable =
            self.answers.iter().any(|candidate| matches!(candidate.answer, Answer::Unreachable { .. }));
        match count {
            _ if count == self.answers.len() => Exit::Done,
            0 if unreachable => Exit::SlurmUnavailable,
            0 => Exit::Failed,
            _ => Exit::PartlySubmitted,
        }
    }
}
