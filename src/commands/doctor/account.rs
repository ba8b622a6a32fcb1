//! Checks that this user may use the account, partition and quality of service of the settings.

use crate::commands::doctor::check::Check;
use hsched_model::JobDefaults;
use hsched_slurm::CommandError;
use hsched_slurm::permission::{Associations, PermissionRequest};
use hsched_slurm::site::PartitionLimits;

const NAME: &str = "accounts";

pub(super) fn check(
    chosen: &JobDefaults,
    associations: Result<Associations, CommandError>,
    partitions: &[PartitionLimits],
) -> Check {
    let associations = match associations {
        Ok(associations) => associations,
        Err(error) => return Check::note(NAME, format!("cannot read your accounts: {error}")),
    };
    let wanted = PermissionRequest {
        account: chosen.account.as_deref(),
        partition: chosen.partition.as_deref(),
        qos: chosen.qos.as_deref(),
        gpus: 1,
    };
    let troubles = associations.troubles(wanted, partitions);
    if !troubles.is_empty() {
        let keys = "set account, partition or qos in the settings, or in the jobs";
        return Check::problem(NAME, troubles.join("; ")).advise(keys);
    }
    match associations.accounts().as_slice() {
        [] => Check::ok(NAME, "none found: Slurm has no accounting, or does not show it"),
        names => Check::ok(NAME, format!("you can use {}", names.join(", "))),
    }
}
