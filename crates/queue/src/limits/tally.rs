//! The use of limits by a snapshot's running jobs, for some pending jobs.

use std::collections::BTreeMap;

use super::rules::CounterKey;
use super::{Counters, LimitRules, Rule};
use crate::history::Users;
use crate::snapshot_jobs::NumberingContext;
use crate::{QueueJob, Snapshot};

/// The use of every limit against which some pending jobs are checked.
pub(super) struct Tally {
    /// The rules, by the indices that `pending` returned.
    pub rules: Vec<Rule>,
    /// The definition of each counter.
    pub names: BTreeMap<usize, CounterKey>,
    /// Use by the running jobs that `is_mine` selects.
    pub mine: Counters,
    /// Use by all running jobs.
    pub all: Counters,
}

impl Tally {
    /// Returns the use of the pending jobs' limits, and the result of `pending`, which assigns the jobs'
    /// rules.
    pub(super) fn of<T>(
        snapshot: &Snapshot,
        is_mine: &dyn Fn(&QueueJob) -> bool,
        pending: impl FnOnce(&mut NumberingContext<'_>) -> T,
    ) -> (Self, T) {
        let (users, _) = Users::new(snapshot);
        let mut known = NumberingContext { users: &users, ranks: None, limits: LimitRules::new(snapshot) };
        let answer = pending(&mut known);
        let running: Vec<(f64, bool, usize)> = snapshot
            .jobs
            .iter()
            .filter_map(|job| {
                let since = job.running.as_ref()?.since;
                let end = since.0 + snapshot.limit_of(job) - snapshot.taken_at.0;
                Some((end.max(0.0) / 60.0, is_mine(job), known.rule_of(job, snapshot)?))
            })
            .collect();
        let names = known.limits.names();
        let (rules, count) = known.limits.finish();
        let [mut mine, mut all] = [Counters::new(count), Counters::new(count)];
        for (end, is_mine, rule) in running {
            all.count(&rules[rule], end, 1.0);
            if is_mine {
                mine.count(&rules[rule], end, 1.0);
            }
        }
        (Self { rules, names, mine, all }, answer)
    }
}
