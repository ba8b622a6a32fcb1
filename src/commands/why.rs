//! `hsched why`: why a Slurm job is pending, when it starts, and how it could start sooner.

use std::fmt::Write as _;
use std::time::Duration;

use crate::app::completions;
use crate::app::context::{Context, Format};
use crate::app::slurm::client::slurm_failure;
use crate::app::slurm::new_job::JobToSubmit;
use crate::app::slurm::shown_advice;
use crate::app::slurm::why::{ExplainedJob, JobFinder};
use crate::app::start_estimates::{QueueViewArgs, duration};
use crate::commands::change_number;
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::why_json;
use hsched_model::{ErrorId, Request, RequestId, Seconds};
use hsched_queue::{Advice, Remedy, Start, StateKind, asked, jobs_in_words, span};
use hsched_slurm::{
    CommandLine, HIDDEN_OPTIONS, Runner, cancel_pending, has_changed_the_rest, remedy_command,
};
use hsched_ui::{
    Exit, Failure, ProgressLine, WhyAdvice, WhyAdviceKind, WhyJob, WhyLine, why_list, why_text, wrap,
};

/// Show why a Slurm job is pending, when it starts, and what would start it sooner
///
/// Works for any job that you may see, even if hsched did not submit it, and needs no configuration. For a pending job: what
/// Slurm's reason means, the limit behind it, whose limit it is, its maximum and its present use, the jobs before it, and changes that would start it
/// sooner, each simulated in the same futures of the queue. For a running job: when it ends at the latest. For an ended one:
/// why it ended. Without JOB: a line for each of your pending jobs. Changes nothing without --apply.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Ids of Slurm jobs (`12`, `12_3` for a task of an array), or names of your own jobs.
    #[arg(value_name = "JOB", add = completions::jobs())]
    jobs: Vec<String>,
    /// Make change N of the list by running its command, if the job keeps its place in the queue. Needs exactly one job.
    #[arg(long, value_name = "N", value_parser = change_number::parse, allow_negative_numbers = true, requires = "jobs", conflicts_with = "snapshot")]
    apply: Option<i64>,
    /// With --apply: allow a change that cancels another job of yours, or for which Slurm may stop (preempt) running ones.
    #[arg(long, requires = "apply")]
    may_stop: bool,
    /// With --apply: show the command without running it.
    #[arg(long, requires = "apply")]
    dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    view: QueueViewArgs,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Queue")]
    seed: u64,
    /// Time limit for the simulations, such as 10s or 2m.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, help_heading = "Queue")]
    budget: Duration,
}

/// The explanation of a job, with the commands of its advice.
pub(super) struct JobPage {
    pub explained: ExplainedJob,
    /// The command of each change, or why it is unknown.
    commands: Vec<Result<CommandLine, String>>,
}

impl JobPage {
    fn new(explained: ExplainedJob, look: &JobFinder) -> Self {
        let mut page = Self { explained, commands: Vec::new() };
        let request = page.request();
        let job = JobToSubmit {
            details: page.explained.found.details.as_ref(),
            request: &request,
            queue: &look.queue,
            version: look.version(),
            directory: &look.context.directory,
        };
        let id = &page.explained.found.id;
        let command = |advice: &Advice| remedy_command(&advice.remedy, id, |set| job.command(&set.changes));
        page.commands = page.explained.starts.advice.iter().map(command).collect();
        page
    }

    /// Returns whether the job starts at once, unchanged or changed.
    fn has_start_now(&self) -> bool {
        let starts = &self.explained.starts;
        starts.as_is.as_ref().is_some_and(Start::is_now)
            || starts.advice.iter().any(|advice| advice.start.is_now())
    }

    /// Returns the current request of the job.
    pub(super) fn request(&self) -> Request {
        let pending = self.explained.pending.as_ref();
        pending.map_or_else(no_request, |pending| pending.request(RequestId(0)))
    }
}

/// Returns an empty request for a job that is not pending and so gets no advice.
fn no_request() -> Request {
    Request {
        id: RequestId(0),
        asks: hsched_queue::Asks::default(),
        partition: None,
        account: None,
        limit: Seconds(0.0),
        run: Seconds(0.0),
        further: hsched_model::FurtherOptions::default(),
    }
}

/// Returns the advice on a job with its commands, in the displayed order.
pub(super) fn numbered(shown: &JobPage) -> impl Iterator<Item = (&Advice, Result<String, &str>)> {
    shown.explained.starts.advice.iter().zip(shown.commands.iter().map(shown_command))
}

fn shown_command(command: &Result<CommandLine, String>) -> Result<String, &str> {
    command.as_ref().map(command_text).map_err(String::as_str)
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if let (Some(number), [job]) = (self.apply, self.jobs.as_slice()) {
            if let Some(known) = shown_advice::last(context, job)? {
                return self.make_change(context, number, job, &known);
            }
        } else if self.apply.is_some() {
            return Err(
                Failure::new(Exit::Usage, "--apply takes exactly one job").id(ErrorId::OptionsConflict)
            );
        }
        let mut look = JobFinder::new(context, &self.view)?;
        let is_list = self.jobs.is_empty();
        let mut shown = self.pages(&mut look)?;
        // Free GPUs of an older look may have been taken since.
        if shown.iter().any(JobPage::has_start_now) && look.look_for_start_now()? {
            shown = self.pages(&mut look)?;
        }
        if let ([job], [one]) = (self.jobs.as_slice(), shown.as_slice()) {
            shown_advice::keep(context, job, remedies_of(one));
        } else if self.apply.is_some() {
            return Err(Failure::new(Exit::Usage, "--apply takes exactly one job; give its id")
                .id(ErrorId::OptionsConflict));
        }
        let text = match (self.format, is_list) {
            (Format::Json, _) => json_text(&why_json::json(&shown))?,
            (Format::Table, true) => list_text(context, &shown, &look),
            (Format::Table, false) => page(context, &shown, &look, &self.jobs),
        };
        print(context, &text)?;
        if let (Some(number), [job]) = (self.apply, self.jobs.as_slice()) {
            // The user has not seen this list before.
            context.note(&format!(
                "nothing was changed: no list of job {job} was shown within 15 minutes; look at this one, then give --apply {number} again"
            ));
            return Ok(Exit::Usage);
        }
        Ok(Exit::Done)
    }
}

/// Returns the remedies of a job's advice, to be stored for `--apply`.
fn remedies_of(shown: &JobPage) -> Vec<shown_advice::KeptRemedy> {
    let remedy = |(advice, command): (&Advice, &Result<CommandLine, String>)| shown_advice::KeptRemedy {
        command: command
            .as_ref()
            .map(|command| (command.program.to_string(), command.args.clone()))
            .map_err(String::clone),
        keeps_job: advice.remedy.keeps_job(),
        stops: advice.remedy.stops(),
        drawbacks: advice.remedy.drawbacks(),
    };
    shown.explained.starts.advice.iter().zip(&shown.commands).map(remedy).collect()
}

impl Args {
    /// Explains the jobs, or all pending jobs of the user.
    fn pages(&self, look: &mut JobFinder) -> Result<Vec<JobPage>, Failure> {
        let is_list = self.jobs.is_empty();
        let mut found = Vec::new();
        if is_list {
            found = look.own_pending()?;
        }
        for job in &self.jobs {
            found.extend(look.find(job)?);
        }
        let share = self.budget / u32::try_from(found.len().max(1)).unwrap_or(u32::MAX);
        let samples = usize::try_from(self.view.search.futures_alone()).unwrap_or(usize::MAX);
        let _progress = ProgressLine::start("simulating the queue".to_owned());
        let explain =
            |found_job| JobPage::new(look.explained(found_job, !is_list, self.seed, samples, share), look);
        Ok(found.into_iter().map(explain).collect())
    }

    /// Runs the command of a remedy.
    fn make_change(
        &self,
        context: &Context,
        number: i64,
        job: &str,
        list: &[shown_advice::KeptRemedy],
    ) -> Result<Exit, Failure> {
        let remedy = change_number::place(number).and_then(|place| list.get(place));
        let Some(remedy) = remedy else {
            let message = match list.len() {
                0 => format!("--apply {number}: the list of job {job} has no change"),
                1 => format!("--apply {number}: the list has one change, 1"),
                count => format!("--apply {number}: the list has changes 1 to {count}"),
            };
            let hint = format!("hsched why {} looks again", quoted(job));
            return Err(Failure::new(Exit::Usage, message).id(ErrorId::NoChange).hint(hint));
        };
        let command = remedy.command();
        let command = match command {
            Ok(command) if remedy.keeps_job => command,
            command => {
                let message =
                    format!("--apply {number}: this change is a new job, which hsched does not submit");
                return Err(Failure::new(Exit::Usage, message).id(ErrorId::NoChange).hint(match command {
                    Ok(command) => format!("submit it yourself: {}", command_text(&command)),
                    Err(why) => format!("submit it yourself, with all of the job's options: {why}"),
                }));
            }
        };
        let text = command_text(&command);
        if !(remedy.stops.is_empty() || self.may_stop || self.dry_run) {
            let jobs = jobs_in_words(&remedy.stops);
            let message = format!("--apply {number}: this may stop your {jobs}; nothing was changed");
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::StopsOwnJob)
                .hint("if it may be stopped, add --may-stop"));
        }
        if !self.dry_run {
            match context.slurm.run(&command) {
                Err(error) if !has_changed_the_rest(&error) => return Err(slurm_failure(&error)),
                _ => {}
            }
        }
        let costs = match remedy.drawbacks.join("; ") {
            costs if costs.is_empty() => costs,
            costs => wrap(&format!("Costs you: {costs}."), context.terminal.width(), "  ") + "\n",
        };
        let output = match self.format {
            Format::Json => json_text(&serde_json::json!({
                "schema": "hsched.why-apply/1", "command": text, "dry_run": self.dry_run,
                "drawbacks": remedy.drawbacks,
            }))?,
            Format::Table if self.dry_run => format!("Would run: {text}\n{costs}"),
            Format::Table => format!("Done: {text}\n{costs}"),
        };
        print(context, &output)?;
        Ok(Exit::Done)
    }
}

/// Returns a command as people type it: arguments that consist of common characters are not quoted.
fn command_text(command: &CommandLine) -> String {
    let words = command.args.iter().map(|arg| quoted(arg));
    std::iter::once(command.program.to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(arg: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_=:,./+-@%".contains(c);
    if !arg.is_empty() && arg.chars().all(is_plain) {
        arg.to_owned()
    } else {
        format!("'{}'", arg.replace('\'', r"'\''"))
    }
}

fn list_text(context: &Context, shown: &[JobPage], look: &JobFinder) -> String {
    if shown.is_empty() {
        return "You have no pending jobs.\n".to_owned();
    }
    let lines: Vec<WhyLine> = shown.iter().map(why_line).collect();
    let mut text = look.queue.first_line(context.terminal);
    text.push_str(&why_list(&lines, context.terminal));
    text.push_str("More on one of them: hsched why JOB. STARTS IN: median (80 % interval)\n");
    text
}

fn why_line(shown: &JobPage) -> WhyLine<'_> {
    let ExplainedJob { found, explanation, starts, .. } = &shown.explained;
    // The limit is more informative than the meaning of Slurm's reason.
    let numbers = explanation.limit.as_ref().and_then(|_| explanation.why.get(1));
    WhyLine {
        id: &found.id,
        name: found.name.as_deref(),
        kind: explanation.kind.word(),
        start: starts.as_is.as_ref(),
        why: numbers.or(explanation.why.first()).map_or("", String::as_str),
    }
}

fn page(context: &Context, shown: &[JobPage], look: &JobFinder, jobs: &[String]) -> String {
    let mut pages = Vec::new();
    for job_page in shown {
        let request = job_page.request();
        let advice = (1..).zip(numbered(job_page)).map(|(number, (advice, command))| WhyAdvice {
            number,
            command,
            change: advice.remedy.words(&request),
            drawbacks: advice.remedy.drawbacks(),
            start: &advice.start,
            sooner: advice.sooner,
            kind: kind(&advice.remedy),
        });
        let job = WhyJob {
            headline: headline(job_page, look),
            why: &job_page.explained.explanation.why,
            way_out: &job_page.explained.explanation.way_out,
            start: job_page.explained.starts.as_is.as_ref(),
            now: look.queue.snapshot.taken_at,
            advice: advice.collect(),
            cancel: command_text(&cancel_pending(&job_page.explained.found.id)),
        };
        pages.push(why_text(&job, context.terminal));
    }
    let is_pending = shown.iter().any(|candidate| candidate.explained.pending.is_some());
    let mut text = if is_pending { look.queue.first_line(context.terminal) } else { String::new() };
    text.push_str(&pages.join("\n"));
    let can_change =
        |job_page: &JobPage| job_page.explained.starts.advice.iter().any(|advice| advice.remedy.keeps_job());
    if shown.iter().any(can_change) {
        // The list is stored under the arguments of the command.
        let job = match (jobs, shown) {
            ([job], [_]) => quoted(job),
            _ => "JOB".to_owned(),
        };
        let _ = writeln!(
            text,
            "Nothing is changed. To make a change that keeps its place: hsched why {job} --apply N"
        );
    }
    let is_submitted_anew = |job_page: &JobPage| {
        let mut advice = job_page.explained.starts.advice.iter().zip(&job_page.commands);
        advice.any(|(advice, command)| !advice.remedy.keeps_job() && command.is_ok())
    };
    if shown.iter().any(is_submitted_anew) {
        let note = format!(
            "The commands of new jobs repeat the options that Slurm shows. It does not show {}.",
            HIDDEN_OPTIONS.join(", ")
        );
        text.push_str(&wrap(&note, context.terminal.width(), "  "));
        text.push('\n');
    }
    for note in shown.iter().filter_map(|job_page| job_page.explained.note.as_ref()) {
        text.push_str(&wrap(note, context.terminal.width(), "  "));
        text.push('\n');
    }
    for note in look.queue.snapshot.notes.iter().filter(|_| is_pending) {
        text.push_str(&wrap(&format!("{}: {note}", look.queue.label()), context.terminal.width(), "  "));
        text.push('\n');
    }
    text
}

/// Returns the cost of a remedy.
fn kind(remedy: &Remedy) -> WhyAdviceKind {
    match remedy {
        _ if !remedy.stops().is_empty() => WhyAdviceKind::EndsOther,
        Remedy::NewJob(_) => WhyAdviceKind::NewJob,
        Remedy::InPlace(set) if !set.drawbacks.is_empty() => WhyAdviceKind::KeepsPlace,
        _ => WhyAdviceKind::Free,
    }
}

/// Returns a description of a job in one or two sentences.
fn headline(shown: &JobPage, look: &JobFinder) -> String {
    let ExplainedJob { found, state, explanation, pending, .. } = &shown.explained;
    let name = found.name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    let others = found.job.as_ref().filter(|job| !job.ours).and_then(|job| job.user.as_ref());
    let of = others.map_or(String::new(), |user| format!(" of {user}"));
    let who = format!("Job {}{name}{of}", found.id);
    let Some(pending) = pending else {
        return match explanation.kind {
            StateKind::Ended => format!("{who} has ended: {state}."),
            // The snapshot of the queue does not contain the job.
            StateKind::Waits => format!("{who} is pending."),
            _ => format!("{who} runs."),
        };
    };
    let job = &pending.job;
    let waited = job.submitted.map_or(String::new(), |submitted| {
        format!(" for {}", span(look.queue.snapshot.taken_at.since(submitted)))
    });
    let place = match job.partitions.as_slice() {
        [] => String::new(),
        [one] => format!(" in partition {one}"),
        several => format!(" in partitions {}", several.join(", ")),
    };
    let tasks = if job.tasks > 1 { format!(", {} tasks,", job.tasks) } else { String::new() };
    let (limit, asks) = (shown.request().limit, asked(&job.asks));
    let each = if job.tasks > 1 { "Each asks" } else { "It asks" };
    format!("{who}{tasks} has been pending{waited}{place}. {each} for {asks}, {}.", span(limit))
}
