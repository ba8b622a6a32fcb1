//! The accounts and partitions that Slurm allows this user, checked before a job is queued.

use std::time::Duration;

use crate::app::context::Context;
use crate::settings::process_environment;
use hsched_model::{ErrorId, Job};
use hsched_slurm::permission::{self, Associations, PermissionRequest};
use hsched_slurm::site::{self, Config, PartitionLimits};
use hsched_slurm::{CommandError, Runner, System};
use hsched_ui::{Exit, Failure};

/// Returns this user's associations; empty if Slurm has no accounting.
///
/// # Errors
/// If Slurm does not answer.
pub(crate) fn associations(context: &Context, config: &Config) -> Result<Associations, CommandError> {
    let user = user_name();
    if user.is_empty() || !config.has_accounting() {
        return Ok(Associations::default());
    }
    let printed = context.slurm.run(&permission::command(&user))?.stdout;
    Ok(Associations::parse(&printed, config.get("ClusterName")))
}

/// Returns the accounts that Slurm lists for this user; none if it does not answer within `limit`.
pub(crate) fn account_names(limit: Duration) -> Vec<String> {
    let slurm = System::new(process_environment(), limit);
    let printed = slurm.run(&permission::command(&user_name())).map(|output| output.stdout);
    names(&Associations::parse(&printed.unwrap_or_default(), None))
}

/// Returns the accounts of this user; none if Slurm has no accounting or does not answer about its
/// configuration.
///
/// # Errors
/// If Slurm does not list them.
pub(crate) fn accounts(context: &Context) -> Result<Vec<String>, CommandError> {
    let associations = context.slurm.config().map(|config| associations(context, config)).transpose()?;
    Ok(names(&associations.unwrap_or_default()))
}

fn names(associations: &Associations) -> Vec<String> {
    associations.accounts().into_iter().map(str::to_owned).collect()
}

/// Returns the name of this user, as printed by Slurm; empty if the system does not know it.
pub(crate) fn user_name() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    user.map(|user| user.name).unwrap_or_default()
}

/// The values of `AccountingStorageEnforce` with which Slurm refuses unknown accounts.
const ENFORCED: [&str; 6] = ["associations", "limits", "qos", "safe", "wckeys", "all"];

/// Refuses jobs with an account that is not one of this user's, if Slurm enforces accounts; otherwise notes
/// that Slurm charges the default account.
///
/// # Errors
/// If there is such a job; the message names the first one and the user's accounts.
pub(crate) fn refuse_accounts(context: &Context, jobs: &[&Job]) -> Result<(), Failure> {
    let named = |job: &&&Job| wanted(context, job).account.is_some();
    if !jobs.iter().any(|job| named(&job)) {
        return Ok(());
    }
    let Some(config) = context.slurm.config() else { return Ok(()) };
    // If Slurm lists no accounts, it decides on the request itself.
    let associations = associations(context, config).unwrap_or_default();
    let is_enforced = ENFORCED.iter().any(|word| config.lists("AccountingStorageEnforce", word));
    let wrong = |job: &&Job| Some((job.name.clone(), associations.refusal(wanted(context, job).account?)?));
    match jobs.iter().find_map(wrong) {
        None => Ok(()),
        Some((name, why)) if !is_enforced => {
            context.note(&format!("{name}: {why}; this Slurm accepts it, and charges your default account"));
            Ok(())
        }
        Some((name, why)) => Err(Failure::new(Exit::BadInput, format!("{name}: {why}"))
            .id(ErrorId::UnknownAccount)
            .hint("set `account` in the job file or in the settings")),
    }
}

/// Notes which jobs Slurm would refuse or never start because of their account, partition or quality of
/// service; prints nothing if that is unknown.
pub(crate) fn note_troubles(context: &Context, jobs: &[Job]) {
    let partitions = context.slurm.run(&site::partitions_command());
    let partitions = partitions.map(|output| site::partitions(&output.stdout)).unwrap_or_default();
    let associations =
        context.slurm.config().and_then(|config| associations(context, config).ok()).unwrap_or_default();
    for job in jobs {
        for trouble in troubles(context, job, &associations, &partitions) {
            context.note(&format!("{}: {trouble}", job.name));
        }
    }
}

fn troubles(
    context: &Context,
    job: &Job,
    associations: &Associations,
    partitions: &[PartitionLimits],
) -> Vec<String> {
    associations.troubles(wanted(context, job), partitions)
}

/// Returns a job's request, with the defaults of the settings.
fn wanted<'a>(context: &'a Context, job: &'a Job) -> PermissionRequest<'a> {
    let (launch, defaults) = (&job.launch, &context.settings.jobs);
    PermissionRequest {
        account: launch.account.as_ref().or(defaults.account.as_ref()).map(String::as_str),
        partition: launch.partition.as_ref().or(defaults.partition.as_ref()).map(String::as_str),
        qos: launch.qos.as_ref().or(defaults.qos.as_ref()).map(String::as_str),
        gpus: job.least_gpus(),
    }
}
