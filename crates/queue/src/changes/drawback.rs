//! The drawbacks of a change.

use std::fmt;

use crate::Need;
use hsched_model::formats::counted;
use hsched_model::number::to_u64;
use hsched_model::{GpuType, Seconds};

/// A drawback of a change, or information needed before it is made.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawback {
    /// Slurm ends the job at its new limit.
    EndsAfter {
        limit: Seconds,
        /// The need of past runs; `None` if unknown.
        need: Option<Need>,
    },
    /// The GPU type changes.
    OtherType { from: GpuType, to: GpuType },
    /// The job takes about this many times as long.
    RunsLonger(f64),
    /// The job must be able to train on this number of nodes.
    Nodes(u32),
    /// Jobs of this partition or QOS may be preempted.
    MayBePreempted { of: String },
    /// Slurm may preempt these running jobs of the user for the job.
    PreemptsOwn { jobs: Vec<String> },
    /// Slurm may preempt this number of running jobs of other users for the job.
    PreemptsOthers { count: usize },
    /// Another account is charged.
    Charged { account: String },
    /// The job gets this number of CPUs per node instead.
    FewerCpus { from: u64, to: u64 },
    /// The job gets this amount of memory per node instead, in MiB.
    LessMemory {
        from: u64,
        to: u64,
        /// The maximum use of any completed past run, in MiB; `None` if unknown.
        used: Option<u64>,
    },
}

impl Drawback {
    /// Returns whether, according to past runs, the job does the same as before.
    pub fn is_harmless(&self) -> bool {
        match self {
            Self::EndsAfter { need, .. } => need.is_some(),
            Self::LessMemory { used, .. } => used.is_some(),
            Self::OtherType { .. }
            | Self::Charged { .. }
            | Self::RunsLonger(_)
            | Self::Nodes(_)
            | Self::MayBePreempted { .. }
            | Self::PreemptsOwn { .. }
            | Self::PreemptsOthers { .. }
            | Self::FewerCpus { .. } => false,
        }
    }
}

impl fmt::Display for Drawback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndsAfter { limit, need: Some(Need { runs, longest, .. }) } => {
                let (limit, longest) = (in_words(*limit), in_words(*longest));
                let past = if *runs == 1 {
                    format!("the 1 past run took {longest}")
                } else {
                    format!("{runs} past runs took at most {longest}")
                };
                write!(f, "Slurm ends the job after {limit}; {past}")
            }
            Self::EndsAfter { limit, need: None } => {
                write!(f, "Slurm ends the job after {}; how long it runs is unknown", in_words(*limit))
            }
            Self::OtherType { from, to } => {
                write!(f, "are {} GPUs fast enough? The script asks for {}", to.as_str(), from.as_str())
            }
            Self::RunsLonger(factor) if (*factor - 2.0).abs() < 0.1 => {
                f.write_str("the run takes about twice as long")
            }
            Self::RunsLonger(factor) => write!(f, "the run takes about {factor:.1} times as long"),
            Self::Nodes(1) => f.write_str("all its GPUs are on one node"),
            Self::Nodes(nodes) => write!(f, "the script must train on {nodes} nodes"),
            Self::MayBePreempted { of } => write!(f, "jobs of {of} may be preempted"),
            Self::PreemptsOwn { jobs } => {
                let jobs = jobs_in_words(jobs);
                write!(f, "Slurm may stop (preempt) your running {jobs} for it")
            }
            Self::PreemptsOthers { count } => {
                write!(f, "Slurm may preempt {} of other users for it", counted(*count, "running job"))
            }
            Self::Charged { account } => write!(f, "account {account} is charged"),
            Self::FewerCpus { from, to } => write!(f, "{to} CPUs instead of {from} on each node"),
            Self::LessMemory { from, to, used } => {
                write!(f, "{} instead of {} on each node", gigabytes(*to), gigabytes(*from))?;
                match used {
                    Some(used) => write!(f, "; past runs used at most {}", gigabytes(*used)),
                    None => f.write_str("; how much it needs is unknown"),
                }
            }
        }
    }
}

/// Formats ids of jobs: `job 3`, `jobs 3 and 4`, `jobs 3, 4 and 5 more`.
pub fn jobs_in_words(ids: &[String]) -> String {
    match ids {
        [one] => format!("job {one}"),
        [one, other] => format!("jobs {one} and {other}"),
        [one, other, rest @ ..] => format!("jobs {one}, {other} and {} more", rest.len()),
        [] => "jobs".to_owned(),
    }
}

/// Formats a time: `8 h`, `6 h 15 min`, `1 d 12 h`.
pub(super) fn in_words(time: Seconds) -> String {
    let minutes = to_u64((time.0 / 60.0).round().max(0.0));
    let parts = [(minutes / 1440, "d"), (minutes / 60 % 24, "h"), (minutes % 60, "min")];
    let words: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .take(2)
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    if words.is_empty() { "less than a minute".to_owned() } else { words.join(" ") }
}

fn gigabytes(mebibytes: u64) -> String {
    if mebibytes >= 10 * 1024 { format!("{} GB", mebibytes / 1024) } else { format!("{mebibytes} MB") }
}
