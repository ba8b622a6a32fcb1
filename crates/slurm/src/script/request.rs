//! What a script asks Slurm for, in the same words whatever options asked for it.

use super::options::ScriptOption;

/// What `sbatch` makes of a script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptReading {
    /// All options in the order in which `sbatch` applies them: script, environment, command line. Up to the first that is refused.
    pub options: Vec<ScriptOption>,
    /// What the job asks for; `None` if Slurm refuses the script before that is known.
    pub request: Option<ScriptRequest>,
    /// Why Slurm would refuse the script.
    pub refused: Option<String>,
    /// Values that are known only later, such as a placeholder of a template; their fields are `None`.
    pub unknown: Vec<LineRemark>,
    /// Names that only the site can say are valid: partitions, accounts, nodes, features, licenses, jobs of a dependency.
    pub site_names: Vec<LineRemark>,
    /// Lines that Slurm ignores or understands otherwise than they look, and options of plugins.
    pub notes: Vec<LineRemark>,
}

/// A sentence about a line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRemark {
    /// Line number, counted from 1; `None` for an option of the environment or the command line, and for the script as a whole.
    pub line: Option<usize>,
    /// Text that the sentence is about, as written.
    pub text: String,
    /// What Slurm does with it, or why it is not known.
    pub why: String,
}

/// What a job asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptRequest {
    /// Name of the job.
    pub job_name: String,
    /// The job; of a het job the first component, but with the GPUs of all components.
    pub total: ResourceRequest,
    /// The components of a het job, at least two; empty for other jobs.
    pub components: Vec<ResourceRequest>,
    /// The job array, if the job is one. GPUs and nodes are those of one task.
    pub array: Option<ArrayRequest>,
}

/// What a job, or a component of a het job, asks for. Values that only the site or a later moment knows are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceRequest {
    /// Least number of nodes.
    pub nodes_min: Option<u64>,
    /// Greatest number of nodes; `None` if Slurm may choose.
    pub nodes_max: Option<u64>,
    /// GPUs in all, of one task of an array.
    pub gpus_total: Option<u64>,
    /// Whether Slurm may take more nodes, and so more GPUs than `gpus_total`.
    pub gpus_total_is_minimum: bool,
    /// GPUs on each node; `None` if Slurm chooses how to split them.
    pub gpus_per_node: Option<u64>,
    /// GPU type as written, of several the first.
    pub gpu_type: Option<String>,
    /// All GPU types as written.
    pub gpu_types: Vec<String>,
    /// Number of tasks.
    pub ntasks: Option<u64>,
    /// CPUs of each task, usually 1.
    pub cpus_per_task: Option<u64>,
    /// CPUs for each GPU.
    pub cpus_per_gpu: Option<u64>,
    /// Memory of each node in MiB; 0 is all of a node. With none of the three memory fields the site's default applies.
    pub mem_mb_per_node: Option<u64>,
    /// Memory for each CPU in MiB.
    pub mem_mb_per_cpu: Option<u64>,
    /// Memory for each GPU in MiB.
    pub mem_mb_per_gpu: Option<u64>,
    /// Time limit; `None` is the partition's default.
    pub time_limit: Option<TimeLimit>,
    /// Partitions as written, separated by commas.
    pub partition: Option<String>,
    /// Account.
    pub account: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// Node features as written.
    pub constraint: Option<String>,
    /// Whether the job shares its nodes.
    pub exclusive: Exclusive,
}

/// Longest run time of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// Seconds, after Slurm rounded them up to minutes.
    Seconds(u64),
    /// No limit of the job's own.
    Unlimited,
}

/// Whether a job shares its nodes with other jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclusive {
    /// As the partition says.
    #[default]
    No,
    /// Whole nodes (`--exclusive`): all CPUs and GPUs of each, however few were asked for.
    Nodes,
    /// Only with jobs of the same user (`--exclusive=user`).
    User,
    /// Only with jobs of the same MCS label (`--exclusive=mcs`).
    Mcs,
    /// Not with other jobs of the same network segment (`--exclusive=topo`).
    Topology,
    /// Shares even its CPUs (`--exclusive=oversubscribe`).
    Oversubscribe,
}

/// A job array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayRequest {
    /// Number of tasks; `None` if it is known only later.
    pub tasks: Option<u64>,
    /// Most tasks that run at a time.
    pub limit: Option<u64>,
}
