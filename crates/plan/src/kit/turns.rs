//! Turns of jobs on their GPUs: whole epochs during which the GPUs are not taken away, so that restart costs
//! stay small in comparison.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kit::TaskGpu;
use crate::{Basis, HoldStage, Placement, Problem, Progress, Sharing, Slot};
use hsched_model::{JobName, Seconds, Time};

/// Maximum cost of a restart relative to its turn.
const RESTART_PART: f64 = 0.05;

/// Tolerance for sums of epochs.
const SLACK: f64 = 1e-6;

/// A turn that would leave less than this fraction of a job is extended to its end.
const REST: f64 = 0.04;

/// Minimum wait for the end of a late epoch, in epochs.
const LATE: f64 = 0.02;

/// The epochs that each job has left at the end of its turn.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Turns(BTreeMap<JobName, f64>);

impl Turns {
    /// Returns the number of epochs of `epoch` seconds in a turn.
    pub fn epochs(progress: &Progress, epoch: f64, now: Time) -> f64 {
        let long = progress.restart_cost.0 / RESTART_PART;
        (long / epoch).ceil().clamp(1.0, whole_left(progress, now).ceil().max(1.0))
    }

    /// Starts a turn of this many epochs for a job.
    pub fn begin(&mut self, problem: &Problem, job: usize, epochs: f64) {
        let model = &problem.jobs[job];
        let left = whole_left(&model.progress, problem.now) - epochs;
        let until = if left < REST * model.progress.work { 0.0 } else { left };
        self.0.insert(model.name.clone(), until);
    }

    /// Ends a job's turn.
    pub fn end(&mut self, name: &JobName) {
        self.0.remove(name);
    }

    /// Returns when the turn of a running job is expected to end; `None` if it has ended or the job is not
    /// running.
    pub fn over_at(&self, problem: &Problem, job: usize) -> Option<Time> {
        let model = &problem.jobs[job];
        let (progress, now) = (&model.progress, problem.now);
        let running = progress.running().find_map(|hold| match hold.stage {
            HoldStage::Running { epoch, movable, busy_until, .. } => Some((epoch, movable, busy_until)),
            _ => None,
        });
        let (epoch, movable, busy_until) = running?;
        let until = match self.0.get(&model.name) {
            Some(until) if whole_left(progress, now) > until + SLACK => *until,
            // The job has not finished an epoch here yet.
            _ if !movable => whole_left(progress, now) - 1.0,
            _ => return None,
        };
        let wait = ((progress.left(now) - until) * epoch).max(LATE * epoch);
        Some(now.after(Seconds(busy_until.since(now).0 + wait)))
    }

    /// Keeps only the turns of these jobs.
    pub fn keep(&mut self, is_there: impl Fn(&JobName) -> bool) {
        self.0.retain(|name, _| is_there(name));
    }
}

/// Returns the remaining epochs of a job; if only whole epochs are known, the current one counts fully.
pub fn whole_left(progress: &Progress, now: Time) -> f64 {
    let under_way = progress.running().map(|hold| match hold.stage {
        HoldStage::Running { epoch, under_way, .. } if epoch > 0.0 => under_way / epoch,
        _ => 0.0,
    });
    progress.left(now) + under_way.fold(0.0, f64::max)
}

/// Returns the GPUs by node and type that these jobs hold or may get. Held GPUs are included even if a limit
/// would exclude them.
pub fn within_reach(problem: &Problem, jobs: &[usize]) -> Vec<Vec<u32>> {
    let ready: Vec<usize> =
        jobs.iter().copied().filter(|job| problem.jobs[*job].progress.is_ready()).collect();
    let mut gpus = problem.offered_to(&ready, Basis::Free);
    for slot in jobs.iter().flat_map(|job| held(problem, *job)) {
        gpus[slot.node][slot.gpu_type] += slot.count;
    }
    gpus
}

/// Converts single GPUs to slots.
pub fn slots(gpus: impl Iterator<Item = TaskGpu>) -> Vec<Slot> {
    let mut counts: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for gpu in gpus {
        *counts.entry((gpu.node, gpu.gpu_type)).or_default() += 1;
    }
    counts.into_iter().map(|((node, gpu_type), count)| Slot { node, gpu_type, count }).collect()
}

/// Returns a job's placement on these GPUs, if necessary without types that are too slow to participate;
/// `None` if the number of GPUs is not within the job's limits.
pub fn placed(problem: &Problem, job: usize, mut slots: Vec<Slot>) -> Option<Placement> {
    let model = &problem.jobs[job];
    loop {
        let count: u32 = slots.iter().map(|slot| slot.count).sum();
        if !(model.min_gpus..=model.max_gpus).contains(&count) {
            return None;
        }
        if let Some(placement) = Placement::new(problem, job, &slots, Sharing::Balanced) {
            return Some(placement);
        }
        let rate = |slot: &Slot| model.types[slot.gpu_type].map_or(0.0, |model| model.speed.rate_at(1.0));
        let slowest = slots.iter().map(rate).min_by(f64::total_cmp)?;
        slots.retain(|slot| rate(slot) > slowest);
    }
}

/// Returns the GPUs of a running job, in order.
pub fn held(problem: &Problem, job: usize) -> Vec<Slot> {
    let holds = problem.jobs[job].progress.running();
    let mut slots: Vec<Slot> = holds.flat_map(|hold| hold.slots.clone()).collect();
    slots.sort_unstable();
    slots
}

/// Returns a duration in words.
pub fn in_words(seconds: f64) -> String {
    match seconds {
        short if short < 100.0 => format!("{short:.0} s"),
        some if some < 6000.0 => format!("{:.0} min", some / 60.0),
        long => format!("{:.1} h", long / 3600.0),
    }
}
