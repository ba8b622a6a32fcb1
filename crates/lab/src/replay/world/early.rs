//! Jobs that end before their last epoch by the rules of their job files (MLF-C).

use crate::replay::EarlyRule;
use crate::replay::queue::DueEvent;
use crate::replay::world::{ReplayWorld, SAME_EPOCH};
use hsched_model::number::{to_f64, to_usize};
use hsched_model::{StopRule, Time};
use hsched_plan::curve::{CurvePoint, behind, bracket, first_rung, judge_running};

/// Fraction of GPUs in use above which the cluster is busy, `h_s`.
const BUSY: f64 = 0.9;

impl ReplayWorld<'_> {
    /// Queues the end of the current epoch if the job may stop there; after the last epoch, the job ends
    /// anyway.
    pub(super) fn foresee_epoch(&mut self, number: usize, epoch: f64, from: Time) {
        let Some(present) = &self.present[number] else { return };
        let next = whole(present.done) + 1.0;
        let Some(early) = &self.trace.jobs[present.job].early else { return };
        let known = to_f64(early.values.len());
        if next < present.work - SAME_EPOCH && next <= known {
            let due = DueEvent::Epoch { job: number, generation: present.generation };
            self.queue.push(Time(from.0 + (next - present.done) * epoch), due);
        }
    }

    /// Completes an epoch of a job; returns whether its rule ended it.
    pub(in crate::replay) fn epoch_done(&mut self, number: usize) -> bool {
        self.settle(number);
        let Some(present) = &self.present[number] else { return false };
        let (job, done) = (present.job, whole(present.done));
        let done = to_usize(done);
        self.seen[job] = self.seen[job].max(done);
        if let Some(why) = self.may_stop(job, done) {
            let epochs = self.trace.jobs[job].model.epochs;
            self.complete(number, true, format!("stopped at epoch {done} of {epochs}: {why}"));
            return true;
        }
        if let Some(hold) = self.problem.jobs[number].progress.holds.first() {
            let epoch = hold.epoch;
            self.foresee_epoch(number, epoch, self.now);
        }
        false
    }

    /// Returns why a job of the trace may stop after this number of epochs; `None` if it may not.
    fn may_stop(&self, job: usize, done: usize) -> Option<String> {
        let entry = &self.trace.jobs[job];
        let early = entry.early.as_ref()?;
        let reports = early.reports(done);
        if early.stop.rule == StopRule::Halving {
            let (job_bracket, others) = self.bracket_of(job, early);
            let others: Vec<&[CurvePoint]> = others.iter().map(Vec::as_slice).collect();
            let limits =
                (entry.model.epochs, first_rung(entry.model.epochs, early.stop.not_before, job_bracket));
            let ranking = behind(&reports, &others, early.mode, limits)?;
            return Some(format!(
                "halving (place {} of {} at epoch {})",
                ranking.place, ranking.of, ranking.rung
            ));
        }
        let goal = early.goal(entry.model.epochs);
        judge_running(&reports, &goal, &early.stop, self.is_busy())
            .filter(|curve_verdict| curve_verdict.stop)?
            .why()
    }

    /// Returns the bracket of a job with a halving rule, and the curves so far of the other jobs in it: jobs
    /// of one model form a sweep.
    fn bracket_of(&self, job: usize, early: &EarlyRule) -> (u32, Vec<Vec<CurvePoint>>) {
        let model = &self.trace.jobs[job].model.rounds.model;
        let of_sweep = |number: &usize| {
            let entry = &self.trace.jobs[*number];
            let is_alike = |candidate: &EarlyRule| {
                candidate.stop.rule == StopRule::Halving && candidate.mode == early.mode
            };
            entry.early.as_ref().is_some_and(is_alike) && entry.model.rounds.model == *model
        };
        let brackets = (0..).map(|place| bracket(place, early.stop.brackets));
        let sweep: Vec<(usize, u32)> = (0..self.trace.jobs.len()).filter(of_sweep).zip(brackets).collect();
        let job_bracket = sweep.iter().find(|(number, _)| *number == job).map_or(0, |(_, bracket)| *bracket);
        let others = sweep.iter().filter(|(number, bracket)| *bracket == job_bracket && *number != job);
        let curve = |&(number, _): &(usize, u32)| {
            self.trace.jobs[number].early.as_ref().map(|early| early.reports(self.seen[number]))
        };
        (job_bracket, others.filter_map(curve).collect())
    }

    /// Returns whether a job waits, or the fraction of GPUs in use exceeds [`BUSY`].
    fn is_busy(&self) -> bool {
        let up: u32 = self.problem.nodes.iter().flat_map(|node| &node.up).sum();
        self.count > self.running || f64::from(self.in_use) > BUSY * f64::from(up)
    }
}

/// Returns the number of whole epochs, with tolerance for sums of floats.
fn whole(epochs: f64) -> f64 {
    (epochs + SAME_EPOCH).floor()
}
