//! Jobs with predecessors: such a job arrives once all its predecessors have completed.

use crate::replay::trace::Trace;
use crate::replay::world::ReplayWorld;

/// Returns the jobs of a trace by their indices in the file.
pub(super) fn by_place(trace: &Trace) -> Vec<usize> {
    let mut by_place = vec![0; trace.jobs.len()];
    for (job, entry) in trace.jobs.iter().enumerate() {
        if let Some(slot) = by_place.get_mut(entry.place) {
            *slot = job;
        }
    }
    by_place
}

impl ReplayWorld<'_> {
    /// Returns the first predecessor of a job that has not completed.
    pub(in crate::replay) fn awaits(&self, job: usize) -> Option<usize> {
        let mut before = self.trace.jobs[job].after.iter().map(|&place| self.by_place[place]);
        before.find(|&other| self.record.jobs[other].completed.is_none())
    }

    /// Records that a job never arrived because a predecessor has not completed.
    pub(in crate::replay) fn note_behind(&mut self, job: usize) {
        let Some(other) = self.awaits(job) else { return };
        let name = &self.trace.jobs[other].model.name;
        self.record.jobs[job].why = Some(format!("it depends on {name}, which has not completed"));
    }
}
