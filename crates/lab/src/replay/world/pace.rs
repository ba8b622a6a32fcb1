//! The speed of a job in a replay: its GPUs and shares, and its expected end.

use super::ReplayWorld;
use crate::replay::chance::{self, ReplayDraw};
use crate::replay::queue::DueEvent;
use hsched_model::{Seconds, Time};
use hsched_plan::{HeldPlacement, HoldStage, Slot};

impl ReplayWorld<'_> {
    /// Assigns GPUs to a job without GPUs; it trains from `busy_until` on.
    pub(super) fn hold(&mut self, number: usize, slots: Vec<Slot>, epoch: f64, busy_until: Time) {
        let model = &mut self.problem.jobs[number];
        self.taken.take(model, &slots);
        let gpus: u32 = slots.iter().map(|slot| slot.count).sum();
        let stage = HoldStage::Running { epoch, under_way: 0.0, movable: true, busy_until };
        model.progress.holds = vec![HeldPlacement { slots, since: self.now, epoch, stage }];
        self.running += 1;
        self.count_gpus(i64::from(gpus));
        self.foresee(number, epoch, busy_until);
    }

    /// Changes the division of a job's batch over its GPUs, which needs no restart.
    pub(super) fn share_anew(&mut self, number: usize, other: f64) {
        self.settle(number);
        let Some(hold) = self.problem.jobs[number].progress.holds.first_mut() else { return };
        let HoldStage::Running { epoch, busy_until, .. } = &mut hold.stage else { return };
        (hold.epoch, *epoch) = (other, other);
        let from = Time(busy_until.0.max(self.now.0));
        self.foresee(number, other, from);
    }

    /// Queues the expected end of a job, and a random failure if jobs fail; earlier events of the job become
    /// void.
    pub(super) fn foresee(&mut self, number: usize, epoch: f64, from: Time) {
        let Some(present) = &mut self.present[number] else { return };
        self.generations += 1;
        present.generation = self.generations;
        let due = DueEvent::End { job: number, generation: present.generation };
        self.queue.push(from.after(Seconds((present.work - present.done) * epoch)), due);
        self.foresee_epoch(number, epoch, from);
        let Some(present) = &self.present[number] else { return };
        if let Some(mean) = self.options.incidents.job_failures {
            let place = self.trace.jobs[present.job].place;
            let moves = self.problem.jobs[number].progress.moves;
            let unit = chance::unit(self.options.seed, ReplayDraw::JobFailure, place, moves);
            let due = DueEvent::Failure { job: number, generation: present.generation };
            self.queue.push(self.now.after(Seconds(chance::exponential(mean, unit))), due);
        }
        self.changes.other.insert(number);
    }
}
