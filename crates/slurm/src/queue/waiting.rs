//! Why jobs wait, in Slurm's words: for room, or for something else.

use hsched_queue::is_limit_reason;

/// Reasons that are not about room, beside limits.
const OTHER: [&str; 23] = [
    "AccountNotAllowed",
    "BadConstraints",
    "BeginTime",
    "BurstBufferOperation",
    "BurstBufferResources",
    "BurstBufferStageIn",
    "Cleaning",
    "DeadLine",
    "Dependency",
    "DependencyNeverSatisfied",
    "InvalidAccount",
    "InvalidQOS",
    "JobHeldAdmin",
    "JobHeldUser",
    "Licenses",
    "MaxMemPerLimit",
    "MaxPoweredUpNodes",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "Prolog",
    "QOSNotAllowed",
    "Reservation",
    "ReservationDeleted",
];

/// Returns whether a job with this reason leaves the GPUs to others: room would not start it.
///
/// Reasons of the scheduler (`Priority`, `Resources`, `None`, nodes that are down) and those that this version does not
/// know are about room.
pub(super) fn is_for_other(reason: &str) -> bool {
    let word = reason.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    OTHER.contains(&word) || is_limit_reason(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_that_room_would_start_compete() {
        for reason in [
            "Dependency",
            "BeginTime",
            "JobHeldUser",
            "JobHeldAdmin",
            "QOSMaxGRESPerUser",
            "AssocGrpGRES",
            "MaxGRESPerAccount",
            "PartitionTimeLimit",
            "BadConstraints",
        ] {
            assert!(is_for_other(reason), "{reason}");
        }
        for reason in [
            "Priority",
            "Resources",
            "None",
            "",
            "JobArrayTaskLimit",
            "ReqNodeNotAvail, UnavailableNodes:v1",
            "NeverSeen",
        ] {
            assert!(!is_for_other(reason), "{reason}");
        }
    }
}
