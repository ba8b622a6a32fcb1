//! Fairness: completion times relative to an equal share of the cluster (paper eq. 32 and 33).

use crate::replica::NodeShapes;
use crate::{JobModel, Problem};
use hsched_model::number::to_f64;

/// Equal shares of the cluster for some jobs.
pub(super) struct EqualShare<'a> {
    problem: &'a Problem,
    /// Offered GPUs, by type.
    offered: Vec<u32>,
    nodes: NodeShapes,
    /// K, the number of offered GPUs.
    workers: f64,
    /// S, the number of jobs that share the GPUs.
    jobs: f64,
}

/// Returns Jain's index of Λ / Λᵉ over the placed jobs (eq. 33); 1 if there are none.
///
/// `times` are their completion times in seconds.
pub fn fairness(problem: &Problem, jobs: &[usize], times: &[f64]) -> f64 {
    let share = EqualShare::new(problem, jobs.len());
    let ratio = |(&job, &time): (&usize, &f64)| time / share.completion_time(job);
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for ratio in jobs.iter().zip(times).map(ratio) {
        sum += ratio;
        squares += ratio * ratio;
        count += 1.0;
    }
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

/// Returns Λᵉ of some jobs of a problem: the completion time in seconds of each with an equal share of the
/// offered GPUs (eq. 32).
pub(super) fn equal_share_times(problem: &Problem, jobs: &[usize]) -> Vec<f64> {
    let share = EqualShare::new(problem, jobs.len());
    jobs.iter().map(|&job| share.completion_time(job)).collect()
}

/// Returns the heterogeneity of the offered GPUs for the problem's jobs (eq. 35): the mean speed of the GPUs
/// that any of them can use, divided by the speed of the slowest; 1 if all are equally fast, `None` if no GPU
/// is usable.
pub fn heterogeneity(problem: &Problem) -> Option<f64> {
    let jobs = problem.jobs.len();
    let share = EqualShare::new(problem, jobs);
    let rate = |job: usize, ty: usize| Some(share.rate(job, ty)? / f64::from(problem.jobs[job].size(ty)));
    let speed = |ty: usize| (0..jobs).filter_map(|job| rate(job, ty)).sum::<f64>();
    let used = (0..share.offered.len()).map(|ty| (speed(ty), f64::from(share.offered[ty])));
    let used: Vec<(f64, f64)> = used.filter(|&(speed, count)| speed > 0.0 && count > 0.0).collect();
    let slowest = used.iter().map(|&(speed, _)| speed).fold(f64::INFINITY, f64::min);
    let count: f64 = used.iter().map(|&(_, count)| count).sum();
    (count > 0.0).then(|| used.iter().map(|(speed, count)| speed * count).sum::<f64>() / (count * slowest))
}

impl<'a> EqualShare<'a> {
    /// Returns the equal share among this many jobs.
    pub(super) fn new(problem: &'a Problem, jobs: usize) -> Self {
        let offered = problem.offered();
        let workers = f64::from(offered.iter().sum::<u32>());
        Self { problem, offered, nodes: NodeShapes::offered(problem), workers, jobs: to_f64(jobs) }
    }

    /// Returns ρ of a job on a type, as used by the paper's algorithms: for an affine record, the rate at the
    /// batch of an equal share of the workers, max(1, B S n / K) for replicas of n GPUs.
    pub(super) fn rate(&self, job: usize, gpu_type: usize) -> Option<f64> {
        let model = &self.problem.jobs[job];
        let batch = to_f64(model.global_batch);
        let own_batch = (batch * self.jobs * f64::from(model.size(gpu_type)) / self.workers).max(1.0);
        model.types[gpu_type].map(|model| model.speed.rate_at(own_batch))
    }

    /// Returns T |Π| / Σρ over all offered workers that the job can use, in seconds: the sort key of JPS.
    pub(super) fn full_cluster_time(&self, job: usize) -> f64 {
        let model = &self.problem.jobs[job];
        model.completion_time(samples(model) / self.total_rate(job))
    }

    /// Returns Λᵉ: the completion time with an equal share of the cluster, in seconds.
    fn completion_time(&self, job: usize) -> f64 {
        let model = &self.problem.jobs[job];
        let ranks = self.replicas(job).map_or(self.workers, |all| all.iter().map(|&n| f64::from(n)).sum());
        let ranks = ranks / self.jobs;
        let comm = if ranks <= 1.0 {
            0.0
        } else {
            let nodes = &self.problem.nodes;
            let link = if let [only] = &nodes[..] { only.intra_node } else { self.problem.network };
            let volume = 2.0 * (ranks - 1.0) * model.model_bytes / (link.bytes_per_second() * ranks);
            model.syncs_per_epoch * volume
        };
        model.completion_time(comm + samples(model) * self.jobs / self.total_rate(job))
    }

    fn total_rate(&self, job: usize) -> f64 {
        let of = |(ty, &count): (usize, &u32)| f64::from(count) * self.rate(job, ty).unwrap_or(0.0);
        self.replicas(job).as_ref().unwrap_or(&self.offered).iter().enumerate().map(of).sum()
    }

    /// Returns the maximum number of replicas of a job by type over all nodes, 0 for unusable types; `None`
    /// if each GPU is a replica.
    fn replicas(&self, job: usize) -> Option<Vec<u32>> {
        let model = &self.problem.jobs[job];
        if !model.needs_blocks() && !model.is_loose() {
            return None;
        }
        let mut most = model.most_replicas(&self.nodes);
        for (most, _) in most.iter_mut().zip(&model.types).filter(|(_, model)| model.is_none()) {
            *most = 0;
        }
        Some(most)
    }
}

fn samples(job: &JobModel) -> f64 {
    to_f64(job.samples_per_epoch)
}
