//! Pending reasons of jobs, in Slurm's words: lack of room, or other reasons.

use hsched_queue::{LiftedBy, Reason};

/// Returns whether a job with this reason competes for room: it starts as soon as there is room.
///
/// Reasons of the scheduler (`Priority`, `Resources`, `None`, nodes that are down), tasks beyond the `%` of
/// an array, and unknown reasons count as waiting for room.
pub(crate) fn competes(reason: &str) -> bool {
    let reason = Reason::read(reason);
    let is_known = reason.lifted_by != LiftedBy::Unknown || !reason.way_out.is_empty();
    !is_known
        || matches!(
            reason.name.as_str(),
            "" | "None" | "Priority" | "Resources" | "ReqNodeNotAvail" | "JobArrayTaskLimit"
        )
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
            "PartitionConfig",
            "PartitionDown",
            "BadConstraints",
            "launch failed requeued held",
            "Job's QOS not permitted to use this partition (hi allows high not normal)",
        ] {
            assert!(!competes(reason), "{reason}");
        }
        for reason in [
            "Priority",
            "Resources",
            "None",
            "",
            "JobArrayTaskLimit",
            "ReqNodeNotAvail, UnavailableNodes:v1",
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "NeverSeen",
        ] {
            assert!(competes(reason), "{reason}");
        }
    }
}
