//! Policies that assign single GPUs refuse problems with replicas of several GPUs.

use crate::{Assignment, Budget, Placer, Plan, Policy, PolicyError, Problem, Sharing};

/// A policy that does not support replicas of several GPUs.
pub(super) struct SingleGpus<T: ?Sized>(pub Box<T>);

/// Refuses jobs whose replicas have several GPUs.
fn refuse(policy: &'static str, problem: &Problem) -> Result<(), PolicyError> {
    let mut jobs = problem.present().map(|job| &problem.jobs[job]);
    match jobs.find(|job| job.needs_blocks() || job.is_loose()) {
        Some(job) => Err(PolicyError::SingleGpus { policy, job: job.name.clone() }),
        None => Ok(()),
    }
}

impl Placer for SingleGpus<dyn Placer> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn parameters(&self) -> String {
        self.0.parameters()
    }

    fn needs_budget(&self) -> bool {
        self.0.needs_budget()
    }

    fn sharing(&self) -> Sharing {
        self.0.sharing()
    }

    fn place(&self, problem: &Problem, stop: &dyn Fn() -> bool) -> Result<Assignment, PolicyError> {
        refuse(self.name(), problem)?;
        self.0.place(problem, stop)
    }
}

impl Policy for SingleGpus<dyn Policy> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn inner(&self) -> Option<&dyn Policy> {
        Some(self.0.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Policy> {
        Some(self.0.as_mut())
    }

    fn decide(&mut self, problem: &Problem, budget: &Budget<'_>) -> Result<Plan, PolicyError> {
        refuse(self.name(), problem)?;
        self.0.decide(problem, budget)
    }
}
