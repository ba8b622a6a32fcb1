//! One scheduling pass: starts jobs in priority order and reserves nodes for jobs that must wait, like
//! Slurm's backfill.

use std::cmp::Reverse;

use crate::hopes::StartableShapes;
use crate::moment::Moment;
use crate::node_timeline::{StartSlot, Viewer};
use crate::play::{Live, QueuePlay, Who};

/// Maximum number of pending tasks of one array for which a pass reserves nodes: Slurm's default of
/// `bf_max_job_array_resv`.
const MOST_OF_ARRAY: u32 = 20;

impl QueuePlay<'_> {
    /// Processes queued jobs in order: starts those that fit, and reserves nodes for the others.
    pub(super) fn pass(&mut self, now: f64) {
        let mut hopes = StartableShapes::new(self.model, &mut self.timeline, &self.line);
        let Some(last) = hopes.last_in_line(&self.line) else { return };
        let (mut looked_at, mut place) = (0, 0);
        let is_for_ours = self.left > 0;
        while place <= last && looked_at < self.part.depth && (self.left > 0 || !is_for_ours) {
            let (count, goes_on) = self.look_at(place, now, &mut hopes);
            looked_at += count;
            if !goes_on || hopes.is_empty() {
                break;
            }
            place += 1;
        }
        self.timeline.forget();
        if self.line.iter().any(|entry| entry.started >= entry.tasks) {
            self.line.retain(|entry| entry.started < entry.tasks);
        }
    }

    /// Processes one queued job; returns the number of its processed tasks, and whether the pass may
    /// continue.
    fn look_at(&mut self, place: usize, now: f64, hopes: &mut StartableShapes) -> (usize, bool) {
        let (mut looked_at, mut kept) = (0, 0);
        loop {
            let entry = &self.line[place];
            let (shape, limit, viewer) = (entry.shape, entry.limit, entry.viewer);
            let is_full =
                entry.array.is_some_and(|array| self.array_tasks[array.number] + kept >= array.at_once);
            if entry.started >= entry.tasks || is_full || kept >= MOST_OF_ARRAY {
                return (looked_at, true);
            }
            if entry.started + kept >= entry.tasks {
                return (looked_at, true);
            }
            // A job at a limit does not reserve nodes.
            let rule = &self.model.limits[entry.rule];
            if !self.counters.allow(rule, (now - self.model.now) / 60.0) {
                return (looked_at, true);
            }
            looked_at += usize::from(viewer == Viewer::Member);
            let slot = match viewer {
                Viewer::Member => self.timeline.earliest(shape, now, limit),
                Viewer::Guest => self.timeline.earliest_for_guest(shape, now, limit),
            };
            let Some(slot) = slot else { return (looked_at, true) };
            if slot.at <= now {
                self.start(place, &slot, now);
                hopes.update(&mut self.timeline, &slot.nodes, now);
                continue;
            }
            if !self.model.rules.backfill {
                return (looked_at, false);
            }
            if slot.at > now + self.model.rules.window || rule.keeps_nothing {
                return (looked_at, true);
            }
            kept += 1;
            self.timeline.keep(&slot, limit, viewer);
            hopes.update(&mut self.timeline, &slot.nodes, now);
        }
    }

    fn start(&mut self, place: usize, slot: &StartSlot, now: f64) {
        let entry = &mut self.line[place];
        let task = entry.started;
        entry.started += 1;
        let (who, shape, limit, array, counts) =
            (entry.who, entry.shape, entry.limit, entry.array, entry.counts);
        let (asked_by, awaited) = (entry.job, entry.awaited.clone());
        let (rule, limit_end) = (entry.rule, (now + limit - self.model.now) / 60.0);
        if let (Who::Ours(number), Viewer::Guest) = (who, entry.viewer) {
            self.starts[number] = Some(now);
            self.left -= 1;
            return;
        }
        let run = match who {
            Who::Waiting(number) => self.future.run_of_waiting(self.part, number, task),
            Who::Arrived(run) => run,
            Who::Ours(number) => self.ours[number].run,
        };
        if asked_by.is_some() {
            let others = self.line.iter_mut().enumerate().filter(|(other, _)| *other != place);
            others.filter(|(_, other)| other.job == asked_by).for_each(|(_, other)| other.started += 1);
        }
        let job = u32::try_from(self.live.len()).unwrap_or(u32::MAX);
        for &node in &slot.nodes {
            let amounts = self.model.shapes[shape].takes(self.timeline.free(node), self.model.gpu_types);
            self.timeline.take(node, amounts, job, now + limit);
        }
        let array_number = array.map(|array| array.number);
        self.live.push(Live {
            nodes: slot.nodes.clone(),
            array: array_number,
            counts,
            rule,
            limit_end,
            awaited,
        });
        self.counters.count(&self.model.limits[rule], limit_end, 1.0);
        self.count(counts, 1.0);
        if let Some(array) = array {
            self.array_tasks[array.number] += 1;
        }
        self.ends.push(Reverse((Moment(now + run.clamp(1.0, limit.max(1.0))), job)));
        if let Who::Ours(number) = who {
            self.starts[number] = Some(now);
            self.left -= 1;
            let job = self.ours[number].job;
            for other in &mut self.line {
                if matches!(other.who, Who::Ours(number) if self.ours[number].job == job) {
                    other.started = other.tasks;
                }
            }
        }
    }
}
