//! A job as seen in a look at the queue, with its start: a training example for a site's waits.

use serde::{Deserialize, Serialize};

use hsched_model::Time;

/// Number of queue figures that a look adds to each request; see [`QueueFigures`].
pub const FIGURES: usize = 23;

/// The queue at the time of a request: for running jobs, and for eligible pending jobs of at least its
/// priority, the counts, cores, memory, GPUs and hours; and the logarithm of the wait estimated by the
/// simulation. An unknown figure is NaN.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<Option<f32>>", into = "Vec<Option<f32>>")]
pub struct QueueFigures(pub [f32; FIGURES]);

/// A job with its request, from the time at which its wait is estimated.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitRecord {
    /// Identifies the job, and sorts jobs submitted at the same time.
    pub id: u64,
    /// Start of the wait: the look that showed the job pending, or its submission.
    pub asked: Time,
    pub submitted: Time,
    /// Time at which the job became eligible; `None` if it was not yet eligible.
    pub eligible: Option<Time>,
    /// Numbers in place of user and account, and of partition and GPU type.
    pub account: u32,
    pub partition: u32,
    pub cpus: f64,
    pub memory_mib: f64,
    pub limit_s: f64,
    pub gpus: f64,
    pub queue: QueueFigures,
    /// The times at which the job started and ended, as known today. They are compared with the time of an
    /// estimate before use, as in `started_by`, so that an estimate of the past cannot use later data.
    pub started: Option<Time>,
    pub ended: Option<Time>,
    /// Time at which the job was last seen pending, for a job that left the queue without a known start.
    pub pending_until: Option<Time>,
}

impl PartialEq for QueueFigures {
    /// Unknown figures compare as equal.
    fn eq(&self, other: &Self) -> bool {
        self.0.map(f32::to_bits) == other.0.map(f32::to_bits)
    }
}

impl From<Vec<Option<f32>>> for QueueFigures {
    fn from(list: Vec<Option<f32>>) -> Self {
        let mut figures = Self::default();
        for (figure, known) in figures.0.iter_mut().zip(list) {
            *figure = known.unwrap_or(f32::NAN);
        }
        figures
    }
}

impl From<QueueFigures> for Vec<Option<f32>> {
    /// Omits unknown figures at the end.
    fn from(figures: QueueFigures) -> Self {
        let known = figures.0.iter().rposition(|figure| !figure.is_nan()).map_or(0, |last| last + 1);
        figures.0[..known].iter().map(|figure| (!figure.is_nan()).then_some(*figure)).collect()
    }
}

impl Default for QueueFigures {
    fn default() -> Self {
        Self([f32::NAN; FIGURES])
    }
}

impl WaitRecord {
    /// Returns when the job started, if this was known at a given time.
    pub(crate) fn started_by(&self, now: Time) -> Option<Time> {
        self.started.filter(|started| *started <= now)
    }

    /// Returns when the job ended, if this was known at a given time.
    pub(crate) fn ended_by(&self, now: Time) -> Option<Time> {
        self.ended.filter(|ended| *ended <= now)
    }

    /// Returns the decimal logarithm of the wait in seconds, and whether the job has started; for a pending
    /// job, the wait so far.
    pub fn wait_by(&self, now: Time) -> (f64, bool) {
        let started = self.started_by(now);
        let until = self.pending_until.filter(|until| *until < now).unwrap_or(now);
        let wait = started.unwrap_or(until).since(self.asked).0;
        (wait.max(1.0).log10(), started.is_some())
    }

    /// Returns whether the job was pending at a given time.
    pub(crate) fn is_pending_at(&self, now: Time) -> bool {
        self.started_by(now).is_none() && self.pending_until.is_none_or(|until| until >= now)
    }

    pub fn has_gpus(&self) -> bool {
        self.gpus > 0.0
    }
}
