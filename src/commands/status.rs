//! `hsched status`: where the jobs stand, without a question to Slurm.

use std::path::Path;

use crate::commands::cancel::unknown_job;
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::context::{Context, Format};
use crate::commands::state;
use crate::engine::{Attempt, Event, News, Rules, State, Tracked, apply};
use crate::error::Failure;
use crate::exit::Exit;
use crate::live::{absolute, reported};
use crate::model::Time;
use crate::store::{StateDir, last_report, report_folder, run_folder};
use crate::ui::{Files, Standing, status_details, status_json, status_table};

/// Show where the jobs stand: GPUs, epochs, predicted and observed times, when they end, what happened last
///
/// Asks Slurm nothing: shows what hsched last saw of its jobs, and the epochs that their ranks have reported since.
/// `hsched watch` keeps it up to date. Exit code 0 says that the state could be read, not that all jobs are well.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show these jobs in full, with every submission and the files.
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
    /// How to print it.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let root = state::root(context)?;
        let rules = state::rules(context);
        let mut state = StateDir::peek(&root, &rules).map_err(|error| state::failure(&error))?;
        let now = state::now(context);
        for note in count_reported(&mut state, &root, now, &rules) {
            context.note(&note);
        }
        let chosen = self.chosen(&state)?;
        let files = |tracked: &Tracked, attempt: &Attempt| files(context, &root, tracked, attempt);
        let text = match self.format {
            Format::Json => json_text(&status_json(&state, &chosen, now, &files))?,
            Format::Table if state.jobs.is_empty() => {
                let place = root.display();
                format!("no jobs in {place}: hsched add JOBS or hsched submit JOBS makes some known\n")
            }
            Format::Table if self.jobs.is_empty() => status_table(&state, now, context.terminal),
            Format::Table => {
                let details = |tracked: &&Tracked| {
                    let standing = Standing::new(tracked);
                    let files = standing.attempt.map(|attempt| files(tracked, attempt)).unwrap_or_default();
                    status_details(standing, &files, now, context.terminal)
                };
                chosen.iter().map(details).collect::<Vec<_>>().join("\n")
            }
        };
        print(context, &text)?;
        Ok(Exit::Done)
    }
}

impl Args {
    /// Returns the jobs that were asked for; all when none was.
    fn chosen<'a>(&self, state: &'a State) -> Result<Vec<&'a Tracked>, Failure> {
        if self.jobs.is_empty() {
            return Ok(state.jobs.iter().collect());
        }
        let find = |name: &String| {
            let own = state.jobs.iter().find(|tracked| tracked.job.name.as_str() == name);
            own.ok_or_else(|| unknown_job(name, state))
        };
        self.jobs.iter().map(find).collect()
    }
}

/// Counts the epochs that ranks have reported since the state was written, each as old as the report's file.
///
/// Returns notes on reports that cannot be read.
fn count_reported(state: &mut State, root: &Path, now: Time, rules: &Rules) -> Vec<String> {
    let (epochs, notes) = reported(root, state, now);
    for (job, run, mut report) in epochs {
        let written = last_report(&report_folder(root, &run, job.as_str()));
        report.at = written.map_or(now, |written| Time(written.0.min(now.0)));
        apply(state, now, &Event::Attempt { job, run, news: News::Epoch(report) }, rules);
    }
    notes
}

/// Returns the files of a submission, each with its name.
fn files(context: &Context, root: &Path, tracked: &Tracked, attempt: &Attempt) -> Files {
    let job = &tracked.job;
    let name = job.name.as_str();
    let workdir = absolute(&context.directory, job.launch.workdir.as_deref().unwrap_or("."));
    [
        ("script", run_folder(root, &attempt.run).join(format!("{name}.sbatch"))),
        ("output", workdir.join(format!("{name}.out"))),
        ("reports", report_folder(root, &attempt.run, name)),
    ]
    .map(|(what, path)| (what, path.display().to_string()))
    .to_vec()
}
