//! The event loop: advances to the next event, calls the policy and executes its plan.

use std::cell::Cell;

use thiserror::Error;

use crate::replay::chance::{self, ReplayDraw};
use crate::replay::event::{EventKind, ReplayEvent};
use crate::replay::figures::ReplayRecord;
use crate::replay::options::Options;
use crate::replay::queue::DueEvent;
use crate::replay::trace::Trace;
use crate::replay::world::ReplayWorld;
use hsched_model::number::{to_f64, to_u64};
use hsched_model::{Seconds, Time};
use hsched_plan::{Budget, Decision, Plan, Policy, PolicyError, RegistryError, WaitForecast, verify_change};

/// The callbacks of a replay.
pub struct Hooks<'a> {
    /// Called with every event in order.
    pub event: &'a mut dyn FnMut(&ReplayEvent),
    /// Called from time to time with the number of ended jobs.
    pub progress: &'a mut dyn FnMut(usize),
    /// Returns the elapsed time in seconds, to measure decisions; it has no influence on them.
    pub elapsed: &'a dyn Fn() -> f64,
}

/// Why a replay cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplayError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("a replay cannot follow a decision of policy {policy}: {what}")]
    Unknown { policy: &'static str, what: &'static str },
}

/// Times with a smaller relative difference count as equal, because they are sums of floats.
const SAME: f64 = 1e-12;

/// The minimum delay before a policy is called again without an event, in seconds.
const LEAST_WAIT: f64 = 1e-6;

/// Number of times that a search may ask whether to stop before the answer is yes. A time limit would give
/// different results on different machines.
const CALLS: u32 = 400;

/// Number of answers about the queue after which a decision gets no further ones.
const MOST_QUESTIONS: usize = 100;

/// Decisions between two calls of `progress`.
const PROGRESS_EVERY: u64 = 256;

/// Number of decisions without effect after which waiting jobs wait forever if there are no other events. One
/// is enough if the policy names no time for its next decision.
const PATIENCE: u32 = 3;

/// A running replay.
struct ReplayRun<'a, 'h> {
    world: ReplayWorld<'a>,
    policy: &'a mut dyn Policy,
    hooks: Hooks<'h>,
    next_arrival: usize,
    /// Arrived jobs whose predecessors have not completed.
    behind: Vec<usize>,
    wake: Option<Time>,
    /// Index of the next round, counted from time 0, and of the first round of the replay.
    round: u64,
    first_round: u64,
    ended: usize,
    /// Decisions without effect while no job runs and no node is down.
    fruitless: u32,
    /// Number of failures of each node, including the scheduled one.
    node_failures: Vec<u32>,
}

/// Replays a trace under a policy.
///
/// Equal arguments give equal records except for decision times.
///
/// # Errors
/// If the policy cannot handle a problem, breaks its contract, or makes a decision that a replay does not
/// support (a request in the queue, or copies).
pub fn replay(
    trace: &Trace,
    options: &Options,
    policy: &mut dyn Policy,
    hooks: Hooks<'_>,
) -> Result<ReplayRecord, ReplayError> {
    let mut world = ReplayWorld::new(trace, options);
    (world.record.policy, world.record.in_rounds) = (policy.name(), policy.round().is_some());
    world.starts_cost = policy.starts_cost();
    let nodes = trace.problem.nodes.len();
    let round = options.round.map_or(0, |round| rounds_before(trace.now, round));
    let mut run = ReplayRun {
        world,
        policy,
        hooks,
        next_arrival: 0,
        behind: Vec::new(),
        wake: None,
        round,
        first_round: round,
        ended: 0,
        fruitless: 0,
        node_failures: vec![0; nodes],
    };
    (0..nodes).for_each(|node| run.plan_node_failure(node));
    let why = run.play()?;
    run.tell();
    run.behind.iter().for_each(|&job| run.world.note_behind(job));
    Ok(run.world.close(why))
}

impl ReplayRun<'_, '_> {
    /// Runs until nothing further happens or the last round is over; returns why the remaining jobs have not
    /// ended.
    fn play(&mut self) -> Result<&'static str, ReplayError> {
        while self.next_arrival < self.world.trace.jobs.len() || !self.world.is_empty() || self.is_freed() {
            if self.is_stuck() {
                return Ok("it never got GPUs");
            }
            let Some(at) = self.next_time() else { return Ok("it never got GPUs") };
            if at.0 > self.world.now.0 {
                self.tell();
            }
            self.world.now = at;
            self.happen();
            if let Some(round) = self.world.options.round {
                if !is_due(self.round_time(round), at) {
                    continue;
                }
                if self.rounds_are_over() {
                    return Ok("the last round is over");
                }
                self.world.events.push(ReplayEvent::new(at, EventKind::Round));
                self.round += 1;
            }
            if self.world.has_changed() || self.wake.is_some_and(|wake| is_due(wake, at)) {
                self.decide()?;
            }
        }
        Ok("it never got GPUs")
    }

    /// Returns whether no arrived job can ever get GPUs.
    fn is_stuck(&self) -> bool {
        let waits = self.next_arrival == self.world.trace.jobs.len() && !self.world.may_change();
        let asked = !self.world.has_changed();
        waits && asked && (self.fruitless >= PATIENCE || (self.wake.is_none() && self.fruitless > 0))
    }

    /// Returns whether a job may start now because its predecessor has completed.
    fn is_freed(&self) -> bool {
        self.behind.iter().any(|&job| self.world.awaits(job).is_none())
    }

    fn rounds_are_over(&self) -> bool {
        self.world.options.rounds.is_some_and(|rounds| self.round - self.first_round >= rounds)
    }

    fn round_time(&self, round: Seconds) -> Time {
        Time(to_f64(self.round) * round.0)
    }

    /// Returns the time of the next event.
    fn next_time(&mut self) -> Option<Time> {
        let arrival = self.world.trace.jobs.get(self.next_arrival).map(|entry| entry.arrival);
        let due = self.world.next_due().map(|(at, _)| at);
        // The policy may have ended a predecessor itself.
        let due = if self.is_freed() { Some(self.world.now) } else { due };
        let ask = match self.world.options.round {
            None => self.wake,
            Some(round) => {
                if self.world.is_empty() {
                    // Rounds without jobs are skipped but counted.
                    while !self.rounds_are_over()
                        && arrival.is_some_and(|arrival| self.round_time(round).0 < arrival.0)
                    {
                        self.round += 1;
                    }
                }
                Some(self.round_time(round))
            }
        };
        let at = [arrival, due, ask].into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Time(at.0.max(self.world.now.0)))
    }

    /// Processes all events that are due.
    fn happen(&mut self) {
        let now = self.world.now;
        while let Some((at, due)) = self.world.next_due() {
            if !is_due(at, now) {
                break;
            }
            self.world.queue.pop();
            match due {
                DueEvent::End { job, .. } => {
                    self.world.complete(job, false, String::new());
                    self.ended += 1;
                }
                DueEvent::Failure { job, .. } => self.world.fail(job, "it failed"),
                DueEvent::Epoch { job, .. } => self.ended += usize::from(self.world.epoch_done(job)),
                DueEvent::NodeDown { node } => self.world.node_down(node),
                DueEvent::NodeBack { node } => {
                    self.world.node_back(node);
                    self.plan_node_failure(node);
                }
            }
        }
        while let Some(entry) = self.world.trace.jobs.get(self.next_arrival) {
            if !is_due(entry.arrival, now) {
                break;
            }
            self.behind.push(self.next_arrival);
            self.next_arrival += 1;
        }
        let arrived = std::mem::take(&mut self.behind);
        let (free, behind): (Vec<usize>, Vec<usize>) =
            arrived.into_iter().partition(|&job| self.world.awaits(job).is_none());
        for job in free {
            self.world.admit(job);
        }
        self.behind = behind;
    }

    /// Schedules the next random failure and repair of a node, if nodes fail.
    fn plan_node_failure(&mut self, node: usize) {
        let Options { seed, incidents, .. } = self.world.options;
        let Some(mean) = incidents.node_failures else { return };
        let count = &mut self.node_failures[node];
        *count += 1;
        let unit = chance::unit(*seed, ReplayDraw::NodeFailure, node, *count);
        let at = self.world.now.after(Seconds(chance::exponential(mean, unit)));
        self.world.queue.push(at, DueEvent::NodeDown { node });
        self.world.queue.push(at.after(incidents.repair), DueEvent::NodeBack { node });
    }

    fn decide(&mut self) -> Result<(), ReplayError> {
        self.world.show();
        let calls = Cell::new(0);
        let stop = || {
            calls.set(calls.get() + 1);
            calls.get() > CALLS
        };
        let budget = Budget { begin: &|| calls.set(0), stop: &stop };
        let start = (self.hooks.elapsed)();
        let mut plan = self.policy.decide(&self.world.problem, &budget)?;
        while !plan.questions.is_empty() && self.world.problem.forecasts.len() < MOST_QUESTIONS {
            let wait = Some(self.world.options.queue_wait);
            let answers = plan.questions.into_iter();
            let answers = answers.map(|(job, placement)| WaitForecast { job, slots: placement.slots, wait });
            self.world.problem.forecasts.extend(answers);
            plan = self.policy.decide(&self.world.problem, &budget)?;
        }
        self.world.problem.forecasts.clear();
        self.world.record.decision_time += (self.hooks.elapsed)() - start;
        self.world.record.decisions += 1;
        verify_change(&self.world.problem, &self.world.taken, &plan).map_err(|violations| {
            let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
            PolicyError::BreaksRules { policy: self.policy.name(), violations: violations.join("; ") }
        })?;
        if let Some(round) = plan.round.take() {
            self.world.tell_round(round);
        }
        let now = self.world.now.0;
        self.wake = plan.wake.map(|wake| Time(wake.0.max(now + LEAST_WAIT)));
        self.carry_out(plan)?;
        self.fruitless = if self.world.may_change() { 0 } else { self.fruitless + 1 };
        if self.world.record.decisions.is_multiple_of(PROGRESS_EVERY) {
            (self.hooks.progress)(self.ended);
        }
        Ok(())
    }

    fn carry_out(&mut self, plan: Plan) -> Result<(), ReplayError> {
        let unknown = |what| ReplayError::Unknown { policy: self.policy.name(), what };
        for (job, decision) in plan.changes {
            match decision {
                Decision::Place { queued: true, .. } | Decision::Adjust { .. } => {
                    return Err(unknown("a job waits in a queue"));
                }
                Decision::Place { placements, why, .. } => {
                    let mut placements = placements.into_iter();
                    let (Some(placement), None) = (placements.next(), placements.next()) else {
                        return Err(unknown("a job has copies"));
                    };
                    self.world.place(job, placement, why);
                }
                Decision::Defer { why } | Decision::Reject { why } => self.world.wait(job, why),
                Decision::Finish { why } => {
                    self.world.complete(job, true, why);
                    self.ended += 1;
                }
            }
        }
        Ok(())
    }

    /// Emits the events of one time in order.
    fn tell(&mut self) {
        self.world.events.sort_by_key(|event| (event.kind, event.job, event.node));
        for event in self.world.events.drain(..) {
            (self.hooks.event)(&event);
        }
    }
}

/// Returns the number of rounds that begin before a time.
fn rounds_before(now: Time, round: Seconds) -> u64 {
    let rounds = now.0 / round.0;
    to_u64((rounds - SAME * rounds).ceil())
}

/// Returns whether a time has been reached.
fn is_due(moment: Time, now: Time) -> bool {
    moment.0 <= now.0 + SAME * now.0.abs().max(1.0)
}
