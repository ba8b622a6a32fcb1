//! Simulates a queue in one future: jobs end and arrive, and at each event a pass starts what can start.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::future::Future;
use crate::hopes::Hopes;
use crate::limits::{Counters, Rule};
use crate::line::{Array, Key, Use};
use crate::moment::Moment;
use crate::node_timeline::{NodeTimeline, Slot, Viewer};
use crate::others::Others;
use crate::queue_model::{Part, QueueModel};

/// Waiting tasks of one array for which a pass keeps nodes: Slurm's `bf_max_job_array_resv`.
const MOST_OF_ARRAY: u32 = 20;

/// How often limits on the minutes that running jobs have left are looked at, in seconds.
const LIMITS_PERIOD: f64 = 600.0;

/// How far a future is played, in seconds: 30 days.
pub(super) const HORIZON: f64 = 30.0 * 86_400.0;

/// A request in line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub key: Key,
    pub shape: usize,
    /// In seconds.
    pub limit: f64,
    /// In seconds.
    pub run: f64,
    /// Entries of one job: the first that starts is the only one.
    pub job: usize,
    /// Whose it is among those who share.
    pub branch: Option<usize>,
    /// The number of the rule of its limits.
    pub rule: usize,
}

/// A job in line, whoever it is.
#[derive(Clone, Debug)]
pub(super) struct Line {
    key: Key,
    /// Its priority by the ranks of the snapshot.
    priority: f64,
    pub shape: usize,
    pub limit: f64,
    tasks: u32,
    /// How many of its tasks have started.
    started: u32,
    array: Option<Array>,
    who: Who,
    counts: Use,
    rule: usize,
    pub viewer: Viewer,
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Waiting(usize),
    /// With the time that it runs.
    Arrived(f64),
    Ours(usize),
}

/// A job that runs.
#[derive(Clone, Debug)]
struct Live {
    nodes: Vec<u32>,
    array: Option<usize>,
    counts: Use,
    rule: usize,
    /// When its limit ends, in minutes after the snapshot.
    limit_end: f64,
}

/// One way that the queue may go.
pub(super) struct Play<'a> {
    model: &'a QueueModel,
    part: &'a Part,
    future: Future,
    ours: &'a [Entry],
    timeline: NodeTimeline<'a>,
    line: Vec<Line>,
    ends: BinaryHeap<Reverse<(Moment, u32)>>,
    live: Vec<Live>,
    /// Tasks of each array that run.
    array_tasks: Vec<u32>,
    /// Arrivals that have come.
    came: usize,
    starts: Vec<Option<f64>>,
    /// Jobs of ours that wait.
    left: usize,
    /// How priorities have changed with ranks, by branch; empty as long as they have not.
    shifts: Vec<f64>,
    /// What has been used by branch, see [`Play::used`].
    used: Vec<Used>,
    /// What runs counts for limits.
    counters: Counters,
    /// Whether some limit has room after a time, not only after an end.
    limits_fall: bool,
    /// What the play has come to, in seconds since 1970.
    now: f64,
}

/// What a branch has used at a time: `rate` times this time, and `rest`.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    rate: f64,
    rest: f64,
}

/// Returns when each of our requests starts in a future, in seconds since 1970: `None` where another of its job starts first, or
/// it does not start within [`HORIZON`]. Returns `None` when it was stopped.
///
/// Of ours, members see what the others take or keep. Guests do not, each being alone with the jobs of others; these do see
/// them, so guests should be few beside them.
pub(super) fn play(
    model: &QueueModel,
    part: usize,
    (future, others): (&Future, Option<&mut Others>),
    ours: (&[Entry], Viewer),
    stop: &dyn Fn() -> bool,
) -> Option<Vec<Option<f64>>> {
    let mut play = Play::new(model, &model.parts[part], future, ours);
    play.go(others, stop).then_some(play.starts)
}

impl<'a> Play<'a> {
    pub(super) fn new(
        model: &'a QueueModel,
        part: &'a Part,
        future: &Future,
        (ours, viewer): (&'a [Entry], Viewer),
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
            live.push(Live { nodes, array: job.array, counts: job.counts, rule: job.rule, limit_end });
            if let Some(array) = job.array {
                array_tasks[array] += 1;
            }
        }
        let waiting = part.waiting.iter().enumerate().map(|(number, job)| Line {
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
        });
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
            line: waiting.collect(),
            ends,
            live,
            array_tasks,
            came: 0,
            starts: vec![None; ours.len()],
            left: jobs.len(),
            shifts: Vec::new(),
            used: vec![Used::default(); model.ranks.as_ref().map_or(0, |ranks| ranks.adds.len())],
            counters,
            limits_fall: model.limits.iter().any(Rule::falls),
            now: model.now,
        };
        for job in &part.running {
            play.count(job.counts, 1.0);
        }
        for (number, entry) in ours.iter().enumerate() {
            let counts = Use { branch: entry.branch, rate: 0.0 };
            play.join(Line {
                key: entry.key,
                priority: entry.key.priority,
                counts,
                shape: entry.shape,
                limit: entry.limit,
                tasks: 1,
                started: 0,
                array: None,
                who: Who::Ours(number),
                rule: entry.rule,
                viewer,
            });
        }
        play
    }

    /// Plays until all of ours have started or the horizon is reached; returns whether it was not stopped.
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

    /// Returns when the next pass is; `None` where nothing happens any more.
    pub(super) fn next_pass(&mut self) -> Option<f64> {
        let next = self.next_event(self.now)?;
        Some(self.time_of_pass(next))
    }

    /// Goes to the next pass.
    pub(super) fn step(&mut self, now: f64) {
        self.now = now;
        self.end_jobs(now);
        self.take_arrivals(now);
        self.pass(now);
    }

    /// Orders the line anew by what ranks have changed priorities by.
    pub(super) fn line_up(&mut self, shifts: &[f64]) {
        self.shifts = shifts.to_vec();
        for entry in &mut self.line {
            entry.key.priority = entry.priority + shift(&self.shifts, entry.counts);
        }
        self.line.sort_by(|a, b| a.key.cmp(&b.key));
    }

    /// Returns what a branch has used between the snapshot and a moment by which no pass is left out.
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

    /// Returns when something happens next: an end, an arrival, the end of a reservation.
    fn next_event(&mut self, now: f64) -> Option<f64> {
        let end = self.ends.peek().map(|Reverse((moment, _))| moment.0);
        let arrival = self.future.arrival(self.model, self.part, self.came).map(|(arrival, _)| arrival.at);
        let closures = self.model.closures.iter().flatten();
        let opening = closures.map(|closure| closure.end).filter(|end| *end > now).min_by(f64::total_cmp);
        // Without any end or arrival, time lifts no limit for good.
        let fallen = self.limits_fall.then_some(now + LIMITS_PERIOD).filter(|_| end.is_some());
        // What arrives at once is still after now.
        [end, arrival, opening, fallen].into_iter().flatten().min_by(f64::total_cmp).map(|next| next.max(now))
    }

    /// Returns when the pass is that takes in what happens at a moment.
    fn time_of_pass(&self, moment: f64) -> f64 {
        let grain = self.part.grain;
        if grain > 0.0 { self.model.now + ((moment - self.model.now) / grain).ceil() * grain } else { moment }
    }

    fn end_jobs(&mut self, now: f64) {
        while let Some(Reverse((moment, job))) = self.ends.peek().copied() {
            if moment.0 > now {
                break;
            }
            self.ends.pop();
            let ended = &self.live[job as usize];
            for &node in &ended.nodes {
                self.timeline.give_back(node, job);
            }
            if let Some(array) = ended.array {
                self.array_tasks[array] -= 1;
            }
            self.counters.count(&self.model.limits[ended.rule], ended.limit_end, -1.0);
            let counts = ended.counts;
            self.count(counts, -1.0);
        }
    }

    fn take_arrivals(&mut self, now: f64) {
        while let Some((arrival, run)) = self.future.arrival(self.model, self.part, self.came) {
            if arrival.at > now {
                break;
            }
            let line = Line {
                key: arrival.key,
                priority: arrival.key.priority,
                counts: arrival.counts,
                shape: arrival.shape,
                limit: arrival.limit,
                tasks: arrival.tasks,
                started: 0,
                array: None,
                who: Who::Arrived(*run),
                rule: arrival.rule,
                viewer: Viewer::Member,
            };
            self.came += 1;
            self.join(line);
        }
    }

    fn join(&mut self, mut line: Line) {
        line.key.priority = line.priority + shift(&self.shifts, line.counts);
        let place = self.line.partition_point(|other| other.key.cmp(&line.key) != Ordering::Greater);
        self.line.insert(place, line);
    }

    /// Looks at those in line in order: starts who can start, and keeps nodes for who must wait.
    fn pass(&mut self, now: f64) {
        let mut hopes = Hopes::new(self.model, &mut self.timeline, &self.line);
        let Some(last) = hopes.last_in_line(&self.line) else { return };
        let (mut looked_at, mut place) = (0, 0);
        let is_for_ours = self.left > 0;
        while place <= last && looked_at < self.part.depth && (self.left > 0 || !is_for_ours) {
            let (count, goes_on) = self.look_at(place, now, &mut hopes);
            looked_at += count;
            if !goes_on || hopes.is_empty() {
                break;
            }
            place += 1;
        }
        self.timeline.forget();
        if self.line.iter().any(|entry| entry.started >= entry.tasks) {
            self.line.retain(|entry| entry.started < entry.tasks);
        }
    }

    /// Looks at one in line; returns how many of its tasks were looked at, and whether others may be.
    fn look_at(&mut self, place: usize, now: f64, hopes: &mut Hopes) -> (usize, bool) {
        let (mut looked_at, mut kept) = (0, 0);
        loop {
            let entry = &self.line[place];
            let (shape, limit, viewer) = (entry.shape, entry.limit, entry.viewer);
            let is_full =
                entry.array.is_some_and(|array| self.array_tasks[array.number] + kept >= array.at_once);
            if entry.started >= entry.tasks || is_full || kept >= MOST_OF_ARRAY {
                return (looked_at, true);
            }
            if entry.started + kept >= entry.tasks {
                return (looked_at, true);
            }
            // A job at a limit keeps no nodes from others.
            let rule = &self.model.limits[entry.rule];
            if !self.counters.allow(rule, (now - self.model.now) / 60.0) {
                return (looked_at, true);
            }
            looked_at += usize::from(viewer == Viewer::Member);
            let slot = match viewer {
                Viewer::Member => self.timeline.earliest(shape, now, limit),
                Viewer::Guest => self.timeline.earliest_for_guest(shape, now, limit),
            };
            let Some(slot) = slot else { return (looked_at, true) };
            if slot.at <= now {
                self.start(place, &slot, now);
                hopes.update(&mut self.timeline, &slot.nodes, now);
                continue;
            }
            if !self.model.rules.backfill {
                return (looked_at, false);
            }
            if slot.at > now + self.model.rules.window || rule.keeps_nothing {
                return (looked_at, true);
            }
            kept += 1;
            self.timeline.keep(&slot, limit, viewer);
            hopes.update(&mut self.timeline, &slot.nodes, now);
        }
    }

    fn start(&mut self, place: usize, slot: &Slot, now: f64) {
        let entry = &mut self.line[place];
        let task = entry.started;
        entry.started += 1;
        let (who, shape, limit, array, counts) =
            (entry.who, entry.shape, entry.limit, entry.array, entry.counts);
        let (rule, limit_end) = (entry.rule, (now + limit - self.model.now) / 60.0);
        if let (Who::Ours(number), Viewer::Guest) = (who, entry.viewer) {
            self.starts[number] = Some(now);
            self.left -= 1;
            return;
        }
        let run = match who {
            Who::Waiting(number) => self.future.run_of_waiting(self.model, self.part, number, task),
            Who::Arrived(run) => run,
            Who::Ours(number) => self.ours[number].run,
        };
        let job = u32::try_from(self.live.len()).unwrap_or(u32::MAX);
        for &node in &slot.nodes {
            let amounts = self.model.shapes[shape].takes(self.timeline.free(node), self.model.gpu_types);
            self.timeline.take(node, amounts, job, now + limit);
        }
        let array_number = array.map(|array| array.number);
        self.live.push(Live { nodes: slot.nodes.clone(), array: array_number, counts, rule, limit_end });
        self.counters.count(&self.model.limits[rule], limit_end, 1.0);
        self.count(counts, 1.0);
        if let Some(array) = array {
            self.array_tasks[array.number] += 1;
        }
        self.ends.push(Reverse((Moment(now + run.clamp(1.0, limit.max(1.0))), job)));
        if let Who::Ours(number) = who {
            self.starts[number] = Some(now);
            self.left -= 1;
            let job = self.ours[number].job;
            for other in &mut self.line {
                if matches!(other.who, Who::Ours(number) if self.ours[number].job == job) {
                    other.started = other.tasks;
                }
            }
        }
    }
}

/// Returns by how much a job's priority has changed with ranks.
fn shift(shifts: &[f64], counts: Use) -> f64 {
    counts.branch.and_then(|branch| shifts.get(branch)).copied().unwrap_or(0.0)
}
