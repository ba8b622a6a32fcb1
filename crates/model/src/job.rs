//! A training job as described in its file: its training, the GPUs that it may use, and its start.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Bytes, Estimates, GpuType, JobName, NodeName, Replica, Seconds, Sharing, Speed, Stop, StuckRule, Time,
};

/// Separates a training's name from the copy number in the copy's name.
const COPY_MARK: &str = ".c";

/// A job of a job file, with all defaults filled in.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own in a job file")]
pub struct Job {
    pub name: JobName,
    /// Key of the throughput cache.
    pub model: String,
    /// Whether the job's file states neither samples nor batch nor model size, so that the job is a command
    /// that runs once, on one GPU.
    pub is_plain: bool,
    /// Samples of one epoch, at least 1.
    pub samples_per_epoch: u64,
    /// Epochs to train, at least 1.
    pub epochs: u64,
    /// Samples of one step over all ranks, at least 1 and a multiple of `batch_quantum`.
    pub global_batch: u64,
    /// Local batches are multiples of this; at least 1.
    pub batch_quantum: u64,
    /// Bytes that each rank exchanges per synchronisation.
    pub model_size: Bytes,
    /// Synchronisations in one epoch, at least 1.
    pub syncs_per_epoch: u64,
    /// Fraction of the communication hidden behind the backward pass, in [0, 1).
    pub overlap: f64,
    /// The job file's speeds, by GPU type.
    pub throughput: BTreeMap<GpuType, Speed>,
    /// Weight in the objective, positive.
    pub weight: f64,
    pub min_gpus: u32,
    pub max_gpus: Option<u32>,
    /// Maximum number of runs that share a GPU under `hsched run`.
    pub slots: Option<u32>,
    /// The maximum GPU memory that a rank needs; matters if runs share a GPU.
    pub max_memory: Option<Bytes>,
    /// The requested number of GPUs; `None` means `min_gpus`.
    pub gpus: Option<u32>,
    /// The GPUs of each replica; `None` if a replica is one GPU.
    pub replica: Option<Replica>,
    /// Used if the job has a `replica`, in place of `min_gpus` and `max_gpus`.
    pub min_replicas: u32,
    pub max_replicas: Option<u32>,
    /// How the job's batch is divided.
    pub shares: Sharing,
    /// Arrival in a trace, from the trace's start.
    pub arrival: Seconds,
    /// Number of equal parts of a global batch whose gradients are synchronised together (Hare's K), at least
    /// 1 and at most `global_batch`.
    pub sync_scale: u64,
    /// Minimum number of epochs that the job is expected to train; 0 if unknown.
    pub predicted_epochs: u64,
    /// The loss after each epoch, as far as a trace contains it.
    pub losses: Vec<f64>,
    /// Steps of one global batch that are done at the start of a trace, with fractions.
    pub steps_done: f64,
    /// GPUs that the job holds at the start of a trace.
    pub held: BTreeMap<(NodeName, GpuType), u32>,
    /// Types the job may use; `None` allows every type with a known speed.
    pub gpu_types: Option<BTreeSet<GpuType>>,
    /// Samples that fit into one GPU's memory, or that of a replica, by GPU type.
    pub max_batch: BTreeMap<GpuType, u64>,
    /// Whether a rank may split its batch into micro-batches.
    pub accumulate: bool,
    pub precision: Option<Precision>,
    pub deadline: Option<Deadline>,
    /// Urgency of the job's end for the user, from 0 to 10.
    pub urgency: f64,
    pub target: Option<Target>,
    /// The rules for ending the job before its last epoch.
    pub stop: Stop,
    /// Which estimated speeds may be used for the job; `None` leaves that to settings and command lines.
    pub estimate: Option<Estimates>,
    /// Jobs that must complete before it may start.
    pub after: Vec<JobName>,
    /// Number of times that a failed run is retried.
    pub retries: u32,
    /// Maximum number of runs of its sweep that are in the queue or at work at a time; `None` means no limit.
    pub at_most: Option<u32>,
    /// Whether the runs of the job's sweep with the best predicted metrics start first.
    pub promising_first: bool,
    /// Keywords of the user, by which the job can be selected.
    pub tags: Vec<String>,
    /// The reaction if the job is stuck.
    pub stuck: StuckRule,
    /// Whether the job avoids slow nodes.
    pub avoid_slow: bool,
    /// Whether the job's nodes are checked before the first step.
    pub preflight: bool,
    /// Nodes that the job must avoid for now, because they are slow or their check failed; not part of the
    /// file.
    pub avoided: BTreeSet<NodeName>,
    /// The job's combination of a sweep's values; `None` if it does not belong to a sweep.
    pub variant: Option<Variant>,
    pub launch: Launch,
}

impl Job {
    /// Returns a job that is only planned or simulated, without speeds and a command; other keys have the
    /// defaults of a job file.
    pub fn only_planned(name: JobName, samples_per_epoch: u64, epochs: u64, global_batch: u64) -> Self {
        Self {
            model: name.as_str().to_owned(),
            name,
            is_plain: false,
            samples_per_epoch,
            epochs,
            global_batch,
            batch_quantum: 1,
            model_size: Bytes(0),
            syncs_per_epoch: samples_per_epoch.div_ceil(global_batch),
            overlap: 0.0,
            throughput: BTreeMap::new(),
            weight: 1.0,
            min_gpus: 1,
            max_gpus: None,
            slots: None,
            max_memory: None,
            gpus: None,
            replica: None,
            min_replicas: 1,
            max_replicas: None,
            shares: Sharing::Balanced,
            arrival: Seconds(0.0),
            sync_scale: 1,
            predicted_epochs: 0,
            losses: Vec::new(),
            steps_done: 0.0,
            held: BTreeMap::new(),
            gpu_types: None,
            max_batch: BTreeMap::new(),
            accumulate: true,
            precision: None,
            deadline: None,
            urgency: 1.0,
            target: None,
            stop: Stop::default(),
            estimate: None,
            after: Vec::new(),
            retries: 3,
            at_most: None,
            promising_first: false,
            tags: Vec::new(),
            stuck: StuckRule::Warn,
            avoid_slow: false,
            preflight: false,
            avoided: BTreeSet::new(),
            variant: None,
            launch: Launch {
                command: Command::Words(Vec::new()),
                container: None,
                env: Vec::new(),
                setup: Vec::new(),
                node_setup: Vec::new(),
                workdir: None,
                account: None,
                other_accounts: Vec::new(),
                partition: None,
                qos: None,
                time: None,
                cpus_per_gpu: None,
                memory_per_gpu: None,
                sbatch: Vec::new(),
                checkpoint: Checkpoint::default(),
                copies: None,
            },
        }
    }

    /// Returns whether the job is a command from which no reports are expected: its only epoch is done when
    /// it returns 0.
    pub fn is_command(&self) -> bool {
        self.is_plain && self.epochs == 1
    }

    /// Returns whether the user states that the job saves checkpoints, or has it trained as copies, so that a
    /// run can be continued after its time limit.
    pub fn resumes(&self) -> bool {
        self.launch.checkpoint.is_given() || self.launch.copies.is_some()
    }

    /// Returns the name of the training that this job is a copy of; `None` if it is not a copy.
    pub fn training(&self) -> Option<&str> {
        self.launch.copies?.number?;
        self.name.as_str().rsplit_once(COPY_MARK).map(|(name, _)| name)
    }

    /// Returns the job's copies, each a job of one GPU with the common checkpoint; `None` if it has none or
    /// its name is too long.
    pub(crate) fn forked(&self) -> Option<Vec<Self>> {
        let copies = self.launch.copies.filter(|copies| copies.number.is_none())?;
        let copy = |number: u32| {
            let mut job = self.clone().on_exactly(1);
            job.name = JobName::new(&format!("{}{COPY_MARK}{number}", self.name.as_str())).ok()?;
            job.launch.copies = Some(Copies { number: Some(number), ..copies });
            let usual = || format!("checkpoints/{}", self.name.as_str());
            job.launch.checkpoint.dir = Some(self.launch.checkpoint.dir.clone().unwrap_or_else(usual));
            Some(job)
        };
        (1..=copies.max).map(copy).collect()
    }

    /// Gives the job a fixed number of GPUs.
    pub fn on_exactly(mut self, gpus: u32) -> Self {
        (self.gpus, self.min_gpus, self.max_gpus) = (Some(gpus), gpus, Some(gpus));
        self
    }
}

/// How a job's processes are started.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    pub command: Command,
    /// Image in which the command runs.
    pub container: Option<String>,
    /// Environment of every rank, in the file's order.
    pub env: Vec<(String, String)>,
    /// Shell lines run once, on the first node.
    pub setup: Vec<String>,
    /// Shell lines run once on each node; ranks inherit their environment.
    pub node_setup: Vec<String>,
    /// Directory in which the job runs; `None` means the submission directory.
    pub workdir: Option<String>,
    pub account: Option<String>,
    /// Additional accounts for the job's submission.
    pub other_accounts: Vec<String>,
    pub partition: Option<String>,
    pub qos: Option<String>,
    /// Maximum walltime of one run.
    pub time: Option<Seconds>,
    pub cpus_per_gpu: Option<u32>,
    pub memory_per_gpu: Option<Bytes>,
    /// Further options for `sbatch`, one word each.
    pub sbatch: Vec<String>,
    pub checkpoint: Checkpoint,
    /// How the job is trained as separate copies; `None` for a single training.
    pub copies: Option<Copies>,
}

/// A job of a sweep: one combination of its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Name in the job file, from which the job's name is derived.
    pub sweep: String,
    /// The value of each key in the order of the sweep: a number, a boolean or text.
    pub parameters: serde_json::Map<String, serde_json::Value>,
}

/// The training command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A program and its arguments, passed on unchanged.
    Words(Vec<String>),
    /// A line for the shell.
    Shell(String),
}

/// Where and how a job saves its progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    pub dir: Option<String>,
    /// Time between the stop signal and the end.
    pub grace: Option<Seconds>,
    /// Time lost by a stop and restart.
    pub restart_cost: Option<Seconds>,
}

impl Checkpoint {
    /// Returns whether the job file sets any of these values.
    pub fn is_given(&self) -> bool {
        *self != Self::default()
    }
}

/// How a job is trained as copies that are merged after each round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// Maximum number of concurrent copies, at least 1.
    pub max: u32,
    /// Time for which the copies train separately.
    pub round: Seconds,
    pub optimizer: CopyOptimizer,
    /// The number of this copy, from 1; `None` for the whole training.
    pub number: Option<u32>,
}

/// Treatment of the optimizer's moments in a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyOptimizer {
    /// The moments are averaged like the weights.
    #[default]
    Keep,
    /// The moments are reset.
    Reset,
}

impl CopyOptimizer {
    /// Both treatments with their names in job files.
    pub const NAMES: [(&'static str, Self); 2] = [("keep", Self::Keep), ("reset", Self::Reset)];

    /// Returns the treatment's name in job files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Reset => "reset",
        }
    }
}

/// Numerical precision of the training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    Fp32,
    Tf32,
    Fp16,
    Bf16,
}

impl Precision {
    /// All precisions with their names in job files.
    pub const NAMES: [(&'static str, Self); 4] =
        [("fp32", Self::Fp32), ("tf32", Self::Tf32), ("fp16", Self::Fp16), ("bf16", Self::Bf16)];

    /// Returns whether every training GPU supports the precision.
    pub fn is_everywhere(self) -> bool {
        matches!(self, Self::Fp32 | Self::Fp16)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, precision)| precision == self);
        f.pad(name.map_or("", |(name, _)| name))
    }
}

/// The deadline of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deadline {
    At(Time),
    /// Relative to the job's addition, or in a trace to the trace's start.
    Within(Seconds),
}

/// A metric that determines a job's success.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub metric: String,
    /// The sufficient value.
    pub value: Option<f64>,
    pub mode: GoalMode,
}

/// Whether a metric should fall or rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoalMode {
    Min,
    Max,
}

impl GoalMode {
    /// Both modes with their names in job files.
    pub const NAMES: [(&'static str, Self); 2] = [("min", Self::Min), ("max", Self::Max)];
}
