//! The fractions of their limits that jobs run, from past jobs.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::Snapshot;
use crate::whose::USUAL_QOS;
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};

/// Number of points that represent a prior distribution.
const POINTS: u32 = 20;

/// Relative differences of probabilities below this are ignored.
const FINEST: f64 = 1e-3;

/// Fraction of a probability that remains if all observed jobs have ended.
const LEAST: f64 = 1e-9;

/// Weight of prior knowledge about clusters, in jobs: the mean varies by 0.1 between days, and single jobs by
/// 0.3 (61 days of an Alliance cluster).
const CLUSTER_BELIEF: f64 = 10.0;

/// Weight of all users' jobs in the estimate for one user, in jobs: of 3, 8 and 20, this predicted the next
/// run time of an account best, whether 5, 20 or 100 of its jobs had ended.
const USER_BELIEF: f64 = 8.0;

/// On an unknown cluster, the fraction of its limit that a job runs is a uniform number from [0, 1) to this
/// power: of 133,025 jobs, a quarter ran less than 0.06, half less than 0.25, and three quarters less than
/// 0.52.
const USUAL_POWER: f64 = 2.0;

/// The fraction of its limit for which a job ran, or has run so far.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RunShare {
    /// The fraction that it had run at the beginning of the records. Jobs that ended before that are missing
    /// from the records.
    from: f64,
    ratio: f64,
    has_ended: bool,
}

/// An event of a job, or of a prior point, as the fraction of its limit grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Ends,
    IsLost,
    Comes,
}

/// The observed fractions of limits for one user's jobs, or for all jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Habit {
    seen: Vec<RunShare>,
}

/// Probabilities of running longer than a fraction of the limit.
///
/// This is the Kaplan-Meier estimate, in which a job that still runs counts as running at least for its time
/// so far. Otherwise long jobs, which end last, would be missing. A prior counts as a few additional jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ratios {
    /// Fractions of the limit in order, each with the probability of running longer.
    points: Vec<(f64, f64)>,
}

impl Habit {
    /// Returns the probabilities from observations and a prior, which counts as `belief` jobs. `weight` is
    /// called for each job and each point of the prior, and returns a factor of its weight.
    fn ratios(&self, believed: &[f64], belief: f64, mut weight: impl FnMut() -> f64) -> Ratios {
        let each = belief / to_f64(believed.len());
        let mut events: Vec<(f64, Happens, f64)> = Vec::new();
        let mut at_risk = 0.0;
        for &ratio in believed {
            let weight = each * weight();
            at_risk += weight;
            events.push((ratio, Happens::Ends, weight));
        }
        for seen in &self.seen {
            let weight = weight();
            let [from, until] = [seen.from, seen.ratio].map(|ratio| ratio.clamp(0.0, 1.0));
            if from >= until && until > 0.0 {
                continue;
            }
            if from > 0.0 {
                events.push((from, Happens::Comes, weight));
            } else {
                at_risk += weight;
            }
            events.push((until, if seen.has_ended { Happens::Ends } else { Happens::IsLost }, weight));
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut survival = 1.0;
        // The probability before the last point.
        let mut before = 1.0;
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (ratio, happens, weight) in events {
            match happens {
                Happens::Comes => at_risk += weight,
                Happens::IsLost => at_risk -= weight,
                Happens::Ends => {
                    let last = survival;
                    // Not 0, because later events are possible.
                    survival *= (1.0 - weight / at_risk.max(weight)).max(LEAST);
                    at_risk -= weight;
                    if before - survival < FINEST * before && !points.is_empty() {
                        points.pop();
                    } else {
                        before = last;
                    }
                    points.push((ratio, survival));
                }
            }
        }
        Ratios { points }
    }
}

impl Ratios {
    /// Returns the total fraction of its limit for a job that has run `so_far` of it; `unit` is from [0, 1).
    pub(super) fn draw(&self, so_far: f64, unit: f64) -> f64 {
        let so_far = so_far.clamp(0.0, 1.0);
        let first = self.points.partition_point(|(ratio, _)| *ratio <= so_far);
        let survival = first.checked_sub(1).map_or(1.0, |last| self.points[last].1);
        let target = survival * (1.0 - unit);
        let later = &self.points[first..];
        let place = later.partition_point(|(_, left)| *left >= target);
        later.get(place).map_or(1.0, |(ratio, _)| *ratio)
    }

    /// Returns the mean fraction of the limit.
    pub(super) fn mean(&self) -> f64 {
        let (mut mean, mut from, mut survival) = (0.0, 0.0, 1.0);
        for &(ratio, left) in &self.points {
            mean += (ratio - from) * survival;
            (from, survival) = (ratio, left);
        }
        mean + (1.0 - from) * survival
    }

    /// Returns equally likely fractions of the limit that represent this distribution.
    fn points(&self) -> Vec<f64> {
        units().map(|unit| self.draw(0.0, unit)).collect()
    }
}

/// Returns evenly spaced numbers from [0, 1).
fn units() -> impl Iterator<Item = f64> {
    (0..POINTS).map(|number| (f64::from(number) + 0.5) / f64::from(POINTS))
}

/// The habits in a snapshot: of all users together, and of each.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    list: Vec<Habit>,
}

impl Habits {
    /// Returns random variants of each distribution. The fewer jobs were observed, the more they differ.
    pub(super) fn believed(&self, random: &mut Pcg64Mcg) -> Vec<Ratios> {
        self.each(&mut || -(1.0 - random.random::<f64>()).ln())
    }

    fn each(&self, weight: &mut dyn FnMut() -> f64) -> Vec<Ratios> {
        let Some((all, users)) = self.list.split_first() else { return Vec::new() };
        let usual: Vec<f64> = units().map(|unit| unit.powf(USUAL_POWER)).collect();
        let all = all.ratios(&usual, CLUSTER_BELIEF, &mut *weight);
        let of_all = all.points();
        let users = users.iter().map(|habit| habit.ratios(&of_all, USER_BELIEF, &mut *weight));
        let mut list: Vec<Ratios> = users.collect();
        list.insert(0, all);
        list
    }
}

/// Users by name.
pub(super) struct Users<'a> {
    /// Names with the index of their habit.
    names: BTreeMap<&'a str, usize>,
    qos: BTreeMap<&'a str, &'a str>,
}

impl<'a> Users<'a> {
    /// Returns the users of a snapshot, and their habits.
    pub(super) fn new(snapshot: &'a Snapshot) -> (Self, Habits) {
        let seen: Vec<(Option<&str>, RunShare)> = seen(snapshot);
        let mut by_user: BTreeMap<&str, Vec<RunShare>> = BTreeMap::new();
        for user in snapshot.jobs.iter().filter_map(|job| job.user.as_deref()) {
            by_user.entry(user).or_default();
        }
        for (user, habits) in &seen {
            if let Some(user) = user {
                by_user.entry(user).or_default().push(*habits);
            }
        }
        let all = Habit { seen: seen.iter().map(|(_, seen)| *seen).collect() };
        let names = by_user.keys().zip(1..).map(|(user, number)| (*user, number)).collect();
        let list = std::iter::once(all).chain(by_user.into_values().map(|seen| Habit { seen })).collect();
        let jobs = snapshot.jobs.iter().rev();
        let qos = jobs.filter_map(|job| Some((job.user.as_deref()?, job.qos.as_deref()?))).collect();
        (Self { names, qos }, Habits { list })
    }

    /// Returns the index of a user's habit; 0, the index of the habit of all users, for an unknown user.
    pub(super) fn of(&self, user: Option<&str>) -> usize {
        user.and_then(|user| self.names.get(user)).copied().unwrap_or(0)
    }

    /// Returns the QOS of a user's past job without a recorded one: that of the user's first job in the queue, or
    /// [`USUAL_QOS`] if there is none.
    pub(super) fn past_qos(&self, user: Option<&str>) -> &'a str {
        user.and_then(|user| self.qos.get(user)).copied().unwrap_or(USUAL_QOS)
    }
}

/// Returns the fractions of their limits for which ended jobs ran and running jobs have run so far, with
/// their users.
fn seen(snapshot: &Snapshot) -> Vec<(Option<&str>, RunShare)> {
    let Some((since, until)) = snapshot.recorded() else { return Vec::new() };
    let seen = |started: Time, end: Time, limit: Option<Seconds>, has_ended: bool| {
        let limit = limit.filter(|limit| limit.0 > 0.0)?;
        let from = since.since(started).0.max(0.0);
        Some(RunShare { from: from / limit.0, ratio: end.since(started).0 / limit.0, has_ended })
    };
    let ended = snapshot.history.iter().flatten();
    let ended = ended
        .filter_map(|job| Some((job.user.as_deref(), seen(job.started?, job.ended, job.limit_s, true)?)));
    let running = snapshot.jobs.iter().filter_map(|job| {
        let since = job.running.as_ref()?.since;
        // A completing job has a limit equal to its run time.
        let limit = job.limit_s.filter(|limit| since.0 + limit.0 > snapshot.taken_at.0)?;
        let until = Time(until.0.max(since.0));
        Some((job.user.as_deref(), seen(since, until, Some(limit), false)?))
    });
    ended.chain(running).collect()
}

impl Snapshot {
    /// Returns the period for which the history has all ended jobs; `None` if there is no history, or if it
    /// is empty and its end is not given.
    ///
    /// The history is read less often than the queue.
    pub(super) fn recorded(&self) -> Option<(Time, Time)> {
        let last = self.history.as_ref()?.iter().map(|job| job.ended.0).max_by(f64::total_cmp);
        let since = self.history_since.map_or(f64::NEG_INFINITY, |since| since.0);
        let until = self.history_until.map(|until| until.0).or(last)?;
        Some((Time(since), Time(until.min(self.taken_at.0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn habit(ended: &[f64], so_far: &[f64]) -> Habit {
        let seen = |has_ended: bool| move |&ratio: &f64| RunShare { from: 0.0, ratio, has_ended };
        Habit { seen: ended.iter().map(seen(true)).chain(so_far.iter().map(seen(false))).collect() }
    }

    /// Returns the distribution without a prior.
    fn plain(habit: &Habit) -> Ratios {
        habit.ratios(&[], 0.0, || 1.0)
    }

    #[test]
    fn where_no_job_was_seen_a_quarter_of_the_limit_is_as_likely_exceeded_as_not() {
        let usual = Habits { list: vec![Habit::default(); 2] }.each(&mut || 1.0);
        for ratios in usual {
            assert!((ratios.draw(0.0, 0.5) - 0.25).abs() < 0.03, "{ratios:?}");
            assert!((ratios.mean() - 1.0 / 3.0).abs() < 0.02, "{ratios:?}");
            // A job that has run for long will continue for long.
            assert!(ratios.draw(0.6, 0.5) > 0.7 && ratios.draw(2.0, 0.5) == 1.0);
        }
    }

    #[test]
    fn a_job_ends_as_those_ended_that_ran_as_long() {
        let ratios = plain(&habit(&[[0.1; 10], [0.5; 10]].concat(), &[]));
        assert_eq!((ratios.draw(0.0, 0.2), ratios.draw(0.0, 0.49), ratios.draw(0.0, 0.8)), (0.1, 0.1, 0.5));
        assert_eq!((ratios.draw(0.2, 0.0), ratios.draw(0.2, 0.99), ratios.draw(0.6, 0.3)), (0.5, 0.5, 1.0));
        assert!((ratios.mean() - 0.3).abs() < 1e-9);
    }

    #[test]
    fn jobs_that_still_run_count_as_long_ones() {
        // 20 ended at 0.1, and 20 are at 0.5: half of all jobs run longer than that.
        let ratios = plain(&habit(&[0.1; 20], &[0.5; 20]));
        assert_eq!((ratios.draw(0.0, 0.45), ratios.draw(0.0, 0.55)), (0.1, 1.0));
        assert!((ratios.mean() - 0.55).abs() < 1e-9);
    }

    #[test]
    fn jobs_that_ran_before_the_records_began_say_nothing_of_shorter_ones() {
        // All jobs end at 0.1 or at 0.9. Of jobs that had run for 0.5 before the records, only the second
        // kind is observed.
        let late = RunShare { from: 0.5, ratio: 0.9, has_ended: true };
        let mut seen = habit(&[[0.1; 10], [0.9; 10]].concat(), &[]);
        seen.seen.extend([late; 30]);
        assert!((plain(&seen).mean() - 0.5).abs() < 1e-9);
        // A job that was running when the records began and was not seen later adds no information.
        seen.seen.push(RunShare { from: 0.7, ratio: 0.7, has_ended: false });
        assert!((plain(&seen).mean() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn who_comes_after_all_others_have_ended_counts_among_those_who_ran_as_long() {
        let late = RunShare { from: 0.4, ratio: 0.6, has_ended: true };
        let mut seen = habit(&[0.1; 20], &[]);
        seen.seen.extend([late; 30]);
        assert_eq!((plain(&seen).draw(0.5, 0.9), plain(&seen).draw(0.0, 0.9)), (0.6, 0.1));
    }

    #[test]
    fn the_jobs_of_a_user_soon_tell_more_than_those_of_others() {
        let all = habit(&[0.1; 100], &[]);
        let users = Habits { list: vec![all, habit(&[0.9; 20], &[]), Habit::default()] }.each(&mut || 1.0);
        let means: Vec<f64> = users.iter().map(Ratios::mean).collect();
        assert!(means[0] < 0.15 && means[1] > 0.6 && (means[2] - means[0]).abs() < 0.02, "{means:?}");
    }

    #[test]
    fn the_fewer_jobs_were_seen_the_more_futures_differ() {
        let spread = |count: usize| {
            let seen: Vec<f64> = (0..count).map(|number| to_f64(number) / to_f64(count)).collect();
            let habits = Habits { list: vec![habit(&seen, &[])] };
            let mean = |seed| {
                habits.believed(&mut crate::chance::sequence(seed, crate::chance::Purpose::Habit, 0))[0]
                    .mean()
            };
            let means: Vec<f64> = (0..50).map(mean).collect();
            let middle = means.iter().sum::<f64>() / 50.0;
            (means.iter().map(|mean| (mean - middle).powi(2)).sum::<f64>() / 50.0).sqrt()
        };
        let (few, many) = (spread(5), spread(500));
        assert!(few > 0.04 && many < 0.03 && few > 2.0 * many, "{few} {many}");
    }
}
