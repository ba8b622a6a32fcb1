//! A job that has arrived: its real progress, and the progress that a policy is shown.

use hsched_model::number::to_u64;
use hsched_plan::Progress;

/// A job that is there, as it really is.
pub(super) struct Present {
    /// Its place in the trace.
    pub job: usize,
    pub work: f64,
    pub done: f64,
    /// What a policy takes its work to be, over what it is.
    pub estimate: f64,
    /// The number of its last change among all: what is due for an earlier one is void.
    pub generation: u32,
    pub failures: u32,
    /// The most that it ever had done when it started.
    furthest: f64,
    /// How often in a row it has started from there.
    in_vain: u32,
    pub why: String,
}

/// How often in a row a job starts without getting further before it is given up: it would go on forever.
pub(super) const MOST_IN_VAIN: u32 = 1000;

impl Present {
    /// Returns a job that has just arrived, at its place in the trace; `estimate` is what a policy takes its work to be, over
    /// what it is.
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

    /// Shows what is left.
    pub(super) fn show(&self, progress: &mut Progress) {
        progress.work_left = self.work * self.estimate - self.done;
        let left = to_u64((self.work - self.done).ceil());
        progress.epochs_left = left;
    }

    /// Counts a start, and returns whether too many in a row were of no use.
    pub(super) fn is_in_vain(&mut self) -> bool {
        if self.done > self.furthest {
            (self.furthest, self.in_vain) = (self.done, 0);
        }
        self.in_vain += 1;
        self.in_vain > MOST_IN_VAIN
    }
}
