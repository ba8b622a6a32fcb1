//! A policy over time where a move takes time, on GPUs that nobody else takes: what it decided holds until it is carried out.
//!
//! Without it a job that was stopped to move is nobody's concern while it saves: its new GPUs go to others, and it comes back to
//! those that it had.

use crate::shared::NOT_FREE_YET;
use crate::shared::projected::ProjectedProblem;
use crate::shared::promise::{self, Promise};
use crate::shared::safe::TypeLimits;
use crate::{Budget, Decision, Memory, Plan, Policy, PolicyError, Problem, Slot, Unclaimed};

/// A policy over time that keeps what it has decided.
pub struct SolePolicy {
    inner: Box<dyn Policy>,
    /// What was decided and is not carried out yet, as far as it is known.
    promises: Vec<Promise>,
}

impl SolePolicy {
    /// Returns a policy that decides as the one inside would if jobs moved at once.
    pub fn new(inner: Box<dyn Policy>) -> Self {
        Self { inner, promises: Vec::new() }
    }
}

/// A plan that is made of promises and of what the policy inside wants.
struct Maker<'a> {
    shown: &'a ProjectedProblem<'a>,
    room: FutureRoom<'a>,
    promises: Vec<Promise>,
    changes: Vec<(usize, Decision)>,
}

/// What is free when those who leave have left, and what the limits of GPU types leave then.
struct FutureRoom<'a> {
    free: Unclaimed,
    limits: TypeLimits<'a>,
}

impl Policy for SolePolicy {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn inner(&self) -> Option<&dyn Policy> {
        Some(self.inner.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Policy> {
        Some(self.inner.as_mut())
    }

    fn decide(&mut self, problem: &Problem, budget: &Budget<'_>) -> Result<Plan, PolicyError> {
        let shown = ProjectedProblem::arrived(problem, &self.promises);
        let plan = self.inner.decide(&shown.problem, budget)?;
        let mut maker = Maker::new(&shown);
        maker.keep();
        let changes = plan.changes.iter().filter(|(job, _)| !shown.is_settled(*job));
        let (running, waiting): (Vec<_>, Vec<_>) = changes.partition(|(job, _)| shown.runs(*job));
        // Whoever waits finds free what those who run give back.
        for (job, _) in &running {
            maker.room.give_back(problem, *job);
        }
        for (job, decision) in running.into_iter().chain(waiting) {
            maker.add(*job, decision);
        }
        self.promises = maker.promises;
        Ok(Plan { changes: maker.changes, ..plan })
    }

    fn memory(&self) -> Option<Memory> {
        promise::write(self.name(), &self.promises, self.inner.memory())
    }

    fn remember(&mut self, memory: &Memory) {
        if let Some(promises) = promise::recall(memory, self.inner.as_mut()) {
            self.promises = promises;
        }
    }
}

impl<'a> Maker<'a> {
    fn new(shown: &'a ProjectedProblem<'a>) -> Self {
        let room = FutureRoom { free: shown.free.clone(), limits: TypeLimits::of(shown.real) };
        Self { shown, room, promises: Vec::new(), changes: Vec::new() }
    }

    /// Gives jobs the GPUs that were promised to them, where they are free by now.
    fn keep(&mut self) {
        for request in self.shown.kept() {
            let waits = self.shown.real.jobs[request.job].progress.is_ready();
            self.promises.push(Promise::new(self.shown.real, request.job, &request.placement));
            if !request.later && self.room.take(self.shown.real, request.job, &request.placement.slots) {
                self.changes.push((request.job, Decision::place(request.placement)));
            } else if waits {
                self.changes.push((request.job, Decision::Defer { why: NOT_FREE_YET.to_owned() }));
            }
        }
    }

    /// Adds what the policy inside wants of a job. What has to wait for GPUs that others are about to give back is promised;
    /// who runs makes room at once.
    fn add(&mut self, job: usize, decision: &Decision) {
        let Decision::Place { placements, why, .. } = decision else {
            self.changes.push((job, decision.clone()));
            return;
        };
        let real = self.shown.real;
        let slots: Vec<Slot> =
            placements.iter().flat_map(|placement| placement.slots.iter().copied()).collect();
        let is_free = self.room.take(real, job, &slots);
        // Copies are decided on again when one of them finds no room.
        if let [placement] = placements.as_slice() {
            self.promises.push(Promise::new(real, job, placement));
        }
        if is_free {
            self.changes.push((job, decision.clone()));
        } else if real.jobs[job].progress.is_ready() {
            self.changes.push((job, Decision::Defer { why: NOT_FREE_YET.to_owned() }));
        } else if placements.len() == 1 {
            self.changes.push((job, Decision::Defer { why: why.clone() }));
        }
    }
}

impl FutureRoom<'_> {
    /// Takes GPUs for a job; returns whether they are there.
    fn take(&mut self, problem: &Problem, job: usize, slots: &[Slot]) -> bool {
        let is_there = self.limits.allow(slots) && self.free.take(problem.jobs[job].needs, slots.iter());
        if is_there {
            self.limits.take(slots);
        }
        is_there
    }

    /// Takes back what a job holds.
    fn give_back(&mut self, problem: &Problem, job: usize) {
        let model = &problem.jobs[job];
        let held = || model.progress.running().flat_map(|hold| &hold.slots);
        self.free.give_back(model.needs, held());
        self.limits.give_back(held());
    }
}
