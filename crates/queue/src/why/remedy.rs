//! A remedy that makes a pending job start sooner, in words.

use crate::{Change, ChangeSet, Drawback, Request};
use hsched_model::Asks;

/// A remedy for the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// Changes of the pending job, which keeps its id and its age.
    InPlace(ChangeSet),
    /// A new job with these changes, in place of the pending one.
    NewJob(ChangeSet),
    Release,
    /// Removal of the earliest start time.
    StartNow,
    NoDependency,
    NoReservation,
    /// Another maximum number of running tasks of the job's array.
    Throttle(u32),
    /// Cancellation of another job of the user.
    Cancel {
        id: String,
        asks: Asks,
        is_running: bool,
    },
}

impl Remedy {
    /// Returns whether the pending job stays in the queue.
    pub fn keeps_job(&self) -> bool {
        !matches!(self, Self::NewJob(_))
    }

    /// Returns the ids of other jobs of the user that the remedy cancels, or that Slurm may preempt for the
    /// changed job.
    pub fn stops(&self) -> Vec<String> {
        match self {
            Self::InPlace(set) | Self::NewJob(set) => {
                let stopped = set.drawbacks.iter().filter_map(|drawback| match drawback {
                    Drawback::PreemptsOwn { jobs } => Some(jobs.clone()),
                    _ => None,
                });
                stopped.flatten().collect()
            }
            Self::Cancel { id, .. } => vec![id.clone()],
            _ => Vec::new(),
        }
    }

    /// Returns the remedy in words, with the present values of the job's request.
    pub fn words(&self, now: &Request) -> String {
        match self {
            Self::InPlace(set) | Self::NewJob(set) => {
                set.changes.iter().map(|change| change_words(change, now)).collect::<Vec<_>>().join(", ")
            }
            Self::Release => "release it".to_owned(),
            Self::StartNow => "start it as soon as there is room".to_owned(),
            Self::NoDependency => "remove its dependency".to_owned(),
            Self::NoReservation => "use no reservation".to_owned(),
            Self::Throttle(count) => format!("let {count} tasks of the array run at once"),
            Self::Cancel { id, asks, is_running } => {
                let state = if *is_running { "running" } else { "pending" };
                format!("cancel your {state} job {id} ({})", crate::asked(asks))
            }
        }
    }

    /// Returns the drawbacks of the remedy, in words.
    pub fn drawbacks(&self) -> Vec<String> {
        match self {
            Self::InPlace(set) | Self::NewJob(set) => {
                let mut list: Vec<String> = set.drawbacks.iter().map(ToString::to_string).collect();
                let shortens = set.changes.iter().any(|change| matches!(change, Change::Limit(_)));
                if shortens && matches!(self, Self::InPlace(_)) {
                    list.push("you cannot raise the time limit again".to_owned());
                }
                if matches!(self, Self::NewJob(_)) {
                    list.push("a new job: it begins without age".to_owned());
                }
                list
            }
            Self::NoDependency => vec!["it no longer waits for the other job".to_owned()],
            Self::Cancel { .. } => vec!["that job is lost".to_owned()],
            Self::Release | Self::StartNow | Self::NoReservation | Self::Throttle(_) => Vec::new(),
        }
    }
}

fn change_words(change: &Change, now: &Request) -> String {
    let or_default = |name: &Option<String>| name.clone().unwrap_or_else(|| "the default".to_owned());
    match change {
        Change::Limit(limit) => format!("time limit {}, now {}", crate::span(*limit), crate::span(now.limit)),
        Change::Partition(names) => format!("partition {names}, now {}", or_default(&now.partition)),
        Change::Account(name) => format!("account {name}, now {}", or_default(&now.account)),
        Change::Qos(name) => format!("QOS {name}, now {}", or_default(&now.further.qos)),
        Change::Memory(mebibytes) => format!("{mebibytes} MiB of memory on each node"),
        Change::Cpus(count) => format!("{count} CPUs on each node"),
        Change::GpuType(_) | Change::Gpus { .. } => {
            let mut changed = now.clone();
            change.apply(&mut changed);
            format!("{}, now {}", crate::asked(&changed.asks), crate::asked(&now.asks))
        }
    }
}
