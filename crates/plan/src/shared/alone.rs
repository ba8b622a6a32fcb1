//! A policy over time for GPUs without other users on which moves take time: a decision stays valid until it
//! is carried out.
//!
//! Without this wrapper, a job that is stopped to move would lose its place while it saves: its new GPUs
//! would go to other jobs, and it would return to its old ones.

use crate::shared::NOT_FREE_YET;
use crate::shared::projected::ProjectedProblem;
use crate::shared::promise::{self, Promise};
use crate::shared::safe::TypeLimits;
use crate::{Budget, Decision, Memory, Plan, Policy, PolicyError, Problem, Slot, UnclaimedResources};

/// A policy over time that remembers its decisions until they are carried out.
pub(crate) struct SolePolicy {
    inner: Box<dyn Policy>,
    /// Decisions that are not yet known to have been carried out.
    promises: Vec<Promise>,
}

impl SolePolicy {
    /// Returns a policy that decides as `inner` would if moves were immediate.
    pub(crate) fn new(inner: Box<dyn Policy>) -> Self {
        Self { inner, promises: Vec::new() }
    }
}

/// Builds a plan from promises and the decisions of the wrapped policy.
struct Maker<'a> {
    shown: &'a ProjectedProblem<'a>,
    room: FutureRoom<'a>,
    promises: Vec<Promise>,
    changes: Vec<(usize, Decision)>,
}

/// GPUs that are free, or held by running jobs that this plan stops or moves, and the remaining limits of GPU
/// types.
struct FutureRoom<'a> {
    free: UnclaimedResources,
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
        let shown = ProjectedProblem::arrived(problem, self.inner.sharing(), &self.promises);
        let plan = self.inner.decide(&shown.problem, budget)?;
        let mut maker = Maker::new(&shown);
        maker.keep();
        let changes = plan.changes.iter().filter(|(job, _)| !shown.is_settled(*job));
        let (running, waiting): (Vec<_>, Vec<_>) = changes.partition(|(job, _)| shown.runs(*job));
        // Pending jobs may use the GPUs that running jobs release.
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

    /// Gives jobs their promised GPUs if these are now free.
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

    /// Adds the wrapped policy's decision about a job. GPUs that other jobs are about to release are
    /// promised; a running job makes room at once.
    fn add(&mut self, job: usize, decision: &Decision) {
        let Decision::Place { placements, why, .. } = decision else {
            self.changes.push((job, decision.clone()));
            return;
        };
        let real = self.shown.real;
        let slots: Vec<Slot> =
            placements.iter().flat_map(|placement| placement.slots.iter().copied()).collect();
        let is_free = self.room.take(real, job, &slots);
        // Copies are decided again if one of them does not fit.
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
    /// Takes GPUs for a job; returns whether they are available.
    fn take(&mut self, problem: &Problem, job: usize, slots: &[Slot]) -> bool {
        let is_there = self.limits.allow(slots) && self.free.take(problem.jobs[job].needs, slots.iter());
        if is_there {
            self.limits.take(slots);
        }
        is_there
    }

    /// Releases the GPUs of a job.
    fn give_back(&mut self, problem: &Problem, job: usize) {
        let model = &problem.jobs[job];
        let held = || model.progress.running().flat_map(|hold| &hold.slots);
        self.free.give_back(model.needs, held());
        self.limits.give_back(held());
    }
}
