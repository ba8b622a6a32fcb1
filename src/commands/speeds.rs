//! The measured speeds of the state directory, for the commands that plan with them or change them.

use clap::builder::PossibleValuesParser;

use crate::commands::context::Context;
use crate::commands::state;
use crate::error::Failure;
use crate::exit::Exit;
use crate::model::{GpuType, Job};
use crate::policy::Problem;
use crate::store::SpeedFile;
use crate::throughput::{Cache, Cell, Estimates, ThroughputMatrix, Unusable};

/// What can be said about the speeds to plan with.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Planning")]
pub(super) struct SpeedArgs {
    /// Plan by the job file's speeds alone, not by those measured.
    #[arg(long)]
    no_cache: bool,
    /// Which speeds that nobody knows are estimated: `off`; `learnt`, by the ratios between GPU types that measured
    /// models have shown; or `all`, also by the job files' ratios and the table of GPUs.
    #[arg(long, value_name = "WHICH", default_value = "learnt",
          value_parser = PossibleValuesParser::new(Estimates::NAMES.map(|(name, _)| name)))]
    estimate: String,
}

impl SpeedArgs {
    /// Returns what is known of the jobs on a cluster's GPU types.
    ///
    /// # Errors
    /// When the file of measured speeds cannot be used.
    pub(super) fn matrix(
        &self,
        context: &Context,
        jobs: &[Job],
        gpu_types: &[GpuType],
    ) -> Result<ThroughputMatrix, Failure> {
        // Where there is no state directory nothing was measured.
        let wanted = !self.no_cache && context.settings.state_dir.is_some();
        let cache = if wanted { load(context)?.cache } else { Cache::default() };
        Ok(ThroughputMatrix::with_estimates(jobs, gpu_types, &cache, self.estimates()))
    }

    fn estimates(&self) -> Estimates {
        let named = Estimates::NAMES.iter().find(|(name, _)| *name == self.estimate);
        named.map_or_else(Estimates::default, |&(_, which)| which)
    }

    /// Returns how types on offer that are left out for want of a speed could be used, where there are any.
    pub(super) fn advice(
        &self,
        jobs: &[Job],
        problem: &Problem,
        speeds: &ThroughputMatrix,
    ) -> Option<String> {
        let offered = problem.offered();
        let is_left_out = |(column, cell): (usize, &Cell)| {
            offered[column] > 0 && *cell == Cell::Unusable(Unusable::NoThroughput)
        };
        let left_out = |(index, job): (usize, &Job)| {
            let row = speeds.row(index);
            // Without any speed there is nothing to estimate from.
            let known = !job.throughput.is_empty() || row.iter().any(|cell| matches!(cell, Cell::Known(_)));
            known && row.iter().enumerate().any(is_left_out)
        };
        let wanted = self.estimates() != Estimates::All && jobs.iter().enumerate().any(left_out);
        let advice = "speeds that are not known: --estimate all estimates them, hsched cache set states them";
        wanted.then(|| advice.to_owned())
    }
}

/// Returns the file of measured speeds.
///
/// # Errors
/// When there is no state directory, or the file cannot be used.
pub(super) fn load(context: &Context) -> Result<SpeedFile, Failure> {
    let state = state::root(context)?;
    SpeedFile::load(&state).map_err(|error| {
        let failure = Failure::from_error(Exit::BadInput, &error);
        let message = format!("{}: {}", SpeedFile::path(&state).display(), failure.message);
        Failure { message, ..failure }
            .hint("it is left as it is: repair it, update hsched where a newer one wrote it, or move it away")
            .hint("hsched plan --no-cache plans without it")
    })
}

/// Changes the file of measured speeds, unless this is a dry run, and returns what `change` does.
///
/// # Errors
/// When the state is locked, the file cannot be used or written, or `change` fails.
pub(super) fn change<T>(
    context: &Context,
    dry_run: bool,
    change: impl FnOnce(&mut SpeedFile) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if dry_run {
        return change(&mut load(context)?);
    }
    let failure = |failure: Failure| failure.hint("nothing was changed");
    let state = state::open(context).map_err(failure)?;
    let mut file = load(context)?;
    let result = change(&mut file)?;
    file.save(&state).map_err(|error| failure(state::failure(&error)))?;
    Ok(result)
}
