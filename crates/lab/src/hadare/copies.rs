//! Replays a trace in rounds in which a job may run on several nodes as copies that train separately and are
//! merged.

use serde_json::{Map, Value, json};

use crate::hadare::fork::{CopyShare, Fork, HadareParameters, fork, node_speeds};
use crate::replay::{EventKind, Hooks, NO_TYPE, Options, ReplayEvent, ReplayRecord, ReplayedJob, Trace};
use hsched_model::number::{to_f64, to_u64};
use hsched_model::{Seconds, Time};
use hsched_plan::Slot;

/// Tolerance for the times of arrivals and ends, in seconds.
const SAME: f64 = 1e-9;

/// Rounds between two calls of `progress`.
const PROGRESS_EVERY: u64 = 256;

/// A running replay.
struct CopyReplay<'a> {
    trace: &'a Trace,
    parameters: &'a HadareParameters,
    /// By job of the trace.
    forks: Vec<Fork>,
    nodes: Vec<Vec<usize>>,
    per_epoch: Vec<f64>,
    record: ReplayRecord,
    events: Vec<ReplayEvent>,
    /// Sum over the played rounds of the fraction of all nodes' time in which copies trained.
    busy: f64,
    played: u64,
}

/// Replays a trace under `hadare`. Equal arguments give equal records except for decision times.
///
/// A job that ends within a round leaves its nodes idle until the next round. A restart costs nothing beyond
/// the overhead of each round.
pub fn replay_copies(
    trace: &Trace,
    options: &Options,
    parameters: &HadareParameters,
    hooks: Hooks<'_>,
) -> ReplayRecord {
    let start = (hooks.elapsed)();
    let mut rounds = CopyReplay::new(trace, parameters);
    let why = rounds.play(options.rounds, hooks.progress);
    rounds.close(why);
    let CopyReplay { mut record, mut events, .. } = rounds;
    record.decision_time = (hooks.elapsed)() - start;
    events.sort_by(|a, b| a.at.0.total_cmp(&b.at.0).then_with(|| (a.kind, a.job).cmp(&(b.kind, b.job))));
    events.iter().for_each(hooks.event);
    record
}

impl<'a> CopyReplay<'a> {
    fn new(trace: &'a Trace, parameters: &'a HadareParameters) -> Self {
        let all = trace.problem.nodes.len();
        let mut per_epoch = Vec::new();
        let forks = trace.jobs.iter().map(|entry| {
            let model = &entry.model;
            let steps = to_f64(model.samples_per_epoch.div_ceil(model.global_batch));
            per_epoch.push(steps);
            let done = entry.begun.as_ref().map_or(0.0, |begun| begun.done);
            let left = to_u64(((model.progress.work - done) * steps - SAME * steps).ceil().max(0.0));
            let most = entry.copies.map_or(all, |most| most as usize);
            Fork { steps: left, speeds: node_speeds(&trace.problem, model), most }
        });
        let forks: Vec<Fork> = forks.collect();
        let arrived = |entry: &crate::replay::TraceJob| {
            ReplayEvent::of_job(entry.arrival, EventKind::Arrived, entry.place)
        };
        let record = ReplayRecord {
            policy: "hadare",
            jobs: vec![ReplayedJob::default(); forks.len()],
            in_use: vec![(trace.first_arrival().0, 0)],
            ..ReplayRecord::default()
        };
        Self {
            trace,
            parameters,
            nodes: vec![Vec::new(); forks.len()],
            forks,
            per_epoch,
            record,
            events: trace.jobs.iter().map(arrived).collect(),
            busy: 0.0,
            played: 0,
        }
    }

    /// Runs until all jobs have ended, nothing further happens, or `most` rounds are over; returns why the
    /// remaining jobs have not ended.
    fn play(&mut self, most: Option<u64>, progress: &mut dyn FnMut(usize)) -> &'static str {
        let first = rounds_before(self.trace.now.0, self.parameters.round);
        let mut number = first;
        loop {
            if most.is_some_and(|most| number - first >= most) {
                return "the last round is over";
            }
            let at = moment(number, self.parameters.round);
            let arrived = self.trace.jobs.iter().take_while(|entry| entry.arrival.0 <= at + SAME).count();
            let can_run = |job: &usize| self.forks[*job].speeds.iter().any(|speed| *speed > 0.0);
            let live: Vec<usize> =
                (0..arrived).filter(|job| self.may_train(*job, at)).filter(can_run).collect();
            let next = self.trace.jobs.get(arrived).map(|entry| entry.arrival.0);
            if live.is_empty() {
                let ends = self.record.jobs.iter().filter_map(|job| job.completed).map(|end| end.0);
                let soonest = ends.filter(|end| *end > at).chain(next).min_by(f64::total_cmp);
                let Some(soonest) = soonest else { return "it never got GPUs" };
                number = rounds_before(soonest, self.parameters.round).max(number + 1);
                continue;
            }
            self.record.most_present = self.record.most_present.max(live.len());
            if !self.round(number, &live) && next.is_none() {
                return "a step takes longer than a round";
            }
            number += 1;
            if self.played.is_multiple_of(PROGRESS_EVERY) {
                progress(self.record.jobs.iter().filter(|job| job.completed.is_some()).count());
            }
        }
    }

    /// Returns whether a job has remaining steps and all its predecessors have completed.
    fn may_train(&self, job: usize, at: f64) -> bool {
        let of_place = |place: usize| self.trace.jobs.iter().position(|entry| entry.place == place);
        let has_completed = |place: &usize| {
            let end = of_place(*place).and_then(|other| self.record.jobs[other].completed);
            end.is_some_and(|end| end.0 <= at + SAME)
        };
        self.forks[job].steps > 0 && self.trace.jobs[job].after.iter().all(has_completed)
    }

    /// Runs one round with the arrived jobs; returns whether any of them did a step.
    fn round(&mut self, number: u64, live: &[usize]) -> bool {
        let at = moment(number, self.parameters.round);
        let jobs: Vec<Fork> = live.iter().map(|job| self.forks[*job].clone()).collect();
        let free = vec![true; self.trace.problem.nodes.len()];
        let time = self.parameters.training();
        let copies = fork(&jobs, &free, time, self.parameters.objective);
        let mut ends: Vec<(f64, u32)> = Vec::new();
        let mut bids = Vec::new();
        let mut busy = 0.0;
        for (&job, shares) in live.iter().zip(copies) {
            self.forks[job].steps -= shares.iter().map(|copy_share| copy_share.steps).sum::<u64>();
            busy += shares.iter().map(|copy_share| copy_share.busy).sum::<f64>();
            self.tell(job, at, &shares, &mut ends);
            let place = self.trace.jobs[job].place;
            bids.push((place, self.bid(job, &shares)));
        }
        bids.sort_by_key(|(place, _)| *place);
        self.count_gpus(at, ends);
        let there = to_f64(free.len()) * time;
        let facts = Map::from_iter([
            ("round".to_owned(), json!(number + 1)),
            // Fraction of the time of all nodes in which copies trained.
            ("cru".to_owned(), json!(busy / there)),
            ("jobs".to_owned(), bids.into_iter().map(|(_, bid)| bid).collect()),
        ]);
        self.events.push(ReplayEvent { facts, ..ReplayEvent::new(Time(at), EventKind::Round) });
        (self.busy, self.played) = (self.busy + busy / there, self.played + 1);
        self.record.decisions += 1;
        busy > 0.0
    }

    /// Returns the shares of a job in a round, in the order in which it took its nodes.
    fn bid(&self, job: usize, shares: &[CopyShare]) -> Value {
        let node = |copy_share: &CopyShare| self.trace.problem.nodes[copy_share.node].name.as_str();
        let copy = |copy_share: &CopyShare| json!({ "node": node(copy_share), "steps": copy_share.steps, "busy_s": copy_share.busy });
        json!({
            "name": self.trace.jobs[job].model.name.as_str(),
            "copies": shares.iter().map(copy).collect::<Value>(),
            "steps_left_after": self.forks[job].steps,
        })
    }

    /// Records the events of a job in the round that begins at `at`.
    fn tell(&mut self, job: usize, at: f64, shares: &[CopyShare], ends: &mut Vec<(f64, u32)>) {
        let entry = &self.trace.jobs[job];
        let nodes: Vec<usize> = shares.iter().map(|copy_share| copy_share.node).collect();
        let job_record = &mut self.record.jobs[job];
        let mut event = None;
        if job_record.started.is_none() && !nodes.is_empty() {
            job_record.started = Some(Time(at));
            event = Some(EventKind::Started);
        } else if !self.nodes[job].is_empty() && nodes.is_empty() {
            event = Some(EventKind::Stopped);
        } else if nodes != self.nodes[job] {
            job_record.moves += 1;
            event = Some(if self.nodes[job].is_empty() { EventKind::Started } else { EventKind::Moved });
        }
        let on_node = |&node: &usize| {
            let gpus = self.trace.problem.nodes[node].gpus.iter().enumerate();
            let usable = gpus.filter(|(ty, count)| **count > 0 && entry.model.types[*ty].is_some());
            usable.map(move |(gpu_type, &count)| Slot { node, gpu_type, count })
        };
        let event = event.map(|kind| ReplayEvent {
            slots: nodes.iter().flat_map(on_node).collect(),
            ..ReplayEvent::of_job(Time(at), kind, entry.place)
        });
        self.events.extend(event);
        for share in shares {
            let gpus = on_node(&share.node).map(|slot| slot.count).sum();
            self.record.held += share.busy * f64::from(gpus);
            ends.push((at + share.busy, gpus));
        }
        self.nodes[job] = nodes;
        if self.forks[job].steps == 0 {
            let last = shares.iter().map(|copy_share| copy_share.busy).fold(0.0, f64::max);
            // The copies are merged before the job ends.
            let end = Time(at + last + self.parameters.overhead.0);
            let job_record = &mut self.record.jobs[job];
            (job_record.completed, job_record.done) = (Some(end), entry.model.progress.work);
            self.events.push(ReplayEvent::of_job(end, EventKind::Completed, entry.place));
        }
    }

    /// Counts the GPUs in use during a round with copies that end at these times.
    fn count_gpus(&mut self, at: f64, mut ends: Vec<(f64, u32)>) {
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut count: u32 = ends.iter().map(|(_, gpus)| gpus).sum();
        let mut put = |at: f64, count: u32| match self.record.in_use.last_mut() {
            Some((last, last_count)) if *last >= at => *last_count = count,
            _ => self.record.in_use.push((at, count)),
        };
        put(at, count);
        for (end, gpus) in ends {
            count -= gpus;
            put(end, count);
        }
    }

    /// Records the use of the nodes, and for each job that has not ended its progress and the reason.
    fn close(&mut self, why: &str) {
        let played = to_f64(self.played);
        self.record.cru = Some(if self.played > 0 { self.busy / played } else { 0.0 });
        self.record.held -= self.held_after_completion();
        for (job, job_record) in self.record.jobs.iter_mut().enumerate() {
            if job_record.completed.is_some() {
                continue;
            }
            let fork = &self.forks[job];
            let left = to_f64(fork.steps) / self.per_epoch[job];
            job_record.done = (self.trace.jobs[job].model.progress.work - left).max(0.0);
            let can_run = fork.speeds.iter().any(|speed| *speed > 0.0);
            let has_type = self.trace.jobs[job].model.types.iter().any(Option::is_some);
            let why = match (can_run, has_type) {
                (true, _) => why,
                (false, true) => "its batch cannot be divided over the GPUs of any node",
                (false, false) => NO_TYPE,
            };
            job_record.why = Some(why.to_owned());
        }
    }

    /// Returns the GPU-seconds that jobs held after the last completion.
    fn held_after_completion(&self) -> f64 {
        let ends = self.record.jobs.iter().filter_map(|job| job.completed).map(|end| end.0);
        let last = ends.fold(0.0, f64::max);
        let steps = self.record.in_use.windows(2);
        steps.map(|step| f64::from(step[0].1) * (step[1].0 - step[0].0.max(last)).max(0.0)).sum()
    }
}

fn moment(number: u64, round: Seconds) -> f64 {
    to_f64(number) * round.0
}

/// Returns the number of rounds that begin before a time.
fn rounds_before(now: f64, round: Seconds) -> u64 {
    to_u64((now / round.0 - SAME).ceil().max(0.0))
}
