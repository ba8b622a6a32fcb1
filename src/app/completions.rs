//! Dynamic shell completion of names: jobs, scripts, sweeps, tags, GPU types, models, settings, accounts.
//!
//! Unreadable sources yield no names, without an error message.

use std::collections::BTreeSet;
use std::time::Duration;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::app::context::Context;
use crate::app::slurm::permissions::account_names;
use crate::app::{deferred_commands, state};
use crate::settings::{KEYS, SetBy};
use hsched_engine::State;
use hsched_engine::store::{Results, SpeedFile};
use hsched_model::catalogue;
use hsched_plan::throughput::Cache;

/// How long Slurm may take to list accounts, because the user waits for the completion.
const PATIENCE: Duration = Duration::from_secs(1);

/// Completes jobs, scripts and sweeps in the state.
pub(crate) fn jobs() -> ArgValueCandidates {
    names(|context| {
        let State { jobs, scripts, .. } = known(context)?;
        let sweeps = jobs.iter().filter_map(|job| Some(job.job.variant.as_ref()?.sweep.clone()));
        let names = jobs.iter().map(|job| job.job.name.to_string()).chain(sweeps);
        Some(names.chain(scripts.iter().map(|script| script.name.to_string())).collect())
    })
}

/// Completes jobs, scripts and sweeps that have not ended.
pub(crate) fn open_jobs() -> ArgValueCandidates {
    names(|context| {
        let State { jobs, scripts, .. } = known(context)?;
        let open: Vec<_> = jobs.iter().filter(|job| !job.phase.is_over()).map(|job| &job.job).collect();
        let sweeps = open.iter().filter_map(|job| Some(job.variant.as_ref()?.sweep.clone()));
        let names = open.iter().map(|job| job.name.to_string()).chain(sweeps);
        let scripts = scripts.iter().filter(|script| !script.is_over());
        Some(names.chain(scripts.map(|script| script.name.to_string())).collect())
    })
}

/// Completes the tags of jobs, including those removed from the state.
pub(crate) fn tags() -> ArgValueCandidates {
    names(|context| {
        let open = known(context)?.jobs.into_iter().flat_map(|job| job.job.tags.clone());
        Some(past(context)?.runs.into_iter().flat_map(|run| run.tags).chain(open).collect())
    })
}

/// Completes jobs and sweeps, including those removed from the state.
pub(crate) fn past_jobs() -> ArgValueCandidates {
    names(|context| {
        let runs = past(context)?.runs;
        let sweeps = runs.iter().filter_map(|run| run.sweep.clone());
        Some(sweeps.chain(runs.iter().map(|run| run.name.to_string())).collect())
    })
}

/// Completes sweeps, including those removed from the state.
pub(crate) fn sweeps() -> ArgValueCandidates {
    names(|context| Some(past(context)?.runs.into_iter().filter_map(|run| run.sweep).collect()))
}

/// Completes GPU types: those with a measured speed, and those in the catalogue.
pub(crate) fn gpu_types() -> ArgValueCandidates {
    names(|context| {
        let measured = measured(context);
        let measured =
            measured.iter().flat_map(|cache| cache.estimates().map(|(key, _)| key.gpu_type.to_string()));
        Some(measured.chain(catalogue::names().map(str::to_owned)).collect())
    })
}

/// Returns the measured speeds.
fn measured(context: &Context) -> Option<Cache> {
    SpeedFile::load(&state::root(context).ok()?).ok().map(|file| file.cache)
}

/// Completes models with a measured speed.
pub(crate) fn models() -> ArgValueCandidates {
    names(|context| Some(measured(context)?.estimates().map(|(key, _)| key.model).collect()))
}

/// Completes settings: their keys, except those that only the site's file may set, with their descriptions.
pub(crate) fn settings() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let keys = KEYS.iter().filter(|key| key.set_by != SetBy::Site);
        keys.map(|key| {
            let end = if key.table { "." } else { "=" };
            CompletionCandidate::new(format!("{}{end}", key.name)).help(Some(key.help.into()))
        })
        .collect()
    })
}

/// Completes accounts: those that Slurm lists for the user, and that of the settings.
pub(crate) fn accounts() -> ArgValueCandidates {
    names(|context| {
        Some(account_names(PATIENCE).into_iter().chain(context.settings.jobs.account.clone()).collect())
    })
}

fn names(find: impl Fn(&Context) -> Option<BTreeSet<String>> + Send + Sync + 'static) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        let found = Context::new(Vec::new(), true).ok().and_then(|context| find(&context));
        found.into_iter().flatten().map(CompletionCandidate::new).collect()
    })
}

fn known(context: &Context) -> Option<State> {
    deferred_commands::expected(context, &state::rules(context)).ok()
}

fn past(context: &Context) -> Option<Results> {
    Results::read(&state::root(context).ok()?, &known(context)?, state::now(context)).ok()
}
