//! Reasons other than limits of accounts, users or QOS.

use std::borrow::Cow;

use super::LiftedBy;
use super::LiftedBy::{Change, End, Release, Site, Time, Unknown};

/// The name of a reason, the condition that ends it, its meaning, and what the user can do.
type ReasonRow = (&'static str, LiftedBy, &'static str, &'static str);

/// Beginnings of sentences that Slurm prints in place of a name, and the name used for each here.
const SENTENCES: [(&str, &str); 7] = [
    ("Nodes required for job are DOWN", "ReqNodeNotAvail"),
    ("Job's QOS not", "QOSNotAllowed"),
    ("Job's account not", "AccountNotAllowed"),
    ("launch failed requeued held", "LaunchFailedHeld"),
    ("job requeued in held state", "RequeuedHeld"),
    ("JobHeldUser", "JobHeldUser"),
    ("JobHeldAdmin", "JobHeldAdmin"),
];

const RESERVATION_OUT: &str =
    "Use a reservation that exists: scontrol update JobId={id} ReservationName=NAME.";
const NO_CODE: &str = "Slurm keeps this name for old versions; no code sets it.";
const ENDED: &str = "It says how a job ended, not why one is pending.";
const ASK: &str = "Ask the administrators.";

const ROWS: [ReasonRow; 62] = [
    ("None", Time, "Slurm has not looked at it yet.", ""),
    (
        "Priority",
        Time,
        "Jobs of higher priority are before it.",
        "Ask for less or for a shorter time: a small job may fit before the others start.",
    ),
    (
        "Resources",
        Time,
        "It is next in line; what it asks for is in use.",
        "Ask for less, or for another GPU type.",
    ),
    (
        "ReqNodeNotAvail",
        Time,
        "Nodes that it needs are down, drained or reserved.",
        "Use other nodes, another GPU type or partition, or a time limit that ends before the reservation begins.",
    ),
    (
        "Dependency",
        Time,
        "It starts after other jobs.",
        "Remove the dependency: scontrol update JobId={id} Dependency=.",
    ),
    (
        "DependencyNeverSatisfied",
        Change,
        "A job that it depends on ended in the wrong way.",
        "Remove the dependency (scontrol update JobId={id} Dependency=) or cancel the job.",
    ),
    (
        "BeginTime",
        Time,
        "The time of its --begin has not come, or it was requeued and rests for two minutes.",
        "Start it now: scontrol update JobId={id} StartTime=now.",
    ),
    ("JobHeldUser", Release, "Its user holds it.", "Release it: scontrol release {id}."),
    (
        "JobHeldAdmin",
        Release,
        "An administrator holds it, or its priority is 0.",
        "Ask the administrators; after a failed start, look for the fault first.",
    ),
    (
        "JobHoldMaxRequeue",
        Release,
        "It was requeued too often and is held.",
        "Look for the fault in its output, then release it: scontrol release {id}.",
    ),
    (
        "LaunchFailedHeld",
        Release,
        "Its start failed; Slurm requeued it and holds it.",
        "Look for the fault (a missing directory, a broken node), then release it: scontrol release {id}.",
    ),
    (
        "RequeuedHeld",
        Release,
        "It was requeued and is held.",
        "Look for the fault in its output, then release it: scontrol release {id}.",
    ),
    (
        "JobArrayTaskLimit",
        Time,
        "As many tasks of its array run as its % allows.",
        "Let more tasks run at once: scontrol update JobId={id} ArrayTaskThrottle=N.",
    ),
    (
        "PartitionTimeLimit",
        Change,
        "Its time limit is longer than its partition allows.",
        "Shorten its time limit, or use another partition.",
    ),
    (
        "PartitionNodeLimit",
        Change,
        "It asks for more or fewer nodes than its partition allows.",
        "Change its number of nodes, or use another partition.",
    ),
    (
        "PartitionConfig",
        Change,
        "It breaks a rule of its partition: time limit, number of nodes, account or QOS.",
        "Shorten its time limit, ask for fewer nodes, or use another partition.",
    ),
    ("PartitionDown", Site, "Its partition is down.", "Use another partition."),
    ("PartitionInactive", Site, "Its partition is inactive.", "Use another partition."),
    ("QOSNotAllowed", Change, "Its partition does not allow its QOS.", "Use another QOS or partition."),
    (
        "AccountNotAllowed",
        Change,
        "Its partition does not allow its account.",
        "Use another account or partition.",
    ),
    (
        "InvalidAccount",
        Change,
        "Its account is gone, or its user is not in it any more.",
        "Use another account: scontrol update JobId={id} Account=NAME.",
    ),
    (
        "InvalidQOS",
        Change,
        "Its QOS is gone, or its user may not use it any more.",
        "Use another QOS: scontrol update JobId={id} QOS=NAME.",
    ),
    (
        "QOSUsageThreshold",
        LiftedBy::Decay,
        "The fair share of its account is below the threshold of its QOS.",
        "Use another QOS. It starts when old use counts less.",
    ),
    (
        "BadConstraints",
        Change,
        "No node can ever do what it asks for.",
        "Change its --constraint, GPUs, CPUs or memory.",
    ),
    ("Constraints", Time, "No node has the features that it asks for now.", "Change its --constraint."),
    (
        "Reservation",
        Time,
        "Its reservation has not begun, or is full.",
        "Use another reservation, or none: scontrol update JobId={id} ReservationName=.",
    ),
    ("ReservationDeleted", Change, "Its reservation was deleted.", RESERVATION_OUT),
    ("ReservationInvalid", Change, "Its reservation cannot be used.", RESERVATION_OUT),
    ("Licenses", Time, "Its licences are in use.", "Ask for fewer licences."),
    (
        "MaxMemPerLimit",
        Change,
        "It asks for more memory per node or CPU than the partition or the site allows.",
        "Ask for less memory.",
    ),
    ("MpiPortsBusy", Time, "The ports for MPI are in use.", ""),
    ("NvidiaImexChannels", Time, "The IMEX channels of the GPU fabric are in use.", ""),
    ("MaxPoweredUpNodes", Time, "The site keeps no more nodes powered up.", ""),
    ("Cleaning", Time, "Slurm still cleans up after its last run.", ""),
    ("Prolog", Time, "Its prolog runs.", ""),
    ("BurstBufferOperation", Change, "An operation of the burst buffer failed.", ASK),
    ("BurstBufferResources", Time, "The burst buffer is full.", "Ask for less burst buffer."),
    ("BurstBufferStageIn", Time, "Its data are being staged in.", ""),
    ("FedJobLock", Time, "A sibling of this federated job has the lock.", ""),
    (
        "SchedDefer",
        Change,
        "It asked for an immediate start, which Slurm defers.",
        "Submit it without --immediate.",
    ),
    (
        "DeadLine",
        Change,
        "It can no longer end by its deadline: Slurm cancels it.",
        "Submit it with a later --deadline or a shorter time limit.",
    ),
    ("FrontEndDown", Time, "A front-end node is down.", ""),
    ("AccountingPolicy", Unknown, NO_CODE, ASK),
    ("AssociationJobLimit", Unknown, NO_CODE, ASK),
    ("AssociationResourceLimit", Unknown, NO_CODE, ASK),
    ("AssociationTimeLimit", Unknown, NO_CODE, ASK),
    ("QOSJobLimit", Unknown, NO_CODE, ASK),
    ("QOSResourceLimit", Unknown, NO_CODE, ASK),
    ("QOSTimeLimit", Unknown, NO_CODE, ASK),
    ("InvalidReason", Unknown, "Slurm itself does not know the reason.", ASK),
    ("InvaildReason", Unknown, "Slurm itself does not know the reason.", ASK),
    ("NodeDown", End, ENDED, ""),
    ("NonZeroExitCode", End, ENDED, ""),
    ("RaisedSignal", End, ENDED, ""),
    ("OutOfMemory", End, ENDED, ""),
    ("TimeLimit", End, ENDED, ""),
    ("JobLaunchFailure", End, ENDED, ""),
    ("SystemFailure", End, ENDED, ""),
    ("InactiveLimit", End, ENDED, ""),
    ("BootFailure", End, ENDED, ""),
    ("Preempted", End, ENDED, ""),
    ("", Time, "Slurm gives no reason.", ""),
];

/// Returns a reason as printed by `squeue`: with blanks instead of the underscores that `scontrol` prints in
/// sentences.
pub fn with_blanks(text: &str) -> Cow<'_, str> {
    let has_blanks = text.contains(' ') || !text.contains('_');
    if has_blanks { Cow::Borrowed(text) } else { Cow::Owned(text.replace('_', " ")) }
}

/// Splits a reason into its name and the appended text.
pub(super) fn split(text: &str) -> (&str, &str) {
    if let Some((_, name)) = SENTENCES.iter().find(|(begin, _)| text.starts_with(begin)) {
        return (name, text.strip_prefix(name).unwrap_or(text).trim_start_matches([',', '_']).trim());
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    (name, rest.trim_start_matches([',', ':', ';', '.', '_']).trim())
}

/// Returns the entry for a name.
pub(super) fn find(name: &str) -> Option<&'static ReasonRow> {
    ROWS.iter().find(|row| row.0 == name)
}
