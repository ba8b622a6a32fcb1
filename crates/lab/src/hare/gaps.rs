//! Idle times of GPUs between tasks.

use crate::hare::list::Spot;
use hsched_plan::kit::{TIE, TaskJob, Tasks};

/// When each GPU computes: ordered intervals that do not touch.
pub(super) struct Gaps {
    busy: Vec<Vec<(f64, f64)>>,
}

impl Gaps {
    /// Returns GPUs without any tasks.
    pub(super) fn new(gpus: usize) -> Self {
        Self { busy: vec![Vec::new(); gpus] }
    }

    /// Returns the place where a task ends first; among equal places, the one whose gap begins last, then the
    /// first GPU.
    pub(super) fn soonest_done(&self, tasks: &Tasks, job: &TaskJob, from: f64) -> Option<Spot> {
        let mut best: Option<(f64, f64, Spot)> = None;
        for (gpu, device) in tasks.gpus.iter().enumerate() {
            let Some(time) = job.times[device.gpu_type] else { continue };
            let gap = self.first_gap(gpu, from, time);
            let start = gap.max(from);
            let end = start + time + job.sync;
            let is_better = best.is_none_or(|(least, latest, _)| {
                end < least * (1.0 - TIE) || (end <= least * (1.0 + TIE) && gap > latest * (1.0 + TIE))
            });
            if is_better {
                best = Some((end, gap, Spot { gpu, start }));
            }
        }
        best.map(|(_, _, spot)| spot)
    }

    /// Returns the start of a GPU's first gap that has room for a task of length `time` that starts no sooner
    /// than `from`.
    fn first_gap(&self, gpu: usize, from: f64, time: f64) -> f64 {
        let busy = &self.busy[gpu];
        let holds = |gap: f64, end: f64| gap.max(from) + time <= end * (1.0 + TIE);
        let skipped = busy.partition_point(|(start, _)| start * (1.0 + TIE) < from + time);
        let mut gap = skipped.checked_sub(1).map_or(0.0, |before| busy[before].1);
        for &(start, end) in &busy[skipped..] {
            if holds(gap, start) {
                break;
            }
            gap = end;
        }
        gap
    }

    /// Records that a GPU computes from `start` to `end`.
    pub(super) fn take(&mut self, gpu: usize, start: f64, end: f64) {
        let busy = &mut self.busy[gpu];
        let place = busy.partition_point(|(other, _)| *other < start);
        let joins_next = busy.get(place).is_some_and(|next| next.0 <= end);
        let before = place.checked_sub(1).filter(|&before| busy[before].1 >= start);
        match (before, joins_next) {
            (Some(before), true) => busy[before].1 = busy.remove(place).1,
            (Some(before), false) => busy[before].1 = end,
            (None, true) => busy[place].0 = start,
            (None, false) => busy.insert(place, (start, end)),
        }
    }
}
