//! `hsched when`: when each job would finish, by request.

mod rows;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

pub(super) use self::rows::{gpus, row};
use self::table::table;
use crate::app::cluster_queue::ClusterQueue;
use crate::app::context::{Context, Format};
use crate::app::input;
use crate::app::queue_args::ElsewhereArgs;
use crate::app::report::ReportArgs;
use crate::app::slurm::script::{Script, script_file};
use crate::app::speeds::SpeedArgs;
use crate::app::start_estimates::{self, JobEstimates, OptionEstimate, PossibleRequests, QueueViewArgs};
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::script::request;
use crate::commands::script::when::{ScriptArgs, ScriptQuestion};
use crate::commands::when_report::when_report;
use crate::commands::{when_json, when_score};
use crate::settings::CommandLineSetting;
use hsched_engine::clock::Clock;
use hsched_model::{Choice, ErrorId, Job};
use hsched_queue::Start;
use hsched_ui::{Exit, Failure, ProgressLine, write_output};

/// Show when a batch script would start, or which request of a job would finish first
///
/// For a script, also lists small changes with which it would start sooner. For a job file, compares types and numbers of GPUs,
/// accounts and partitions, for each job on its own. hsched estimates each wait: it simulates
/// the queue many times, with run times and arrivals as in the past, and prints the median and an 80 % interval. That interval
/// contained 70 to 90 % of 335 real starts, depending on the data set. Changes nothing; docs/sites.md lists the calls to Slurm.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Batch script, or job file (YAML; - reads standard input).
    #[arg(value_name = "SCRIPT|JOBS")]
    jobs: Option<PathBuf>,
    /// Options of sbatch in addition to those in the script; without a script, the options for salloc or srun.
    #[arg(last = true, value_name = "OPTIONS", allow_hyphen_values = true)]
    options: Vec<String>,
    /// Show only what a batch script asks for, as sbatch reads it. Makes no calls to Slurm.
    #[arg(long, conflicts_with_all = ["score", "snapshot", "save", "apply", "submit", "may", "may_stop", "dry_run"])]
    request: bool,
    #[command(flatten)]
    script: ScriptArgs,
    /// Show how accurate the start estimates of the last 90 days were. Makes no calls to Slurm: hsched watch records the starts.
    #[arg(long, conflicts_with_all = ["jobs", "snapshot", "save"])]
    score: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    view: QueueViewArgs,
    #[command(flatten)]
    elsewhere: ElsewhereArgs,
    /// Also save the snapshot of the queue to this file, as JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot", help_heading = "Queue")]
    save: Option<PathBuf>,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Queue")]
    seed: u64,
    /// Time limit for the simulations, such as 10s or 2m.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = start_estimates::duration,
          help_heading = "Queue")]
    budget: Duration,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    speeds: SpeedArgs,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn flags(&self) -> Vec<CommandLineSetting> {
        self.speeds.flags()
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let wants_report = self.report.is_given()?;
        if wants_report && (self.request || self.score) {
            let message = "--report, --svg and --csv are for job files, not for --request and --score";
            return Err(Failure::new(Exit::Usage, message));
        }
        if self.request {
            return request::run(context, self.jobs.as_deref(), &self.options, self.format);
        }
        if self.score {
            return when_score::run(context, self.format);
        }
        if let Some(script) = self.script()? {
            if wants_report {
                let message = "--report, --svg and --csv are for job files, not for batch scripts";
                return Err(Failure::new(Exit::Usage, message));
            }
            return self.of_script(context, &script);
        }
        let Some(path) = &self.jobs else { return Ok(Exit::Usage) };
        if self.script.is_given() || !self.options.is_empty() {
            let message =
                "--apply, --submit, --may, --may-stop, --dry-run and options of sbatch are for batch scripts";
            return Err(Failure::new(Exit::Usage, format!("{message}; {} is none", input::name(path)))
                .id(ErrorId::OptionsConflict));
        }
        let jobs = self.elsewhere.applied(input::jobs(&input::text(path)?, path)?);
        let mut queues = self.view.learnt_queues(context)?;
        let mut told = self.told(context, &jobs, &queues)?;
        let has_start_now = told.iter().flat_map(|told| &told.list).any(|estimate| estimate.start.is_now());
        if let ([queue], true) = (queues.as_slice(), has_start_now) {
            // Free GPUs of an older look may have been taken since.
            if let Some(newer) = queue.newer(context)? {
                queues = vec![newer];
                told = self.told(context, &jobs, &queues)?;
            }
        }
        if let (Some(path), [queue]) = (&self.save, queues.as_slice()) {
            save(path, queue)?;
        }
        if wants_report {
            let parameters = [("jobs", json!(input::name(path))), ("seed", json!(self.seed))];
            self.report.write(when_report(&told, &queues, &parameters))?;
        }
        let text = match self.format {
            Format::Json => json_text(&when_json::json(&told, &queues))?,
            Format::Table => table(context, &told, &queues),
        };
        print(context, &text)?;
        Ok(start_estimates::exit(told.iter().map(|estimated| (estimated.job, estimated.choice.is_some()))))
    }
}

/// Printed for a request without a start estimate.
const UNKNOWN: &str = "no start can be estimated";

/// A job with the estimates of its requests.
pub(super) struct EstimatedJob<'a> {
    pub job: &'a Job,
    /// Index of the first job with the same requests, whose estimates it shares.
    first: usize,
    pub list: Vec<OptionEstimate>,
    /// Why the job has no requests.
    nothing: Option<String>,
    pub choice: Option<Choice>,
    pub notes: Vec<String>,
}

impl EstimatedJob<'_> {
    /// Returns the chosen request, or else the first one.
    pub(super) fn best(&self) -> Option<&OptionEstimate> {
        self.choice.and_then(|choice| OptionEstimate::of(&self.list, choice.id)).or(self.list.first())
    }

    /// Returns the reason for the chosen request, or for the lack of one.
    pub(super) fn reason(&self) -> Option<String> {
        let unknown = self.list.iter().find_map(|estimate| match &estimate.start {
            Start::Unknown(why) => Some(format!("{UNKNOWN}: {why}")),
            Start::Refused(refusal) => Some(format!("never: {refusal}")),
            Start::Estimated(_) | Start::Never => None,
        });
        let chosen = self.choice.map(|choice| choice.reason.word().to_owned());
        chosen.or_else(|| self.nothing.clone()).or(unknown)
    }
}

impl Args {
    /// Returns the script in question, or the bare options; `None` for a job file.
    fn script(&self) -> Result<Option<Script>, Failure> {
        let Some(path) = &self.jobs else {
            if self.options.is_empty() {
                return Err(Failure::new(
                    Exit::Usage,
                    "give a batch script, a job file, or options of sbatch",
                )
                .id(ErrorId::OptionNeeds)
                .hint("hsched when train.sh, or hsched when -- --gres=gpu:1 --time=4:00:00"));
            }
            return Ok(Some(Script::new(None, &self.options)));
        };
        Ok(script_file(path)?.map(|file| Script::new(Some(file), &self.options)))
    }

    fn of_script(&self, context: &Context, script: &Script) -> Result<Exit, Failure> {
        if self.elsewhere.is_given() {
            let message = "--partition and --account before -- are for job files";
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::OptionsConflict)
                .hint("give a script's options for sbatch after --"));
        }
        let queues = self.view.learnt_queues(context).map_err(|failure| match failure.exit {
            Exit::SlurmUnavailable => {
                let file = self.jobs.as_ref().map_or_else(
                    || "--request -- OPTIONS".to_owned(),
                    |path| format!("{} --request", path.display()),
                );
                failure.hint(format!("to see what it asks for, without Slurm: hsched when {file}"))
            }
            _ => failure,
        })?;
        let [queue] = queues.as_slice() else {
            return Err(Failure::new(
                Exit::Usage,
                "a script is looked at on one cluster: give one --snapshot",
            )
            .id(ErrorId::OptionsConflict));
        };
        let question = ScriptQuestion {
            script,
            args: &self.script,
            speeds: &self.speeds,
            format: self.format,
            seed: self.seed,
            futures: self.view.search.futures_alone(),
            budget: self.budget,
            is_live: self.view.snapshot.is_empty(),
            save: self.save.as_deref(),
        };
        question.run(context, queue)
    }

    /// Estimates the starts of all jobs; jobs with the same requests share one estimate.
    fn told<'a>(
        &self,
        context: &Context,
        jobs: &'a [Job],
        queues: &[ClusterQueue],
    ) -> Result<Vec<EstimatedJob<'a>>, Failure> {
        let possible = jobs.iter().map(|job| start_estimates::possible(context, &self.speeds, job, queues));
        let possible = possible.collect::<Result<Vec<_>, _>>()?;
        let first: Vec<usize> =
            (0..jobs.len()).map(|number| PossibleRequests::first_alike(&possible, number)).collect();
        let mut left = first.iter().enumerate().filter(|(number, first)| number == *first).count();
        let mut told: Vec<EstimatedJob> = Vec::new();
        let begin = context.clock.elapsed();
        for (number, job) in jobs.iter().enumerate() {
            let notes = possible[number].notes.clone();
            if first[number] < number {
                let alike = &told[first[number]];
                let (list, nothing) = (alike.list.clone(), alike.nothing.clone());
                told.push(EstimatedJob {
                    job,
                    first: first[number],
                    list,
                    nothing,
                    choice: alike.choice,
                    notes,
                });
                continue;
            }
            let spent = context.clock.elapsed().saturating_sub(begin);
            let share = self.budget.saturating_sub(spent) / u32::try_from(left.max(1)).unwrap_or(u32::MAX);
            let JobEstimates { list, nothing } =
                self.estimate_starts(context, job, &possible[number], queues, share);
            left -= 1;
            let choice = start_estimates::best(&list, self.view.search.cost_weight);
            told.push(EstimatedJob { job, first: number, list, nothing, choice, notes });
        }
        Ok(told)
    }

    /// Estimates a job's requests within its share of the budget.
    fn estimate_starts(
        &self,
        context: &Context,
        job: &Job,
        possible: &PossibleRequests,
        queues: &[ClusterQueue],
        share: Duration,
    ) -> JobEstimates {
        let _progress = ProgressLine::start(format!("{}: simulating the queue", job.name));
        let begin = context.clock.elapsed();
        let clock = &context.clock;
        let stop = || clock.elapsed().saturating_sub(begin) >= share;
        let futures = self.view.search.futures_alone();
        start_estimates::estimate_starts(possible, queues, self.seed, futures, &stop)
    }
}

/// Saves the snapshot of a queue to a file.
pub(super) fn save(path: &std::path::Path, queue: &ClusterQueue) -> Result<(), Failure> {
    let text = queue.snapshot.to_json().map_err(|error| Failure::from_error(Exit::Internal, &error))?;
    write_output(path, &text).map_err(|error| {
        Failure::new(Exit::Failed, format!("{}: cannot be written: {error}", path.display()))
            .id(ErrorId::FileUnwritable)
    })
}
