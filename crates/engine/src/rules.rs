//! The engine's parameters: settings of site and user, and its waiting times.

use std::collections::BTreeMap;

use crate::BackendKind;
use hsched_model::{BitRate, GpuType, JobDefaults, Seconds};

/// The engine's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Where submissions go.
    pub backend: BackendKind,
    /// Defaults for jobs, such as their account and partition.
    pub defaults: JobDefaults,
    /// Rate between nodes if the cluster does not give it.
    pub network: BitRate,
    /// Rate between GPUs of a node if the cluster does not give it.
    pub intra_node: BitRate,
    /// The maximum number of GPUs of each type that all jobs together may hold; empty means no limit.
    pub capacity: BTreeMap<GpuType, u32>,
    /// The maximum number of GPUs for a job, regardless of its `max_gpus`; a job that needs more cannot start.
    /// It is 1 if devices are slots.
    pub most_gpus: Option<u32>,
    /// Whether jobs must run on exactly the planned nodes, not on nodes of the same kind.
    pub pinned: bool,
    /// Time lost by a stop and restart of a job that sets none.
    pub restart_cost: Seconds,
    /// The wait before a retry; it doubles with each further failure before an epoch is completed.
    pub retry_delay: Seconds,
    /// Weight of the newest measurement of a speed, in (0, 1].
    pub learning_rate: f64,
}

impl Rules {
    /// Returns the rules for queued jobs with these rates between and within nodes, without limits.
    pub fn new(network: BitRate, intra_node: BitRate) -> Self {
        Self {
            backend: BackendKind::Queue,
            defaults: JobDefaults::default(),
            network,
            intra_node,
            capacity: BTreeMap::new(),
            most_gpus: None,
            pinned: false,
            restart_cost: Seconds(60.0),
            retry_delay: Seconds(30.0),
            learning_rate: 0.3,
        }
    }

    /// How long to search the queue for an unconfirmed submission.
    pub const UNCLEAR: Seconds = Seconds(60.0);
    /// How long a job may be missing from Slurm's list before it counts as gone; each reported epoch restarts
    /// this time.
    pub const VANISHED: Seconds = Seconds(60.0);
    /// Number of epoch lengths for which a job with reports may be silent before it counts as gone.
    pub(crate) const SILENT_EPOCHS: f64 = 2.0;
    /// Upper limit of that silence for long epochs; also the maximum wait for ranks that report from a lost
    /// node.
    pub(crate) const LONGEST_SILENCE: Seconds = Seconds(600.0);
    /// How long a job that its rule has stopped may continue to train, if it reports several epochs, before
    /// it is ended.
    pub(crate) const TIME_TO_EXIT: Seconds = Seconds(5.0);
    /// Extra time for a stopping job beyond its grace before hsched cancels it.
    pub const PATIENCE: Seconds = Seconds(30.0);
    /// How long ended jobs are kept: 30 days.
    pub(crate) const REMEMBERED: Seconds = Seconds(30.0 * 86_400.0);
    /// Age from which a pending submission is cancelled if the nodes that are not down have too few GPUs for
    /// it.
    pub(crate) const NODES_PATIENCE: Seconds = Seconds(60.0);
    /// How long after a failure its node may be found to be down. Slurm notices it after five minutes by
    /// default (`SlurmdTimeout`).
    pub const NOTICED: Seconds = Seconds(600.0);
    /// Time that Slurm may take to end a job before the request is repeated.
    pub(crate) const KILL_PATIENCE: Seconds = Seconds(120.0);
    /// How long other jobs wait for the GPUs of a job that Slurm fails to end.
    pub const STUCK: Seconds = Seconds(300.0);
    /// How many consecutive ends from outside, without an epoch, use no retry.
    pub(crate) const MOST_FRUITLESS: u32 = 10;
    /// How many times in a row a stop or a time limit may end a job before it finishes an epoch, without
    /// using a retry.
    pub(crate) const MOST_CUTS: u32 = 3;
    /// The wait for local devices that seemed free but are still in use.
    pub(crate) const IN_USE: Seconds = Seconds(1.0);
    /// The longest wait before a retry.
    const LONGEST_DELAY: Seconds = Seconds(1800.0);

    /// Returns the wait after this many consecutive ends without a new epoch.
    pub fn delay(&self, fruitless: u32) -> Seconds {
        let doubled = self.retry_delay.0 * 2_f64.powi(fruitless.saturating_sub(1).min(20).cast_signed());
        Seconds(if fruitless == 0 { 0.0 } else { doubled.min(Self::LONGEST_DELAY.0) })
    }
}
