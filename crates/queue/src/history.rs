//! What past jobs show: which fraction of their limits jobs use, and what arrives.

use crate::Snapshot;
use hsched_model::number::to_f64;

/// Jobs that must have ended before they tell more than an even chance, as the page asks.
const ENOUGH: usize = 20;

/// Part of the limit that jobs run: the estimate of Kaplan and Meier, in which jobs that still run count as having run at least so
/// much. Otherwise long jobs, which are the last to end, would be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ratios {
    /// Parts of the limit in order, each with the chance to run for longer. None: any part is as likely as any other.
    points: Vec<(f64, f64)>,
}

impl Ratios {
    /// Returns the estimate from parts of the limit that jobs ran until they ended, and that others have run so far.
    ///
    /// It is an even chance where too few have ended.
    pub(super) fn of(ended: &[f64], so_far: &[f64]) -> Self {
        if ended.len() < ENOUGH {
            return Self::default();
        }
        let marked =
            ended.iter().map(|&ratio| (ratio, true)).chain(so_far.iter().map(|&ratio| (ratio, false)));
        let mut all: Vec<(f64, bool)> = marked.map(|(ratio, ends)| (ratio.clamp(0.0, 1.0), ends)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let (mut survival, mut points) = (1.0, Vec::new());
        for (before, (ratio, ends)) in all.iter().enumerate() {
            if *ends {
                let at_risk = to_f64(all.len() - before);
                survival *= 1.0 - 1.0 / at_risk;
                points.push((*ratio, survival));
            }
        }
        Self { points }
    }

    /// Returns the part of its limit that a job runs in all which has run `so_far` of it; `unit` is from [0, 1).
    pub(super) fn draw(&self, so_far: f64, unit: f64) -> f64 {
        let so_far = so_far.clamp(0.0, 1.0);
        if self.points.is_empty() {
            return so_far + (1.0 - so_far) * unit;
        }
        let first = self.points.partition_point(|(ratio, _)| *ratio <= so_far);
        let survival = first.checked_sub(1).map_or(1.0, |last| self.points[last].1);
        let target = survival * (1.0 - unit);
        let later = &self.points[first..];
        let place = later.partition_point(|(_, left)| *left >= target);
        later.get(place).map_or(1.0, |(ratio, _)| *ratio)
    }

    /// Returns the mean part of the limit that a job runs.
    pub(super) fn mean(&self) -> f64 {
        if self.points.is_empty() {
            return 0.5;
        }
        let (mut mean, mut from, mut survival) = (0.0, 0.0, 1.0);
        for &(ratio, left) in &self.points {
            mean += (ratio - from) * survival;
            (from, survival) = (ratio, left);
        }
        mean + (1.0 - from) * survival
    }
}

/// The estimates of a snapshot: that of all users, and those of users of whom enough is known.
#[derive(Clone, Debug)]
pub(super) struct Habits<'a> {
    pub list: Vec<Ratios>,
    users: Vec<&'a str>,
}

impl<'a> Habits<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let ended: Vec<(Option<&str>, f64)> = ended(snapshot);
        let running: Vec<(Option<&str>, f64)> = running(snapshot);
        let of = |user: Option<&str>| {
            let ratios = |list: &[(Option<&str>, f64)]| -> Vec<f64> {
                let meant = list.iter().filter(|(whose, _)| user.is_none() || *whose == user);
                meant.map(|(_, ratio)| *ratio).collect()
            };
            Ratios::of(&ratios(&ended), &ratios(&running))
        };
        let mut users: Vec<&str> = ended.iter().filter_map(|(user, _)| *user).collect();
        users.sort_unstable();
        let enough = users.chunk_by(|a, b| a == b).filter(|jobs| jobs.len() >= ENOUGH);
        let users: Vec<&str> = enough.map(|jobs| jobs[0]).collect();
        let list = std::iter::once(of(None)).chain(users.iter().map(|user| of(Some(user)))).collect();
        Self { list, users }
    }

    /// Returns the number of a user's estimate.
    pub(super) fn of(&self, user: Option<&str>) -> usize {
        let found = user.and_then(|user| self.users.binary_search(&user).ok());
        found.map_or(0, |place| place + 1)
    }
}

fn ended(snapshot: &Snapshot) -> Vec<(Option<&str>, f64)> {
    let jobs = snapshot.history.as_deref().unwrap_or_default().iter();
    let ratio = |job: &crate::Ended| {
        let limit = job.limit_s.filter(|limit| limit.0 > 0.0)?;
        Some(job.ended.since(job.started?).0 / limit.0)
    };
    jobs.filter_map(|job| Some((job.user.as_deref(), ratio(job)?))).collect()
}

fn running(snapshot: &Snapshot) -> Vec<(Option<&str>, f64)> {
    let ratio = |job: &crate::QueueJob| {
        let limit = job.limit_s.filter(|limit| limit.0 > 0.0)?;
        Some(snapshot.taken_at.since(job.running.as_ref()?.since).0 / limit.0)
    };
    snapshot.jobs.iter().filter_map(|job| Some((job.user.as_deref(), ratio(job)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_jobs_leave_an_even_chance_of_what_is_left() {
        let ratios = Ratios::of(&[0.1; 19], &[]);
        assert_eq!((ratios.draw(0.0, 0.5), ratios.draw(0.6, 0.5), ratios.draw(2.0, 0.5)), (0.5, 0.8, 1.0));
    }

    #[test]
    fn a_job_ends_as_those_ended_that_ran_as_long() {
        let ratios = Ratios::of(&[[0.1; 10], [0.5; 10]].concat(), &[]);
        assert_eq!((ratios.draw(0.0, 0.2), ratios.draw(0.0, 0.49), ratios.draw(0.0, 0.8)), (0.1, 0.1, 0.5));
        assert_eq!((ratios.draw(0.2, 0.0), ratios.draw(0.2, 0.99), ratios.draw(0.6, 0.3)), (0.5, 0.5, 1.0));
        assert!((ratios.mean() - 0.3).abs() < 1e-9);
    }

    #[test]
    fn jobs_that_still_run_count_as_long_ones() {
        // 20 ended at a tenth, 20 are at a half: half of all jobs run longer than that.
        let ratios = Ratios::of(&[0.1; 20], &[0.5; 20]);
        assert_eq!((ratios.draw(0.0, 0.45), ratios.draw(0.0, 0.55)), (0.1, 1.0));
        assert!((ratios.mean() - 0.55).abs() < 1e-9);
    }
}
