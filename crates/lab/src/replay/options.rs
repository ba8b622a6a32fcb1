//! The options of a replay.

use hsched_model::{Seconds, Time};

/// Parameters of a replay besides its trace and its policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub seed: u64,
    /// Restart cost of every job; `None` uses the jobs' own values.
    pub restart_cost: Option<Seconds>,
    /// Restart cost of jobs without a value.
    pub usual_restart_cost: Seconds,
    /// Policies see each job's work with a random factor from 1 − noise to 1 + noise; at least 0 and below 1.
    pub noise: f64,
    /// Decisions are only made at multiples of this time.
    pub round: Option<Seconds>,
    /// The replay ends after this number of rounds.
    pub rounds: Option<u64>,
    /// The work that a stopped job loses.
    pub loses: Loses,
    /// How long a moved job waits in the cluster's queue for its new GPUs.
    pub queue_wait: Seconds,
    pub incidents: Incidents,
}

/// The loss of a stop besides the restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loses {
    /// The job saves its progress when it is asked to stop.
    #[default]
    Nothing,
    /// The job saves only after each epoch, so the current epoch is lost.
    Epoch,
}

impl Loses {
    /// Both variants with their names on the command line.
    pub const NAMES: [(&'static str, Self); 2] = [("nothing", Self::Nothing), ("epoch", Self::Epoch)];
}

/// Failures. If a job fails or its node goes down, the current epoch is lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Incidents {
    /// Mean time between failures of a running job.
    pub job_failures: Option<Seconds>,
    /// Mean time between failures of a node.
    pub node_failures: Option<Seconds>,
    /// Downtime of a failed node.
    pub repair: Seconds,
    /// Nodes that go down at given times.
    pub outages: Vec<Outage>,
}

/// A node that is down for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outage {
    /// Index of the node in the problem.
    pub node: usize,
    pub from: Time,
    pub until: Time,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            restart_cost: None,
            usual_restart_cost: Seconds(60.0),
            noise: 0.0,
            round: None,
            rounds: None,
            loses: Loses::Nothing,
            queue_wait: Seconds(0.0),
            incidents: Incidents::default(),
        }
    }
}

impl Default for Incidents {
    fn default() -> Self {
        Self { job_failures: None, node_failures: None, repair: Seconds(3600.0), outages: Vec::new() }
    }
}
