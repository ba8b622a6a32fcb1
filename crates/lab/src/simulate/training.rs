//! The training of a running job: epoch after epoch until the last one, a failure or a request to save.

use hsched_engine::End;
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};

/// The pace of the ranks.
#[derive(Clone, Debug)]
pub(super) struct RankPace {
    /// Computing time of a whole epoch, by rank.
    pub compute: Vec<Seconds>,
    /// Time of a whole epoch: the computing time of the slowest rank plus communication.
    pub epoch: Seconds,
}

/// Training in progress.
#[derive(Clone, Debug)]
pub(super) struct SimulatedTraining {
    pub pace: RankPace,
    /// Current epoch, from 1.
    pub epoch: u64,
    /// The last epoch.
    pub last: u64,
    /// Steps of the current epoch that an earlier run has saved.
    pub first_step: u64,
    /// Start of the first step of this run in the current epoch.
    pub begun: Time,
    pub steps: EpochSteps,
    /// The step after which the job saves and ends.
    pub stop_after: Option<u64>,
    /// The epoch in which the job fails, and how it ends.
    pub failure: Option<(u64, End)>,
}

/// The steps of an epoch; the last one may be smaller.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpochSteps {
    pub samples: u64,
    /// Samples of a full step.
    pub batch: u64,
}

/// The next event of the ranks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RankEvent {
    EndEpoch,
    /// The ranks save after a step that is not the last of the epoch.
    Save {
        step: u64,
    },
    Fail(End),
}

impl EpochSteps {
    /// Returns the number of steps.
    pub(super) fn count(self) -> u64 {
        self.samples.div_ceil(self.batch.max(1)).max(1)
    }

    /// Returns a number of steps as a fraction of an epoch.
    pub(super) fn part(self, steps: u64) -> f64 {
        to_f64(steps.saturating_mul(self.batch).min(self.samples)) / to_f64(self.samples.max(1))
    }
}

impl SimulatedTraining {
    /// Returns the next event and its time.
    pub(super) fn next(&self) -> (Time, RankEvent) {
        if let Some((epoch, end)) = &self.failure
            && *epoch == self.epoch
        {
            return (self.begun, RankEvent::Fail(end.clone()));
        }
        match self.stop_after {
            Some(step) if step < self.steps.count() => (self.after(step), RankEvent::Save { step }),
            _ => (self.after(self.steps.count()), RankEvent::EndEpoch),
        }
    }

    /// Returns the fraction of the current epoch that this run trains.
    pub(super) fn part(&self) -> f64 {
        1.0 - self.steps.part(self.first_step)
    }

    /// Asks the job to save after the current step.
    pub(super) fn stop_soon(&mut self, now: Time) {
        let is_done = |step: &u64| self.after(*step).0 >= now.0;
        let (mut low, mut high) = (self.first_step + 1, self.steps.count());
        while low < high {
            let middle = low.midpoint(high);
            if is_done(&middle) { high = middle } else { low = middle + 1 }
        }
        self.stop_after = Some(high);
    }

    /// Asks the job to save after the current epoch.
    pub(super) fn stop_after_epoch(&mut self) {
        self.stop_after = Some(self.steps.count());
    }

    /// Begins the next epoch.
    pub(super) fn go_on(&mut self, now: Time, pace: RankPace) {
        (self.epoch, self.first_step, self.begun, self.pace) = (self.epoch + 1, 0, now, pace);
    }

    /// Returns when a step of the current epoch ends.
    fn after(&self, step: u64) -> Time {
        let part = self.steps.part(step) - self.steps.part(self.first_step);
        self.begun.after(Seconds(self.pace.epoch.0 * part))
    }
}
