//! `hsched review`: better requests for jobs, from their accounting.

mod json;
mod waits;

use std::path::{Path, PathBuf};

use chrono::TimeDelta;

use crate::app::cluster_queue::{self, ClusterQueue};
use crate::app::context::{Context, Format};
use crate::app::input;
use crate::app::slurm::permissions::user_name;
use crate::app::slurm::queue_look::{self, Freshness};
use crate::app::state;
use crate::commands::cli::{Subcommand, json_text, print};
use hsched_engine::clock::Clock;
use hsched_model::{ErrorId, Time};
use hsched_slurm::accounting::{self, Accounting, HeaderError};
use hsched_slurm::review::review;
use hsched_slurm::site::Config;
use hsched_slurm::time;
use hsched_ui::{Exit, Failure, ReviewReport, review_text};

/// Show how much of their requests your past jobs used, and what to request next time
///
/// Groups past runs by job name and compares time limit, memory, CPUs and GPUs with their use. Recommends `#SBATCH` options
/// only if they would have cut at most 2 % of the past runs. With Slurm, it estimates from today's queue how much waiting the
/// change saves. Changes nothing; reads your own jobs with one call of sacct.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many days to look back: from now, or from the newest end in the file.
    #[arg(long, value_name = "N", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Read saved output of sacct instead of asking Slurm; - reads standard input.
    ///
    /// Print it with `sacct -D -P --starttime=now-90days
    /// --format=JobIDRaw,JobName,Partition,State,ExitCode,Submit,Start,End,Timelimit,ReqTRES,AllocTRES,NNodes,NTasks,ReqMem,MaxRSS,TotalCPU,TRESUsageInAve`.
    /// Columns may be in any order, and a file may hold several such outputs.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Use this snapshot of the queue (`hsched when --save`) instead of asking Slurm, to estimate how much waiting the
    /// recommendations avoid.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Read Slurm's queue now instead of using a look that is up to a minute old.
    #[arg(long, conflicts_with_all = ["from", "snapshot"])]
    refresh: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let (accounting, until) = self.accounting(context)?;
        let since = until.map(|until| Time(until.0 - Self::DAY * f64::from(self.days)));
        let runs: Vec<_> = accounting
            .runs
            .iter()
            .filter(|run| since.is_none_or(|since| run.ended.0 >= since.0))
            .cloned()
            .collect();
        let names = review(&runs);
        let queue = if names.iter().any(waits::is_smaller) { self.queue(context)? } else { None };
        let saved = waits::saved(context, &names, queue.as_ref());
        if let Some(seen) = queue.as_ref().and_then(ClusterQueue::seen_earlier) {
            context.note(&seen);
        }
        let text = match self.format {
            Format::Json => json_text(&json::json(&names, &saved, &accounting))?,
            Format::Table => review_text(
                &ReviewReport { names: &names, saved: &saved, accounting: &accounting, since, until },
                context.terminal,
            ),
        };
        print(context, &text)?;
        Ok(Exit::Done)
    }
}

impl Args {
    const DAY: f64 = 86_400.0;

    /// Returns the past runs and the end of the period: now, or the newest end in the file.
    fn accounting(&self, context: &Context) -> Result<(Accounting, Option<Time>), Failure> {
        if let Some(path) = &self.from {
            let read = Accounting::parse(&input::bytes(path)?, |text| time::without_zone(text).map(Time));
            let accounting = read.map_err(|error| unreadable(path, &error))?;
            let newest = accounting.newest;
            return Ok((accounting, newest));
        }
        if context.slurm.config().is_some_and(Config::lacks_accounting) {
            let message = "this Slurm has no accounting database, which hsched review reads with sacct";
            return Err(Failure::new(Exit::Failed, message)
                .id(ErrorId::SlurmRefused)
                .hint("read the saved output of sacct of another cluster with --from FILE"));
        }
        let now = context.clock.now();
        let since = now - TimeDelta::days(self.days.into());
        let printed = context.slurm.ask(&accounting::command(&user_name(), since))?;
        let read = Accounting::parse(printed.as_bytes(), |text| time::unix(text).map(Time));
        let accounting = read.map_err(|error| {
            Failure::new(Exit::Failed, format!("the output of sacct cannot be read: {error}"))
                .id(ErrorId::SlurmOutput)
        })?;
        Ok((accounting, Some(state::now(context))))
    }

    /// Returns the queue for the estimates of saved waiting; `None` if only a file of past runs is read, or
    /// if Slurm's queue cannot be read.
    fn queue(&self, context: &Context) -> Result<Option<ClusterQueue>, Failure> {
        match (&self.snapshot, &self.from) {
            (Some(path), _) => cluster_queue::of_file(context, path).map(Some),
            (None, Some(_)) => Ok(None),
            (None, None) => Ok(match queue_look::look(context, Freshness::of(self.refresh)) {
                Ok(looked) => Some(ClusterQueue::live(context, looked)),
                Err(failure) => {
                    context.note(&format!("cannot estimate the saved waiting: {}", failure.message));
                    None
                }
            }),
        }
    }
}

fn unreadable(path: &Path, error: &HeaderError) -> Failure {
    let columns = accounting::COLUMNS.join(",");
    Failure::new(Exit::BadInput, format!("{}: {error}", input::name(path)))
        .id(ErrorId::SlurmOutput)
        .hint(format!("print it with `sacct -D -P --starttime=now-90days --format={columns}`"))
}
