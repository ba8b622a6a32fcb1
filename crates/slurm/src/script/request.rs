//! The request of a script, independent of the options that express it.

use super::options::ScriptOption;

/// The interpretation of a script by `sbatch`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptReading {
    /// All options in the order in which `sbatch` applies them: script, environment, command line. The list
    /// ends at the first refused option.
    pub options: Vec<ScriptOption>,
    /// The job's request; `None` if Slurm refuses the script before the request is known, or if placeholders
    /// make the request of a component unknown.
    pub request: Option<ScriptRequest>,
    /// Why Slurm would refuse the script.
    pub refused: Option<String>,
    /// Values that are known only later, such as template placeholders. Their fields are `None`, but shell
    /// variables in names, such as that of the partition, are kept as text.
    pub unknown: Vec<LineRemark>,
    /// Values whose validity depends on the site, such as partitions, accounts, nodes, features, licenses,
    /// jobs of a dependency and array indices.
    pub site_names: Vec<LineRemark>,
    /// Generic resources other than GPUs, all of which the site must define.
    pub other_resources: Vec<OtherResource>,
    /// Notes on lines that Slurm ignores or interprets unexpectedly, and on options of plugins.
    pub notes: Vec<LineRemark>,
}

/// A sentence about a line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRemark {
    /// Line number, from 1; `None` for an option of the environment or the command line, and for the script
    /// as a whole.
    pub line: Option<usize>,
    /// The text that the remark is about, as written.
    pub text: String,
    /// How Slurm treats the line, or why its value is unknown.
    pub why: String,
}

/// A job's request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptRequest {
    /// Name of the job.
    pub job_name: String,
    /// The whole job; for a het job, the first component with the GPUs of all components.
    pub total: ResourceRequest,
    /// The components of a het job, at least two; empty for other jobs.
    pub components: Vec<ResourceRequest>,
    /// The job array, if there is one. GPUs and nodes are those of one task.
    pub array: Option<ArrayRequest>,
}

/// The request of a job or of a component of a het job. Values known only to the site or only later are
/// `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceRequest {
    /// Minimum number of nodes.
    pub nodes_min: Option<u64>,
    /// Maximum number of nodes; `None` if Slurm may choose.
    pub nodes_max: Option<u64>,
    /// Total number of GPUs; for an array, of one task.
    pub gpus_total: Option<u64>,
    /// Whether Slurm may choose more nodes, and thus more GPUs than `gpus_total`.
    pub gpus_total_is_minimum: bool,
    /// GPUs per node, of several types those of the first; `None` if Slurm chooses the distribution.
    pub gpus_per_node: Option<u64>,
    /// GPU type as written; the first of several.
    pub gpu_type: Option<String>,
    /// The GPUs of each type; GPUs without a type form one entry.
    pub gpu_shares: Vec<GpuShare>,
    /// Number of tasks.
    pub ntasks: Option<u64>,
    /// CPUs per task, by default 1.
    pub cpus_per_task: Option<u64>,
    /// CPUs per GPU.
    pub cpus_per_gpu: Option<u64>,
    /// Memory per node in MiB; 0 means all memory of a node. If all three memory fields are `None`, the
    /// site's default applies.
    pub mem_mb_per_node: Option<u64>,
    /// Memory per CPU in MiB.
    pub mem_mb_per_cpu: Option<u64>,
    /// Memory per GPU in MiB.
    pub mem_mb_per_gpu: Option<u64>,
    /// Time limit; `None` means the partition's default.
    pub time_limit: Option<TimeLimit>,
    /// Partitions as written, separated by commas.
    pub partition: Option<String>,
    /// Account, in lower case.
    pub account: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// Node features as written, with `&` instead of commas.
    pub constraint: Option<String>,
    /// How the job shares its nodes.
    pub exclusive: Exclusive,
}

/// The GPUs of one type in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuShare {
    /// GPU type as written; `None` for any type.
    pub kind: Option<String>,
    /// Total number.
    pub total: u64,
    /// Number per node; `None` if Slurm chooses the distribution.
    pub per_node: Option<u64>,
}

/// A generic resource other than GPUs in a request, such as `shard:2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherResource {
    /// Line number, from 1; `None` for an option of the environment or the command line.
    pub line: Option<usize>,
    /// The option as written.
    pub text: String,
    /// Name of the resource: `shard`.
    pub name: String,
}

/// Maximum run time of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// Seconds, after Slurm's rounding up to minutes.
    Seconds(u64),
    /// The job requests to have no limit.
    Unlimited,
}

/// How a job shares its nodes with other jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclusive {
    /// According to the partition.
    #[default]
    No,
    /// Whole nodes (`--exclusive`): all CPUs and GPUs of each, regardless of the request.
    Nodes,
    /// Only with jobs of the same user (`--exclusive=user`).
    User,
    /// Only with jobs of the same MCS label (`--exclusive=mcs`).
    Mcs,
    /// Alone in its segment of the network topology (`--exclusive=topo`).
    Topology,
    /// Shares even its CPUs (`--exclusive=oversubscribe`).
    Oversubscribe,
}

/// A job array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayRequest {
    /// Number of tasks; `None` if unknown until later.
    pub tasks: Option<u64>,
    /// Maximum number of tasks that run at the same time.
    pub limit: Option<u64>,
}
