//! Deadlines: when they are, and by how much a job is expected to miss its own.

use crate::{Phase, State, Tracked};
use hsched_model::number::to_f64;
use hsched_model::{Deadline, Seconds, Time};

/// Returns a warning for each job that is expected to miss its deadline, once.
pub(super) fn warn(state: &mut State, at: Time) -> Vec<String> {
    let late = state.jobs.iter_mut().filter(|tracked| tracked.is_newly_late(at));
    late.map(|tracked| {
        tracked.is_late = true;
        let name = &tracked.job.name;
        format!("{name}: will miss its deadline; hsched status {name} shows what would help")
    })
    .collect()
}

impl Tracked {
    /// Returns when the job should be done, where its owner says so.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        match self.job.deadline? {
            Deadline::At(at) => Some(at),
            Deadline::Within(time) => Some(self.added.after(time)),
        }
    }

    /// Returns by how much the job is expected to miss its deadline, or has; `None` where it is in time, or nobody knows.
    ///
    /// One that waits ends at best when its epochs left have taken as long as its last.
    #[must_use]
    pub fn lateness(&self, now: Time) -> Option<Seconds> {
        let deadline = self.deadline()?;
        let end = match &self.phase {
            Phase::Ended { at, .. } => *at,
            _ => self.expected_end(now).unwrap_or_else(|| now.after(self.left_at_best())),
        };
        Some(end.since(deadline)).filter(|late| late.0 > 0.0)
    }

    /// Returns whether people are to be warned that it will be late.
    pub(super) fn is_newly_late(&self, now: Time) -> bool {
        !self.is_late && !self.phase.is_over() && self.lateness(now).is_some()
    }

    /// Returns how long its epochs left take where it was last, as far as that is known.
    fn left_at_best(&self) -> Seconds {
        let left = to_f64(self.epochs_left());
        Seconds(self.epoch.map_or(0.0, |epoch| left * epoch.0))
    }
}
