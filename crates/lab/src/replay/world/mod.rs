//! The arrived jobs as a single problem that is updated incrementally, with a record of every change.

mod behind;
mod early;
mod incidents;
mod pace;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use serde_json::{Map, Value};

use crate::replay::chance::{self, ReplayDraw};
use crate::replay::event::{EventKind, ReplayEvent};
use crate::replay::figures::{ReplayRecord, ReplayedJob};
use crate::replay::options::{Loses, Options};
use crate::replay::present::{MOST_IN_VAIN, Present};
use crate::replay::queue::{DueEvent, EventQueue};
use crate::replay::trace::Trace;
use hsched_model::{Seconds, Time};
use hsched_plan::{
    Eligibility, HoldStage, JobModel, Placement, Problem, ProblemChanges, Progress, Slot, TakenResources,
};

/// The cluster and its jobs at one time.
pub(super) struct ReplayWorld<'a> {
    pub trace: &'a Trace,
    pub options: &'a Options,
    pub now: Time,
    pub problem: Problem,
    /// Whether a first start takes as long as a restart.
    pub starts_cost: bool,
    pub taken: TakenResources,
    pub queue: EventQueue,
    pub record: ReplayRecord,
    /// Events that have not been reported yet.
    pub events: Vec<ReplayEvent>,
    /// Jobs of the trace by their indices in the file.
    by_place: Vec<usize>,
    /// Jobs by their numbers in the problem.
    present: Vec<Option<Present>>,
    vacant: BinaryHeap<Reverse<usize>>,
    changes: Changes,
    in_use: u32,
    last_completion: Time,
    after_completion: HeldTime,
    running: usize,
    count: usize,
    /// Number of changes of placements and shares over all jobs. It is not counted per job, because job
    /// numbers in the problem are reused.
    generations: u32,
    /// Number of concurrent outages of each node.
    outages: Vec<u32>,
    /// Number of reports so far of each job of the trace that may stop early.
    seen: Vec<usize>,
}

/// GPU-seconds since the last completion. They do not count if no other completion follows.
#[derive(Default)]
struct HeldTime {
    held: f64,
    restarting: f64,
}

/// Changes since the last call of the policy.
#[derive(Default)]
struct Changes {
    all: bool,
    came: BTreeSet<usize>,
    left: BTreeSet<usize>,
    other: BTreeSet<usize>,
}

/// Why a job loses its GPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReleaseReason {
    /// The policy decided this.
    Told,
    /// The job or its node failed.
    Broken,
}

impl<'a> ReplayWorld<'a> {
    pub(super) fn new(trace: &'a Trace, options: &'a Options) -> Self {
        let mut problem = trace.problem.clone();
        problem.seed = options.seed;
        let mut world = Self {
            trace,
            options,
            now: trace.now,
            starts_cost: false,
            taken: TakenResources::of(&problem),
            queue: EventQueue::default(),
            record: ReplayRecord {
                jobs: vec![ReplayedJob::default(); trace.jobs.len()],
                in_use: vec![(trace.first_arrival().0, 0)],
                ..ReplayRecord::default()
            },
            events: Vec::new(),
            by_place: behind::by_place(trace),
            present: Vec::new(),
            vacant: BinaryHeap::new(),
            changes: Changes { all: true, ..Changes::default() },
            in_use: 0,
            last_completion: trace.first_arrival(),
            after_completion: HeldTime::default(),
            running: 0,
            count: 0,
            generations: 0,
            outages: vec![0; problem.nodes.len()],
            seen: vec![0; trace.jobs.len()],
            problem,
        };
        for outage in &options.incidents.outages {
            world.queue.push(outage.from, DueEvent::NodeDown { node: outage.node });
            world.queue.push(outage.until, DueEvent::NodeBack { node: outage.node });
        }
        world
    }

    /// Returns whether there are changes that the policy does not know.
    pub(super) fn has_changed(&self) -> bool {
        let Changes { all, came, left, other } = &self.changes;
        *all || !came.is_empty() || !left.is_empty() || !other.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns whether any job holds GPUs or any node is down, so that GPUs may become free without a
    /// decision.
    pub(super) fn may_change(&self) -> bool {
        self.running > 0 || self.outages.iter().any(|count| *count > 0)
    }

    /// Returns the earliest future event that is still valid.
    pub(super) fn next_due(&mut self) -> Option<(Time, DueEvent)> {
        let present = &self.present;
        self.queue.next(|due| match due {
            DueEvent::End { job, generation }
            | DueEvent::Failure { job, generation }
            | DueEvent::Epoch { job, generation } => {
                present[job].as_ref().is_some_and(|present| present.generation == generation)
            }
            DueEvent::NodeDown { .. } | DueEvent::NodeBack { .. } => true,
        })
    }

    /// Updates the problem for a decision at the current time.
    pub(super) fn show(&mut self) {
        self.problem.now = self.now;
        let Changes { all, came, left, other } = std::mem::take(&mut self.changes);
        self.vacant.extend(left.iter().copied().map(Reverse));
        self.problem.changed = if all {
            ProblemChanges::All
        } else {
            let list = |set: BTreeSet<usize>| set.into_iter().collect();
            ProblemChanges::Since { came: list(came), left: list(left), other: list(other) }
        };
    }

    /// Adds the policy's data to the event of the current round, if the replay has rounds.
    pub(super) fn tell_round(&mut self, facts: Map<String, Value>) {
        if let Some(event) = self.events.iter_mut().rev().find(|event| event.kind == EventKind::Round) {
            event.facts = facts;
        }
    }

    /// Lets a job of the trace arrive.
    pub(super) fn admit(&mut self, job: usize) {
        let entry = &self.trace.jobs[job];
        let unit = chance::unit(self.options.seed, ReplayDraw::Estimate, entry.place, 0);
        let estimate = 1.0 + self.options.noise * (2.0 * unit - 1.0);
        let work = entry.model.progress.work;
        let cost = self.options.restart_cost.or(entry.restart_cost);
        let job_progress = Progress {
            arrival: entry.arrival,
            work: work * estimate,
            work_left: work * estimate,
            as_of: self.now,
            restart_cost: cost.unwrap_or(self.options.usual_restart_cost),
            saves: entry.saves,
            ..entry.model.progress.clone()
        };
        let model = JobModel { progress: job_progress, ..entry.model.clone() };
        let mut present = Present::new(job, work, estimate);
        present.done = entry.begun.as_ref().map_or(0.0, |begun| begun.done);
        let number = if let Some(Reverse(number)) = self.vacant.pop() {
            self.problem.jobs[number] = model;
            self.present[number] = Some(present);
            number
        } else {
            self.problem.jobs.push(model);
            self.present.push(Some(present));
            self.present.len() - 1
        };
        self.changes.came.insert(number);
        self.count += 1;
        self.record.most_present = self.record.most_present.max(self.count);
        self.events.push(ReplayEvent::of_job(self.now, EventKind::Arrived, entry.place));
        if let Some(begun) = &entry.begun {
            self.problem.jobs[number].progress.started = Some(entry.arrival);
            self.record.jobs[job].started = Some(entry.arrival);
            self.settle(number);
            if let Some(placement) = &begun.held {
                self.hold(number, placement.slots.clone(), placement.epoch.total(), self.now);
            }
        }
    }

    /// Updates a job's progress to the current time.
    fn settle(&mut self, number: usize) {
        let Some(present) = &mut self.present[number] else { return };
        let progress = &mut self.problem.jobs[number].progress;
        if let Some(hold) = progress.holds.first()
            && let HoldStage::Running { epoch, busy_until, .. } = hold.stage
        {
            let gpus: u32 = hold.slots.iter().map(|slot| slot.count).sum();
            let held = self.now.since(progress.as_of).0;
            let trained = self.now.since(Time(progress.as_of.0.max(busy_until.0))).0;
            present.done = (present.done + trained / epoch).min(present.work);
            progress.attained += held * f64::from(gpus);
            self.record.held += held * f64::from(gpus);
            self.record.restarting += (held - trained) * f64::from(gpus);
            let from = progress.as_of.0.max(self.last_completion.0);
            let held_since = self.now.since(Time(from)).0;
            let trained_since = self.now.since(Time(from.max(busy_until.0))).0;
            self.after_completion.held += held_since * f64::from(gpus);
            self.after_completion.restarting += (held_since - trained_since) * f64::from(gpus);
        }
        progress.as_of = self.now;
        present.show(progress);
    }

    /// Places a job on these GPUs; a job that already has exactly these continues. A job that has started too
    /// often without progress is abandoned instead.
    pub(super) fn place(&mut self, number: usize, placement: Placement, why: String) {
        let epoch = placement.epoch.total();
        let progress = &self.problem.jobs[number].progress;
        let before = progress.holds.first();
        let same = before.filter(|hold| {
            let mut slots = (hold.slots.clone(), placement.slots.clone());
            slots.0.sort_unstable();
            slots.1.sort_unstable();
            slots.0 == slots.1
        });
        if let Some(hold) = same {
            if hold.epoch != epoch {
                self.share_anew(number, epoch);
            }
            return;
        }
        let was_running = before.is_some();
        if was_running {
            self.release(number, ReleaseReason::Told);
        } else {
            self.settle(number);
        }
        let Some(present) = &mut self.present[number] else { return };
        if present.is_in_vain() {
            let why = format!("it started {MOST_IN_VAIN} times in a row without saving any progress");
            self.give_up(number, why);
            return;
        }
        let model = &mut self.problem.jobs[number];
        let first = model.progress.started.is_none();
        let wait = if was_running { self.options.queue_wait.0 } else { 0.0 };
        let restart = if first && !self.starts_cost { 0.0 } else { model.progress.restart_cost.0 };
        let restart = Seconds(restart + wait);
        let busy_until = self.now.after(restart);
        if first {
            model.progress.started = Some(self.now);
            self.record.jobs[present.job].started = Some(self.now);
        } else {
            model.progress.moves += 1;
            self.record.jobs[present.job].moves += 1;
        }
        let place = self.trace.jobs[present.job].place;
        let kind = if was_running { EventKind::Moved } else { EventKind::Started };
        self.events.push(ReplayEvent {
            slots: placement.slots.clone(),
            restart: (restart.0 > 0.0).then_some(restart),
            why,
            ..ReplayEvent::of_job(self.now, kind, place)
        });
        self.hold(number, placement.slots, epoch, busy_until);
    }

    /// Makes a job wait without GPUs.
    pub(super) fn wait(&mut self, number: usize, why: String) {
        let runs = !self.problem.jobs[number].progress.holds.is_empty();
        if runs {
            self.release(number, ReleaseReason::Told);
            let Some(present) = &self.present[number] else { return };
            let place = self.trace.jobs[present.job].place;
            self.events.push(ReplayEvent {
                why: why.clone(),
                ..ReplayEvent::of_job(self.now, EventKind::Stopped, place)
            });
        }
        if let Some(present) = &mut self.present[number] {
            present.why = why;
        }
    }

    /// Takes a job's GPUs away and discards the progress that the job has not saved.
    fn release(&mut self, number: usize, end: ReleaseReason) {
        self.settle(number);
        let model = &mut self.problem.jobs[number];
        let holds = std::mem::take(&mut model.progress.holds);
        let slots: Vec<Slot> = holds.into_iter().flat_map(|hold| hold.slots).collect();
        self.taken.release(model, &slots);
        let Some(present) = &mut self.present[number] else { return };
        if end == ReleaseReason::Broken || self.options.loses == Loses::Epoch {
            present.done = (present.done + SAME_EPOCH).floor();
            present.show(&mut model.progress);
        }
        self.generations += 1;
        present.generation = self.generations;
        self.running -= 1;
        let gpus: u32 = slots.iter().map(|slot| slot.count).sum();
        self.count_gpus(-i64::from(gpus));
        self.changes.other.insert(number);
    }

    fn count_gpus(&mut self, change: i64) {
        self.in_use = u32::try_from(i64::from(self.in_use) + change).unwrap_or(0);
        let now = self.now.0;
        match self.record.in_use.last_mut() {
            Some((at, count)) if *at == now => *count = self.in_use,
            _ => self.record.in_use.push((now, self.in_use)),
        }
    }

    /// Ends a job that has completed all its epochs, or that the policy or its own stopping rule ends.
    pub(super) fn complete(&mut self, number: usize, cut_short: bool, why: String) {
        let runs = !self.problem.jobs[number].progress.holds.is_empty();
        if let Some(present) = self.present[number].as_mut().filter(|_| !cut_short) {
            present.done = present.work;
        }
        self.leave(number, runs);
        (self.last_completion, self.after_completion) = (self.now, HeldTime::default());
        let Some(present) = self.present[number].take() else { return };
        let record = &mut self.record.jobs[present.job];
        (record.completed, record.done, record.cut_short) = (Some(self.now), present.done, cut_short);
        record.failures = present.failures;
        let place = self.trace.jobs[present.job].place;
        self.events.push(ReplayEvent { why, ..ReplayEvent::of_job(self.now, EventKind::Completed, place) });
    }

    /// Removes a job from the problem.
    fn leave(&mut self, number: usize, runs: bool) {
        if runs {
            let done = self.present[number].as_ref().map(|present| present.done);
            self.release(number, ReleaseReason::Told);
            // Completed work counts even if a stop would lose it.
            if let (Some(present), Some(done)) = (self.present[number].as_mut(), done) {
                present.done = present.done.max(done);
            }
        }
        self.problem.jobs[number].progress.waits = Eligibility::Gone;
        self.changes.other.remove(&number);
        if self.changes.came.remove(&number) {
            self.vacant.push(Reverse(number));
        } else {
            self.changes.left.insert(number);
        }
        self.count -= 1;
    }

    /// Ends the replay: records the state of jobs that have not ended.
    pub(super) fn close(mut self, why: &str) -> ReplayRecord {
        for number in 0..self.present.len() {
            self.settle(number);
            let Some(present) = &self.present[number] else { continue };
            let can_run = self.trace.jobs[present.job].model.types.iter().any(Option::is_some);
            let why = if can_run { why } else { NO_TYPE };
            let record = &mut self.record.jobs[present.job];
            (record.done, record.failures) = (present.done, present.failures);
            record.why =
                Some(if present.why.is_empty() { why.to_owned() } else { format!("{why}: {}", present.why) });
        }
        self.record.held -= self.after_completion.held;
        self.record.restarting -= self.after_completion.restarting;
        self.record
    }
}

/// Tolerance for sums of epochs: a stop at the end of an epoch does not lose it.
const SAME_EPOCH: f64 = 1e-9;

/// Why a job without a speed on any GPU type never ends.
pub(crate) const NO_TYPE: &str = "it has no known speed on any GPU type of this cluster";
