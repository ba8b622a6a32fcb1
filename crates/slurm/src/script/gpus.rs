//! The number of GPUs that a component requests, and whether its counts of GPUs, nodes and tasks agree.

use super::gres::GpuCounts;
use super::numbers::mebibytes;
use super::settings::ComponentSettings;
use super::source::SlurmVersion;
use super::tasks::TaskCounts;

const NOT_A_MULTIPLE: &str =
    "Failed to validate job spec, -n/--ntasks has to be a multiple of --ntasks-per-gpu.";

/// Computes the total number of GPUs of each type; sets the numbers of nodes, tasks and CPUs that follow from
/// it.
///
/// # Errors
/// Slurm's message about counts that do not agree.
pub(super) fn total(
    gpus: &mut Vec<GpuCounts>,
    counts: &mut TaskCounts,
    settings: &ComponentSettings,
    version: SlurmVersion,
) -> Result<Vec<u64>, String> {
    set_tasks(gpus, counts, settings, version);
    let mut totals: Vec<u64> = gpus.iter().map(|gpu_counts| gpu_counts.total(counts)).collect();
    if let Some(per_gpu) = counts.tasks_per_gpu.filter(|per_gpu| *per_gpu > 0) {
        if !gpus.is_empty() {
            counts.tasks = Some(
                totals.iter().fold(0_u64, |all, total| all.saturating_add(*total)).saturating_mul(per_gpu),
            );
        } else if let Some(tasks) = counts.tasks {
            let per_job = tasks / per_gpu;
            if per_job == 0 {
                let has_share = settings.is_set("cpus-per-gpu") || settings.is_set("mem-per-gpu");
                if has_share && !tasks.is_multiple_of(per_gpu) {
                    return Err(NOT_A_MULTIPLE.to_owned());
                }
                return refuse_without_gpus(gpus, settings, version).map(|()| totals);
            }
            gpus.push(GpuCounts { per_job, ..GpuCounts::default() });
            totals.push(per_job);
        } else {
            return Err(
                "--ntasks-per-tres needs either a GRES GPU specification or a node/ntask specification"
                    .to_owned(),
            );
        }
    }
    refuse_without_gpus(gpus, settings, version)?;
    if counts.cpus_per_gpu.is_some() && counts.cpus_per_task.is_some() {
        return Err("--cpus-per-gpu is mutually exclusive with --cpus-per-task".to_owned());
    }
    for (gpu_counts, total) in gpus.iter_mut().zip(&mut totals) {
        gpu_counts.agree(counts, version)?;
        // The controller counts again with the derived number of nodes; newer versions count only the job's
        // GPUs.
        *total = if gpu_counts.per_job > 0 && version.is_at_least(23, 2) {
            gpu_counts.per_job
        } else if gpu_counts.per_task > 0 {
            *total
        } else {
            gpu_counts.total(counts).max(*total)
        };
    }
    Ok(totals)
}

/// Sets the number of tasks if no option sets it, the number of nodes is fixed, and the script gives GPUs or
/// CPUs per task, or tasks per GPU.
fn set_tasks(
    gpus: &[GpuCounts],
    counts: &mut TaskCounts,
    settings: &ComponentSettings,
    version: SlurmVersion,
) {
    let is_by_task = gpus.iter().any(|gpu_counts| gpu_counts.per_task > 0)
        || version.is_at_least(23, 2) && (settings.is_set("tres-per-task") || counts.cpus_per_task.is_some());
    let Some(nodes) = counts.least_nodes.filter(|_| counts.least_nodes == counts.most_nodes) else { return };
    if counts.tasks.is_some() || !(is_by_task || counts.tasks_per_gpu.is_some()) {
        return;
    }
    let per_node = counts.tasks_per_gpu.or(counts.tasks_per_node);
    counts.tasks = match per_node {
        Some(per_node) => Some(nodes.saturating_mul(per_node)),
        None if counts.cpus_per_task.is_none() => Some(nodes),
        None => None,
    };
}

fn refuse_without_gpus(
    gpus: &[GpuCounts],
    settings: &ComponentSettings,
    version: SlurmVersion,
) -> Result<(), String> {
    if !gpus.is_empty() {
        return Ok(());
    }
    for (option, word, is_refused) in
        [("mem-per-gpu", "mem", true), ("cpus-per-gpu", "cpus", version.is_at_least(23, 2))]
    {
        let asks = settings.text(option).is_some_and(|text| mebibytes(text) != Some(0));
        if asks && is_refused {
            return Err(format!("Requested {word}_per_tres by --{option} but did not request any GPU."));
        }
    }
    Ok(())
}

impl GpuCounts {
    /// Returns the total number of GPUs; an unknown number of nodes, sockets or tasks counts as 1.
    fn total(&self, counts: &TaskCounts) -> u64 {
        let nodes = counts.least_nodes.unwrap_or(1).max(1);
        let sockets = match (counts.sockets, counts.tasks, counts.tasks_per_socket) {
            (Some(sockets), ..) => nodes.saturating_mul(sockets),
            (None, Some(tasks), Some(per_socket)) if per_socket > 0 => tasks.div_ceil(per_socket),
            _ => 1,
        };
        [
            self.per_job,
            self.most_per_node.saturating_mul(nodes),
            self.per_socket.saturating_mul(sockets),
            self.per_task.saturating_mul(counts.tasks.unwrap_or(1)),
        ]
        .into_iter()
        .max()
        .unwrap_or(0)
    }

    /// Checks that the counts agree, and sets the derived ones.
    fn agree(&mut self, counts: &mut TaskCounts, version: SlurmVersion) -> Result<(), String> {
        self.check_order()?;
        if self.per_socket > 0 && counts.sockets.is_none() {
            return Err("--gpus-per-socket option requires --sockets-per-node specification".to_owned());
        }
        if self.per_job > 0 && self.per_node > 0 {
            self.settle_nodes(counts)?;
        }
        if self.per_node > 0 && self.per_socket > 0 {
            let sockets =
                whole(self.per_node, self.per_socket, "--gres=gpu/--gpus-per-node", "--gpus-per-socket")?;
            if counts.sockets != Some(sockets) {
                return Err(
                    "Failed to validate job spec. The sockets of --gres=gpu/--gpus-per-node and --gpus-per-socket differ from --sockets-per-node."
                        .to_owned(),
                );
            }
        }
        if let (Some(per_gpu), Some(tasks)) = (counts.tasks_per_gpu.filter(|count| *count > 0), counts.tasks)
            && !tasks.is_multiple_of(per_gpu)
        {
            return Err(NOT_A_MULTIPLE.to_owned());
        }
        if self.per_task > 0 {
            self.settle_tasks(counts, version)?;
        }
        if self.per_job > 0 {
            if counts.sent_nodes().is_some_and(|nodes| self.per_job < nodes) {
                return Err("Failed to validate job spec, --gpus < -N".to_owned());
            }
            counts.most_nodes = counts.most_nodes.map(|most| most.min(self.per_job));
        }
        Ok(())
    }

    /// Checks that the job has at least as many GPUs as a node, a socket and a task, and a node as many as a
    /// socket and a task.
    fn check_order(&self) -> Result<(), String> {
        let of_parts = self.per_task.max(self.per_socket);
        if self.per_job > 0 && self.per_job < of_parts.max(self.per_node) {
            return Err(
                "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket".to_owned()
            );
        }
        if self.per_node > 0 && self.per_node < of_parts {
            return Err("Failed to ensure --gpus >= --gpus-per-task".to_owned());
        }
        Ok(())
    }

    /// Sets the number of nodes that follows from the GPUs of the job and those per node.
    fn settle_nodes(&self, counts: &mut TaskCounts) -> Result<(), String> {
        let nodes = whole(self.per_job, self.per_node, "--gpus", "--gres=gpu/--gpus-per-node")?;
        let is_few = counts.sent_nodes().is_some_and(|least| nodes < least);
        if is_few || counts.most_nodes.is_some_and(|most| nodes > most) {
            return Err(format!(
                "Failed to validate job spec. Based on --gpus and --gres=gpu/--gpus-per-node required nodes ({nodes}) do not agree with -N."
            ));
        }
        (counts.least_nodes, counts.most_nodes) = (Some(nodes), Some(nodes));
        counts.usual_tasks = counts.usual_tasks.max(nodes.saturating_mul(counts.tasks_per_node.unwrap_or(1)));
        Ok(())
    }

    /// Sets the number of tasks that follows from the GPUs of the job and those per task, or vice versa.
    fn settle_tasks(&mut self, counts: &mut TaskCounts, version: SlurmVersion) -> Result<(), String> {
        if self.per_job > 0 {
            let tasks = whole(self.per_job, self.per_task, "--gpus", "--gpus-per-task")?;
            if counts.tasks.is_some_and(|task| task != tasks) {
                return Err(
                    "Failed to validate job spec. Based on --gpus and --gpus-per-task number of requested tasks differ from -n/--ntasks."
                        .to_owned(),
                );
            }
            counts.tasks = Some(tasks);
        } else if let Some(tasks) = counts.tasks {
            self.per_job = tasks.saturating_mul(self.per_task);
        } else {
            let or_tres = if version.is_at_least(23, 2) { " or --tres-per-task" } else { "" };
            return Err(format!(
                "Failed to validate job spec. --gpus-per-task{or_tres} used without either --gpus or -n/--ntasks is not allowed."
            ));
        }
        if self.per_node > 0 {
            let tasks = whole(self.per_node, self.per_task, "--gres=gpu/--gpus-per-node", "--gpus-per-task")?;
            if counts.tasks_per_node.is_some_and(|count| count != tasks) {
                return Err(
                    "Failed to validate job spec. Based on --gres=gpu/--gpus-per-node and --gpus-per-task requested number of tasks per node differ from --ntasks-per-node."
                        .to_owned(),
                );
            }
            counts.tasks_per_node = Some(tasks);
            let nodes = counts.tasks.map(|all| all.div_ceil(tasks));
            if nodes > counts.least_nodes && (counts.most_nodes.is_none() || nodes <= counts.most_nodes) {
                counts.least_nodes = nodes;
            }
        }
        if self.per_socket > 0 {
            let tasks = whole(self.per_socket, self.per_task, "--gpus-per-socket", "--gpus-per-task")?;
            if counts.tasks_per_socket.is_some_and(|count| count != tasks) {
                return Err(
                    "Failed to validate job spec. The tasks of --gpus-per-socket and --gpus-per-task differ from --ntasks-per-socket."
                        .to_owned(),
                );
            }
        }
        // CPUs per GPU apply only to untyped GPUs.
        if let Some(per_gpu) = counts.cpus_per_gpu.filter(|_| self.kind.is_none()) {
            counts.cpus_per_task = Some(per_gpu.saturating_mul(self.per_task));
        }
        Ok(())
    }
}

/// Returns a quotient that must be an integer.
fn whole(all: u64, part: u64, all_name: &str, part_name: &str) -> Result<u64, String> {
    if !all.is_multiple_of(part) {
        return Err(format!("Failed to validate job spec, {all_name} is not multiple of {part_name}"));
    }
    Ok(all / part)
}
