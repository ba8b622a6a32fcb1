//! `hsched run`: the engine on the GPUs of this machine or of the surrounding allocation.

mod adding;
mod array_sizing;
mod assumed;
mod closing;
mod complaint;
mod local_run;
mod measuring;
mod pool;
mod serving;
mod sizing;
mod target;
mod telling;
mod turns;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Arg;
use clap::builder::UnknownArgumentValueParser;

use crate::app::context::{Context, Format};
use crate::app::deferred_commands;
use crate::app::folders::{note_missing_workdirs, note_shared_checkpoints};
use crate::app::policy_args::OverTimeArgs;
use crate::app::speeds::EstimateArgs;
use crate::app::start_estimates;
use crate::app::state;
use crate::app::submission::settled;
use crate::app::{file_kind, input};
use crate::commands::cli::Subcommand;
use crate::commands::run::local_run::LocalRun;
use crate::commands::run::target::{ExecutionTarget, WantedDevices};
use crate::settings::CommandLineSetting;
use hsched_engine::JobState;
use hsched_engine::store::{PoolFolder, StateDir};
use hsched_model::{ErrorId, Job};
use hsched_ui::{Exit, Failure};

/// Run jobs on the GPUs of this machine, without Slurm
///
/// Starts the jobs on this machine's GPUs and follows them until all have ended. Plans, policies, shares, reports and
/// measured speeds work as with Slurm, but a decision takes effect within a second. With `--devices cpu:4`, the jobs run
/// on simulated devices, so the command also works on a machine without GPUs.
///
/// Without JOBS, it resumes the jobs in the state directory. Completed jobs do not run again; other jobs resume after
/// the last reported epoch. While it runs, `hsched status`, `hsched add` and `hsched cancel` work as usual.
///
/// On Ctrl-C, all jobs save and stop, and hsched exits with 130; on SIGTERM or SIGUSR1, with 85. The next
/// `hsched run` resumes them. A second Ctrl-C stops everything at once. If hsched is killed, its jobs end
/// with it. In a Slurm job of `submit --pack`, a SIGUSR1 that may be Slurm's own notice, up to a minute
/// early, only prints a note; a second one counts.
#[derive(Debug, clap::Args)]
// The option of `submit --pack` is refused with the name of the one of `run`.
#[command(arg(Arg::new("gpus").long("gpus").value_name("GPUS").hide(true).value_parser(UnknownArgumentValueParser::suggest_arg("--devices"))))]
pub(super) struct Args {
    /// Job file (YAML); - reads standard input.
    #[arg(value_name = "JOBS")]
    input: Option<PathBuf>,
    #[command(flatten)]
    wanted: WantedDevices,
    /// Start NVIDIA's MPS daemon (nvidia-cuda-mps-control) for runs that share GPUs, and end it with hsched.
    ///
    /// Only with slots, and on one node. Where the daemon is missing or does not start, hsched says so, and the runs share
    /// their GPUs without it.
    #[arg(long)]
    mps: bool,
    /// Start the jobs of JOBS over at the first epoch. Checkpoints are not deleted: remove them, or the training program
    /// resumes from them.
    #[arg(long, requires = "input")]
    restart: bool,
    /// Show what would be started and why, without doing it.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    policy: OverTimeArgs,
    /// Command to call when jobs complete, fail, or cannot start without your help (setting notify). It gets one line
    /// per job on standard input.
    #[arg(long, value_name = "COMMAND")]
    notify: Option<String>,
    #[command(flatten)]
    estimate: EstimateArgs,
    /// Output format: text, or one JSON object per line with time, job, topic and text.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Stop each search after this time and use the best plan found so far.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = start_estimates::duration)]
    budget: Duration,
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
        let jobs = match &self.input {
            Some(path) => self.jobs(context, path)?,
            None => Vec::new(),
        };
        let jobs: Vec<Job> = jobs.iter().map(|job| settled(context, job, &[])).collect();
        note_missing_workdirs(context, &jobs);
        note_shared_checkpoints(context, &jobs.iter().collect::<Vec<_>>());
        if let Some(pool) = PoolFolder::find(&state::root(context)?) {
            return self.run_in_pool(context, pool);
        }
        let target = ExecutionTarget::find(context, &self.wanted, slots(context, &jobs)?)?;
        if target.devices.has_slots() {
            refuse_several_gpus(&jobs)?;
        }
        let directory = state::open(context)?;
        // The processes that this one starts end with it, so they need not inherit the lock.
        directory.keep_lock();
        LocalRun::new(self, context, &directory, target)?.run(&jobs)
    }
}

impl Args {
    /// Returns the jobs of a file; refuses example values that were not replaced.
    fn jobs(&self, context: &Context, path: &Path) -> Result<Vec<Job>, Failure> {
        let text = input::text(path)?;
        let jobs = input::jobs(&text, path)?;
        if self.dry_run {
            if let Some(note) = file_kind::note_examples(&text, path, "run") {
                context.note(&note);
            }
        } else {
            file_kind::refuse_examples(&text, path, &jobs.iter().collect::<Vec<_>>())?;
        }
        Ok(jobs)
    }

    /// Runs as a member of the pool that owns the state directory.
    fn run_in_pool(&self, context: &Context, pool: PoolFolder) -> Result<Exit, Failure> {
        if self.input.is_some() || self.dry_run {
            let message = "this state directory belongs to a pool of Slurm jobs";
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::OptionsConflict)
                .hint("to add jobs, use hsched add JOBS"));
        }
        let slots = pool.plan().map_err(|error| state::failure(&error))?.slots.max(1);
        let target = ExecutionTarget::of_member(context, &self.wanted, slots)?;
        let directory =
            StateDir::of_member(&state::root(context)?).map_err(|error| state::failure(&error))?;
        LocalRun::new(self, context, &directory, target)?.run_in_pool(pool)
    }

    /// Returns the command line that resumes this run.
    fn again(&self) -> String {
        format!("hsched run{}{}", self.wanted.words(), if self.mps { " --mps" } else { "" })
    }
}

/// Returns how many runs share a GPU if the command line does not say: as many as these jobs and the open ones
/// of earlier files allow.
fn slots(context: &Context, jobs: &[Job]) -> Result<u32, Failure> {
    let known = deferred_commands::expected(context, &state::rules(context))?;
    let is_other =
        |tracked: &&JobState| !tracked.phase.is_over() && jobs.iter().all(|job| job.name != tracked.job.name);
    let others = known.jobs.iter().filter(is_other).map(|tracked| &*tracked.job);
    Ok(shared_slots(context, jobs.iter().chain(others)))
}

/// Returns how many runs share a GPU: as many as all jobs allow.
pub(super) fn shared_slots<'j>(context: &Context, jobs: impl Iterator<Item = &'j Job>) -> u32 {
    let slots: Vec<u32> = jobs.map(|job| job.slots.unwrap_or(1)).collect();
    let (least, most) = (slots.iter().min().copied().unwrap_or(1), slots.iter().max().copied().unwrap_or(1));
    if least != most {
        context.note(&format!("jobs allow between {least} and {most} slots; using {least} per GPU"));
    }
    least
}

/// Refuses jobs that need more than one slot.
pub(super) fn refuse_several_gpus(jobs: &[Job]) -> Result<(), Failure> {
    let Some(job) = jobs.iter().find(|job| job.least_gpus() > 1) else { return Ok(()) };
    let message = format!("{} needs {} GPUs, and a slot is a fraction of one", job.name, job.least_gpus());
    Err(Failure::new(Exit::BadInput, message).id(ErrorId::KeysConflict).hint("run it without slots"))
}
