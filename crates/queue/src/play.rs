//! Simulates a queue in one future: jobs end and arrive, and at each event a pass starts the jobs that fit.

mod events;
mod later;
mod pass;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use self::events::shift;
use crate::future::Future;
use crate::limits::{Counters, Rule};
use crate::line::{Array, Joins, LineKey, PendingEntry, Use};
use crate::moment::Moment;
use crate::node_timeline::{NodeTimeline, Viewer};
use crate::others::Others;
use crate::play::later::Later;
use crate::queue_model::{QueueModel, QueuePart};

/// Interval for checking limits on running jobs' remaining minutes, in seconds.
const LIMITS_PERIOD: f64 = 600.0;

/// Length of a simulated future in seconds: 30 days.
pub(super) const HORIZON: f64 = 30.0 * 86_400.0;

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestEntry {
    pub key: LineKey,
    pub shape: usize,
    /// Time limit in seconds.
    pub limit: f64,
    /// Run time in seconds.
    pub run: f64,
    /// The job to which the entry belongs. Of entries with the same job, only the first to start runs.
    pub job: usize,
    /// The job's branch in fair share.
    pub branch: Option<usize>,
    /// Index of the rule with its limits.
    pub rule: usize,
    /// The job's earliest possible start, in Unix seconds.
    pub begin: f64,
}

/// Our requests in a simulation. Members see each other's allocations and reservations. Each guest is alone
/// with the jobs of the queue. Those jobs do see the reservations for guests, so there should be few guests
/// in comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ours<'a> {
    pub entries: &'a [RequestEntry],
    pub viewer: Viewer,
}

/// A job in the queue.
#[derive(Clone, Debug)]
pub(super) struct LineJob {
    key: LineKey,
    /// The job's priority with the ranks of the snapshot.
    priority: f64,
    pub shape: usize,
    pub limit: f64,
    tasks: u32,
    /// Number of its tasks that have started.
    started: u32,
    array: Option<Array>,
    who: Who,
    counts: Use,
    rule: usize,
    pub viewer: Viewer,
    awaited: Vec<usize>,
    /// The job in several partitions to which this entry belongs.
    job: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Waiting(usize),
    /// An arrived job with its run time.
    Arrived(f64),
    Ours(usize),
}

/// A running job.
#[derive(Clone, Debug)]
struct Live {
    nodes: Vec<u32>,
    array: Option<usize>,
    counts: Use,
    rule: usize,
    /// End of its limit, in minutes after the snapshot.
    limit_end: f64,
    awaited: Vec<usize>,
}

/// One simulation of the queue.
pub(super) struct QueuePlay<'a> {
    model: &'a QueueModel,
    part: &'a QueuePart,
    future: Future,
    ours: &'a [RequestEntry],
    timeline: NodeTimeline<'a>,
    line: Vec<LineJob>,
    later: Later,
    ends: BinaryHeap<Reverse<(Moment, u32)>>,
    live: Vec<Live>,
    /// Number of running tasks of each array.
    array_tasks: Vec<u32>,
    starts: Vec<Option<f64>>,
    /// Number of our pending jobs.
    left: usize,
    /// Changes in priority due to fair-share ranks, for each branch; empty before the first change.
    shifts: Vec<f64>,
    /// Usage by branch; see [`QueuePlay::used`].
    used: Vec<BranchUse>,
    /// Contributions of running jobs to limits.
    counters: Counters,
    /// Whether a limit may get room as time passes, not only when a job ends.
    limits_fall: bool,
    /// The current simulation time, in Unix seconds.
    now: f64,
}

/// A branch's usage at a time: `rate` times the seconds since the snapshot, plus `rest`.
#[derive(Clone, Copy, Debug, Default)]
struct BranchUse {
    rate: f64,
    rest: f64,
}

/// Returns when each of our requests starts in a future, in Unix seconds: `None` if another request of the
/// same job starts first, or if it does not start within [`HORIZON`]. Returns `None` if it was stopped.
pub(super) fn play(
    model: &QueueModel,
    part: usize,
    future: &Future,
    others: Option<&mut Others>,
    ours: Ours,
    stop: &dyn Fn() -> bool,
) -> Option<Vec<Option<f64>>> {
    let mut play = QueuePlay::new(model, &model.parts[part], future, ours);
    play.go(others, stop).then_some(play.starts)
}

impl<'a> QueuePlay<'a> {
    pub(super) fn new(
        model: &'a QueueModel,
        part: &'a QueuePart,
        future: &Future,
        Ours { entries: ours, viewer }: Ours<'a>,
    ) -> Self {
        let mut array_tasks = vec![0; model.arrays];
        let mut ends = BinaryHeap::with_capacity(part.running.len());
        let mut live = Vec::with_capacity(part.running.len());
        let mut counters = Counters::new(model.counters);
        for (number, job) in (0_u32..).zip(&part.running) {
            let end = future.end_of_running(model, part, number as usize);
            ends.push(Reverse((Moment(end), number)));
            let nodes = job.holds.iter().map(|(node, _)| *node).collect();
            let limit_end = (job.since + job.limit - model.now) / 60.0;
            counters.count(&model.limits[job.rule], limit_end, 1.0);
            live.push(Live {
                nodes,
                array: job.array,
                counts: job.counts,
                rule: job.rule,
                limit_end,
                awaited: job.awaited.clone(),
            });
            if let Some(array) = job.array {
                array_tasks[array] += 1;
            }
        }
        let mut later = Later::new(model, part);
        let waiting = |(number, job): (usize, &PendingEntry)| LineJob {
            key: job.key,
            priority: job.key.priority,
            counts: job.counts,
            shape: job.shape,
            limit: job.limit,
            tasks: job.tasks,
            started: 0,
            array: job.array,
            who: Who::Waiting(number),
            rule: job.rule,
            viewer: Viewer::Member,
            awaited: job.awaited.clone(),
            job: job.job,
        };
        let mut line = Vec::with_capacity(part.waiting.len());
        for known in part.waiting.iter().enumerate() {
            match &known.1.joins {
                Joins::Now => line.push(waiting(known)),
                joins => later.add(joins.clone(), waiting(known)),
            }
        }
        let mut jobs: Vec<usize> = ours.iter().map(|entry| entry.job).collect();
        jobs.sort_unstable();
        if viewer == Viewer::Member {
            jobs.dedup();
        }
        let mut play = Self {
            model,
            part,
            future: future.clone(),
            ours,
            timeline: NodeTimeline::new(model, part),
            line,
            later,
            ends,
            live,
            array_tasks,
            starts: vec![None; ours.len()],
            left: jobs.len(),
            shifts: Vec::new(),
            used: vec![BranchUse::default(); model.ranks.as_ref().map_or(0, |ranks| ranks.adds.len())],
            counters,
            limits_fall: model.limits.iter().any(Rule::falls),
            now: model.now,
        };
        for job in &part.running {
            play.count(job.counts, 1.0);
        }
        let mut requests = Vec::new();
        for (number, entry) in ours.iter().enumerate() {
            let line = LineJob {
                key: entry.key,
                priority: entry.key.priority,
                counts: Use { branch: entry.branch, rate: 0.0 },
                shape: entry.shape,
                limit: entry.limit,
                tasks: 1,
                started: 0,
                array: None,
                who: Who::Ours(number),
                rule: entry.rule,
                viewer,
                awaited: Vec::new(),
                job: None,
            };
            if entry.begin > model.now {
                play.later.add(Joins::At(entry.begin), line);
            } else {
                requests.push(line);
            }
        }
        play.join(requests);
        play
    }

    /// Simulates until all of our jobs have started, no event is left, or the horizon is reached; returns
    /// false if it was stopped.
    fn go(&mut self, mut others: Option<&mut Others>, stop: &dyn Fn() -> bool) -> bool {
        let mut known = 0;
        let mut events: u32 = 0;
        self.pass(self.now);
        while self.left > 0 && self.now < self.model.now + HORIZON {
            events += 1;
            if events.is_multiple_of(16) && stop() {
                return false;
            }
            let Some(next) = self.next_pass() else { break };
            if let Some(others) = others.as_deref_mut()
                && let Some(shifts) = others.shifts(next, &mut known)
            {
                self.line_up(shifts);
            }
            self.step(next);
        }
        true
    }

    /// Returns the time of the next pass; `None` if no more events occur.
    pub(super) fn next_pass(&mut self) -> Option<f64> {
        let next = self.next_event(self.now)?;
        Some(self.time_of_pass(next))
    }

    /// Advances to the next pass.
    pub(super) fn step(&mut self, now: f64) {
        self.now = now;
        self.end_jobs(now);
        self.take_arrivals(now);
        self.take_later(now);
        self.pass(now);
    }

    /// Sorts the queue again after ranks have changed priorities.
    pub(super) fn line_up(&mut self, shifts: &[f64]) {
        self.shifts = shifts.to_vec();
        for entry in &mut self.line {
            entry.key.priority = entry.priority + shift(&self.shifts, entry.counts);
        }
        self.line.sort_by(|a, b| a.key.cmp(&b.key));
    }

    /// Returns a branch's usage between the snapshot and a time up to which all passes are done.
    pub(super) fn used(&self, branch: usize, at: f64) -> f64 {
        let used = self.used[branch];
        used.rest + used.rate * (at - self.model.now)
    }

    /// Counts a job that starts (1) or ends (-1) now.
    fn count(&mut self, counts: Use, sign: f64) {
        let Some(branch) = counts.branch else { return };
        let used = &mut self.used[branch];
        used.rate += sign * counts.rate;
        used.rest -= sign * counts.rate * (self.now - self.model.now);
    }

    /// Returns the time of the next event: an end, an arrival, a job that begins to compete, the start or end
    /// of a reservation, or a check of limits on remaining minutes.
    fn next_event(&mut self, now: f64) -> Option<f64> {
        let end = self.ends.peek().map(|Reverse((moment, _))| moment.0);
        let arrival = self.future.next_arrival(self.model, self.part).map(|(arrival, _)| arrival.at);
        let closures = self.model.closures.iter().flatten();
        let opening = closures.flat_map(|closure| [closure.start, closure.end]).filter(|at| *at > now);
        let opening = opening.min_by(f64::total_cmp);
        // If no job is running, no remaining minutes decrease.
        let fallen = self.limits_fall.then_some(now + LIMITS_PERIOD).filter(|_| end.is_some());
        // No event may be before `now`.
        [end, arrival, opening, fallen, self.later.next()]
            .into_iter()
            .flatten()
            .min_by(f64::total_cmp)
            .map(|next| next.max(now))
    }

    /// Returns the time of the pass that handles an event at a given time.
    fn time_of_pass(&self, moment: f64) -> f64 {
        let grain = self.part.grain;
        if grain > 0.0 { self.model.now + ((moment - self.model.now) / grain).ceil() * grain } else { moment }
    }
}
