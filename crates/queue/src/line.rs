//! Pending jobs: their order, and how many are left.

use std::cmp::Ordering;

/// What decides which of two waiting jobs is looked at first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LineKey {
    /// The highest first.
    pub tier: u32,
    /// The highest first.
    pub priority: f64,
    /// The earliest first, in seconds since 1970.
    pub submitted: f64,
    /// The lowest first; of jobs of the snapshot, the place among all of its jobs.
    pub order: u32,
}

impl LineKey {
    /// Returns the order in which two jobs are looked at.
    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        let by_priority = || other.priority.total_cmp(&self.priority);
        let by_time = || self.submitted.total_cmp(&other.submitted);
        let last = || self.order.cmp(&other.order);
        other.tier.cmp(&self.tier).then_with(by_priority).then_with(by_time).then_with(last)
    }
}

/// Whose use a job counts as, while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Use {
    /// The place of its user among those who share; `None` where that is unknown.
    pub branch: Option<usize>,
    /// Billing units of each of its tasks in a second.
    pub rate: f64,
}

/// A job that waits, or the waiting tasks of an array.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub key: LineKey,
    pub shape: usize,
    /// In seconds.
    pub limit: f64,
    pub tasks: u32,
    pub array: Option<Array>,
    /// The number of its user's estimate of run times.
    pub habit: usize,
    pub counts: Use,
    /// The number of the rule of the limits that it must meet.
    pub rule: usize,
    /// When it begins to compete.
    pub joins: Joins,
    /// The numbers by which those know it that wait for its end.
    pub awaited: Vec<usize>,
    /// The job of several partitions that it is in one of: what starts in one is gone from the others.
    pub job: Option<usize>,
}

/// When a pending job begins to compete for room.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Joins {
    Now,
    /// In seconds since 1970.
    At(f64),
    /// When the jobs of these numbers have ended.
    After(Vec<usize>),
}

/// The array that tasks are of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    pub number: usize,
    /// Most of its tasks that run at once.
    pub at_once: u32,
}
