//! The costs of worker counts for a job across nodes: its step times.

use super::Across;
use crate::{JobModel, Sharing, TypeModel, cost};
use hsched_model::number::to_f64;

pub(super) fn quantum(job: &JobModel) -> f64 {
    to_f64(job.batch_quantum)
}

/// Returns the highest samples per second of a GPU in a step whose length is in the range: s(τ) / τ rises
/// until its memory is full, then stays constant with micro-batches and falls without them.
pub(super) fn most_rate(model: TypeModel, accumulate: bool, (shortest, longest): (f64, f64)) -> f64 {
    let (alpha, beta) = (model.speed.alpha(), model.speed.beta());
    let open =
        |step: f64| if step == f64::INFINITY { beta.recip() } else { ((1.0 - alpha / step) / beta).max(0.0) };
    let Some(memory) = model.max_batch else { return open(longest) };
    let memory = to_f64(memory);
    let full = alpha + beta * memory;
    if longest <= full {
        open(longest)
    } else if accumulate || shortest <= full {
        memory / full
    } else {
        memory / shortest
    }
}

impl Across<'_> {
    pub(super) fn cost(&self, counts: &[u32]) -> Option<f64> {
        let ranks: u32 = counts.iter().sum();
        if !(self.ranks.0..=self.ranks.1).contains(&ranks) {
            return None;
        }
        let compute = if self.linear {
            let (mut rate, mut slowest) = (0.0, f64::INFINITY);
            for (&type_rate, &count) in self.rates.iter().zip(counts).filter(|(_, count)| **count > 0) {
                rate += type_rate * f64::from(count);
                slowest = slowest.min(type_rate);
            }
            let legal = slowest * self.batch >= quantum(self.job) * rate * (1.0 - cost::SHARE_TOLERANCE);
            legal.then_some(self.compute / rate)?
        } else {
            self.stepwise(counts)?
        };
        Some(compute + self.comm * (1.0 - f64::from(ranks).recip()))
    }

    /// Returns the computation time of a job whose GPUs have no constant rates; `None` if the ring is
    /// illegal.
    pub(super) fn stepwise(&self, counts: &[u32]) -> Option<f64> {
        self.legal_step(counts).map(|step| self.compute / self.batch * step)
    }

    /// Returns the step time of a ring; `None` if it is illegal.
    pub(super) fn step(&self, counts: &[u32]) -> Option<f64> {
        let ranks: u32 = counts.iter().sum();
        if !(self.ranks.0..=self.ranks.1).contains(&ranks) {
            return None;
        }
        self.legal_step(counts)
    }

    pub(super) fn legal_step(&self, counts: &[u32]) -> Option<f64> {
        if self.job.sharing == Sharing::Equal {
            let time = cost::compute_time(self.job, &self.full(counts))?;
            return Some(time * self.batch / to_f64(self.job.samples_per_epoch));
        }
        if !self.job.accumulate && !cost::holds_batch(self.job, &self.full(counts)) {
            return None;
        }
        let step = self.steps.time(counts)?;
        let enough = |(&count, &(_, model)): (&u32, &(usize, TypeModel))| {
            count == 0 || cost::enough(self.job, model, step)
        };
        counts.iter().zip(&self.types).all(enough).then_some(step)
    }

    /// Returns the cost per epoch of one second per step, and of an exchange among infinitely many ranks.
    pub(super) fn unit_costs(&self) -> [f64; 2] {
        [to_f64(self.job.samples_per_epoch) / self.batch, self.comm_of_epoch]
    }

    /// Returns all inputs of the step times.
    pub(super) fn key(&self) -> Vec<u64> {
        let JobModel { global_batch, batch_quantum, accumulate, .. } = self.job;
        let mut key = vec![*global_batch, *batch_quantum, u64::from(*accumulate)];
        key.push((self.job.sharing == Sharing::Equal).into());
        key.extend([u64::from(self.ranks.0), u64::from(self.ranks.1)]);
        for (&(ty, model), &cap) in self.types.iter().zip(&self.caps) {
            let TypeModel { speed, max_batch, .. } = model;
            key.extend([ty as u64, cap.into(), max_batch.unwrap_or(u64::MAX)]);
            key.extend([speed.alpha().to_bits(), speed.beta().to_bits()]);
        }
        key
    }
}
