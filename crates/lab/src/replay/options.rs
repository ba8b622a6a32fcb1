//! The options of a replay.

use hsched_model::{Seconds, Time};

/// What a replay depends on beside its trace and its policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub seed: u64,
    /// What a restart costs every job; `None` leaves that to the jobs.
    pub restart_cost: Option<Seconds>,
    /// What it costs jobs that do not say.
    pub usual_restart_cost: Seconds,
    /// Policies take a job's work to be off by a random factor from 1 − noise to 1 + noise; at least 0 and below 1.
    pub noise: f64,
    /// Decisions are only made at multiples of this.
    pub round: Option<Seconds>,
    /// After so many rounds the replay ends.
    pub rounds: Option<u64>,
    /// What a job loses that is stopped to wait or to go on elsewhere.
    pub loses: Loses,
    /// How long a job that moves waits in the cluster's queue for its new GPUs.
    pub queue_wait: Seconds,
    pub incidents: Incidents,
}

/// What a stop costs beside the restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loses {
    /// The job saves its progress when it is told to stop.
    #[default]
    Nothing,
    /// It saves after each epoch alone, so the epoch under way is lost.
    Epoch,
}

impl Loses {
    /// Both with their names on the command line.
    pub const NAMES: [(&'static str, Self); 2] = [("nothing", Self::Nothing), ("epoch", Self::Epoch)];
}

/// What goes wrong. A job that fails, or whose node goes down, loses the epoch under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Incidents {
    /// Mean time between failures of a running job.
    pub job_failures: Option<Seconds>,
    /// Mean time between failures of a node.
    pub node_failures: Option<Seconds>,
    /// How long a node is down that failed.
    pub repair: Seconds,
    /// Nodes that go down at known times.
    pub outages: Vec<Outage>,
}

/// A node that is down for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outage {
    /// The node's number in the problem.
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
