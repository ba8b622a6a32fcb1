//! Restricts jobs to GPUs on which they cost little.

use crate::pricing::{Pricer, Rings};
use crate::{JobModel, Problem};

/// Up to this number of replicas on a type, each count is evaluated; above it, steps grow.
const ONE_BY_ONE: u32 = 16;
const GROWTH: f64 = 1.25;

/// The costs of a job with legal numbers of GPUs of one type.
pub(super) struct Costs {
    /// Type, number of replicas, cost.
    options: Vec<(usize, u32, f64)>,
}

impl Costs {
    /// Returns the costs of a job at prices per GPU-hour by type.
    pub(super) fn new(problem: &Problem, job: &JobModel, (rings, prices): (&Rings, &[f64])) -> Self {
        let pricer = Pricer::alone(problem, rings, job);
        let rings = if job.has_several_gpus() { &rings.of_replicas(job) } else { rings };
        let mut options = Vec::new();
        for (ty, &most) in pricer.most().iter().enumerate() {
            let mut count = job.min_gpus.max(1);
            while count <= most.min(job.max_gpus) {
                let mut counts = vec![0; pricer.most().len()];
                counts[ty] = count;
                if let Some(time) = pricer.cost(&counts, rings.fastest(&counts)) {
                    options.push((ty, count, time * f64::from(count * job.size(ty)) * prices[ty]));
                }
                count = if count < ONE_BY_ONE { count + 1 } else { grown(count) };
            }
        }
        Self { options }
    }

    /// Returns the job restricted to the types with an option of at most this multiple of its minimum cost,
    /// and to the largest number of replicas of these options; `None` if no GPUs of one type are valid.
    pub(super) fn limit(&self, job: &JobModel, times: f64) -> Option<JobModel> {
        let least = self.options.iter().map(|option| option.2).min_by(f64::total_cmp)?;
        let cheap = || self.options.iter().filter(|option| option.2 <= least * times);
        let mut job = job.clone();
        job.max_gpus = cheap().map(|option| option.1).max()?;
        for (ty, model) in job.types.iter_mut().enumerate() {
            model.take_if(|_| !cheap().any(|option| option.0 == ty));
        }
        Some(job)
    }
}

fn grown(count: u32) -> u32 {
    hsched_model::number::to_u32((f64::from(count) * GROWTH).ceil())
}
