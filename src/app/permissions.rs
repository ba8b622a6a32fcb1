//! What Slurm lets this user charge and use, asked before a job meets it in the queue.

use crate::app::context::Context;
use crate::model::Job;
use crate::slurm::permission::{self, Associations, Wanted};
use crate::slurm::site::{self, Config, PartitionLimits};
use crate::slurm::{CommandError, Runner};

/// Returns this user's associations; none where Slurm keeps no accounts.
///
/// # Errors
/// When Slurm does not answer.
pub(crate) fn associations(context: &Context, config: &Config) -> Result<Associations, CommandError> {
    let user = user_name();
    if user.is_empty() || !config.has_accounting() {
        return Ok(Associations::default());
    }
    let printed = context.slurm.run(&permission::command(&user))?.stdout;
    Ok(Associations::parse(&printed, config.get("ClusterName")))
}

/// Returns the name of this user, as Slurm prints it; empty where the system does not know it.
pub(crate) fn user_name() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    user.map(|user| user.name).unwrap_or_default()
}

/// Says which jobs Slurm would refuse, or never start, for their account, partition or quality of service; silent where
/// Slurm does not tell.
pub(crate) fn note_troubles(context: &Context, jobs: &[Job]) {
    let partitions = context.slurm.run(&site::partitions_command());
    let partitions = partitions.map(|output| site::partitions(&output.stdout)).unwrap_or_default();
    let associations =
        context.config().and_then(|config| associations(context, config).ok()).unwrap_or_default();
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
    let (launch, defaults) = (&job.launch, &context.settings.jobs);
    let wanted = Wanted {
        account: launch.account.as_ref().or(defaults.account.as_ref()).map(String::as_str),
        partition: launch.partition.as_ref().or(defaults.partition.as_ref()).map(String::as_str),
        qos: launch.qos.as_ref().or(defaults.qos.as_ref()).map(String::as_str),
        gpus: job.min_gpus,
    };
    associations.troubles(wanted, partitions)
}
