//! One run of a job: its request, its use and its end.

use crate::accounting::reader::StepUsage;
use crate::{SlurmState, Tres};
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Seconds, Time};

/// An attempt of a job, array task or component of a heterogeneous job that started and ended.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountedRun {
    /// The job's name as printed.
    pub name: String,
    pub partition: Option<String>,
    pub state: SlurmState,
    pub submitted: Option<Time>,
    pub started: Time,
    pub ended: Time,
    /// The time limit; `None` if there was none, or if it is not recorded.
    pub limit: Option<Seconds>,
    /// Number of nodes, at least 1.
    pub nodes: u64,
    /// Requested CPUs of the whole job, or the allocated ones if the request is not recorded.
    pub cpus: Option<u64>,
    pub memory: Option<AskedMemory>,
    /// Requested GPUs of the whole job, or the allocated ones if the request is not recorded; `None` if
    /// neither is.
    pub gpus: Option<u32>,
    /// The first requested GPU type, or the first allocated one if the request is not recorded; `None` if
    /// there is none.
    pub gpu_type: Option<GpuType>,
    /// Tasks of the largest step.
    pub tasks: u64,
    pub(super) steps: StepUse,
}

/// Requested memory per node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AskedMemory {
    pub mib: f64,
    /// Whether the memory was requested by `--mem-per-cpu`.
    pub is_per_cpu: bool,
}

/// The resources that the steps of a run used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StepUse {
    /// MiB on a node, of the largest step.
    pub resident_mib: Option<f64>,
    /// CPU seconds from the job's row.
    pub own_cpu: Option<f64>,
    /// CPU seconds summed over the steps.
    pub summed_cpu: Option<f64>,
    /// GPU seconds for which the GPUs of a node were busy.
    pub busy_gpu_seconds: Option<f64>,
    /// Number of GPUs per node that the job received.
    pub gpus_a_node: f64,
    /// Whether one of them is a MIG slice, which Slurm does not measure.
    pub has_slices: bool,
}

impl AccountedRun {
    /// Returns the duration of the run.
    pub fn elapsed(&self) -> Seconds {
        self.ended.since(self.started)
    }

    /// Returns how long the run was pending; 0 if the submit time is not recorded.
    pub fn waited(&self) -> Seconds {
        Seconds(self.submitted.map_or(0.0, |submitted| self.started.since(submitted).0.max(0.0)))
    }

    /// Returns the memory used per node, in MiB.
    pub(crate) fn used_mib(&self) -> Option<f64> {
        self.steps.resident_mib.filter(|mib| *mib > 0.0)
    }

    /// Returns the mean number of CPUs in use.
    pub(crate) fn used_cpus(&self) -> Option<f64> {
        let StepUse { own_cpu, summed_cpu, .. } = self.steps;
        // Rows of jobs are empty or zero if Slurm counts only steps.
        let seconds = own_cpu.into_iter().chain(summed_cpu).reduce(f64::max)?;
        let elapsed = self.elapsed().0;
        (elapsed > 0.0).then(|| seconds / elapsed)
    }

    /// Returns the mean idle fraction of the run's GPUs; `None` if it was not measured.
    pub fn idle_share(&self) -> Option<f64> {
        let StepUse { busy_gpu_seconds, gpus_a_node, has_slices, .. } = self.steps;
        let available = gpus_a_node * self.elapsed().0;
        let busy = busy_gpu_seconds.filter(|_| !has_slices && available > 0.0)?;
        Some((1.0 - busy / available).clamp(0.0, 1.0))
    }

    /// Adds the use of a step.
    pub(super) fn add(&mut self, used: &StepUsage) {
        let steps = &mut self.steps;
        let resident = used.resident_mib.map(|mib| mib * used.tasks_a_node);
        steps.resident_mib = steps.resident_mib.into_iter().chain(resident).reduce(f64::max);
        steps.summed_cpu = sum(steps.summed_cpu, used.cpu_seconds);
        let busy = used.gpu_percent.zip(used.seconds);
        let busy = busy.map(|(percent, seconds)| percent / 100.0 * used.tasks_a_node * seconds);
        steps.busy_gpu_seconds = sum(steps.busy_gpu_seconds, busy);
        self.tasks = self.tasks.max(used.tasks);
        self.give(&used.given);
    }

    /// Records the allocated resources.
    pub(super) fn give(&mut self, given: &Tres) {
        let gpus = &given.gres.gpus;
        self.steps.has_slices |= gpus.iter().any(|(gpu_type, _)| gpu_type.is_mig_slice());
        let a_node = to_f64(u64::from(given.gres.gpu_total())) / to_f64(self.nodes);
        self.steps.gpus_a_node = self.steps.gpus_a_node.max(a_node);
    }
}

fn sum(known: Option<f64>, more: Option<f64>) -> Option<f64> {
    known.into_iter().chain(more).reduce(|a, b| a + b)
}
