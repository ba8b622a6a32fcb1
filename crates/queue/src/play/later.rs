//! Jobs that do not compete yet, because they wait for a time or for the ends of others.

use crate::line::Joins;
use crate::play::LineJob;
use crate::queue_model::{QueueModel, QueuePart};

/// Jobs that join the queue later.
pub(super) struct Later {
    list: Vec<(Joins, LineJob)>,
    /// Number of tasks of each awaited job that have not ended.
    open: Vec<u32>,
    /// Ends of awaited jobs in other parts of the queue, which run to their limits.
    elsewhere: Vec<(f64, usize)>,
}

impl Later {
    pub(super) fn new(model: &QueueModel, part: &QueuePart) -> Self {
        let mut elsewhere = Vec::new();
        for (number, job) in model.awaited.iter().enumerate() {
            let here = part.running.iter().filter(|running| running.awaited.contains(&number)).count();
            elsewhere.extend(job.ends.iter().skip(here).map(|end| (end.max(model.now), number)));
        }
        Self { list: Vec::new(), open: model.awaited.iter().map(|job| job.tasks).collect(), elsewhere }
    }

    pub(super) fn add(&mut self, joins: Joins, line: LineJob) {
        self.list.push((joins, line));
    }

    /// Counts an ended task.
    pub(super) fn end(&mut self, awaited: &[usize]) {
        for &number in awaited {
            self.open[number] = self.open[number].saturating_sub(1);
        }
    }

    /// Returns the next known time at which a job may join: a begin time, or an end in another part.
    pub(super) fn next(&self) -> Option<f64> {
        if self.list.is_empty() {
            return None;
        }
        let begins = self.list.iter().filter_map(|(joins, _)| match joins {
            Joins::At(at) => Some(*at),
            Joins::Now | Joins::After(_) => None,
        });
        begins.chain(self.elsewhere.iter().map(|(end, _)| *end)).min_by(f64::total_cmp)
    }

    /// Removes and returns the jobs that have joined by now.
    pub(super) fn due(&mut self, now: f64) -> Vec<LineJob> {
        if self.list.is_empty() {
            return Vec::new();
        }
        for (_, number) in self.elsewhere.extract_if(.., |(end, _)| *end <= now) {
            self.open[number] = self.open[number].saturating_sub(1);
        }
        let open = &self.open;
        let is_due = |(joins, _): &mut (Joins, LineJob)| match joins {
            Joins::Now => true,
            Joins::At(at) => *at <= now,
            Joins::After(others) => others.iter().all(|number| open[*number] == 0),
        };
        self.list.extract_if(.., is_due).map(|(_, line)| line).collect()
    }
}
