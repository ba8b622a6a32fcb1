//! Detours: free GPUs for jobs that have waited long in the queue for GPUs that are only somewhat better.

use crate::replan::ReplanContext;
use crate::{Basis, Decision, HeldPlacement, HoldStage, Plan, PolicyError};
use hsched_model::Time;

impl ReplanContext<'_> {
    /// Returns a plan that gives free GPUs to one job that has waited too long in the queue; `None` if there
    /// is no such job, or no free GPUs are good enough.
    ///
    /// # Errors
    /// If the placer gives no plan.
    pub(super) fn detour(&self) -> Result<Option<Plan>, PolicyError> {
        let late = self.queued().filter(|(_, hold)| self.late_at(hold).0 <= self.problem.now.0);
        for (job, hold) in late.take(self.rules.looked_at) {
            if let Some(decision) = self.detour_of(job, hold)? {
                return Ok(Some(Plan { changes: vec![(job, decision)], ..Plan::default() }));
            }
        }
        Ok(None)
    }

    fn detour_of(&self, job: usize, hold: &HeldPlacement) -> Result<Option<Decision>, PolicyError> {
        let free = self.problem.extract(&[job], Basis::Free).problem;
        let offered = |name: &str| -> u32 {
            let by_type = free.gpu_types.iter().zip(free.offered());
            by_type.filter(|(gpu_type, _)| gpu_type.as_str() == name).map(|(_, count)| count).sum()
        };
        let wanted = self.problem.by_name(&hold.slots);
        if wanted.iter().all(|(name, count)| offered(name.as_str()) >= *count) {
            return Ok(None);
        }
        let Some(draft) = self.draft(&[job], Basis::Free)? else { return Ok(None) };
        let Some(placement) = draft.placement(self, job) else { return Ok(None) };
        if placement.epoch.total() > self.rules.detour * hold.epoch {
            return Ok(None);
        }
        let (before, after) = (self.problem.named(&hold.slots), self.problem.named(&placement.slots));
        let why = format!("it is pending for {before}, but {after} are free");
        Ok(Some(Decision::Place { placements: vec![placement], queued: false, why }))
    }

    /// Returns when the next job will have waited too long.
    pub(super) fn next_late(&self) -> Option<Time> {
        let times = self.queued().map(|(_, hold)| self.late_at(hold));
        times.filter(|time| time.0 > self.problem.now.0).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn late_at(&self, hold: &HeldPlacement) -> Time {
        hold.since.after(self.rules.queue_patience)
    }

    fn queued(&self) -> impl Iterator<Item = (usize, &HeldPlacement)> {
        let jobs = self.problem.jobs.iter().enumerate();
        let holds = jobs.flat_map(|(job, model)| model.progress.holds.iter().map(move |hold| (job, hold)));
        holds.filter(|(_, hold)| hold.stage == HoldStage::Queued)
    }
}
