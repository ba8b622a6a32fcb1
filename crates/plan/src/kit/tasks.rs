//! Jobs as rounds of equal tasks on single GPUs: the model of Hare and HLAS.
//!
//! A round is an epoch and has as many tasks as the job's synchronisation scale, which never changes; the
//! number of GPUs may change. A job that holds all its GPUs at once has at least as many tasks as its minimum
//! of GPUs. A task computes alone on one GPU. Its gradients are then transmitted for some
//! time while the GPU is free again. The next round begins when all gradients have arrived.

use crate::{JobModel, Problem, TypeModel, cost};
use hsched_model::number::to_f64;

/// Relative difference below which quantities are equal.
pub const TIE: f64 = 1e-9;

/// Jobs, and the GPUs that compute their tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Tasks {
    /// GPUs in the order of nodes, then types.
    pub gpus: Vec<TaskGpu>,
    /// The number of GPUs by type.
    pub counts: Vec<u32>,
    pub jobs: Vec<TaskJob>,
}

/// One GPU of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskGpu {
    pub node: usize,
    pub gpu_type: usize,
    /// Index among the GPUs of the node.
    pub index: u32,
}

/// A job as rounds of tasks; times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskJob {
    pub arrival: f64,
    pub weight: f64,
    pub rounds: u64,
    /// K, the number of tasks per round.
    pub scale: u64,
    /// T, the compute time of one task by GPU type; `None` if the job cannot run there, or if there is no
    /// such GPU.
    pub times: Vec<Option<f64>>,
    /// T^s, the transmission time of a task's gradients.
    pub sync: f64,
}

/// A task with its GPU and times, in seconds from the trace's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskRun {
    pub job: usize,
    /// Round number, from 1.
    pub round: u64,
    /// Task number, from 1.
    pub task: u64,
    /// Index in [`Tasks::gpus`].
    pub gpu: usize,
    pub start: f64,
    pub computed: f64,
    pub synced: f64,
}

impl Tasks {
    /// Returns these jobs on the GPUs of a problem, each with its arrival and number of rounds.
    pub fn new<'a>(problem: &Problem, jobs: impl IntoIterator<Item = (&'a JobModel, f64, u64)>) -> Self {
        Self::scaled(problem, jobs, |model| model.rounds.scale)
    }

    /// Like [`Self::new`], for jobs that hold all their GPUs at once: each GPU needs a task.
    pub fn of_gangs<'a>(problem: &Problem, jobs: impl IntoIterator<Item = (&'a JobModel, f64, u64)>) -> Self {
        Self::scaled(problem, jobs, |model| model.rounds.scale.max(model.min_gpus.into()))
    }

    fn scaled<'a>(
        problem: &Problem,
        jobs: impl IntoIterator<Item = (&'a JobModel, f64, u64)>,
        scale: impl Fn(&JobModel) -> u64,
    ) -> Self {
        let counts = problem.offered();
        let job = |(model, arrival, rounds): (&JobModel, f64, u64)| {
            let scale = scale(model);
            TaskJob {
                arrival,
                weight: model.weight,
                rounds,
                scale,
                times: task_times(model, scale, &counts),
                sync: sync_time(problem, model, scale),
            }
        };
        Self { gpus: TaskGpu::all(problem), jobs: jobs.into_iter().map(job).collect(), counts }
    }
}

impl TaskGpu {
    /// Returns the GPUs of a problem in the order of its nodes, and by type within each.
    pub fn all(problem: &Problem) -> Vec<Self> {
        let of_node = |(node, worker_node): (usize, &crate::WorkerNode)| {
            let counts = worker_node.gpus.iter().enumerate();
            let types = counts.flat_map(|(gpu_type, count)| (0..*count).map(move |_| gpu_type));
            (0..).zip(types).map(|(index, gpu_type)| Self { node, gpu_type, index }).collect::<Vec<_>>()
        };
        problem.nodes.iter().enumerate().flat_map(of_node).collect()
    }
}

impl TaskJob {
    /// Returns the shortest time of a task; `None` if the job can run nowhere.
    pub fn fastest(&self) -> Option<f64> {
        self.times.iter().copied().flatten().min_by(f64::total_cmp)
    }

    /// Returns the job's rate by GPU type: tasks per second, including the transmission of gradients; 0 if
    /// the job cannot run there.
    pub fn rates(&self) -> Vec<f64> {
        self.times.iter().map(|time| time.map_or(0.0, |time| (time + self.sync).recip())).collect()
    }
}

fn task_times(model: &JobModel, scale: u64, counts: &[u32]) -> Vec<Option<f64>> {
    let time = |(type_model, count): (&Option<TypeModel>, &u32)| {
        task_time(model, scale, type_model.as_ref().filter(|_| *count > 0)?)
    };
    model.types.iter().zip(counts).map(time).collect()
}

/// Returns the compute time of one task of a job, its part of an epoch; `None` if it does not fit, or if the
/// type allows only one rank and a round has several tasks.
fn task_time(model: &JobModel, scale: u64, type_model: &TypeModel) -> Option<f64> {
    let (samples, batch) = (to_f64(model.samples_per_epoch), to_f64(model.global_batch));
    let part = batch / to_f64(scale);
    let passes = type_model.max_batch.map_or(1.0, |memory| (part / to_f64(memory)).ceil().max(1.0));
    if (type_model.single_rank && scale > 1) || (passes > 1.0 && !model.accumulate) {
        return None;
    }
    Some(samples / batch * (type_model.speed.alpha() * passes + type_model.speed.beta() * part))
}

/// Returns the transmission time of the gradients of an epoch, over the network or inside the only node.
fn sync_time(problem: &Problem, model: &JobModel, scale: u64) -> f64 {
    let mut nodes = problem.nodes.iter().filter(|node| node.gpus.iter().any(|count| *count > 0));
    let rate = match (nodes.next(), nodes.next()) {
        (Some(only), None) => only.intra_node,
        _ => problem.network,
    };
    let scale = u32::try_from(scale).unwrap_or(u32::MAX);
    cost::comm_time(model, scale, rate.bytes_per_second())
}
