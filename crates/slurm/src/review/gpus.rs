//! The number of GPUs that runs kept busy.

use crate::accounting::AccountedRun;
use crate::review::advice::{ENOUGH, GAIN};
use crate::review::quantiles::{quantile, sorted};
use hsched_model::number::{to_f64, to_u32};

/// The quantile of runs whose use must fit: busier runs are rare.
const BUSY: f64 = 0.95;

/// Use of up to this fraction of a GPU beyond a whole number of GPUs is measurement noise.
const NOISE: f64 = 0.02;

/// Returns the idle fraction of the GPUs, with runs weighted by duration; `None` if it was not measured.
pub(super) fn idle_share<'a>(runs: impl Iterator<Item = &'a AccountedRun>) -> Option<f64> {
    let (mut idle, mut seconds) = (0.0, 0.0);
    for run in runs {
        if let Some(share) = run.idle_share() {
            idle += share * run.elapsed().0;
            seconds += run.elapsed().0;
        }
    }
    (seconds > 0.0).then(|| idle / seconds)
}

/// Returns the smallest number of GPUs that covers the use of nearly all runs that requested `asked` GPUs;
/// `None` if the reduction is too small, or if fewer than [`ENOUGH`] of these runs were measured.
pub(super) fn recommended<'a>(asked: u32, runs: impl Iterator<Item = &'a AccountedRun>) -> Option<u32> {
    let busy = sorted(runs.filter_map(|run| {
        Some((1.0 - run.idle_share()?) * f64::from(run.gpus.filter(|gpus| *gpus == asked)?))
    }));
    let most = quantile(&busy, BUSY).filter(|_| busy.len() >= ENOUGH)?;
    let least = to_u32((most - NOISE).ceil()).max(1);
    (to_f64(u64::from(least)) <= GAIN * f64::from(asked)).then_some(least)
}
