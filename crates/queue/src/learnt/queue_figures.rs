//! Features for learning waits: sums over the pending jobs ahead of a request, and over running jobs.

use std::collections::BTreeMap;

use crate::Snapshot;
use crate::learnt::seen_job::{NumberOf, RequestSize, SeenJob};
use crate::learnt::site_log::shown;
use hsched_waits::{FIGURES, QueueFigures};

/// Number of features that sum up pending jobs, and of the same features for running jobs.
const EACH: usize = 11;

/// Index of the simulation's estimate.
const PLAYER: usize = 2 * EACH;

/// Returns the features of a request among the jobs of a look: pending jobs that compete for room with at
/// least its priority, and all running jobs.
pub(super) fn figures<'a>(
    jobs: impl IntoIterator<Item = &'a SeenJob>,
    request: &RequestSize,
) -> QueueFigures {
    let mut sums = [0.0_f64; 2 * EACH];
    for job in jobs {
        let is_running = job.started.is_some();
        if !is_running && (job.size.priority < request.priority || !job.eligible) {
            continue;
        }
        let begin = if is_running { EACH } else { 0 };
        for (sum, amount) in sums[begin..begin + EACH].iter_mut().zip(amounts(&job.size, request)) {
            *sum += amount;
        }
    }
    let mut figures = [f32::NAN; FIGURES];
    for (figure, sum) in figures.iter_mut().zip(sums) {
        *figure = narrow(sum);
    }
    QueueFigures(figures)
}

/// Returns the features with the wait that the simulation estimates in seconds, stored as a decimal
/// logarithm; NaN for `None`.
pub(super) fn with_player(mut figures: QueueFigures, wait_s: Option<f64>) -> QueueFigures {
    figures.0[PLAYER] = wait_s.map_or(f32::NAN, |wait| narrow(wait.max(1.0).log10()));
    figures
}

/// The jobs of a look.
pub(super) struct LookJobs(BTreeMap<u64, SeenJob>);

impl LookJobs {
    pub(super) fn new(snapshot: &Snapshot, number: NumberOf) -> Self {
        Self(shown(snapshot, number))
    }

    /// Returns the features of a request among these jobs.
    pub(super) fn figures(&self, request: &RequestSize) -> QueueFigures {
        figures(self.0.values(), request)
    }
}

/// Returns the contribution of one job to the features.
fn amounts(job: &RequestSize, request: &RequestSize) -> [f64; EACH] {
    let is_in = |is: bool| f64::from(u8::from(is));
    let same_partition = is_in(job.partition == request.partition);
    let hours = job.limit_s / 3600.0;
    [
        1.0,
        job.cpus,
        job.memory_mib,
        job.cpus * hours,
        same_partition,
        same_partition * job.cpus * hours,
        is_in(job.owner == request.owner),
        job.gpus,
        same_partition * job.gpus,
        job.gpus * hours,
        same_partition * job.gpus * hours,
    ]
}

#[expect(clippy::cast_possible_truncation, reason = "figures need no more digits")]
fn narrow(number: f64) -> f32 {
    number as f32
}
