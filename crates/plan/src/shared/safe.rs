//! The decisions of a plan that are safe if other users may take released GPUs.

use std::collections::BTreeSet;

use crate::shared::projected::ProjectedProblem;
use crate::{Decision, HeldPlacement, HoldStage, Placement, Problem, Slot};

/// Epoch times that differ by at most this fraction count as equal.
const SAME: f64 = 0.01;

/// GPUs for a job.
pub(super) struct PlacementRequest {
    pub job: usize,
    pub placement: Placement,
    /// Why the job moves, for messages.
    pub why: String,
    /// Whether the job waits until these GPUs are free.
    pub later: bool,
}

/// The remaining limits of GPU types.
pub(super) struct TypeLimits<'a> {
    problem: &'a Problem,
    left: Vec<i64>,
}

impl<'a> TypeLimits<'a> {
    /// Returns the limits minus the GPUs that all jobs have or wait for.
    pub(super) fn of(problem: &'a Problem) -> Self {
        let left = problem.limits.iter().map(|limit| i64::from(limit.most)).collect();
        let mut limits = Self { problem, left };
        limits
            .count(problem.jobs.iter().flat_map(|job| &job.progress.holds).flat_map(|hold| &hold.slots), -1);
        limits
    }

    /// Returns whether the limits allow these additional GPUs.
    pub(super) fn allow(&self, slots: &[Slot]) -> bool {
        let mut after = Self { problem: self.problem, left: self.left.clone() };
        after.count(slots.iter(), -1);
        self.left.iter().zip(&after.left).all(|(before, after)| *after >= 0 || after == before)
    }

    pub(super) fn take(&mut self, slots: &[Slot]) {
        self.count(slots.iter(), -1);
    }

    pub(super) fn give_back<'s>(&mut self, slots: impl Iterator<Item = &'s Slot>) {
        self.count(slots, 1);
    }

    fn count<'s>(&mut self, slots: impl Iterator<Item = &'s Slot>, sign: i64) {
        for slot in slots {
            for (limit, left) in self.problem.limits.iter().zip(&mut self.left) {
                if limit.gpu_types.contains(&slot.gpu_type) {
                    *left += sign * i64::from(slot.count);
                }
            }
        }
    }
}

impl ProjectedProblem<'_> {
    /// Returns the placements of a plan that can be carried out if no job is stopped only to wait. A moving
    /// job finds its new GPUs free now, or held by others that move in this plan; a pending job may have to
    /// wait for a job that is being stopped. Running jobs that the plan does not move may get new shares.
    pub(super) fn safe(&self, changes: &[(usize, Decision)]) -> Vec<PlacementRequest> {
        let request = |(job, decision): &(usize, Decision)| match decision {
            Decision::Place { placements, queued: false, why } => match placements.as_slice() {
                [placement] if self.may_have(*job, placement) => Some(PlacementRequest {
                    job: *job,
                    placement: placement.clone(),
                    why: why.clone(),
                    later: false,
                }),
                _ => None,
            },
            _ => None,
        };
        let mut requests: Vec<PlacementRequest> = changes.iter().filter_map(request).collect();
        let named: BTreeSet<usize> = requests.iter().map(|request| request.job).collect();
        let others = self.problem.present().filter(|job| !named.contains(job));
        requests.extend(others.filter_map(|job| self.with_right_shares(job)));
        // Pending jobs must not take GPUs needed by a moving job.
        requests.sort_by_key(|request| !self.runs(request.job));
        while let Err(stays) = self.fit(&mut requests) {
            // The job's GPUs are not released, so other jobs may also have to stay.
            requests.remove(stays);
        }
        requests
    }

    /// Keeps the requests for which there is room after all moving jobs have left.
    ///
    /// # Errors
    /// The position of the first moving job that does not fit.
    fn fit(&self, requests: &mut Vec<PlacementRequest>) -> Result<(), usize> {
        let (mut then, mut now) = (self.problem.unclaimed(), self.free.clone());
        let mut limits = TypeLimits::of(&self.problem);
        for request in self.kept().iter().filter(|request| !request.later) {
            now.take(self.real.jobs[request.job].needs, request.placement.slots.iter());
        }
        for request in requests.iter().filter(|request| self.runs(request.job)) {
            let model = &self.real.jobs[request.job];
            let held = || model.progress.holds.iter().flat_map(|hold| &hold.slots);
            then.give_back(model.needs, held());
            now.give_back(model.needs, held());
            limits.give_back(held());
        }
        let mut fitting = Vec::new();
        for (place, request) in requests.iter_mut().enumerate() {
            let needs = self.real.jobs[request.job].needs;
            let slots = &request.placement.slots;
            let fits_then = limits.allow(slots) && then.take(needs, slots.iter());
            if fits_then {
                limits.take(slots);
            }
            let fits_now = fits_then && now.take(needs, request.placement.slots.iter());
            if self.runs(request.job) && !fits_now {
                return Err(place);
            }
            request.later = !fits_now;
            fitting.push(fits_then);
        }
        let mut fitting = fitting.into_iter();
        requests.retain(|_| fitting.next().unwrap_or(false));
        Ok(())
    }

    /// Returns a running job with other shares on its GPUs, if its batch is divided by speeds that turned out
    /// wrong and the right shares are worth a restart.
    fn with_right_shares(&self, job: usize) -> Option<PlacementRequest> {
        let progress = &self.problem.jobs[job].progress;
        let [HeldPlacement { slots, stage: HoldStage::Running { epoch, movable: true, .. }, .. }] =
            progress.holds.as_slice()
        else {
            return None;
        };
        if self.is_settled(job) || slots.is_empty() {
            return None;
        }
        let placement = Placement::new(self.real, job, slots, self.sharing)?;
        let gain = epoch - placement.epoch_as_shared(self.real, &self.real.jobs[job]).total();
        let pays = gain > SAME * epoch && progress.left(self.real.now) * gain > progress.restart_cost.0;
        pays.then(|| PlacementRequest {
            job,
            placement,
            why: "with new batch shares".to_owned(),
            later: false,
        })
    }

    /// Returns whether a job may be given these GPUs: the job is pending, or it may be moved and holds other
    /// GPUs.
    fn may_have(&self, job: usize, placement: &Placement) -> bool {
        let progress = &self.problem.jobs[job].progress;
        if self.is_settled(job) {
            return false;
        }
        let set = |slots: &[Slot]| slots.iter().copied().collect::<BTreeSet<Slot>>();
        match progress.holds.as_slice() {
            [] => progress.is_ready(),
            [hold] => {
                matches!(hold.stage, HoldStage::Running { movable: true, .. })
                    && set(&hold.slots) != set(&placement.slots)
            }
            _ => false,
        }
    }
}
