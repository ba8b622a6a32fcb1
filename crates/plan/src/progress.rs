//! The scheduling state of a job: its GPUs, its start times and its restart cost.

use crate::Slot;
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};

/// What a policy may know of a job beside its model.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// When its owner added it.
    pub arrival: Time,
    /// When it first had GPUs.
    pub started: Option<Time>,
    /// Whole epochs that are still to be done.
    pub epochs_left: u64,
    /// All its epochs, as far as a policy may know: an estimate where the caller says so.
    pub work: f64,
    /// Those of `work` that were still to be done at `as_of`, with fractions; [`Self::left`] has those of later moments.
    pub work_left: f64,
    /// GPU-seconds that it had held by `as_of`, restarts among them; [`Self::attained`] has those of later moments.
    pub attained: f64,
    /// The moment that `work_left` and `attained` are of.
    pub as_of: Time,
    /// How often it has been given other GPUs, or GPUs again.
    pub moves: u32,
    /// Whether it may have GPUs now, where it holds none.
    pub waits: Eligibility,
    /// Its submissions that have not ended; several are copies.
    pub holds: Vec<HeldPlacement>,
    /// What it costs to stop it and start it elsewhere.
    pub restart_cost: Seconds,
    /// Whether its owner says how it saves its progress, so that little is lost when it is stopped.
    pub saves: bool,
}

/// Whether a job without GPUs may have some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eligibility {
    /// It may.
    #[default]
    Ready,
    /// It may again before long: it failed, or an earlier submission of it is still there.
    Later,
    /// There is no node for it, or another job has to complete first.
    Never,
    /// There is no job of that number: it has ended.
    Gone,
}

/// A submission and the GPUs that it has or waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldPlacement {
    /// On nodes of the problem; what it has elsewhere is left out.
    pub slots: Vec<Slot>,
    /// When it was decided on.
    pub since: Time,
    /// Time of an epoch as predicted then, in seconds.
    pub epoch: f64,
    pub stage: HoldStage,
}

/// How far a submission has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HoldStage {
    /// About to be submitted, or submitted with no clear answer.
    Submitting,
    /// In the cluster's queue: its GPUs are promised.
    Queued,
    /// It has its GPUs.
    Running {
        /// Time of an epoch with its present shares by the speeds known now, in seconds.
        epoch: f64,
        /// How far it has come in the epoch under way, which a stop may cost it, in seconds.
        under_way: f64,
        /// Whether it may be stopped: it has done an epoch here, so that what is known of its speeds was measured.
        movable: bool,
        /// Until when a restart keeps it from its training; a moment that has passed where none does.
        busy_until: Time,
    },
    /// It is being ended.
    Leaving {
        /// Whether it had started: then its GPUs are in use until it has ended, else they are promised to it.
        started: bool,
        /// Whether its GPUs are worth waiting for: the job goes on elsewhere, and ends before long.
        gives_back: bool,
    },
}

/// The epochs that a job has left, as a function of time: what a policy may keep while the job's progress is as it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EpochsLeft {
    epochs: f64,
    least: f64,
    /// Since when it trains, in seconds, and how long an epoch takes it; 0 where it does not.
    since: f64,
    epoch: f64,
}

impl Default for Progress {
    /// A job that has just come and may have GPUs.
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

/// The least part of all its work that a job is taken to have left: an estimate may have run out before the job has.
const LEAST_LEFT: f64 = 0.03;

impl Progress {
    /// Returns the progress of a job that has just come and has these epochs to do.
    pub fn of_epochs(epochs: u64) -> Self {
        let work = to_f64(epochs);
        Self { epochs_left: epochs, work, work_left: work, ..Self::default() }
    }

    /// Returns the epochs still to be done, with fractions: never less than a small part of all.
    pub fn left(&self, now: Time) -> f64 {
        self.unfinished(now).max(self.least_left())
    }

    /// Returns the least that it is taken to have left, in epochs.
    pub fn least_left(&self) -> f64 {
        LEAST_LEFT * self.work
    }

    /// Returns the epochs still to be done if what is known of the job is exact, with fractions.
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

    /// Returns the GPU-seconds that it has held.
    pub fn attained(&self, now: Time) -> f64 {
        let gpus: u32 = self.running().flat_map(|hold| &hold.slots).map(|slot| slot.count).sum();
        self.attained + f64::from(gpus) * now.since(self.as_of).0
    }

    /// Returns whether the job holds no GPUs and may have some now.
    pub fn is_ready(&self) -> bool {
        self.holds.is_empty() && self.waits == Eligibility::Ready
    }

    /// Returns whether it is for a policy to say what the job holds: it runs once, or waits and may run.
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
    /// Returns those of a job; `None` where it has more than one submission.
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

    /// Returns the epochs left at a moment, as `Progress::left` does.
    pub(super) fn at(self, now: Time) -> f64 {
        let Self { epochs, least, since, epoch } = self;
        let done = if epoch > 0.0 { now.since(Time(since)).0 / epoch } else { 0.0 };
        (epochs - done).max(least)
    }
}

impl HeldPlacement {
    /// Returns whether it has its GPUs and is not being ended.
    pub fn is_running(&self) -> bool {
        matches!(self.stage, HoldStage::Running { .. })
    }

    /// Returns whether its GPUs are promised to it, and not in use yet.
    pub fn is_promised(&self) -> bool {
        matches!(
            self.stage,
            HoldStage::Submitting | HoldStage::Queued | HoldStage::Leaving { started: false, .. }
        )
    }
}
