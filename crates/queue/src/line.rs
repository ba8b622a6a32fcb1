//! Pending jobs: their order, and their remaining tasks.

use std::cmp::Ordering;

/// The sort key of pending jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LineKey {
    /// The tier; higher comes first.
    pub tier: u32,
    /// The priority; higher comes first.
    pub priority: f64,
    /// The submission in Unix seconds; earlier comes first.
    pub submitted: f64,
    /// Order among equal keys, lower first: for jobs of the snapshot, [`id_order`].
    pub order: u32,
}

/// The `order` of requests without a job id: after all jobs of the snapshot.
pub(super) const WITHOUT_ID: u32 = u32::MAX / 4;

/// Returns the order of jobs with equal priority and submission: Slurm starts the one with the lowest id first.
/// Ids without a number come last.
pub(super) fn id_order(id: &str) -> u32 {
    let number = id.split(|letter: char| !letter.is_ascii_digit()).next().and_then(|text| text.parse().ok());
    number.map_or(WITHOUT_ID - 1, |number: u32| number.min(WITHOUT_ID - 1))
}

impl LineKey {
    /// Returns the order in which two jobs are scheduled.
    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        let by_priority = || other.priority.total_cmp(&self.priority);
        let by_time = || self.submitted.total_cmp(&other.submitted);
        let last = || self.order.cmp(&other.order);
        other.tier.cmp(&self.tier).then_with(by_priority).then_with(by_time).then_with(last)
    }
}

/// The fair-share branch to which a job's usage is charged, and the rate of the usage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Use {
    /// Index of the branch of the job's user; `None` if unknown.
    pub branch: Option<usize>,
    /// Billing units per second of each of the job's tasks.
    pub rate: f64,
}

/// A pending job, or the pending tasks of an array.
#[derive(Clone, Debug)]
pub(super) struct PendingEntry {
    pub key: LineKey,
    /// Index of the job in the snapshot.
    pub place: usize,
    pub shape: usize,
    /// Time limit in seconds.
    pub limit: f64,
    pub tasks: u32,
    pub array: Option<Array>,
    /// Index of the run-time habit of the job's user.
    pub habit: usize,
    pub counts: Use,
    /// Index of the rule with its limits.
    pub rule: usize,
    /// Time at which the job begins to compete.
    pub joins: Joins,
    /// The indices by which jobs refer to this one while they wait for its end.
    pub awaited: Vec<usize>,
    /// The job in several partitions to which this entry belongs: after a start in one, it disappears from
    /// the others.
    pub job: Option<usize>,
}

/// The time at which a pending job begins to compete for room.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Joins {
    Now,
    /// At this time, in Unix seconds.
    At(f64),
    /// After the jobs with these indices have ended.
    After(Vec<usize>),
}

/// The array to which tasks belong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    pub number: usize,
    /// Maximum number of its tasks that run at the same time.
    pub at_once: u32,
}
