//! `hsched logs`: prints the output of a job.

mod follow;
mod script;
mod sweep;

use std::io::{self, ErrorKind};

use crate::app::completions;
use crate::app::context::Context;
use crate::app::output::FilePart;
use crate::app::printed::{SubmissionOutput, latest, submissions};
use crate::app::{deferred_commands, pools, state};
use crate::commands::cancel::unknown_job;
use crate::commands::cli::Subcommand;
use hsched_engine::store::script_chains;
use hsched_engine::{JobState, State};
use hsched_model::ErrorId;
use hsched_ui::{Exit, Failure, JobSummary};

/// Print the output of a job
///
/// Prints the output of the job's latest submission, or of an earlier one. All submissions of a job write to the same
/// file, NAME.out in the job's workdir; hsched prints only the part that belongs to one submission. A batch script
/// prints to the files that it names, one per task of an array. The name of a sweep prints the output of each of its runs, under
/// a line with the path of the file. Does not call Slurm.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the job, or of a sweep; a * matches any text.
    #[arg(value_name = "JOB", add = completions::jobs())]
    job: String,
    /// Keep printing as the output grows, across moves and retries, until the job has ended.
    ///
    /// If the job has not started, waits for it to start.
    #[arg(long, short, conflicts_with_all = ["of_run", "attempt"])]
    follow: bool,
    /// Print only the last LINES lines; with --follow, start with them.
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,
    /// Print the output of this run (`hsched status JOB` lists them).
    #[arg(long = "run", value_name = "RUN", conflicts_with = "attempt")]
    of_run: Option<String>,
    /// Print the output of this task of a job array that a script asked for.
    #[arg(long, value_name = "TASK")]
    task: Option<u64>,
    /// Print the output of this submission, or of this piece of a script, counted from 1.
    #[arg(long, value_name = "NUMBER")]
    attempt: Option<usize>,
}

impl Subcommand for Args {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        pools::or_in_pool(context, std::slice::from_ref(&self.job), |context| self.print(context))
    }
}

impl Args {
    fn print(&self, context: &Context) -> Result<Exit, Failure> {
        let rules = state::rules(context);
        let state = deferred_commands::expected(context, &rules)?;
        if let Some(script) = state.scripts.iter().find(|script| script.name.as_str() == self.job) {
            return self.of_script(context, &rules, script);
        }
        if !state.jobs.iter().any(|tracked| tracked.job.name.as_str() == self.job) {
            let chains = script_chains(&state::root(context)?);
            // The last of several chains with the same name counts.
            if let Some(chain) =
                chains.iter().rev().find(|chain| chain.name == self.job || chain.run == self.job)
            {
                return self.of_chain(context, chain);
            }
            let runs = self.runs(&state);
            if !runs.is_empty() {
                return self.of_runs(context, &runs);
            }
        }
        if self.task.is_some() {
            let message = format!("--task is for the job arrays of scripts; {} is none", self.job);
            return Err(Failure::new(Exit::Usage, message).id(ErrorId::OptionsConflict));
        }
        let tracked = self.find(&state)?;
        if self.follow {
            return follow::Follower::new(self, context, rules)?.go_on();
        }
        let all = submissions(context, tracked)?;
        let chosen = self.chosen(context, tracked, &all)?;
        if !chosen.has_begun {
            return Err(self.not_started(context, tracked, all.len()));
        }
        let mut output = LogOutput { context, several: chosen.parts.len() > 1, shown: None };
        let mut parts = chosen.parts.clone();
        if let Some(missing) = parts.iter().find(|part| !part.exists()) {
            let message = format!("{} does not exist", missing.path.display());
            return Err(Failure::new(Exit::Failed, message)
                .id(ErrorId::NoOutput)
                .hint("it was removed, or is on a file system that this machine cannot see"));
        }
        chosen.note(context);
        for part in &mut parts {
            if let Some(lines) = self.tail {
                part.skip_to_last(lines).map_err(|error| unreadable(part, &error))?;
            }
            if !output.pass_on(part)? {
                break;
            }
        }
        Ok(Exit::Done)
    }

    /// Returns the job with the name.
    fn find<'a>(&self, state: &'a State) -> Result<&'a JobState, Failure> {
        let job = state.jobs.iter().find(|tracked| tracked.job.name.as_str() == self.job);
        job.ok_or_else(|| unknown_job(&self.job, state))
    }

    /// Returns the selected submission.
    fn chosen<'a>(
        &self,
        context: &Context,
        tracked: &JobState,
        all: &'a [SubmissionOutput],
    ) -> Result<&'a SubmissionOutput, Failure> {
        let job = &tracked.job.name;
        let wrong = |message: String| {
            let failure = Failure::new(Exit::Usage, message).id(ErrorId::UnknownJob);
            Err(failure.hint(format!("hsched status {job} lists its submissions")))
        };
        let count = match all.len() {
            1 => "1 submission".to_owned(),
            count => format!("{count} submissions"),
        };
        match (&self.of_run, self.attempt) {
            (Some(run), _) => all
                .iter()
                .rev()
                .find(|candidate| candidate.key.run == *run)
                .map_or_else(|| wrong(format!("{job} has no submission of run {run}")), Ok),
            (None, Some(number)) => number
                .checked_sub(1)
                .and_then(|place| all.get(place))
                .map_or_else(|| wrong(format!("{job} has no submission {number}, only {count}")), Ok),
            (None, None) => latest(tracked, all).ok_or_else(|| self.not_started(context, tracked, 0)),
        }
    }

    /// Returns the failure of a submission without output.
    fn not_started(&self, context: &Context, tracked: &JobState, submissions: usize) -> Failure {
        let job = &tracked.job.name;
        if tracked.phase.is_over() {
            return Failure::new(Exit::Failed, format!("{job} never started: {}", tracked.phase.word()))
                .id(ErrorId::NotStarted);
        }
        let last = JobSummary::new(tracked).last(state::now(context));
        let message = format!("{job} has not started yet: {}, {last}", tracked.phase.word());
        let failure = Failure::new(Exit::Failed, message)
            .id(ErrorId::NotStarted)
            .hint("--follow waits for it to start");
        if submissions < 2 || self.attempt.is_some() || self.of_run.is_some() {
            return failure;
        }
        failure.hint(format!("--attempt {} prints the previous submission", submissions - 1))
    }
}

/// The destination of jobs' output.
struct LogOutput<'a> {
    context: &'a Context,
    /// Whether there are several files, which get headers.
    several: bool,
    /// The file printed last.
    shown: Option<std::path::PathBuf>,
}

impl LogOutput<'_> {
    /// Prints the available part of a file; returns whether the reader is still open.
    fn pass_on(&mut self, part: &mut FilePart) -> Result<bool, Failure> {
        loop {
            let bytes = part.read().map_err(|error| unreadable(part, &error))?;
            if bytes.is_empty() {
                return Ok(true);
            }
            let terminal = self.context.terminal;
            let mut header = Ok(());
            if self.several && self.shown.as_ref() != Some(&part.path) {
                let blank = if self.shown.is_some() { "\n" } else { "" };
                header = terminal.print(&format!("{blank}==> {} <==\n", part.path.display()));
                self.shown = Some(part.path.clone());
            }
            match header.and_then(|()| terminal.pass_on(&bytes)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(false),
                Err(error) => {
                    return Err(Failure::new(Exit::Failed, format!("cannot write to stdout: {error}"))
                        .id(ErrorId::FileUnwritable));
                }
            }
        }
    }
}

fn unreadable(part: &FilePart, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot read {}: {error}", part.path.display()))
        .id(ErrorId::FileUnreadable)
}
