//! The numbers of nodes and tasks that a component requests.

use std::collections::BTreeSet;

use hsched_model::hostlist;

use super::numbers::nodes;
use super::settings::ComponentSettings;
use super::source::SlurmVersion;

/// A note on an unexpected interpretation: the option's name and a sentence.
pub(super) type Note = (&'static str, String);

/// Nodes and tasks of a component, as `sbatch` sends them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskCounts {
    /// Minimum number of nodes, if an option sets it or it follows from other values.
    pub least_nodes: Option<u64>,
    /// Whether the controller computes the minimum number of nodes only after it has checked the GPUs.
    pub is_late: bool,
    /// Maximum number of nodes, if an option sets it or it follows from other values.
    pub most_nodes: Option<u64>,
    /// Maximum number of nodes that the controller derives from `--nodelist`.
    pub listed_nodes: Option<u64>,
    /// Number of tasks, if an option sets it or it follows from other values.
    pub tasks: Option<u64>,
    /// Number of tasks if no option sets it.
    pub usual_tasks: u64,
    pub tasks_per_node: Option<u64>,
    pub tasks_per_socket: Option<u64>,
    pub tasks_per_gpu: Option<u64>,
    pub sockets: Option<u64>,
    pub cpus_per_task: Option<u64>,
    pub cpus_per_gpu: Option<u64>,
}

impl TaskCounts {
    /// Returns the minimum number of nodes that `sbatch` sends.
    pub(super) fn sent_nodes(&self) -> Option<u64> {
        self.least_nodes.filter(|_| !self.is_late)
    }
}

/// Computes nodes and tasks; adds notes on unexpected interpretations.
///
/// # Errors
/// The message of `sbatch`.
pub(super) fn counts(
    settings: &ComponentSettings,
    version: SlurmVersion,
    notes: &mut Vec<Note>,
) -> Result<TaskCounts, String> {
    let tasks_per_node = settings.number("ntasks-per-node");
    let (mut least, mut most) = match settings.text("nodes").filter(|_| !settings.is_unknown("nodes")) {
        Some(text) => {
            nodes(text, version).map(|(least, most)| (Some(least), Some(most).filter(|most| *most > 0)))?
        }
        None => (None, None),
    };
    let listed = listed_nodes(settings)?;
    if let Some(listed) = listed {
        let is_newer = version.is_at_least(23, 2);
        if least.is_none() {
            least = Some(listed);
        } else if !is_newer {
            least = least.max(Some(listed));
        }
    }
    if let (Some(least), Some(most)) = (least, most)
        && least > most
    {
        return Err(format!("invalid number of nodes (-N {least}-{most})"));
    }
    let mut tasks = settings.number("ntasks");
    let is_one_count = most.is_none() || least == most;
    let mut usual_tasks = 1;
    if tasks.is_none() && is_one_count {
        if let Some(per_node) = tasks_per_node {
            usual_tasks = least.unwrap_or(1).saturating_mul(per_node);
            if !version.is_at_least(23, 2) {
                tasks = Some(usual_tasks);
            }
        } else if least.is_some() || settings.is_set("extra-node-info") {
            let factors = [settings.sockets, settings.cores, threads(settings)];
            let nodes = least.unwrap_or(1);
            usual_tasks = factors.into_iter().flatten().fold(nodes, u64::saturating_mul);
            if factors.iter().any(Option::is_some) {
                tasks = Some(usual_tasks);
            }
        }
    } else if tasks.is_none() {
        usual_tasks = least.unwrap_or(1).saturating_mul(tasks_per_node.unwrap_or(1));
    }
    if least == Some(0) && tasks.is_none() {
        notes.push(("nodes", "Slurm starts no job of 0 nodes".to_owned()));
    }
    let mut is_late = false;
    if let (Some(tasks), Some(nodes)) = (tasks, least) {
        most = most.map(|most| most.min(tasks));
        if tasks < nodes {
            let why = match tasks {
                1 => format!("Slurm takes 1 node instead of {nodes}: there is only 1 task"),
                _ => format!("Slurm takes {tasks} nodes instead of {nodes}: there are only {tasks} tasks"),
            };
            notes.push(("nodes", why));
            (least, most) = (Some(tasks), Some(tasks));
        }
    } else if let (Some(tasks), Some(per_node)) =
        (tasks, tasks_per_node.filter(|tasks_per_node| *tasks_per_node > 0))
    {
        least = Some(tasks.div_ceil(per_node));
        is_late = !version.is_at_least(23, 2);
    }
    // Newer versions use exactly the listed nodes.
    let is_all = settings.get("nodes").is_none() && version.is_at_least(23, 2);
    let listed_nodes = listed.filter(|_| is_all && tasks.is_none_or(|tasks| Some(tasks) >= listed));
    Ok(TaskCounts {
        least_nodes: least,
        is_late,
        most_nodes: most,
        listed_nodes,
        tasks,
        usual_tasks,
        tasks_per_node,
        tasks_per_socket: settings.number("ntasks-per-socket"),
        tasks_per_gpu: settings.number("ntasks-per-tres").or_else(|| settings.number("ntasks-per-gpu")),
        sockets: settings.sockets,
        cpus_per_task: settings.number("cpus-per-task"),
        cpus_per_gpu: settings.number("cpus-per-gpu"),
    })
}

/// Returns the number of nodes that `--nodelist` names; `None` if it names a file or is missing.
fn listed_nodes(settings: &ComponentSettings) -> Result<Option<u64>, String> {
    let Some(text) = settings.text("nodelist").filter(|_| !settings.is_unknown("nodelist")) else {
        return Ok(None);
    };
    if text.contains(['/', '{']) || text.is_empty() {
        return Ok(None);
    }
    let names = hostlist::expand(text).map_err(|_| "Invalid node list specified".to_owned())?;
    Ok(Some(names.into_iter().collect::<BTreeSet<_>>().len() as u64))
}

/// Returns the number of threads per core that the component requests; `--hint` may set it.
fn threads(settings: &ComponentSettings) -> Option<u64> {
    let is_overruled =
        ["ntasks-per-core", "threads-per-core", "extra-node-info"].iter().any(|name| settings.is_given(name));
    let hint = settings.text("hint").filter(|_| !is_overruled).unwrap_or_default().to_ascii_lowercase();
    if ["nomultithread", "compute_bound", "memory_bound"]
        .iter()
        .any(|candidate| hint.split(',').any(|word| word == *candidate))
    {
        return Some(1);
    }
    settings.threads
}
