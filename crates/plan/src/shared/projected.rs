//! The problem shown to the wrapped policy, in which pending moves have already arrived.

use std::collections::BTreeMap;

use crate::shared::promise::Promise;
use crate::shared::safe::{PlacementRequest, TypeLimits};
use crate::shared::{Price, SharedRules};
use crate::{
    Eligibility, HeldPlacement, HoldStage, Host, Moves, Placement, Problem, ProblemChanges, Progress, Room,
    Sharing, Slot, UnclaimedResources,
};
use hsched_model::{Seconds, Time};

/// The problem shown to the wrapped policy, and the real one.
pub(super) struct ProjectedProblem<'a> {
    pub real: &'a Problem,
    pub problem: Problem,
    /// How the wrapped policy divides batches.
    pub sharing: Sharing,
    /// The GPUs that are really free now; GPUs for which a submission has waited too long count as free.
    pub free: UnclaimedResources,
    /// Jobs that are already decided: they have a pending submission, or wait for promised GPUs.
    settled: Vec<bool>,
    /// Promises that can still be kept.
    kept: Vec<(usize, Placement)>,
}

impl<'a> ProjectedProblem<'a> {
    /// Returns the projection of a problem. The cost of a move is its known part, or else the restart,
    /// increased by the margin of moves.
    pub(super) fn new(
        real: &'a Problem,
        sharing: Sharing,
        promises: &[Promise],
        rules: SharedRules,
        prices: &BTreeMap<usize, Price>,
    ) -> Self {
        let mut projected = Self::of(real, sharing);
        projected.give_up_waiting(rules.queue_patience);
        projected.free = projected.problem.unclaimed();
        projected.arrive(promises);
        projected.price_moves(rules.moves, prices);
        projected
    }

    /// Returns the projection of a problem without a queue, with the move costs of the problem.
    pub(super) fn arrived(real: &'a Problem, sharing: Sharing, promises: &[Promise]) -> Self {
        let mut projected = Self::of(real, sharing);
        projected.arrive(promises);
        projected
    }

    fn of(real: &'a Problem, sharing: Sharing) -> Self {
        let problem = Problem { changed: ProblemChanges::All, ..real.clone() };
        let settled = vec![false; problem.jobs.len()];
        Self { real, free: problem.unclaimed(), problem, sharing, settled, kept: Vec::new() }
    }

    /// Shows pending moves and promises as arrived.
    fn arrive(&mut self, promises: &[Promise]) {
        self.free_what_is_left();
        let on_their_way = self.take_off();
        let mut free = self.problem.unclaimed();
        for (job, hold) in on_their_way {
            self.land(job, hold, &mut free);
        }
        for promise in promises {
            self.keep(promise, &mut free);
        }
    }

    /// Returns whether a job is already decided.
    pub(super) fn is_settled(&self, job: usize) -> bool {
        self.settled[job]
    }

    /// Returns whether a job runs and is not moving.
    pub(super) fn runs(&self, job: usize) -> bool {
        self.real.jobs[job].progress.running().next().is_some()
    }

    /// Returns whether these GPUs are free for a job now.
    pub(super) fn is_free(&self, job: usize, placement: &Placement) -> bool {
        self.free.clone().take(self.real.jobs[job].needs, placement.slots.iter())
    }

    /// Returns the promises as requests; those whose GPUs are not free yet or whose job is still stopping
    /// have to wait.
    pub(super) fn kept(&self) -> Vec<PlacementRequest> {
        let mut free = self.free.clone();
        let request = |(job, placement): &(usize, Placement)| {
            let model = &self.real.jobs[*job];
            let later = !model.progress.is_ready() || !free.take(model.needs, placement.slots.iter());
            PlacementRequest { job: *job, placement: placement.clone(), why: String::new(), later }
        };
        self.kept.iter().map(request).collect()
    }

    /// Returns when the next submission will have waited too long.
    pub(super) fn next_late(&self, patience: Seconds) -> Option<Time> {
        let holds = self.real.jobs.iter().flat_map(|job| &job.progress.holds);
        let queued = holds.filter(|hold| hold.stage == HoldStage::Queued);
        let times = queued.map(|hold| hold.since.after(patience));
        times.filter(|time| time.0 > self.real.now.0).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Shows jobs as pending if their only submission has waited in the queue too long.
    fn give_up_waiting(&mut self, patience: Seconds) {
        let now = self.problem.now;
        for model in &mut self.problem.jobs {
            if let [hold] = model.progress.holds.as_slice()
                && hold.stage == HoldStage::Queued
                && hold.since.after(patience).0 <= now.0
            {
                (model.progress.holds, model.progress.waits) = (Vec::new(), Eligibility::Ready);
            }
        }
    }

    /// Offers the GPUs that jobs are about to release.
    fn free_what_is_left(&mut self) {
        for model in &self.problem.jobs {
            let gives =
                |hold: &&HeldPlacement| hold.stage == HoldStage::Leaving { started: true, gives_back: true };
            for slot in model.progress.holds.iter().filter(gives).flat_map(|hold| &hold.slots) {
                let node = &mut self.problem.nodes[slot.node];
                let gpus = &mut node.gpus[slot.gpu_type];
                *gpus = (*gpus + slot.count).min(node.up[slot.gpu_type]);
                if let Some(Host { cpus, memory }) = &mut node.host {
                    let more = |room: &mut Option<Room>, need: u64| {
                        if let Some(Room { free, total }) = room {
                            *free = free.saturating_add(need * u64::from(slot.count)).min(*total);
                        }
                    };
                    more(cpus, model.needs.cpus);
                    more(memory, model.needs.memory);
                }
            }
        }
    }

    /// Removes the submissions of jobs whose only submission has not started, and returns them.
    fn take_off(&mut self) -> Vec<(usize, HeldPlacement)> {
        let mut all = Vec::new();
        for (job, model) in self.problem.jobs.iter_mut().enumerate() {
            if let [hold] = model.progress.holds.as_mut_slice()
                && matches!(hold.stage, HoldStage::Submitting | HoldStage::Queued)
                && !hold.slots.is_empty()
            {
                all.push((job, hold.clone()));
                model.progress.holds.clear();
            }
        }
        all
    }

    /// Shows a submission as running if its GPUs are available, otherwise unchanged.
    fn land(&mut self, job: usize, hold: HeldPlacement, free: &mut UnclaimedResources) {
        let model = &mut self.problem.jobs[job];
        self.settled[job] = true;
        if free.take(model.needs, hold.slots.iter()) {
            model.progress.holds = vec![landed(&model.progress, hold.slots, hold.epoch, self.real.now)];
        } else {
            model.progress.holds = vec![hold];
        }
    }

    /// Shows a job on its promised GPUs, if it still waits for them and they are available.
    fn keep(&mut self, promise: &Promise, free: &mut UnclaimedResources) {
        let mut jobs = self.real.present();
        let Some(job) = jobs.find(|&job| self.real.jobs[job].name == promise.job) else { return };
        let real = &self.real.jobs[job].progress;
        let leaves = |holds: &[HeldPlacement]| {
            matches!(holds, [HeldPlacement { stage: HoldStage::Leaving { gives_back: true, .. }, .. }])
        };
        if !real.is_ready() && !leaves(&real.holds) {
            return;
        }
        let Some(slots) = promise.slots(self.real) else { return };
        let Some(placement) = Placement::new(self.real, job, &slots, self.sharing) else { return };
        self.problem.jobs[job].progress.holds.clear();
        let fits =
            TypeLimits::of(&self.problem).allow(&slots) && free.take(self.real.jobs[job].needs, slots.iter());
        if !fits {
            self.problem.jobs[job].progress.holds.clone_from(&real.holds);
            return;
        }
        let progress = &mut self.problem.jobs[job].progress;
        progress.holds = vec![landed(progress, slots, placement.epoch.total(), self.real.now)];
        self.settled[job] = true;
        self.kept.push((job, placement));
    }

    /// Shows the cost of moves, and marks the jobs that may be moved.
    fn price_moves(&mut self, moves: Moves, prices: &BTreeMap<usize, Price>) {
        for (job, model) in self.problem.jobs.iter_mut().enumerate().filter(|(job, _)| !self.settled[*job]) {
            let Progress { holds, restart_cost, saves, .. } = &mut model.progress;
            for hold in holds {
                if let HoldStage::Running { movable, .. } = &mut hold.stage {
                    let Moves::Auto { margin } = moves else {
                        *movable = false;
                        continue;
                    };
                    *movable &= *saves;
                    *restart_cost = prices.get(&job).map_or(*restart_cost, |price| price.cost);
                    restart_cost.0 *= 1.0 + margin;
                }
            }
        }
    }
}

/// Returns a job's pending placement as if it had arrived.
fn landed(progress: &Progress, slots: Vec<Slot>, epoch: f64, now: Time) -> HeldPlacement {
    let restart = if progress.started.is_some() { progress.restart_cost } else { Seconds(0.0) };
    let stage = HoldStage::Running { epoch, under_way: 0.0, movable: false, busy_until: now.after(restart) };
    HeldPlacement { slots, since: now, epoch, stage }
}
