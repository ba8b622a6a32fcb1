//! The events between two passes: jobs end, arrive, or begin to compete.

use std::cmp::{Ordering, Reverse};

use crate::line::Use;
use crate::node_timeline::Viewer;
use crate::play::{LineJob, QueuePlay, Who};

impl QueuePlay<'_> {
    /// Ends the jobs that are due.
    pub(super) fn end_jobs(&mut self, now: f64) {
        while let Some(Reverse((moment, job))) = self.ends.peek().copied() {
            if moment.0 > now {
                break;
            }
            self.ends.pop();
            let ended = &self.live[job as usize];
            for &node in &ended.nodes {
                self.timeline.give_back(node, job);
            }
            if let Some(array) = ended.array {
                self.array_tasks[array] -= 1;
            }
            self.counters.count(&self.model.limits[ended.rule], ended.limit_end, -1.0);
            self.later.end(&ended.awaited);
            let counts = ended.counts;
            self.count(counts, -1.0);
        }
    }

    /// Adds the jobs that arrive.
    pub(super) fn take_arrivals(&mut self, now: f64) {
        let mut newcomers = Vec::new();
        while let Some((arrival, run)) = self.future.take_arrival(now, self.model, self.part) {
            newcomers.push(LineJob {
                key: arrival.key,
                priority: arrival.key.priority,
                counts: arrival.counts,
                shape: arrival.shape,
                limit: arrival.limit,
                tasks: arrival.tasks,
                started: 0,
                array: None,
                who: Who::Arrived(run),
                rule: arrival.rule,
                viewer: Viewer::Member,
                awaited: Vec::new(),
                job: None,
            });
        }
        self.join(newcomers);
    }

    /// Adds jobs that begin to compete. They have gained no age, so their priority is reduced by the growth
    /// of the others.
    pub(super) fn take_later(&mut self, now: f64) {
        let mut due = self.later.due(now);
        for line in &mut due {
            line.priority -= self.model.rules.growth * (now - self.model.now);
        }
        self.join(due);
    }

    /// Inserts new jobs into the queue by their sort keys.
    pub(super) fn join(&mut self, mut newcomers: Vec<LineJob>) {
        for entry in &mut newcomers {
            entry.key.priority = entry.priority + shift(&self.shifts, entry.counts);
        }
        newcomers.sort_by(|a, b| a.key.cmp(&b.key));
        let Some(first) = newcomers.first() else { return };
        let place = self.line.partition_point(|other| other.key.cmp(&first.key) != Ordering::Greater);
        let mut later = self.line.split_off(place).into_iter().peekable();
        for entry in newcomers {
            while let Some(before) = later.next_if(|other| other.key.cmp(&entry.key) != Ordering::Greater) {
                self.line.push(before);
            }
            self.line.push(entry);
        }
        self.line.extend(later);
    }
}

/// Returns the change of a job's priority by ranks.
pub(super) fn shift(shifts: &[f64], counts: Use) -> f64 {
    counts.branch.and_then(|branch| shifts.get(branch)).copied().unwrap_or(0.0)
}
