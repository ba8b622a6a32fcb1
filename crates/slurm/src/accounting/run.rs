//! One run of a job: what it asked for, what it used, and how it ended.

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
    /// The time limit; `None` where there was none.
    pub limit: Option<Seconds>,
    /// At least 1.
    pub nodes: u64,
    /// CPUs of the whole job that it asked for.
    pub cpus: Option<u64>,
    pub memory: Option<AskedMemory>,
    /// GPUs of the whole job that it asked for.
    pub gpus: Option<u32>,
    /// Their type, where it named one.
    pub gpu_type: Option<GpuType>,
    /// Tasks of the largest step.
    pub tasks: u64,
    pub(super) steps: StepUse,
}

/// Memory on each node that a job asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AskedMemory {
    pub mib: f64,
    /// Whether it was asked for by `--mem-per-cpu`.
    pub is_per_cpu: bool,
}

/// What the steps of a run used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StepUse {
    /// MiB on a node, of the largest step.
    pub resident_mib: Option<f64>,
    /// CPU seconds as the job's own row has them,
    pub own_cpu: Option<f64>,
    /// and summed over the steps.
    pub summed_cpu: Option<f64>,
    /// Seconds for which GPUs of a node were busy.
    pub busy_gpu_seconds: Option<f64>,
    /// GPUs of a node that the job was given.
    pub gpus_a_node: f64,
    /// Whether one of them is a MIG slice, which Slurm does not measure.
    pub has_slices: bool,
}

impl AccountedRun {
    /// Returns how long it ran.
    pub fn elapsed(&self) -> Seconds {
        self.ended.since(self.started)
    }

    /// Returns how long it waited.
    pub fn waited(&self) -> Seconds {
        Seconds(self.submitted.map_or(0.0, |submitted| self.started.since(submitted).0.max(0.0)))
    }

    /// Returns the memory that it used on a node, in MiB.
    pub fn used_mib(&self) -> Option<f64> {
        self.steps.resident_mib.filter(|mib| *mib > 0.0)
    }

    /// Returns how many CPUs it kept busy on average.
    pub fn used_cpus(&self) -> Option<f64> {
        let StepUse { own_cpu, summed_cpu, .. } = self.steps;
        // Rows of jobs say nothing, or zero, where only steps are counted.
        let seconds = own_cpu.into_iter().chain(summed_cpu).reduce(f64::max)?;
        let elapsed = self.elapsed().0;
        (elapsed > 0.0).then(|| seconds / elapsed)
    }

    /// Returns the part of its GPUs that was idle on average; `None` where that was not measured.
    pub fn idle_share(&self) -> Option<f64> {
        let StepUse { busy_gpu_seconds, gpus_a_node, has_slices, .. } = self.steps;
        let available = gpus_a_node * self.elapsed().0;
        let busy = busy_gpu_seconds.filter(|_| !has_slices && available > 0.0)?;
        Some((1.0 - busy / available).clamp(0.0, 1.0))
    }

    /// Adds what a step used.
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

    /// Notes what the job was given.
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
