//! The engine's parameters: settings of site and user, and how long it waits for what.

use std::collections::BTreeMap;

use crate::BackendKind;
use hsched_model::{BitRate, GpuType, JobDefaults, Seconds};

/// The engine's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Where submissions go.
    pub backend: BackendKind,
    /// What jobs that do not say otherwise get and where they go.
    pub defaults: JobDefaults,
    /// Rate between nodes where the cluster does not say.
    pub network: BitRate,
    /// Rate between GPUs of a node where the cluster does not say.
    pub intra_node: BitRate,
    /// The most GPUs of each type that all jobs together may hold; empty is no limit.
    pub capacity: BTreeMap<GpuType, u32>,
    /// The most GPUs of a job that does without more, whatever its `max_gpus` says.
    pub most_gpus: Option<u32>,
    /// Whether jobs must run on the very nodes of the plan, not only on their kind.
    pub pinned: bool,
    /// What stopping and starting again costs a job that does not say.
    pub restart_cost: Seconds,
    /// The wait before a second try; it doubles with every further one in a row that brings no epoch.
    pub retry_delay: Seconds,
    /// Weight of the newest measurement of a speed, in (0, 1].
    pub learning_rate: f64,
}

impl Rules {
    /// Returns the rules for jobs in a queue, with these rates between and in nodes, without limits.
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

    /// How long a submission without a clear answer is looked for before it counts as never made.
    pub const UNCLEAR: Seconds = Seconds(60.0);
    /// How long Slurm may not know a job before it counts as gone; the time begins again with each epoch that the job
    /// reports.
    pub const VANISHED: Seconds = Seconds(60.0);
    /// How many of its epochs a job that has reported may be silent for before it counts as gone.
    pub const SILENT_EPOCHS: f64 = 2.0;
    /// The longest that this may take, however long its epochs are; also how long ranks that report from a lost node are
    /// waited for.
    pub const LONGEST_SILENCE: Seconds = Seconds(600.0);
    /// What a stopped job gets beyond its grace before Slurm is told to end it.
    pub const PATIENCE: Seconds = Seconds(30.0);
    /// How long a job that has ended is remembered: 30 days.
    pub const REMEMBERED: Seconds = Seconds(30.0 * 86_400.0);
    /// How long nodes may be gone before an attempt that waits for them is taken back.
    pub const NODES_PATIENCE: Seconds = Seconds(60.0);
    /// How long after a failure its node may be noticed to be down. Slurm takes five minutes unless its site says otherwise.
    pub const NOTICED: Seconds = Seconds(600.0);
    /// How long Slurm may take to end a job before it is told again.
    pub const KILL_PATIENCE: Seconds = Seconds(120.0);
    /// How long others wait for the GPUs of a job that Slurm does not manage to end.
    pub const STUCK: Seconds = Seconds(300.0);
    /// How many ends from outside in a row, without an epoch, count against no retry.
    pub const MOST_FRUITLESS: u32 = 10;
    /// How many times in a row a time limit may cut a job before it finishes an epoch without using a retry.
    pub const MOST_CUTS: u32 = 3;
    /// The wait for devices at hand that seemed to be free and are not yet.
    pub const IN_USE: Seconds = Seconds(1.0);
    /// The longest wait before a further try.
    pub const LONGEST_DELAY: Seconds = Seconds(1800.0);

    /// Returns the wait after so many ends in a row without a new epoch.
    pub fn delay(&self, fruitless: u32) -> Seconds {
        let doubled = self.retry_delay.0 * 2_f64.powi(fruitless.saturating_sub(1).min(20).cast_signed());
        Seconds(if fruitless == 0 { 0.0 } else { doubled.min(Self::LONGEST_DELAY.0) })
    }
}
