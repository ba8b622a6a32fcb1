//! `hsched cancel`: cancels jobs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::app::cancelling::{act, keep, look, request_cancel};
use crate::app::completions;
use crate::app::context::{Context, Format};
use crate::app::deferred_commands;
use crate::app::patterns::is_meant;
use crate::app::pools;
use crate::app::session::Session;
use crate::app::state;
use crate::app::tags::TagArgs;
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::script::cancel as scripts_in_pieces;
use hsched_engine::store::DeferredChange;
use hsched_engine::{BackendKind, JobState, Outcome, Phase, Rules, ScriptJob, State};
use hsched_model::formats;
use hsched_model::{ErrorId, JobName};
use hsched_ui::{Exit, Failure};

/// Cancel jobs: waiting, pending or running
///
/// Running ranks get no time to save a checkpoint; existing checkpoints are kept. hsched records the cancellation before
/// it calls Slurm: if Slurm does not answer, `hsched watch` cancels the jobs later, or you can repeat the command. While
/// another hsched holds the state directory, the command is deferred: `hsched watch` applies it at its next turn,
/// `hsched run` at once.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Names of jobs or scripts, or ids of scripts that run in pieces. A * matches any text, as in 'sweep-*', but only in
    /// names of jobs that have not ended.
    #[arg(value_name = "JOB", required_unless_present_any = ["all", "tags"], conflicts_with = "all", add = completions::open_jobs())]
    jobs: Vec<String>,
    #[command(flatten)]
    tags: TagArgs,
    /// All jobs that have not ended, except scripts that run in pieces.
    #[arg(long)]
    all: bool,
    /// Show what would be cancelled, without cancelling it.
    #[arg(long)]
    dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// The result of cancelling a job.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CancelOutcome {
    /// The job was waiting and has ended.
    Cancelled,
    /// The request to end the job was sent to Slurm.
    Asked(String),
    /// Slurm does not show the job yet.
    Later,
    /// Another hsched holds the state directory and will cancel the job.
    Left(BackendKind),
    /// The job had already ended.
    Over(&'static str),
    /// The request failed, or Slurm refused it.
    Untold(String),
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        self.cancel(context).map_err(|failure| pools::name_pool(context, failure, "cancel", &self.jobs))
    }
}

impl Args {
    fn cancel(&self, context: &Context) -> Result<Exit, Failure> {
        let scripts = scripts_in_pieces::meant(context, &self.jobs)?;
        if !scripts.is_empty() {
            self.tags.refuse_scripts()?;
            return scripts_in_pieces::cancel(context, &scripts, self.dry_run, self.format);
        }
        let Some(directory) = state::open_at_once(context)? else {
            return self.leave(context, &state::rules(context));
        };
        let mut session = Session::anywhere(context, &directory, &[], self.dry_run)?;
        let names = self.names(&session.state)?;
        let (seen, away) = look(&mut session, &names)?;
        session.leave_untold(&seen);
        let over: Vec<bool> = names.iter().map(|name| is_over(&session.state, name)).collect();
        let actions = request_cancel(&mut session, &names, &seen);
        let failures = match (self.dry_run, away) {
            (true, None) => BTreeMap::new(),
            (true, Some(failure)) => return Err(failure),
            (false, Some(failure)) => {
                keep(&mut session, &names, &seen, &[])?;
                return Err(failure.hint(
                    "the cancellation is recorded: hsched watch cancels the jobs when Slurm answers, or run this command again",
                ));
            }
            (false, None) => {
                keep(&mut session, &names, &seen, &actions)?;
                act(&mut session, &actions, &seen)?
            }
        };
        let state = &session.state;
        let answer = |(name, over): (&JobName, &bool)| {
            let outcome = match state.script(name) {
                Some(script) => script_answer(script, *over, &failures),
                None => answer(state.find(name)?, *over, &failures),
            };
            Some((name.clone(), outcome))
        };
        let answers: Vec<(JobName, CancelOutcome)> = names.iter().zip(&over).filter_map(answer).collect();
        self.print(context, &answers, "cancel", is_empty(state))?;
        Ok(if failures.is_empty() { Exit::Done } else { Exit::Failed })
    }

    /// Stores the deferred command for the next lock holder, unless this is a dry run, and prints it.
    fn leave(&self, context: &Context, rules: &Rules) -> Result<Exit, Failure> {
        let (state, backend) = deferred_commands::expected_there(context, rules)?;
        let names = self.names(&state)?;
        let answer = |name: &JobName| {
            let ended = match (state.script(name), state.find(name).map(|tracked| &tracked.phase)) {
                (Some(script), _) => script.is_over().then(|| script.word()),
                (None, Some(Phase::Ended { outcome, .. })) => Some(outcome.word()),
                (None, _) => None,
            };
            (name.clone(), ended.map_or(CancelOutcome::Left(backend), CancelOutcome::Over))
        };
        let answers: Vec<(JobName, CancelOutcome)> = names.iter().map(answer).collect();
        let open = answers.iter().filter(|(_, answer)| matches!(answer, CancelOutcome::Left(_)));
        let jobs: Vec<JobName> = open.map(|(name, _)| name.clone()).collect();
        if !jobs.is_empty() && !self.dry_run {
            deferred_commands::leave(context, DeferredChange::Cancel { jobs })?;
        }
        self.print(context, &answers, deferred_commands::word(backend), is_empty(&state)).map(|()| Exit::Done)
    }

    /// Returns the selected jobs.
    fn names(&self, state: &State) -> Result<Vec<JobName>, Failure> {
        let scripts = || state.scripts.iter().map(|script| &script.name);
        let known = || state.jobs.iter().map(|tracked| &tracked.job.name).chain(scripts());
        self.tags.check(state.jobs.iter().map(|tracked| &*tracked.job.tags))?;
        let tags_of = |name: &JobName| state.find(name).map_or(&[][..], |tracked| &tracked.job.tags);
        if self.jobs.is_empty() {
            let open = known().filter(|name| !is_over(state, name) && self.tags.mean(tags_of(name)));
            return Ok(open.cloned().collect());
        }
        let mut names = Vec::new();
        for name in &self.jobs {
            let mut meant: Vec<&JobName> =
                known().filter(|known_name| is_meant(name, known_name.as_str())).collect();
            if meant.is_empty() {
                return Err(unknown_job(name, state));
            }
            if !name.contains('*') && meant.iter().any(|name| state.script(name).is_some()) {
                self.tags.refuse_scripts()?;
            }
            if meant.iter().any(|name| !is_over(state, name)) && name.contains('*') {
                meant.retain(|name| !is_over(state, name));
            }
            names.extend(meant.into_iter().cloned());
        }
        let mut seen = BTreeSet::new();
        names.retain(|name| self.tags.mean(tags_of(name)) && seen.insert(name.clone()));
        if names.is_empty() { Err(self.tags.none_of_names()) } else { Ok(names) }
    }

    /// Prints the result for each job, and the command that carries it out.
    fn print(
        &self,
        context: &Context,
        answers: &[(JobName, CancelOutcome)],
        by: &str,
        none: bool,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Table if none => print(context, "there are no jobs to cancel\n"),
            Format::Table if answers.is_empty() => print(context, "all jobs have already ended\n"),
            Format::Table => {
                let line = |(name, answer): &(JobName, CancelOutcome)| {
                    format!("{name}: {}\n", answer.text(self.dry_run))
                };
                let mut text: String = answers.iter().map(line).collect();
                let left = answers.iter().find_map(|(_, answer)| match answer {
                    CancelOutcome::Left(backend) if !self.dry_run => Some(deferred_commands::left(*backend)),
                    _ => None,
                });
                text.extend(left.map(|left| left + "\n"));
                print(context, &text)
            }
            Format::Json => {
                let jobs: Vec<Value> = answers.iter().map(answer_json).collect();
                let value = json!({
                    "schema": "hsched.cancel/1", "dry_run": self.dry_run, "carried_out_by": by, "jobs": jobs,
                });
                print(context, &json_text(&value)?)
            }
        }
    }
}

/// Returns the failure for a name that no job has.
pub(super) fn unknown_job(name: &str, state: &State) -> Failure {
    let scripts = state.scripts.iter().map(|script| script.name.as_str());
    let known: Vec<&str> =
        state.jobs.iter().map(|tracked| tracked.job.name.as_str()).chain(scripts).collect();
    let failure = Failure::new(Exit::Usage, format!("there is no job {name:?}")).id(ErrorId::UnknownJob);
    match formats::nearest(name, known.iter().copied()) {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None if known.is_empty() => failure.hint(
            "there are no jobs yet: add some with hsched submit, hsched add or, without Slurm, hsched run",
        ),
        None => failure.hint("hsched status lists all jobs"),
    }
}

fn is_over(state: &State, name: &JobName) -> bool {
    state.find(name).is_some_and(|tracked| tracked.phase.is_over())
        || state.script(name).is_some_and(ScriptJob::is_over)
}

/// Returns whether there are neither jobs nor scripts.
fn is_empty(state: &State) -> bool {
    state.jobs.is_empty() && state.scripts.is_empty()
}

fn script_answer(script: &ScriptJob, over: bool, failures: &BTreeMap<JobName, String>) -> CancelOutcome {
    let job_id = script.submission.job_id;
    match (failures.get(&script.name), job_id) {
        _ if over => CancelOutcome::Over(script.word()),
        (Some(message), _) => CancelOutcome::Untold(message.clone()),
        (None, _) if script.is_over() => CancelOutcome::Over(script.word()),
        (None, Some(id)) => CancelOutcome::Asked(id.to_string()),
        (None, None) => CancelOutcome::Later,
    }
}

fn answer(tracked: &JobState, over: bool, failures: &BTreeMap<JobName, String>) -> CancelOutcome {
    match &tracked.phase {
        Phase::Ended { outcome, .. } if over => CancelOutcome::Over(outcome.word()),
        Phase::Ended { outcome: Outcome::Cancelled, .. } => CancelOutcome::Cancelled,
        phase => {
            match (failures.get(&tracked.job.name), phase.attempt().and_then(|attempt| attempt.job_id)) {
                (Some(message), _) => CancelOutcome::Untold(message.clone()),
                (None, Some(job_id)) => CancelOutcome::Asked(job_id.to_string()),
                (None, None) => CancelOutcome::Later,
            }
        }
    }
}

impl CancelOutcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Asked(_) => "cancelling",
            Self::Later | Self::Left(_) => "later",
            Self::Over(_) => "ended",
            Self::Untold(_) => "not_cancelled",
        }
    }

    fn text(&self, dry_run: bool) -> String {
        let would = if dry_run { "would be " } else { "" };
        match self {
            Self::Cancelled => format!("{would}cancelled (was waiting)"),
            Self::Asked(job_id) if dry_run => format!("would be cancelled (job {job_id})"),
            Self::Asked(job_id) => format!("cancelling (job {job_id})"),
            Self::Later => {
                "not in Slurm's queue yet: hsched watch cancels it when it appears, or run this command again"
                    .to_owned()
            }
            Self::Left(backend) if dry_run => {
                format!("would be cancelled by {} at its next turn", backend.follower())
            }
            Self::Left(_) => "to be cancelled".to_owned(),
            Self::Over(outcome) => format!("already ended: {outcome}"),
            Self::Untold(message) => {
                format!("not cancelled: {message}; hsched watch retries, or run this command again")
            }
        }
    }
}

fn answer_json((name, answer): &(JobName, CancelOutcome)) -> Value {
    let (mut job_id, mut message) = (None, None);
    match answer {
        CancelOutcome::Asked(id) => job_id = Some(id),
        CancelOutcome::Untold(text) => message = Some(text.clone()),
        CancelOutcome::Over(outcome) => message = Some((*outcome).to_owned()),
        CancelOutcome::Left(backend) => message = Some(deferred_commands::left(*backend)),
        CancelOutcome::Cancelled | CancelOutcome::Later => {}
    }
    json!({ "name": name.as_str(), "state": answer.word(), "job_id": job_id, "message": message })
}
