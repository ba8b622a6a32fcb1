//! The run that a job's script describes, made from the placed job: components, options, walltime.

use hsched_model::number::to_u64;
use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::render::quote;
use crate::render::{Component, Launcher, components};
use hsched_model::{
    Command, GpuType, Job, JobDefaults, JobId, JobName, NodeName, PlacedRank, Seconds, Selector, Walltime,
    hostlist,
};

/// Data of one run beside its job.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts<'a> {
    /// Unique id of the run.
    pub run: &'a str,
    /// Id of the plan.
    pub plan: &'a str,
    /// The run's tag in Slurm's records.
    pub comment: String,
    /// Name of the Slurm job and of its output file: the job's name, followed by `.cN` for copies after the
    /// first.
    pub name: String,
    pub ranks: &'a [PlacedRank],
    /// The ranks of other requests for the same job; the script has shares for them in case Slurm grants them
    /// instead.
    pub others: &'a [Vec<PlacedRank>],
    /// Whether the ranks must be on exactly the planned nodes, not on nodes of the same kind.
    pub pinned: bool,
    /// How ranks are started on GPUs already allocated; `None` if the script requests its GPUs from Slurm.
    pub inside: Option<Launcher>,
    pub walltime: Walltime,
    pub epochs_done: u64,
    /// Absolute directory in which the job runs.
    pub workdir: String,
    /// Absolute directory in which the job saves its progress.
    pub checkpoint_dir: String,
    /// Absolute directory on a file system of all nodes, used as a lock: only one submission of the job
    /// trains.
    pub fence: String,
    /// Absolute file on a file system of all nodes, by which one of several submissions takes the job; `None`
    /// if there is only one.
    pub claim: Option<String>,
    /// The Slurm job whose work this submission continues, and the report directory of that job; `None` for
    /// the first piece.
    pub follows: Option<(JobId, String)>,
    /// Absolute directory on a file system of all nodes, in which the ranks report.
    pub report_dir: String,
    /// Absolute directory on a file system of all nodes with the Python module for training programs.
    pub helper_dir: String,
    /// Nodes with several GPU types, and the order of their devices.
    pub device_order: Vec<(NodeName, Vec<GpuType>)>,
    /// Nodes whose GPUs have no type in Slurm, and how to request them.
    pub untyped: BTreeMap<NodeName, Selector>,
}

/// One run of a job, ready to be rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<'a> {
    pub job: &'a Job,
    /// The job's command, wrapped to start in its container if it has one.
    pub command: Command,
    pub facts: RunFacts<'a>,
    /// sbatch options of the whole job, as words without line breaks.
    pub options: Vec<Vec<String>>,
    /// Components with their own sbatch options.
    pub components: Vec<(Component, Vec<Vec<String>>)>,
    pub launcher: Launcher,
    pub cpus_per_rank: u32,
    pub grace_s: u64,
    pub setup: Vec<String>,
    pub node_setup: Vec<String>,
}

/// Why this site cannot run a placement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    #[error(
        "job {job}: sbatch option {option:?} contains a control character, which is not allowed in an #SBATCH line"
    )]
    Option { job: JobName, option: String },
    #[error(
        "job {job}: its placement mixes GPUs ({placement}), but het_steps = false requires the same number of GPUs of one type on each node"
    )]
    Uneven { job: JobName, placement: String },
}

impl<'a> Batch<'a> {
    /// Returns the run of `job` on the ranks of `facts`.
    ///
    /// # Errors
    /// If an option cannot be rendered, or the site cannot start a placement on these GPUs.
    pub fn new(job: &'a Job, defaults: &JobDefaults, facts: RunFacts<'a>) -> Result<Self, BatchError> {
        let mut parts = components(facts.ranks);
        let mut pinned = facts.pinned || facts.inside.is_some();
        let launcher = match (facts.inside, parts.len()) {
            (Some(inside), _) => inside,
            (None, 0 | 1) => Launcher::Plain,
            (None, _) if defaults.het_steps => Launcher::Het,
            (None, _) => {
                parts = vec![even_component(job, &parts)?];
                pinned = true;
                Launcher::HostFile
            }
        };
        let cpus_per_rank = job.launch.cpus_per_gpu.unwrap_or(defaults.cpus_per_gpu);
        let grace = job.launch.checkpoint.grace.unwrap_or(defaults.grace);
        // Slurm may place jobs of one GPU type on nodes with several types, which takes room from plans for
        // those nodes.
        let several: Vec<&NodeName> = facts.device_order.iter().map(|(node, _)| node).collect();
        let mut extra = defaults.sbatch.iter().chain(&job.launch.sbatch);
        let excludes = !pinned && !extra.any(|word| is_exclusion(word));
        let of_several = |part: &Component| part.nodes.iter().any(|node| several.contains(&node));
        let any_excludes =
            excludes && (!job.avoided.is_empty() || !several.is_empty() && !parts.iter().all(of_several));
        let of_part = |part: Component| {
            if facts.inside.is_some() {
                return (part, Vec::new());
            }
            let wanted = wanted(job, defaults, &facts.untyped, &part);
            let mut options = component_options(job, defaults, &part, pinned, cpus_per_rank, &wanted);
            if any_excludes {
                // Later components inherit the exclusions of the first one in Slurm, so an empty list must be
                // stated.
                let others = several.iter().copied().filter(|_| !of_several(&part));
                let nodes: BTreeSet<&NodeName> = others.chain(&job.avoided).collect();
                options.insert(0, vec![format!("--exclude={}", host_list(nodes))]);
            }
            (part, options)
        };
        let batch = Self {
            job,
            options: if facts.inside.is_some() { Vec::new() } else { job_options(&facts, grace) },
            components: parts.into_iter().map(of_part).collect(),
            launcher,
            cpus_per_rank,
            grace_s: whole_seconds(grace),
            command: in_container(job, defaults),
            setup: [&defaults.setup[..], &job.launch.setup].concat(),
            node_setup: [&defaults.node_setup[..], &job.launch.node_setup].concat(),
            facts: RunFacts { pinned, ..facts },
        };
        let words =
            batch.options.iter().chain(batch.components.iter().flat_map(|(_, option)| option)).flatten();
        match words.clone().find(|word| word.contains(super::quote::is_control)) {
            Some(option) => Err(BatchError::Option { job: job.name.clone(), option: option.clone() }),
            None => Ok(batch),
        }
    }
}

/// How the GPUs of a component are requested.
enum GpuSelection {
    /// By GPU type, as in the plan.
    Typed,
    /// By number, on nodes with a feature.
    Feature(String),
    /// By number, on the nodes of the plan.
    Nodes,
}

/// Returns how to request a component: if Slurm knows no type, by a feature that all its nodes have or by
/// node names.
fn wanted(
    job: &Job,
    defaults: &JobDefaults,
    untyped: &BTreeMap<NodeName, Selector>,
    part: &Component,
) -> GpuSelection {
    let selectors: Vec<Option<&Selector>> = part.nodes.iter().map(|node| untyped.get(node)).collect();
    let mut extra = defaults.sbatch.iter().chain(&job.launch.sbatch);
    let taken = extra.any(|word| is_constraint(word));
    match selectors.first() {
        Some(Some(Selector::Feature(feature)))
            if !taken && selectors.iter().all(|selector| *selector == selectors[0]) =>
        {
            GpuSelection::Feature(feature.clone())
        }
        _ if selectors.iter().any(Option::is_some) => GpuSelection::Nodes,
        _ => GpuSelection::Typed,
    }
}

/// Returns the options of the first component that apply to the whole job.
fn job_options(facts: &RunFacts<'_>, grace: Seconds) -> Vec<Vec<String>> {
    let minutes = facts.walltime.minutes;
    // Slurm sends the signal up to one minute early, and never if the job is shorter than the grace.
    let grace = whole_seconds(Walltime::to_save(facts.walltime.limit(), grace)).max(1);
    let name = &facts.name;
    [
        format!("--job-name={name}"),
        format!("--chdir={}", facts.workdir),
        format!("--output={}", file_pattern(&format!("{}/{name}.out", facts.workdir.trim_end_matches('/')))),
        "--open-mode=append".into(),
        "--no-requeue".into(),
        format!("--time={minutes}"),
        format!("--signal=B:USR1@{grace}"),
        format!("--comment={}", facts.comment),
    ]
    .map(|option| vec![option])
    .to_vec()
}

/// Returns the pattern that Slurm expands to exactly `path`: in a pattern with a backslash it replaces only
/// escaped backslashes, in others `%` and a letter.
fn file_pattern(path: &str) -> String {
    if path.contains('\\') { path.replace('\\', r"\\") } else { path.replace('%', "%%") }
}

/// Returns the options of one component. Options that components do not inherit from the first one are
/// repeated in each.
fn component_options(
    job: &Job,
    defaults: &JobDefaults,
    part: &Component,
    pinned: bool,
    cpus_per_rank: u32,
    wanted: &GpuSelection,
) -> Vec<Vec<String>> {
    let mut options = Vec::new();
    let mut add = |name: &str, value: &str| options.push(vec![format!("--{name}={value}")]);
    let launch = &job.launch;
    let named = [
        ("account", launch.account.as_ref().or(defaults.account.as_ref())),
        ("partition", launch.partition.as_ref().or(defaults.partition.as_ref())),
        ("qos", launch.qos.as_ref().or(defaults.qos.as_ref())),
    ];
    for (name, value) in named {
        if let Some(value) = value {
            add(name, value);
        }
    }
    add("nodes", &part.nodes.len().to_string());
    add("ntasks-per-node", &part.ranks_per_node().to_string());
    match wanted {
        GpuSelection::Typed => add("gres", &gres(&part.gpus)),
        GpuSelection::Feature(_) | GpuSelection::Nodes => {
            add("gres", &format!("gpu:{}", part.ranks_per_node()));
        }
    }
    if let GpuSelection::Feature(feature) = wanted {
        add("constraint", feature);
    }
    add("cpus-per-task", &cpus_per_rank.to_string());
    if let Some(memory) = launch.memory_per_gpu.or(defaults.memory_per_gpu) {
        let mebibytes = memory.0.div_ceil(1 << 20).saturating_mul(part.ranks_per_node().into());
        add("mem", &format!("{mebibytes}M"));
    }
    if pinned || matches!(wanted, GpuSelection::Nodes) {
        add("nodelist", &host_list(&part.nodes));
    }
    let mut extra = [&defaults.sbatch[..], &launch.sbatch].concat();
    if !pinned {
        exclude_more(&mut extra, &job.avoided);
    }
    if !extra.is_empty() {
        options.push(extra);
    }
    options
}

/// Returns whether an sbatch option is a constraint, which would replace hsched's constraint.
pub(crate) fn is_constraint(word: &str) -> bool {
    word.starts_with("-C") || word.starts_with("--cons")
}

/// Returns whether an sbatch option excludes nodes; only the last such option counts.
fn is_exclusion(word: &str) -> bool {
    word.starts_with("-x") || word.starts_with("--exclude") && !word.starts_with("--exclusive")
}

/// Adds nodes to the last exclusion among the options, because only the last one counts.
fn exclude_more(options: &mut [String], nodes: &BTreeSet<NodeName>) {
    let Some(place) = options.iter().rposition(|word| is_exclusion(word)).filter(|_| !nodes.is_empty())
    else {
        return;
    };
    let has_value =
        options[place].contains('=') || options[place].starts_with("-x") && options[place].len() > 2;
    if let Some(word) = options.get_mut(if has_value { place } else { place + 1 }) {
        *word = format!("{word},{}", host_list(nodes));
    }
}

fn host_list<'a>(nodes: impl IntoIterator<Item = &'a NodeName>) -> String {
    hostlist::compress(nodes.into_iter().map(NodeName::as_str))
}

fn gres(gpus: &[(GpuType, u32)]) -> String {
    let one = |(gpu_type, count): &(GpuType, u32)| match gpu_type.as_str() {
        GpuType::UNTYPED => format!("gpu:{count}"),
        name => format!("gpu:{name}:{count}"),
    };
    gpus.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Returns all nodes as one component with untyped GPUs, for sites without heterogeneous steps.
///
/// Slurm then gives every node the same number of GPUs and chooses the types itself, so neither may differ.
fn even_component(job: &Job, parts: &[Component]) -> Result<Component, BatchError> {
    let count = parts.first().map_or(0, Component::ranks_per_node);
    if parts.iter().any(|part| part.gpus.len() != 1 || part.ranks_per_node() != count) {
        let one = |part: &Component| {
            let names: Vec<&str> = part.nodes.iter().map(NodeName::as_str).collect();
            format!("{} {}", hostlist::compress(names), gres(&part.gpus))
        };
        let placement = parts.iter().map(one).collect::<Vec<_>>().join("; ");
        return Err(BatchError::Uneven { job: job.name.clone(), placement });
    }
    let nodes = parts.iter().flat_map(|part| part.nodes.clone()).collect();
    Ok(Component { nodes, gpus: vec![(GpuType::untyped(), count)] })
}

fn whole_seconds(time: Seconds) -> u64 {
    to_u64(time.0.ceil())
}
/// Returns the job's command, wrapped to start in its container if it names one.
fn in_container(job: &Job, defaults: &JobDefaults) -> Command {
    let Some(image) = &job.launch.container else { return job.launch.command.clone() };
    let words = match &job.launch.command {
        Command::Words(words) => words.clone(),
        Command::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
    };
    let words: Vec<String> = words.iter().map(|word| quote::shell(word)).collect();
    Command::Shell(format!("{} {} {}", defaults.container_command, quote::shell(image), words.join(" ")))
}
