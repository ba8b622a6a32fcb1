//! The time of a step with the best split of the batch, for any bundle of a job's GPU types.

use crate::cost::SHARE_TOLERANCE;
use crate::{JobModel, TypeModel};
use hsched_model::number::to_f64;

/// The samples of a job's GPUs as a function of step time, prepared for solving.
///
/// Each GPU's share grows piecewise linearly with the step time, and the points where its slope changes
/// (bends) do not depend on the number of GPUs, so they are sorted once.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    /// Bends by time.
    bends: Vec<Bend>,
    /// B, the global batch in samples.
    batch: f64,
}

/// A step time from which one GPU of a type takes samples at an additional rate of `rise / over` per second.
#[derive(Clone, Copy, Debug)]
struct Bend {
    time: f64,
    gpu_type: usize,
    rise: f64,
    over: f64,
}

impl Steps {
    /// Returns the steps of `job` on these types, each with its index in the counts of a bundle.
    pub(super) fn new(job: &JobModel, types: impl Iterator<Item = (usize, TypeModel)>) -> Self {
        let batch = to_f64(job.global_batch);
        let mut bends = Vec::with_capacity(8);
        for (gpu_type, model) in types {
            let (alpha, beta) = (model.speed.alpha(), model.speed.beta());
            bends.push(Bend { time: alpha, gpu_type, rise: 1.0, over: beta });
            if let Some(memory) = model.max_batch {
                let memory = to_f64(memory);
                let beyond = if job.accumulate { (alpha / memory + beta).recip() } else { 0.0 };
                let full = alpha + beta * memory;
                bends.push(Bend { time: full, gpu_type, rise: beyond - beta.recip(), over: 1.0 });
            }
        }
        bends.sort_by(|a, b| a.time.total_cmp(&b.time));
        Self { bends, batch }
    }

    /// Returns τ, the exact root of Σ clamp(t⁻¹(τ), 0, c) = B, which lies on a piece between two bends.
    ///
    /// `None` if the GPUs cannot hold the batch.
    pub(super) fn time(&self, counts: &[u32]) -> Option<f64> {
        let mut bends = self.bends.iter().filter(|bend| counts[bend.gpu_type] > 0).peekable();
        let (mut handed_out, mut slope, mut reached) = (0.0, 0.0, 0.0);
        // Slopes up to this value are rounding errors.
        let mut flat = 0.0;
        while let Some(bend) = bends.next() {
            handed_out += slope * (bend.time - reached);
            reached = bend.time;
            let change = f64::from(counts[bend.gpu_type]) / bend.over * bend.rise;
            slope += change;
            flat += 1e-12 * change.abs();
            let left = self.batch - handed_out;
            let next = bends.peek().map_or(f64::INFINITY, |bend| bend.time);
            if slope > flat && reached + left / slope <= next {
                return Some(reached + left / slope);
            }
            if next == f64::INFINITY {
                // Every rank is full, so no more samples can be assigned.
                return (left <= self.batch * SHARE_TOLERANCE).then_some(reached);
            }
        }
        None
    }
}
