//! The growth of pending jobs' priorities, and the source of its value.

use std::collections::BTreeMap;

use hsched_model::number::to_f64;

use crate::{Asks, QueueJob, Scheduling, Snapshot};

/// Minimum age difference between two jobs for measuring growth, in hours: Slurm recomputes priorities every
/// five minutes.
const APART: f64 = 0.5;

/// Minimum number of pairs of jobs.
const ENOUGH: usize = 3;

/// Relative difference up to which the observed and the configured growth count as equal.
const ALIKE: f64 = 0.1;

/// The source of the growth of priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthSource {
    /// Observed between two looks at the queue.
    Looks,
    /// Derived from the ages and priorities of similar pending jobs.
    Ages,
    /// Computed from `PriorityWeightAge` and `PriorityMaxAge`.
    Weights,
    /// Unknown: priorities are assumed to stay constant.
    Unknown,
}

impl GrowthSource {
    /// Returns the source in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Looks => "looks",
            Self::Ages => "ages",
            Self::Weights => "weights",
            Self::Unknown => "unknown",
        }
    }
}

/// The growth of a pending job's priority.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Growth per hour.
    pub per_hour: f64,
    pub source: GrowthSource,
    /// The growth from the weights, if the ages of pending jobs show a different growth.
    pub by_weights: Option<f64>,
}

impl Scheduling {
    /// Returns the hourly growth of priorities according to the configured weights.
    fn growth_by_weights(&self) -> Option<f64> {
        let age = self.age.filter(|age| age.max_s.0 > 0.0)?;
        Some(age.weight * 3600.0 / age.max_s.0)
    }
}

impl Snapshot {
    /// Returns the growth of a pending job's priority: from two looks, else from the ages of pending jobs,
    /// unless the configured growth is about the same, else from the configuration; 0 if it is unknown.
    pub fn growth(&self) -> Growth {
        let weights = self.scheduling.growth_by_weights();
        let growth = |per_hour, source| Growth { per_hour, source, by_weights: None };
        if let Some(seen) = self.scheduling.priority_per_hour {
            return growth(seen, GrowthSource::Looks);
        }
        match (self.growth_by_ages(), weights) {
            (Some(ages), Some(weights)) if (ages - weights).abs() <= ALIKE * weights.abs() => {
                growth(weights, GrowthSource::Weights)
            }
            (Some(ages), by_weights) => Growth { per_hour: ages, source: GrowthSource::Ages, by_weights },
            (None, Some(weights)) => growth(weights, GrowthSource::Weights),
            (None, None) => growth(0.0, GrowthSource::Unknown),
        }
    }

    /// Returns the median hourly growth between pending jobs that, as far as Slurm shows, differ only in age.
    fn growth_by_ages(&self) -> Option<f64> {
        type Kind<'a> = ([Option<&'a str>; 3], &'a [String], &'a Asks);
        let mut alike: BTreeMap<Kind, Vec<(f64, f64)>> = BTreeMap::new();
        let gathers_age = |job: &&QueueJob| job.running.is_none() && !job.waits_for_other;
        for job in self.jobs.iter().filter(gathers_age) {
            let (Some(submitted), Some(priority)) = (job.submitted, job.priority) else { continue };
            let whose = [&job.user, &job.account, &job.qos].map(|name| name.as_deref());
            let age = self.taken_at.since(submitted).0 / 3600.0;
            let priority = to_f64(priority) + to_f64(job.nice);
            alike.entry((whose, &job.partitions, &job.asks)).or_default().push((age, priority));
        }
        let mut slopes = Vec::new();
        for mut jobs in alike.into_values() {
            jobs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut from = 0;
            for next in 1..jobs.len() {
                let hours = jobs[next].0 - jobs[from].0;
                if hours >= APART {
                    slopes.push((jobs[next].1 - jobs[from].1) / hours);
                    from = next;
                }
            }
        }
        slopes.sort_by(f64::total_cmp);
        (slopes.len() >= ENOUGH).then(|| slopes[slopes.len() / 2].max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AgeWeight;
    use hsched_model::{Seconds, Time};

    /// A queue at hour 100, in which one user's jobs have these ages in minutes.
    fn snapshot(ages: &[u64], per_hour: u64) -> Snapshot {
        let job = |age: &u64| -> QueueJob {
            let text = serde_json::json!({ "id": age.to_string(), "asks": {}, "user": "ann", "partitions": ["gpu"],
                "submitted": (6000 - age) * 60, "priority": 1000 + per_hour * age / 60 });
            serde_json::from_value(text).expect("a job")
        };
        Snapshot { jobs: ages.iter().map(job).collect(), ..Snapshot::empty(Time(360_000.0)) }
    }

    fn weights(snapshot: &mut Snapshot) {
        snapshot.scheduling.age = Some(AgeWeight { weight: 10_000.0, max_s: Seconds(100.0 * 3600.0) });
    }

    #[test]
    fn growth_is_as_two_looks_show_else_as_ages_do_else_as_configured() {
        let of = |snapshot: &Snapshot| {
            let growth = snapshot.growth();
            (growth.per_hour, growth.source, growth.by_weights)
        };
        let mut few = snapshot(&[0, 60, 120], 12);
        assert_eq!(of(&few), (0.0, GrowthSource::Unknown, None));
        weights(&mut few);
        assert_eq!(of(&few), (100.0, GrowthSource::Weights, None));
        let mut enough = snapshot(&[0, 60, 120, 300], 12);
        assert_eq!(of(&enough), (12.0, GrowthSource::Ages, None));
        weights(&mut enough);
        assert_eq!(of(&enough), (12.0, GrowthSource::Ages, Some(100.0)));
        enough.scheduling.priority_per_hour = Some(7.0);
        assert_eq!(of(&enough), (7.0, GrowthSource::Looks, None));
        let mut alike = snapshot(&[0, 60, 120, 300], 97);
        weights(&mut alike);
        assert_eq!(of(&alike), (100.0, GrowthSource::Weights, None));
    }

    #[test]
    fn jobs_of_the_same_minute_and_of_others_show_no_growth() {
        let mut queue = snapshot(&[0, 6, 12, 18], 12);
        assert_eq!(queue.growth().source, GrowthSource::Unknown);
        queue = snapshot(&[0, 60, 120, 180], 12);
        queue.jobs[1].user = Some("bob".to_owned());
        assert_eq!(queue.growth().source, GrowthSource::Unknown);
        queue = snapshot(&[0, 60, 120, 180], 12);
        queue.jobs[1].waits_for_other = true;
        assert_eq!(queue.growth().source, GrowthSource::Unknown);
    }
}
