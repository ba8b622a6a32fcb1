//! Data from looks at a site's queue: the jobs of the last look, and the jobs that left the queue between
//! looks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::learnt::queue_figures::figures;
use crate::learnt::seen_job::{NumberOf, PlayerEstimate, RequestSize, SeenJob, WaitStart};
use crate::{EndedJob, Estimate, QueueJob, Snapshot};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};
use hsched_waits::QueueFigures;

/// Maximum time between two looks. In a longer gap, jobs may come and go unseen, so submissions
/// in between give no information on short waits.
const GAP: Seconds = Seconds(3.0 * 3600.0);

/// Minimum time between two looks. Looks closer together give no new information.
const CLOSE: Seconds = Seconds(300.0);

/// Time after a job has left the queue in which it may still appear in the records.
const LATE: Seconds = Seconds(2.0 * 86_400.0);

/// The jobs of the last look, and the data to compare the next one with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteLog {
    /// Jobs that were pending or running at the last look, and those that left the queue recently and may
    /// have started.
    pub open: BTreeMap<u64, SeenJob>,
    /// Time of the last look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<Time>,
    /// Looks of the last two days.
    #[serde(default)]
    looks: Vec<Time>,
    /// The time up to which ended jobs were read from the records.
    #[serde(default)]
    recorded_until: Time,
}

impl SiteLog {
    /// Returns whether another look would give new information.
    pub fn is_due(&self, now: Time) -> bool {
        self.looked_at.is_none_or(|last| !now.is_soon_after(last, CLOSE))
    }

    /// Compares a look with the previous one; returns the jobs with observed waits whose data are complete.
    pub fn observe(&mut self, snapshot: &Snapshot, number: NumberOf) -> Vec<SeenJob> {
        let now = snapshot.taken_at;
        // Later times are from before the clock was set back.
        if self.looked_at.is_none() || self.recorded_until > now {
            self.recorded_until = now;
        }
        let before = self.looked_at.filter(|before| now.is_soon_after(*before, GAP));
        let shown = shown(snapshot, number);
        let mut new: Vec<SeenJob> = Vec::new();
        for mut job in shown.values().cloned() {
            if let Some(known) = self.open.get_mut(&job.job) {
                known.started = known.started.or(job.started);
                known.pending_at = job.pending_at.or(known.pending_at);
                known.size.priority = job.size.priority;
                known.eligible |= job.eligible;
            } else {
                job.asked = self.asked(&job, before, snapshot, &shown);
                new.push(job);
            }
        }
        new.extend(self.recorded(snapshot, number));
        self.open.extend(new.into_iter().map(|job| (job.job, job)));
        for (key, job) in &mut self.open {
            if !shown.contains_key(key) && job.started.is_some() {
                job.ended = job.ended.or(Some(now));
            }
        }
        self.looked_at = Some(now);
        self.looks.retain(|look| now.is_soon_after(*look, LATE));
        self.looks.push(now);
        self.settle(&shown, snapshot)
    }

    /// Returns the start of the wait of a job that earlier looks did not show; `None` if no part of the wait
    /// was observed.
    fn asked(
        &self,
        job: &SeenJob,
        before: Option<Time>,
        snapshot: &Snapshot,
        shown: &BTreeMap<u64, SeenJob>,
    ) -> Option<WaitStart> {
        if let Some(look) = before.filter(|before| job.submitted >= *before) {
            let queue = figures(self.queue(), &job.size);
            return Some(WaitStart { look, at: job.submitted, queue });
        }
        let others = shown.values().filter(|other| other.job != job.job);
        let queue = figures(others, &job.size);
        job.started.is_none().then_some(WaitStart { look: snapshot.taken_at, at: snapshot.taken_at, queue })
    }

    /// Returns the jobs of the last look.
    pub(super) fn queue(&self) -> impl Iterator<Item = &SeenJob> {
        let looked_at = self.looked_at;
        self.open.values().filter(move |job| {
            if job.started.is_some() { job.ended.is_none() } else { job.pending_at == looked_at }
        })
    }

    /// Completes the data of jobs that have left the queue from the records, and returns the recorded jobs
    /// that came and went between two looks.
    fn recorded(&mut self, snapshot: &Snapshot, number: NumberOf) -> Vec<SeenJob> {
        let until = self.recorded_until;
        let ended = snapshot.history.iter().flatten();
        let new = ended.filter(|job| job.ended > until && job.ended <= snapshot.taken_at);
        let mut unseen = Vec::new();
        for record in new {
            self.recorded_until = Time(self.recorded_until.0.max(record.ended.0));
            let size = size_of(record, snapshot, number);
            let known = self.open.values_mut().find(|job| {
                job.submitted == record.submitted
                    && (job.size.owner, job.size.gpus) == (size.owner, size.gpus)
                    && job.ended.is_none()
                    && job.started.is_none_or(|started| Some(started) == record.started)
            });
            if let Some(job) = known {
                job.started = job.started.or(record.started);
                job.ended = Some(record.ended);
                if record.started.is_none() {
                    job.pending_at = Some(record.ended);
                }
                continue;
            }
            unseen.extend(
                self.between_looks(record)
                    .zip(record.started)
                    .map(|(look, started)| of_record(record, size, started, look, number)),
            );
        }
        unseen
    }

    /// Returns the look before a job was submitted; `None` if another look came before it ended, or if the
    /// look is too old.
    fn between_looks(&self, record: &EndedJob) -> Option<Time> {
        let next = self.looks.partition_point(|look| *look <= record.submitted);
        let look = *self.looks.get(next.checked_sub(1)?)?;
        let is_seen = self.looks.get(next).is_some_and(|next| *next < record.ended);
        (!is_seen && record.submitted.since(look) < GAP).then_some(look)
    }

    /// Removes the jobs with complete data, and returns those whose waits were observed. A job that left the
    /// queue between two looks may have started; the records may show this up to two days later.
    fn settle(&mut self, shown: &BTreeMap<u64, SeenJob>, snapshot: &Snapshot) -> Vec<SeenJob> {
        let now = snapshot.taken_at;
        let has_records = snapshot.history.is_some();
        let is_over = |job: &SeenJob| {
            let is_late = job.pending_at.is_none_or(|at| !now.is_soon_after(at, LATE));
            !shown.contains_key(&job.job) && (job.ended.is_some() || !has_records || is_late)
        };
        let over: Vec<u64> = self.open.values().filter(|job| is_over(job)).map(|job| job.job).collect();
        let over = over.iter().filter_map(|key| self.open.remove(key));
        over.filter(|job| job.asked.is_some()).collect()
    }

    /// Returns the eligible pending jobs of the last look for which the start of the wait is known and that
    /// have no estimate.
    pub fn without_estimate(&self) -> impl Iterator<Item = u64> {
        let is_new = |job: &SeenJob| job.started.is_none() && job.eligible && job.player.is_none();
        self.queue().filter(move |job| is_new(job) && job.asked.is_some()).map(|job| job.job)
    }

    /// Stores the simulation's estimate for a pending job.
    pub fn set_player(&mut self, job: u64, estimate: &Estimate) {
        let looked_at = self.looked_at;
        if let Some((job, at)) = self.open.get_mut(&job).zip(looked_at) {
            job.player = Some(PlayerEstimate::new(at, estimate));
        }
    }
}

/// Returns a number in place of a job's id; the tasks of an array form one job.
pub(super) fn key(job: &QueueJob, number: NumberOf) -> u64 {
    number(job.array.as_deref().unwrap_or(&job.id))
}

/// Returns the jobs of a look.
pub(super) fn shown(snapshot: &Snapshot, number: NumberOf) -> BTreeMap<u64, SeenJob> {
    let mut jobs: BTreeMap<u64, SeenJob> = BTreeMap::new();
    for job in &snapshot.jobs {
        let seen = seen(job, snapshot, number);
        jobs.entry(seen.job)
            .and_modify(|known| {
                known.started = match (known.started, seen.started) {
                    (Some(a), Some(b)) => Some(if b < a { b } else { a }),
                    (a, b) => a.or(b),
                };
            })
            .or_insert(seen);
    }
    jobs
}

fn seen(job: &QueueJob, snapshot: &Snapshot, number: NumberOf) -> SeenJob {
    let started = job.running.as_ref().map(|running| running.since);
    let partition = job.partitions.first().map(String::as_str);
    let limit = snapshot.limit_in(job.limit_s.map(|limit| limit.0), partition);
    let whose =
        (job.user.as_deref().or(snapshot.user.as_deref().filter(|_| job.ours)), job.account.as_deref());
    let priority = job.priority.map_or(0.0, to_f64);
    SeenJob {
        job: key(job, number),
        size: RequestSize::new(&job.asks, whose, partition, (limit, priority), number),
        submitted: job.submitted.unwrap_or(snapshot.taken_at),
        asked: None,
        eligible: started.is_some() || !job.waits_for_other,
        player: None,
        pending_at: started.is_none().then_some(snapshot.taken_at),
        started,
        ended: None,
    }
}

fn size_of(record: &EndedJob, snapshot: &Snapshot, number: NumberOf) -> RequestSize {
    // If others are hidden, all records belong to the user.
    let user = record.user.as_deref().or(snapshot.user.as_deref().filter(|_| snapshot.others_hidden));
    let partition = record.partition.as_deref();
    let limit = snapshot.limit_in(record.limit_s.map(|limit| limit.0), partition);
    let priority = record.priority.map_or(0.0, to_f64);
    RequestSize::new(&record.asks, (user, record.account.as_deref()), partition, (limit, priority), number)
}

/// Returns a recorded job that came and went between two looks.
fn of_record(record: &EndedJob, size: RequestSize, started: Time, look: Time, number: NumberOf) -> SeenJob {
    let times = [record.submitted, started, record.ended];
    SeenJob {
        job: number(&format!("{size:?} {times:?}")),
        size,
        submitted: record.submitted,
        asked: Some(WaitStart { look, at: record.submitted, queue: QueueFigures::default() }),
        eligible: true,
        player: None,
        pending_at: None,
        started: Some(started),
        ended: Some(record.ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the log after a look at the given time.
    fn looked(mut log: SiteLog, at: f64) -> SiteLog {
        let text = format!(r#"{{"schema": "hsched.queue/1", "taken_at": {at}, "nodes": [], "jobs": []}}"#);
        log.observe(&Snapshot::parse(&text).expect("a snapshot"), &|_| 0);
        log
    }

    #[test]
    fn a_look_is_due_five_minutes_after_the_last_one_or_if_the_clock_was_set_back() {
        let log = looked(SiteLog::default(), 1e6);
        let due = [1e6, 1e6 + 299.0, 1e6 + 300.0, 1e6 - 1.0].map(|at| log.is_due(Time(at)));
        assert_eq!(due, [false, false, true, true]);
    }

    #[test]
    fn looks_of_a_clock_that_was_ahead_are_forgotten() {
        let log = looked(looked(looked(SiteLog::default(), 0.0), 1e6), 600.0);
        assert_eq!((log.looks.clone(), log.recorded_until), (vec![Time(600.0)], Time(0.0)));
        assert_eq!(looked(looked(SiteLog::default(), 1e6), 600.0).recorded_until, Time(600.0));
    }
}
