//! The measured speeds of the state directory, for commands that plan with them or change them.

use crate::app::context::Context;
use crate::app::named::WordParser;
use crate::app::state;
use crate::settings::CommandLineSetting;
use hsched_engine::store::{BY_HAND, SpeedFile, SpeedFileError};
use hsched_model::{ErrorId, Estimates, GpuType, Job};
use hsched_plan::throughput::{Cache, ThroughputMatrix, UnusableType};
use hsched_plan::{Exclusion, JobModel, Problem};
use hsched_ui::{Exit, Failure};

/// Options for the speeds used in planning.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Planning")]
pub(crate) struct SpeedArgs {
    /// Use only the speeds of the job file, not measured speeds.
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    estimate: EstimateArgs,
}

/// Whether speeds may be estimated.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Planning")]
pub(crate) struct EstimateArgs {
    /// Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt`
    /// estimates from other models that were measured on both types; `all` also uses the job files and the table of
    /// GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence.
    #[arg(long, value_name = "WHICH", value_parser = WordParser(&Estimates::NAMES))]
    estimate: Option<Estimates>,
}

impl EstimateArgs {
    /// Returns the settings that the flag gives.
    pub(crate) fn flags(&self) -> Vec<CommandLineSetting> {
        CommandLineSetting::of_key("estimate", self.estimate.map(Estimates::name)).into_iter().collect()
    }
}

impl SpeedArgs {
    /// Returns arguments that use only the speeds of job files.
    pub(crate) fn of_files() -> Self {
        Self { no_cache: true, estimate: EstimateArgs { estimate: None } }
    }

    /// Returns the speeds of the jobs on a cluster's GPU types.
    ///
    /// # Errors
    /// If the file of measured speeds cannot be used.
    pub(crate) fn matrix(
        &self,
        context: &Context,
        jobs: &[Job],
        gpu_types: &[GpuType],
    ) -> Result<ThroughputMatrix, Failure> {
        // Without a state directory there are no measurements.
        let wanted = !self.no_cache && context.settings.state_dir.is_some();
        let cache = if wanted { load(context)?.cache } else { Cache::default() };
        Ok(ThroughputMatrix::new(jobs, gpu_types, &cache, context.settings.jobs.estimate))
    }

    /// Returns the settings that the flags give.
    pub(crate) fn flags(&self) -> Vec<CommandLineSetting> {
        self.estimate.flags()
    }
}

/// Returns advice for offered types that are excluded because of an unknown speed, if there are any.
pub(crate) fn advice(context: &Context, jobs: &[Job], problem: &Problem) -> Option<String> {
    let setting = context.settings.jobs.estimate;
    let left_out = |(job, model): (&Job, &JobModel)| {
        // If the job can use no GPU type, its own message has the advice.
        let is_usable = model.types.iter().any(Option::is_some);
        let no_throughput = Exclusion::Speed(UnusableType::NoThroughput);
        let lacks = model.unusable.iter().any(|(_, why)| *why == no_throughput);
        is_usable && lacks && job.estimate.unwrap_or(setting) != Estimates::All
    };
    let advice = "to use a GPU type without a known speed, measure the speed with hsched probe or estimate it with --estimate all";
    jobs.iter().zip(&problem.jobs).any(left_out).then(|| advice.to_owned())
}

/// Returns the file of measured speeds; a damaged one counts as empty, with a warning.
///
/// # Errors
/// If no state directory is known, or the file cannot be used.
pub(crate) fn load(context: &Context) -> Result<SpeedFile, Failure> {
    let (file, damage) = load_or_empty(context)?;
    if let Some(damage) = damage {
        context.warn_once(&damage);
    }
    Ok(file)
}

/// Returns the file of measured speeds, or an empty one and a sentence about the damage.
fn load_or_empty(context: &Context) -> Result<(SpeedFile, Option<String>), Failure> {
    let state = state::root(context)?;
    let sentence = |error: SpeedFileError| {
        let edited = format!("; if you edited it, set its \"sha256\" to {BY_HAND:?}");
        let advice = if error.is_of_checksum() { edited } else { String::new() };
        format!("{} {}{advice}", SpeedFile::path(&state).display(), error.damage())
    };
    let read = SpeedFile::load_or_empty(&state).map(|(file, damage)| (file, damage.map(sentence)));
    read.map_err(|error| {
        let failure = Failure::from_error(Exit::BadInput, &error).id(ErrorId::SpeedsFile);
        let message = format!("{}: {}", SpeedFile::path(&state).display(), failure.message);
        Failure { message, ..failure }
            .hint("the file was not changed: repair it, update hsched if a newer version wrote it, or move it away")
            .hint("hsched plan --no-cache does not use it")
    })
}

/// Changes the file of measured speeds, unless this is a dry run, and returns the result of `change`.
///
/// A damaged file is kept under another name.
///
/// # Errors
/// If the state is locked, the file cannot be used or written, or `change` fails.
pub(crate) fn change<T>(
    context: &Context,
    dry_run: bool,
    change: impl FnOnce(&mut SpeedFile) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if dry_run {
        return change(&mut load(context)?);
    }
    let failure = |failure: Failure| failure.hint("nothing was changed");
    let state = state::open(context).map_err(failure)?;
    let (mut file, damage) = load_or_empty(context)?;
    let result = change(&mut file)?;
    if let Some(damage) = damage {
        let kept = state.set_speeds_aside().map_err(|error| failure(state::failure(&error)))?;
        context.warn(&format!("{damage}; the damaged file is kept as {kept}"));
        file.save(&state).map_err(|error| state::failure(&error))?;
        return Ok(result);
    }
    file.save(&state).map_err(|error| failure(state::failure(&error)))?;
    Ok(result)
}
