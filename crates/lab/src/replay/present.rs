//! An arrived job: its real progress, and the progress that the policy sees.

use hsched_model::number::to_u64;
use hsched_plan::Progress;

/// The real state of an arrived job.
pub(super) struct Present {
    /// Index in the trace.
    pub job: usize,
    pub work: f64,
    pub done: f64,
    /// Ratio of the work that a policy sees to the real work.
    pub estimate: f64,
    /// Sequence number of the job's last change; events of an earlier generation are void.
    pub generation: u32,
    pub failures: u32,
    /// The furthest progress that the job had at any of its starts.
    furthest: f64,
    /// Number of consecutive starts from the furthest progress.
    in_vain: u32,
    pub why: String,
}

/// Number of consecutive starts without progress after which a job is abandoned, because it would restart
/// forever.
pub(super) const MOST_IN_VAIN: u32 = 1000;

impl Present {
    /// Returns a job that has just arrived, with its index in the trace; `estimate` is the ratio of the work
    /// that a policy sees to the real work.
    pub(super) fn new(job: usize, work: f64, estimate: f64) -> Self {
        Self {
            job,
            work,
            done: 0.0,
            estimate,
            generation: 0,
            failures: 0,
            furthest: 0.0,
            in_vain: 0,
            why: String::new(),
        }
    }

    /// Writes the remaining work into `progress`.
    pub(super) fn show(&self, progress: &mut Progress) {
        progress.work_left = self.work * self.estimate - self.done;
        let left = to_u64((self.work - self.done).ceil());
        progress.epochs_left = left;
    }

    /// Counts a start; returns whether too many consecutive starts made no progress.
    pub(super) fn is_in_vain(&mut self) -> bool {
        if self.done > self.furthest {
            (self.furthest, self.in_vain) = (self.done, 0);
        }
        self.in_vain += 1;
        self.in_vain > MOST_IN_VAIN
    }
}
