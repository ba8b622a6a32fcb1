//! `hsched watch`: runs the engine on the real cluster, turn by turn.

mod turns;

use std::time::Duration;

use clap::ValueEnum;

use crate::app::context::{Context, Format};
use crate::app::policy_args::{PolicyArgs, PolicyName};
use crate::app::policy_flags::{PolicyFlags, WatchedOverTime};
use crate::app::speeds::EstimateArgs;
use crate::app::start_estimates;
use crate::app::state;
use crate::commands::cli::Subcommand;
use crate::commands::watch::turns::Watch;
use crate::settings::CommandLineSetting;
use hsched_engine::Rules;
use hsched_engine::store::{StateDir, StateError};
use hsched_model::ErrorId;
use hsched_model::formats::ValueError;
use hsched_plan::{Moves, Parameters, Replanning};
use hsched_ui::{Exit, Failure};

/// Follow the jobs: count epochs, measure speeds, submit waiting jobs to free GPUs, retry failed jobs
///
/// Each turn reads the queue, the nodes and the reports of the ranks, and submits the jobs that can run. `watch` ends
/// when all jobs have ended, with exit code 1 if a job failed or was cancelled. You can kill it at any time and start
/// it again; no job is lost. From cron, use `hsched watch --once`.
///
/// The policy horizon plans over time to minimise the mean completion time. It stops only jobs with the key
/// `checkpoint`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("policy", |arg| arg.value_parser(PolicyName::WATCHED)))]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
pub(super) struct Args {
    /// Run one turn and exit.
    #[arg(long, conflicts_with_all = ["interval", "forever"])]
    once: bool,
    /// Time between two turns, such as 30s or 5m.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval)]
    interval: Duration,
    /// Keep running when all jobs have ended, for jobs that are added later.
    #[arg(long)]
    forever: bool,
    /// Show what would be done and why, without doing it.
    #[arg(long)]
    dry_run: bool,
    /// Whether to stop running jobs and move them to better GPUs. With never, only waiting jobs get free GPUs.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    moves: MoveMode,
    /// Also queue jobs in Slurm that find no free GPUs, or that finish earlier on GPUs that are in use.
    ///
    /// Each job requests the GPUs on which it finishes first, including the wait. Every 10 min, and whenever GPUs
    /// become free, `watch` re-evaluates pending jobs. If another request finishes the job at least 10 % and 10 min
    /// earlier, `watch` updates the pending request, or queues the other request beside it; the first to start
    /// trains. A job without `max_gpus` requests at most 32 GPUs. The setting `capacity` limits the GPUs of each
    /// type.
    #[arg(long)]
    queue: bool,
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "", hide = true)]
    race: Option<String>,
    /// auto: move a job only if the time saved exceeds the cost of the restart by this fraction of the cost.
    #[arg(long, value_name = "FRACTION", default_value_t = Moves::USUAL_MARGIN, value_parser = margin, allow_negative_numbers = true)]
    margin: f64,
    /// Request the nodes of the plan by name, instead of any nodes with the same GPUs.
    #[arg(long)]
    pin: bool,
    /// Command to call when jobs complete, fail, or cannot start without your help (setting notify). It gets one line
    /// per job on standard input.
    #[arg(long, value_name = "COMMAND")]
    notify: Option<String>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    flags: PolicyFlags<WatchedOverTime>,
    #[command(flatten)]
    estimate: EstimateArgs,
    /// Output format: text, or one JSON object per line with time, job, topic and text.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Stop each search after this time and use the best plan found so far.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    budget: Duration,
}

/// Whether running jobs are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum MoveMode {
    #[default]
    Never,
    Auto,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn flags(&self) -> Vec<CommandLineSetting> {
        self.estimate
            .flags()
            .into_iter()
            .chain(CommandLineSetting::of_key("notify", self.notify.as_deref()))
            .collect()
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if self.race.is_some() {
            return Err(Failure::new(Exit::Usage, "hsched watch has no --race")
                .id(ErrorId::OptionsConflict)
                .hint(
                    "hsched watch --queue adds a better request when there is one; hsched submit --race N \
                 queues N requests at once",
                ));
        }
        if self.queue && !hsched_lab::registry().names().contains(&self.policy.policy.as_str()) {
            let name = &self.policy.policy;
            let message = format!(
                "policy {name} submits a job only when GPUs are free for it, so --queue has no effect"
            );
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::OptionsConflict)
                .hint(format!("remove --queue, or use --policy {}", hsched_lab::registry().names()[0])));
        }
        let rules = Rules { pinned: self.pin, ..state::rules(context) };
        let watch = Watch::new(self, context, rules);
        if self.dry_run {
            return watch.preview();
        }
        if self.once {
            return watch.once();
        }
        let root = state::root(context)?;
        let _alone = StateDir::lock_watch(&root).map_err(|error| match error {
            StateError::Locked { path, .. } => {
                let message = format!("{}: another hsched watch already follows these jobs", path.display());
                Failure::new(Exit::Locked, message).id(ErrorId::Locked).hint("hsched status shows them")
            }
            other => state::failure(&other),
        })?;
        watch.go_on()
    }
}

impl Args {
    /// Returns the parameters of replanning and of the policy.
    ///
    /// # Errors
    /// If a policy needs a file that is missing or invalid.
    fn parameters(&self) -> Result<Parameters, Failure> {
        let moves = match self.moves {
            MoveMode::Never => Moves::Never,
            MoveMode::Auto => Moves::Auto { margin: self.margin },
        };
        let replanning = Replanning { moves, queue: self.queue, ..Replanning::default() };
        let parameters = Parameters { replanning, ..Parameters::default() };
        self.flags.parameters(parameters, &[&self.policy.policy])
    }
}

fn interval(text: &str) -> Result<Duration, ValueError> {
    let duration = start_estimates::duration(text)?;
    if duration.is_zero() {
        Err(ValueError::new("must be above 0").id(ErrorId::NumberRange))
    } else {
        Ok(duration)
    }
}

fn margin(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number.is_finite() && number >= 0.0 { Ok(number) } else { Err("must be 0 or more".into()) }
}
