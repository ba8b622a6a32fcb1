//! The scheduling state of a job: its GPUs, its start times and its restart cost.

use crate::Slot;
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};

/// The state of a job for policies, besides its model.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Time at which the user added the job.
    pub arrival: Time,
    /// Time at which the job first had GPUs.
    pub started: Option<Time>,
    /// Number of whole epochs still to train.
    pub epochs_left: u64,
    /// Total number of epochs, as far as a policy may know it: an estimate if the caller says so.
    pub work: f64,
    /// Epochs of `work` remaining at `as_of`, with fractions; [`Self::left`] returns the value for later
    /// times.
    pub work_left: f64,
    /// GPU-seconds held until `as_of`, including restarts; [`Self::attained`] returns the value for later
    /// times.
    pub attained: f64,
    /// The time for which `work_left` and `attained` are valid.
    pub as_of: Time,
    /// Number of times that the job was moved to other GPUs, or got GPUs again after having none.
    pub moves: u32,
    /// Whether the job may get GPUs now, if it holds none.
    pub waits: Eligibility,
    /// The job's submissions that have not ended; if there are several, they are copies or pending requests.
    pub holds: Vec<HeldPlacement>,
    /// Cost of stopping the job and starting it on other GPUs.
    pub restart_cost: Seconds,
    /// Whether the user states how the job saves its progress, so that a stop loses little.
    pub saves: bool,
}

/// Whether a job without GPUs may get some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eligibility {
    /// The job may get GPUs.
    #[default]
    Ready,
    /// The job may get GPUs again soon: it failed, or an earlier submission still exists.
    Later,
    /// No node suits the job, or another job must complete first.
    Never,
    /// There is no job with this index, because the job has ended.
    Gone,
}

/// A submission, with the GPUs that it has or waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldPlacement {
    /// GPUs on nodes of the problem; others are omitted.
    pub slots: Vec<Slot>,
    /// Time at which the submission was decided.
    pub since: Time,
    /// Epoch time predicted then, in seconds.
    pub epoch: f64,
    pub stage: HoldStage,
}

/// The stage of a submission.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HoldStage {
    /// About to be submitted, or submitted without a confirmed answer.
    Submitting,
    /// In the cluster's queue; its GPUs are promised to it.
    Queued,
    /// The submission has its GPUs.
    Running {
        /// Epoch time with the present shares at the speeds known now, in seconds.
        epoch: f64,
        /// Progress in the current epoch, which a stop may lose, in seconds.
        under_way: f64,
        /// Whether the job may be stopped: it has finished an epoch here, so its speeds were measured.
        movable: bool,
        /// The end of a restart that delays its training; a time in the past if none does.
        busy_until: Time,
    },
    /// The submission is being ended.
    Leaving {
        /// Whether the submission had started: if so, its GPUs are in use until it has ended; otherwise they
        /// are promised to it.
        started: bool,
        /// Whether its GPUs are worth waiting for, because the job moves to other GPUs and releases them
        /// soon.
        gives_back: bool,
    },
}

/// A job's remaining epochs as a function of time, which a policy may store while the job's progress is
/// unchanged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EpochsLeft {
    epochs: f64,
    least: f64,
    /// Time in seconds from which the job trains, and its epoch time in seconds; 0 if it does not train.
    since: f64,
    epoch: f64,
}

impl Default for Progress {
    /// Returns the progress of a job that has just arrived and may get GPUs.
    fn default() -> Self {
        Self {
            arrival: Time(0.0),
            started: None,
            epochs_left: 0,
            work: 0.0,
            work_left: 0.0,
            attained: 0.0,
            as_of: Time(0.0),
            moves: 0,
            waits: Eligibility::Ready,
            holds: Vec::new(),
            restart_cost: Seconds(0.0),
            saves: true,
        }
    }
}

/// Minimum remaining work assumed for a job, relative to all of its work, because an estimate may be used up
/// before the job ends.
const LEAST_LEFT: f64 = 0.03;

impl Progress {
    /// Returns the progress of a job that has just arrived, with these epochs to train.
    pub fn of_epochs(epochs: u64) -> Self {
        let work = to_f64(epochs);
        Self { epochs_left: epochs, work, work_left: work, ..Self::default() }
    }

    /// Returns the remaining epochs with fractions; never less than a small part of all epochs.
    pub fn left(&self, now: Time) -> f64 {
        self.unfinished(now).max(self.least_left())
    }

    /// Returns the minimum of remaining epochs that is assumed.
    fn least_left(&self) -> f64 {
        LEAST_LEFT * self.work
    }

    /// Returns the remaining epochs with fractions, assuming that the job's data are exact.
    pub fn unfinished(&self, now: Time) -> f64 {
        let done = |hold: &HeldPlacement| match hold.stage {
            HoldStage::Running { epoch, busy_until, .. } if epoch > 0.0 => {
                now.since(Time(self.as_of.0.max(busy_until.0))).0 / epoch
            }
            _ => 0.0,
        };
        let done: f64 = self.holds.iter().map(done).sum();
        self.work_left - done
    }

    /// Returns the GPU-seconds held until `now`.
    pub fn attained(&self, now: Time) -> f64 {
        let gpus: u32 = self.running().flat_map(|hold| &hold.slots).map(|slot| slot.count).sum();
        self.attained + f64::from(gpus) * now.since(self.as_of).0
    }

    /// Returns whether the job holds no GPUs and may get some now.
    pub fn is_ready(&self) -> bool {
        self.holds.is_empty() && self.waits == Eligibility::Ready
    }

    /// Returns whether the policy decides about the job's GPUs: it has one running submission, or waits and
    /// may run.
    pub fn is_decided_on(&self) -> bool {
        match self.holds.as_slice() {
            [] => self.waits == Eligibility::Ready,
            [hold] => hold.is_running(),
            _ => false,
        }
    }

    /// Returns the submissions that have their GPUs and are not being ended.
    pub fn running(&self) -> impl Iterator<Item = &HeldPlacement> {
        self.holds.iter().filter(|hold| hold.is_running())
    }
}

impl EpochsLeft {
    /// Returns the remaining epochs of a job; `None` if it has more than one submission.
    pub(super) fn of(progress: &Progress) -> Option<Self> {
        let (since, epoch) = match progress.holds.as_slice() {
            [] => (0.0, 0.0),
            [hold] => match hold.stage {
                HoldStage::Running { epoch, busy_until, .. } => (progress.as_of.0.max(busy_until.0), epoch),
                _ => (0.0, 0.0),
            },
            _ => return None,
        };
        Some(Self { epochs: progress.work_left, least: progress.least_left(), since, epoch })
    }

    /// Returns the remaining epochs at a given time, like `Progress::left`.
    pub(super) fn at(self, now: Time) -> f64 {
        let Self { epochs, least, since, epoch } = self;
        let done = if epoch > 0.0 { now.since(Time(since)).0 / epoch } else { 0.0 };
        (epochs - done).max(least)
    }
}

impl HeldPlacement {
    /// Returns whether the submission runs and is not being ended.
    pub fn is_running(&self) -> bool {
        matches!(self.stage, HoldStage::Running { .. })
    }

    /// Returns whether the submission's GPUs are promised but not in use yet.
    pub(crate) fn is_promised(&self) -> bool {
        matches!(
            self.stage,
            HoldStage::Submitting | HoldStage::Queued | HoldStage::Leaving { started: false, .. }
        )
    }
}
