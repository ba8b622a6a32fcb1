//! A placer's plan for some of the jobs, checked.

use crate::replan::ReplanContext;
use crate::{Basis, CheckedPlan, Decision, Extract, Placement, Plan, PolicyError, checked};

/// A plan for some jobs, as if they held no GPUs.
pub(super) struct PlanDraft {
    pub extract: Extract,
    pub plan: CheckedPlan,
}

impl ReplanContext<'_> {
    /// Returns a plan for `jobs`, in that order, on the GPUs that they may use; `None` if there are no jobs.
    ///
    /// # Errors
    /// If the placer does not support the problem, or violates its rules.
    pub(super) fn draft(&self, jobs: &[usize], basis: Basis) -> Result<Option<PlanDraft>, PolicyError> {
        if jobs.is_empty() {
            return Ok(None);
        }
        let extract = self.problem.extract(jobs, basis);
        (self.budget.begin)();
        let assignment = self.placer.place(&extract.problem, self.budget.stop)?;
        let plan = checked(self.placer.name(), &extract.problem, Plan::from(assignment))?;
        Ok(Some(PlanDraft { extract, plan }))
    }
}

impl PlanDraft {
    /// Returns whether the draft gives GPUs to any job.
    pub(super) fn places(&self) -> bool {
        !self.plan.placed().is_empty()
    }

    /// Returns the placement of a job of the whole problem.
    pub(super) fn placement(&self, context: &ReplanContext<'_>, job: usize) -> Option<Placement> {
        let position = self.extract.jobs.iter().position(|known| *known == job)?;
        let placement = self.plan.verdicts()[position].placement()?;
        Some(self.extract.to_whole(context.problem, placement))
    }

    /// Returns the epoch time of one of the draft's jobs, in seconds.
    pub(super) fn epoch(&self, job: usize) -> Option<f64> {
        let position = self.extract.jobs.iter().position(|known| *known == job)?;
        let placement = self.plan.verdicts()[position].placement()?;
        let Extract { problem, .. } = &self.extract;
        Some(placement.epoch_as_shared(problem, &problem.jobs[position]).total())
    }

    /// Converts the draft to a plan of the whole problem; with [`Basis::Queue`], the jobs wait in the queue
    /// for their GPUs.
    pub(super) fn into_plan(self, context: &ReplanContext<'_>, basis: Basis) -> Plan {
        let (extract, whole) = (self.extract, context.problem);
        let Plan { changes, categories, stopped, bound, .. } = self.plan.into_plan();
        let change = |(number, decision): (usize, Decision)| {
            let decision = match decision {
                Decision::Place { placements, why, .. } => {
                    let to_whole = |placement| extract.to_whole(whole, placement);
                    let placements = placements.iter().map(to_whole).collect();
                    Decision::Place { placements, queued: basis == Basis::Queue, why }
                }
                other => other,
            };
            (extract.jobs[number], decision)
        };
        Plan {
            changes: changes.into_iter().map(change).collect(),
            categories,
            stopped,
            bound: bound.map(|bound| extract.bound_to_whole(whole, &bound)),
            ..Plan::default()
        }
    }
}
