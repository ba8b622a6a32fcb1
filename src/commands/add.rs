//! `hsched add`: adds jobs for `hsched watch` to place.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::app::adding::{Addition, AdditionOptions, By};
use crate::app::context::{Context, Format};
use crate::app::deferred_commands;
use crate::app::folders::{note_missing_workdirs, note_shared_checkpoints};
use crate::app::goals;
use crate::app::policy_args::PolicyArgs;
use crate::app::queue_args::QueueArgs;
use crate::app::slurm::permissions::{note_troubles, refuse_accounts};
use crate::app::slurm::sbatch_options::refuse_options;
use crate::app::speeds::EstimateArgs;
use crate::app::submission::settled;
use crate::app::{file_kind, input, state};
use crate::commands::cli::{Subcommand, json_text, print};
use crate::settings::CommandLineSetting;
use hsched_model::Job;
use hsched_ui::{Exit, Failure};

/// Add jobs for `hsched watch` to place; submits nothing
///
/// The current directory, account, partition and quality of service are stored with the jobs, so `hsched watch` can
/// run in any directory. If a job of the same name is waiting, failed or was cancelled, the new job replaces it and
/// resumes after the last reported epoch, unless its `model`, `samples_per_epoch` or `global_batch` changed. If it
/// completed, the new job starts over. If it is in Slurm's queue, no job is added. Runs of a sweep that wait, run or have
/// completed with the same values are kept, so a sweep can get more samples while it runs, and only failed runs run again. While another hsched holds the
/// state directory, the command is deferred: `hsched watch` adds the jobs at its next turn.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Job file (YAML); - reads standard input.
    #[arg(value_name = "JOBS")]
    input: PathBuf,
    /// Show what would be added, without adding it.
    #[arg(long)]
    dry_run: bool,
    /// Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them.
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    queue: QueueArgs,
    #[command(flatten)]
    estimate: EstimateArgs,
    /// The policy with which `hsched watch` should plan. `watch` prints a note if it was started with another
    /// one.
    #[command(flatten)]
    policy: PolicyArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Additional sbatch options for every submission of these jobs.
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    sbatch: Vec<String>,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn flags(&self) -> Vec<CommandLineSetting> {
        self.queue.flags().into_iter().chain(self.estimate.flags()).collect()
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let text = input::text(&self.input)?;
        let jobs = input::jobs(&text, &self.input)?;
        if !self.dry_run {
            file_kind::refuse_examples(&text, &self.input, &jobs.iter().collect::<Vec<_>>())?;
        }
        let options = jobs.iter().flat_map(|job| &job.launch.sbatch);
        refuse_options(self.sbatch.iter().chain(&context.settings.jobs.sbatch).chain(options))?;
        let jobs: Vec<Job> = jobs.iter().map(|job| settled(context, job, &self.sbatch)).collect();
        refuse_accounts(context, &jobs.iter().collect::<Vec<_>>())?;
        let planned_by = self.policy.says_something().then(|| self.policy.words());
        let (restart, dry_run) = (self.restart, self.dry_run);
        let adding = AdditionOptions {
            context,
            sbatch: &self.sbatch,
            restart,
            dry_run,
            planned_by,
            is_patient: false,
            check: |_, _| Ok(()),
        };
        let (additions, by) = adding.add(&jobs)?;
        if by == By::Add {
            // If the command is deferred, the other hsched may be waiting for Slurm, so Slurm is not called
            // here.
            note_troubles(context, &jobs);
        }
        for what in goals::remarks(&jobs, state::now(context)) {
            context.note(&what);
        }
        note_missing_workdirs(context, &jobs);
        note_shared_checkpoints(context, &jobs.iter().collect::<Vec<_>>());
        match self.format {
            Format::Table => print(context, &self.table(&additions, by))?,
            Format::Json => {
                let jobs: Vec<Value> = additions.iter().map(Addition::to_json).collect();
                let value = json!({
                    "schema": "hsched.add/1", "dry_run": self.dry_run, "carried_out_by": by.word(), "jobs": jobs,
                });
                print(context, &json_text(&value)?)?;
            }
        }
        Ok(Exit::Done)
    }
}

impl Args {
    fn table(&self, additions: &[Addition], by: By) -> String {
        let line = |addition: &Addition| format!("{}: {}\n", addition.job, addition.text(self.dry_run, by));
        let mut text: String = additions.iter().map(line).collect();
        text.push_str(&match by {
            _ if self.dry_run => "no job was added (--dry-run)".to_owned(),
            By::Add => "hsched watch places these jobs".to_owned(),
            By::AddForRun => "hsched run places these jobs".to_owned(),
            By::Follower(backend) => deferred_commands::left(backend),
        });
        text.push('\n');
        text
    }
}
