//! Limits of associations and QOS: which of them a job must meet, and what running jobs count for.
//!
//! Slurm tests the QOS of the partition, that of the job, the user's association, its account and the accounts above, in this
//! order. Of each kind of limit and each TRES, a limit of a QOS hides those of the next QOS and of all associations.

mod amounts;
mod counters;
mod of_job;
mod reached;
mod refusal;
mod rules;
mod tally;
mod uncounted;

pub(super) use self::amounts::{TresAmounts, asked_tres};
pub(super) use self::counters::Counters;
pub(super) use self::rules::{LimitRules, Rule, Subject};

pub use self::of_job::{JobLimits, LimitUse};
pub use self::reached::ReachedLimit;
pub use self::refusal::Refusal;

use serde::{Deserialize, Serialize};

/// One limit, as the accounting database has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Whose it is: `q:QOS`, `a:ACCOUNT` or `u:ACCOUNT:USER`.
    pub holder: String,
    /// Slurm's name: `GrpTRES`, `GrpTRESRunMins`, `GrpJobs`, `MaxJobs`, `MaxTRES`, `MaxTRESPerNode`, `MaxTRESMins`, `MaxWall`,
    /// `MinTRES`; of a QOS also `MaxTRESPerUser`, `MaxTRESPerAccount`, `MaxTRESRunMinsPerUser`, `MaxTRESRunMinsPerAccount`,
    /// `MaxJobsPerUser`, `MaxJobsPerAccount`. Not counted when starts are estimated: `GrpTRESMins`, `GrpWall`, `GrpSubmitJobs`,
    /// `MaxSubmitJobs`, `MaxSubmitJobsPerUser`, `MaxSubmitJobsPerAccount`.
    pub name: String,
    /// Slurm's name of what is limited: `gres/gpu`, `gres/gpu:a100`, `cpu`, `mem` (in MiB), `node`; `None` for jobs and times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tres: Option<String>,
    /// The most (or the fewest) that is allowed; times in minutes.
    pub max: f64,
}

/// Words that a reason begins with if a pending job waits for a limit of its QOS or association.
const LIMIT_REASONS: [&str; 4] = ["QOS", "Assoc", "Max", "Grp"];

/// Reasons that begin in the same way and are about something else.
const NO_LIMIT_REASONS: [&str; 3] = ["QOSNotAllowed", "MaxPoweredUpNodes", "MaxMemPerLimit"];

/// Returns whether this reason of a pending job is a limit of a QOS, an account or a user.
pub(super) fn is_limit_reason(reason: &str) -> bool {
    let word = reason.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    LIMIT_REASONS.iter().any(|start| word.starts_with(start)) && !NO_LIMIT_REASONS.contains(&word)
}
