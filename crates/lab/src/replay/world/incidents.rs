//! Incidents: jobs fail, and nodes go down and return.

use crate::replay::event::{EventKind, ReplayEvent};
use crate::replay::world::{ReleaseReason, ReplayWorld};
use hsched_plan::{JobModel, WorkerNode};

impl ReplayWorld<'_> {
    /// Lets a job fail; the job waits for GPUs again while it has retries left.
    pub(in crate::replay) fn fail(&mut self, number: usize, why: &str) {
        self.release(number, ReleaseReason::Broken);
        let Some(present) = &mut self.present[number] else { return };
        present.failures += 1;
        let entry = &self.trace.jobs[present.job];
        why.clone_into(&mut present.why);
        self.events.push(ReplayEvent {
            why: why.to_owned(),
            ..ReplayEvent::of_job(self.now, EventKind::Failed, entry.place)
        });
        if present.failures > entry.retries {
            let why = format!("failures: {}; `retries` is {}", present.failures, entry.retries);
            self.give_up(number, why);
        }
    }

    /// Abandons a job without GPUs.
    pub(super) fn give_up(&mut self, number: usize, why: String) {
        self.leave(number, false);
        let Some(present) = self.present[number].take() else { return };
        let record = &mut self.record.jobs[present.job];
        (record.failures, record.done, record.why) = (present.failures, present.done, Some(why));
    }

    /// Takes a node down with all jobs on it.
    pub(in crate::replay) fn node_down(&mut self, node: usize) {
        self.outages[node] += 1;
        if self.outages[node] > 1 {
            return;
        }
        self.events.push(ReplayEvent::of_node(self.now, EventKind::NodeDown, node));
        let is_there = |model: &JobModel| {
            model.progress.holds.iter().flat_map(|hold| &hold.slots).any(|slot| slot.node == node)
        };
        let numbers: Vec<usize> =
            (0..self.problem.jobs.len()).filter(|&number| is_there(&self.problem.jobs[number])).collect();
        for number in numbers {
            self.release(number, ReleaseReason::Broken);
            let Some(present) = &self.present[number] else { continue };
            let place = self.trace.jobs[present.job].place;
            let why = "its node went down".to_owned();
            self.events.push(ReplayEvent { why, ..ReplayEvent::of_job(self.now, EventKind::Failed, place) });
        }
        let types = self.problem.gpu_types.len();
        let worker_node = &mut self.problem.nodes[node];
        (worker_node.gpus, worker_node.up) = (vec![0; types], vec![0; types]);
        self.changes.all = true;
    }

    /// Brings a node back.
    pub(in crate::replay) fn node_back(&mut self, node: usize) {
        self.outages[node] = self.outages[node].saturating_sub(1);
        if self.outages[node] > 0 {
            return;
        }
        self.events.push(ReplayEvent::of_node(self.now, EventKind::NodeBack, node));
        let WorkerNode { gpus, up, .. } = &self.trace.problem.nodes[node];
        let worker_node = &mut self.problem.nodes[node];
        (worker_node.gpus, worker_node.up) = (gpus.clone(), up.clone());
        self.changes.all = true;
    }
}
