//! The value of a schedule (eq. 7): how close the jobs' times are to the times that they would take alone,
//! and how many deadlines are met.

use crate::replay::{ReplayRecord, Trace};
use hsched_model::number::to_f64;

/// β: the weights of completion times and of met deadlines.
const TIMES: f64 = 0.5;
const DEADLINES: f64 = 0.55;

/// Metrics of schedules, as means over traces.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScheduleScore {
    /// In seconds.
    pub mean_jct: f64,
    /// Fraction of met deadlines; 1 if there are none.
    pub met: f64,
    pub reward: f64,
}

/// The results for one trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TraceResult {
    /// Sum of the seconds that all jobs would take alone.
    pub alone: f64,
    pub score: ScheduleScore,
}

impl TraceResult {
    /// Returns the results for a trace; a job that has not ended counts as if it ended together with the last
    /// one, but misses its deadline.
    pub(crate) fn of(trace: &Trace, record: &ReplayRecord) -> Self {
        let last = record.jobs.iter().filter_map(|job| job.completed).map(|end| end.0).fold(0.0, f64::max);
        let (mut alone, mut times, mut due, mut met) = (0.0, 0.0, 0.0, 0.0);
        for (number, (entry, job)) in trace.jobs.iter().zip(&record.jobs).enumerate() {
            let end = job.completed.map_or(last, |end| end.0);
            times += (end - entry.arrival.0).max(0.0);
            alone += trace.paces.of(number).fastest.map_or(0.0, |epoch| entry.model.progress.work * epoch);
            if let Some(deadline) = entry.model.aims.deadline {
                due += 1.0;
                met += f64::from(u8::from(job.completed.is_some_and(|end| end.0 <= deadline.0)));
            }
        }
        let count = to_f64(trace.jobs.len().max(1));
        let met = if due > 0.0 { met / due } else { 1.0 };
        let near = if times > 0.0 { (alone / times).min(1.0) } else { 1.0 };
        Self {
            alone,
            score: ScheduleScore { mean_jct: times / count, met, reward: TIMES * near + DEADLINES * met },
        }
    }
}

/// Returns the reward of the interval after each time: present jobs cost, and met deadlines pay; jobs that
/// never complete are left out. The times are in ascending order, and the last interval has no end.
pub(super) fn rewards(trace: &Trace, record: &ReplayRecord, moments: &[f64]) -> Vec<f64> {
    let alone = TraceResult::of(trace, record).alone;
    let due = trace.jobs.iter().filter(|entry| entry.model.aims.deadline.is_some()).count();
    let due = to_f64(due.max(1));
    let mut rewards = vec![0.0; moments.len()];
    for (entry, job) in trace.jobs.iter().zip(&record.jobs) {
        let Some(end) = job.completed else { continue };
        let (from, to) = (entry.arrival.0, end.0);
        let first = moments.partition_point(|at| *at <= from).saturating_sub(1);
        for (place, reward) in rewards.iter_mut().enumerate().skip(first) {
            let until = moments.get(place + 1).copied().unwrap_or(f64::INFINITY);
            if moments[place] > to {
                break;
            }
            let there = (until.min(to) - moments[place].max(from)).max(0.0);
            *reward -= TIMES * there / alone.max(1.0);
        }
        let is_met = entry.model.aims.deadline.is_some_and(|deadline| to <= deadline.0);
        let last = moments.partition_point(|at| *at < to).saturating_sub(1);
        if let Some(reward) = rewards.get_mut(last).filter(|_| is_met) {
            *reward += DEADLINES / due;
        }
    }
    rewards
}
