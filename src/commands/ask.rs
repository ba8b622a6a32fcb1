//! `hsched ask`: adds a run for each set of values chosen by an external optimiser.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::adding::{Addition, AdditionOptions};
use crate::app::context::Context;
use crate::app::queue_args::QueueArgs;
use crate::app::slurm::permissions::refuse_accounts;
use crate::app::slurm::sbatch_options::refuse_options;
use crate::app::speeds::EstimateArgs;
use crate::app::submission::settled;
use crate::app::{file_kind, input, state};
use crate::commands::cli::{Subcommand, print};
use crate::settings::CommandLineSetting;
use hsched_engine::State;
use hsched_model::formats::{Trial, trial_json};
use hsched_model::{ErrorId, Job};
use hsched_ui::{Exit, Failure};

/// Add a run for each set of values that an optimiser chooses
///
/// Reads a line of JSON for each trial from standard input, such as {"trial": 7, "parameters": {"lr": 0.1}}, and adds a run
/// for it as soon as the line arrives: the only job in JOBS with these values, which are filled in like those of a sweep, under
/// the name NAME-t7. `hsched watch` or `hsched run` places the runs, and `hsched tell NAME` prints their results.
///
/// Prints a line of JSON for each trial: {"trial": 7, "job": "NAME-t7", "state": "added", "message": null}. The state is
/// `added`, `again` if its last run failed or was cancelled, `kept` if the same trial is known, so an optimiser that was
/// interrupted may ask again, or `refused`, with the reason as message; later lines are still read. The exit status is 1 if a
/// trial was refused.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Job file (YAML) with one job and no sweep.
    #[arg(value_name = "JOBS")]
    input: PathBuf,
    /// Show what would be added, without adding it.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    queue: QueueArgs,
    #[command(flatten)]
    estimate: EstimateArgs,
    /// Additional sbatch options for every submission of these runs.
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    sbatch: Vec<String>,
}

impl Subcommand for Args {
    fn flags(&self) -> Vec<CommandLineSetting> {
        self.queue.flags().into_iter().chain(self.estimate.flags()).collect()
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if self.input == Path::new("-") {
            let failure =
                Failure::new(Exit::Usage, "standard input has the trials: the job file cannot be -");
            return Err(failure.id(ErrorId::OptionsConflict).hint("give the path of a file"));
        }
        let text = input::text(&self.input)?;
        let file = self.input.display().to_string();
        Trial::check_file(&text).map_err(|problems| Failure::from_problems(&problems, &file))?;
        let mut exit = Exit::Done;
        for (line, number) in io::stdin().lock().split(b'\n').zip(1..) {
            let line = line.map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot read standard input: {error}"))
            })?;
            let line = String::from_utf8_lossy(&line);
            if line.trim().is_empty() {
                continue;
            }
            let added = match Trial::read(&line) {
                Ok(trial) => self.added(context, &text, &trial),
                Err(error) => {
                    let message = format!("line {number} of standard input: {error}");
                    Err(Failure::new(Exit::BadInput, message))
                }
            };
            if let Err(failure) = &added {
                if state::is_trouble(failure) {
                    return added.map(|_| exit);
                }
                exit = Exit::Failed;
            }
            let id = Trial::id_of(&line);
            print(context, &format!("{}\n", answer_json(id.as_deref(), &added)))?;
        }
        Ok(exit)
    }
}

impl Args {
    /// Adds the run of a trial.
    fn added(&self, context: &Context, text: &str, trial: &Trial) -> Result<Addition, Failure> {
        let job = trial
            .job(text)
            .map_err(|problems| Failure::from_problems(&problems, &self.input.display().to_string()))?;
        if !self.dry_run {
            file_kind::refuse_examples(text, &self.input, &[&job])?;
        }
        refuse_options(self.sbatch.iter().chain(&context.settings.jobs.sbatch).chain(&job.launch.sbatch))?;
        let job = settled(context, &job, &self.sbatch);
        refuse_accounts(context, &[&job])?;
        let (sbatch, dry_run) = (&self.sbatch[..], self.dry_run);
        let adding = AdditionOptions {
            context,
            sbatch,
            restart: false,
            dry_run,
            planned_by: None,
            is_patient: true,
            check: refuse_other_values,
        };
        let (mut additions, _) = adding.add(&[job])?;
        additions.pop().ok_or_else(|| Failure::new(Exit::Internal, "nothing was said of the run"))
    }
}

/// Refuses a trial if a run with the same name has other values.
fn refuse_other_values(jobs: &[Job], known: &State) -> Result<(), Failure> {
    let other = |job: &Job| known.find(&job.name).filter(|known| known.job.variant != job.variant);
    let Some((job, other)) = jobs.iter().find_map(|job| Some((job, other(job)?))) else { return Ok(()) };
    let message = match &other.job.variant {
        Some(variant) => {
            format!("{} has other values: {}", job.name, Value::Object(variant.parameters.clone()))
        }
        None => format!("{} is not a trial", job.name),
    };
    Err(Failure::new(Exit::BadInput, message)
        .id(ErrorId::NameTaken)
        .hint("give the trial a number or a name of its own"))
}

fn answer_json(id: Option<&str>, added: &Result<Addition, Failure>) -> Value {
    let trial = id.map(trial_json);
    match added {
        Ok(added) => json!({
            "trial": trial, "job": added.job.as_str(), "state": added.word(), "message": null,
        }),
        Err(failure) => {
            json!({ "trial": trial, "job": null, "state": "refused", "message": failure.message })
        }
    }
}
