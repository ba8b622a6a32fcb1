//! Limits of associations and QOS: those that apply to a job, and the contributions of running jobs.
//!
//! Slurm checks the QOS of the partition, that of the job, the user's association, its account, and the
//! accounts above, in this order; if the job's QOS has the flag `OverPartQOS`, it comes before that of the
//! partition. For each kind of limit and each TRES, a limit of a QOS overrides those of the next QOS and of
//! all associations.

mod amounts;
mod counters;
mod names;
mod of_job;
mod reached;
mod refusal;
mod rules;
mod spent;
mod tally;
mod uncounted;

pub(super) use self::amounts::{TresAmounts, asked_tres};
pub(super) use self::counters::Counters;
pub(super) use self::rules::{LimitRules, Rule, Subject};

pub use self::of_job::LimitUse;
pub use self::reached::ReachedLimit;
pub use self::refusal::Refusal;

use serde::{Deserialize, Serialize};

/// One limit, as in the accounting database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The holder of the limit: `q:QOS`, `a:ACCOUNT` or `u:ACCOUNT:USER`.
    pub holder: String,
    /// Slurm's name: `GrpTRES`, `GrpTRESRunMins`, `GrpJobs`, `MaxJobs`, `MaxTRES`, `MaxTRESPerNode`,
    /// `MaxTRESMins`, `MaxWall`, `MinTRES`; for a QOS also `MaxTRESPerUser`, `MaxTRESPerAccount`,
    /// `MaxTRESRunMinsPerUser`, `MaxTRESRunMinsPerAccount`, `MaxJobsPerUser`, `MaxJobsPerAccount`. Start
    /// estimates ignore: `GrpTRESMins`, `GrpWall`, `GrpSubmitJobs`, `MaxSubmitJobs`, `MaxSubmitJobsPerUser`,
    /// `MaxSubmitJobsPerAccount`. Parsing a snapshot replaces the other spellings of `sacctmgr`, such as
    /// `MaxTRESPU`, by these names.
    pub name: String,
    /// Slurm's name of the limited resource: `gres/gpu`, `gres/gpu:a100`, `cpu`, `mem` (in MiB), `node`;
    /// `None` for jobs and times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tres: Option<String>,
    /// The maximum (or minimum) allowed; times in minutes.
    pub max: f64,
    /// The past use that counts towards `GrpTRESMins`, in minutes; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
}

/// Beginnings of reasons of a job that waits for a limit of its QOS or association.
const LIMIT_REASONS: [&str; 4] = ["QOS", "Assoc", "Max", "Grp"];

/// Reasons with the same beginnings that are about something else.
const NO_LIMIT_REASONS: [&str; 4] =
    ["QOSNotAllowed", "QOSUsageThreshold", "MaxPoweredUpNodes", "MaxMemPerLimit"];

/// Returns whether this pending reason refers to a limit of a QOS, an account or a user.
pub(super) fn is_limit_reason(reason: &str) -> bool {
    let word = reason.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    LIMIT_REASONS.iter().any(|start| word.starts_with(start)) && !NO_LIMIT_REASONS.contains(&word)
}
