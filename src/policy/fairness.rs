//! Job completion times against an equal share of the cluster (planner, section 3; paper eq. 32 and 33).

use crate::policy::{JobModel, Problem};

/// Returns Jain's index of Λ / Λᵉ over the placed jobs (eq. 33); 1 when there is none.
///
/// `times` are their completion times in seconds.
#[must_use]
pub fn fairness(problem: &Problem, jobs: &[usize], times: &[f64]) -> f64 {
    let ratio = |(&job, &time): (&usize, &f64)| time / equal_share_time(problem, job, jobs.len());
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for ratio in jobs.iter().zip(times).map(ratio) {
        sum += ratio;
        squares += ratio * ratio;
        count += 1.0;
    }
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

/// Returns T |Π| / Σρ over all workers on offer that the job can use, in seconds: JPS's order.
pub(super) fn full_cluster_time(problem: &Problem, job: usize, jobs: usize) -> f64 {
    let model = &problem.jobs[job];
    epochs(model) * samples(model) / total_rate(problem, job, jobs)
}

/// Returns ρ of a job on a type, as the paper's algorithms need it: an affine record counts with its rate
/// at the batch that an equal share of the workers would get, max(1, B S / K).
pub(super) fn rate(problem: &Problem, job: usize, gpu_type: usize, jobs: usize) -> Option<f64> {
    let model = &problem.jobs[job];
    #[expect(clippy::cast_precision_loss, reason = "batches and counts are far below 2^52")]
    let (batch, jobs) = (model.global_batch as f64, jobs as f64);
    let fair_batch = (batch * jobs / workers(problem)).max(1.0);
    model.types[gpu_type].map(|own| own.speed.rate_at(fair_batch))
}

/// Returns Λᵉ: the completion time with an equal share of the cluster, in seconds.
fn equal_share_time(problem: &Problem, job: usize, jobs: usize) -> f64 {
    let model = &problem.jobs[job];
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let count = jobs as f64;
    let share = workers(problem) / count;
    let comm = if share <= 1.0 {
        0.0
    } else {
        let link = if let [only] = &problem.nodes[..] { only.intra_node } else { problem.network };
        let volume = 2.0 * (share - 1.0) * model.model_bytes / (link.bytes_per_second() * share);
        model.syncs_per_epoch * volume
    };
    epochs(model) * (comm + samples(model) * count / total_rate(problem, job, jobs))
}

fn total_rate(problem: &Problem, job: usize, jobs: usize) -> f64 {
    let offered = problem.offered();
    let of = |ty: usize| f64::from(offered[ty]) * rate(problem, job, ty, jobs).unwrap_or(0.0);
    (0..offered.len()).map(of).sum()
}

fn workers(problem: &Problem) -> f64 {
    f64::from(problem.offered().iter().sum::<u32>())
}

#[expect(clippy::cast_precision_loss, reason = "epochs are far below 2^52")]
fn epochs(job: &JobModel) -> f64 {
    job.epochs as f64
}

#[expect(clippy::cast_precision_loss, reason = "samples are far below 2^52")]
fn samples(job: &JobModel) -> f64 {
    job.samples_per_epoch as f64
}
