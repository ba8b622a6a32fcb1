//! Deadlines, and how much later than its deadline a job is expected to end.

use crate::{JobState, Phase, State};
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

impl JobState {
    /// Returns the job's deadline as a time, if it has one.
    pub fn deadline(&self) -> Option<Time> {
        match self.job.deadline? {
            Deadline::At(at) => Some(at),
            Deadline::Within(time) => Some(self.added.after(time)),
        }
    }

    /// Returns how much later than its deadline the job is expected to end or has ended; `None` if it has no
    /// deadline or is on time.
    ///
    /// Without an estimate of its end, a job ends at the earliest after its remaining epochs at the speed of
    /// its last one, or now if that speed is unknown.
    pub fn lateness(&self, now: Time) -> Option<Seconds> {
        let deadline = self.deadline()?;
        let end = match &self.phase {
            Phase::Ended { at, .. } => *at,
            _ => self.expected_end(now).unwrap_or_else(|| now.after(self.left_at_best())),
        };
        Some(end.since(deadline)).filter(|late| late.0 > 0.0)
    }

    /// Returns whether the user must be warned that the job will be late.
    pub(super) fn is_newly_late(&self, now: Time) -> bool {
        !self.is_late && !self.phase.is_over() && self.lateness(now).is_some()
    }

    /// Returns how long the remaining epochs take at the speed of the last epoch; 0 if that is unknown.
    fn left_at_best(&self) -> Seconds {
        let left = to_f64(self.epochs_left());
        Seconds(self.epoch.map_or(0.0, |epoch| left * epoch.0))
    }
}
