//! All rings of one job, evaluated once, if they are few and slow to evaluate.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::pricing::across::Across;

/// The rings of a job with their costs, in seconds.
#[derive(Clone, Debug)]
pub(super) struct RingTable {
    rings: Rc<JobRings>,
    /// Cost of one second per step, and of exchanging gradients among infinitely many ranks.
    by_step: f64,
    comm: f64,
}

/// All legal rings of jobs that differ only in their epochs.
#[derive(Debug)]
struct JobRings {
    /// Number of the job's types.
    types: usize,
    /// Counts by the job's types, ring by ring.
    counts: Vec<u32>,
    /// Step time, and the communication relative to infinitely many ranks, ring by ring.
    steps: Vec<f64>,
    hops: Vec<f64>,
    /// Rings that cost less than all smaller rings, by ascending cost.
    worth_having: Vec<usize>,
}

/// Intermediate results for jobs with the same rings, which do not depend on the remaining epochs and take
/// most of the time of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepTimes {
    /// Step times by all of their inputs, in the order of counts; infinite for illegal rings.
    times: RefCell<HashMap<Vec<u64>, Rc<[f64]>>>,
    /// Rings by the same key and the costs of a step and an exchange in one epoch.
    rings: RefCell<HashMap<Vec<u64>, Rc<JobRings>>>,
}

/// Maximum number of entries of each kind, at most 128 KiB each.
const MOST_KEPT: usize = 256;

/// Maximum number of rings in a table: 4096 take about 0.1 MiB.
const MOST: u64 = 4096;

impl StepTimes {
    /// Returns the rings of a job.
    fn rings(&self, across: &Across<'_>) -> Rc<JobRings> {
        let (key, unit) = (across.key(), across.unit_costs());
        let with_costs = [key.as_slice(), &unit.map(f64::to_bits)].concat();
        known(&self.rings, with_costs, || {
            let times = known(&self.times, key, || step_times(across).into());
            Rc::new(JobRings::new(across, &times, unit))
        })
    }
}

/// Returns the entry for a key, and creates it if it is missing.
fn known<T: ?Sized>(
    kept: &RefCell<HashMap<Vec<u64>, Rc<T>>>,
    key: Vec<u64>,
    make: impl FnOnce() -> Rc<T>,
) -> Rc<T> {
    if let Some(known) = kept.borrow().get(&key) {
        return Rc::clone(known);
    }
    let made = make();
    let mut kept = kept.borrow_mut();
    if kept.len() >= MOST_KEPT {
        kept.clear();
    }
    kept.insert(key, Rc::clone(&made));
    made
}

/// Returns the step time of each ring, in the order of counts.
fn step_times(across: &Across<'_>) -> Vec<f64> {
    let mut times = Vec::new();
    let mut counts = vec![0; across.types.len()];
    loop {
        times.push(across.step(&counts).unwrap_or(f64::INFINITY));
        if !next(&mut counts, &across.caps) {
            return times;
        }
    }
}

/// Advances `counts`; returns whether there are more.
fn next(counts: &mut [u32], caps: &[u32]) -> bool {
    let Some(ty) = (0..counts.len()).find(|&ty| counts[ty] < caps[ty]) else { return false };
    counts[ty] += 1;
    counts[..ty].fill(0);
    true
}

impl RingTable {
    /// Evaluates all rings of a job; `None` if there are too many.
    pub(super) fn new(across: &Across<'_>, kept: Option<&StepTimes>) -> Option<Self> {
        let volume = across.caps.iter().fold(1_u64, |all, &cap| all.saturating_mul(u64::from(cap) + 1));
        if volume > MOST {
            return None;
        }
        let anew = || Rc::new(JobRings::new(across, &step_times(across), across.unit_costs()));
        let rings = kept.map_or_else(anew, |kept| kept.rings(across));
        Some(Self { rings, by_step: across.compute / across.batch, comm: across.comm })
    }

    /// Returns a ring's cost and its counts.
    fn ring(&self, ring: usize) -> (f64, &[u32]) {
        let JobRings { types, counts, steps, hops, .. } = &*self.rings;
        let cost = self.by_step * steps[ring] + self.comm * hops[ring];
        (cost, &counts[ring * types..][..*types])
    }

    /// Returns the cost and the counts of every ring.
    pub(super) fn all(&self) -> impl Iterator<Item = (f64, &[u32])> {
        (0..self.rings.steps.len()).map(|ring| self.ring(ring))
    }

    /// Returns cost and counts of the rings that are cheapest at some prices, by ascending cost: those that
    /// cost less than all smaller rings.
    pub(super) fn worth_having(&self) -> impl Iterator<Item = (f64, &[u32])> {
        self.rings.worth_having.iter().map(|&ring| self.ring(ring))
    }
}

impl JobRings {
    /// Returns the rings of a job with these step times, for these costs of a second per step and of an
    /// exchange in one epoch.
    fn new(across: &Across<'_>, times: &[f64], [by_step, comm]: [f64; 2]) -> Self {
        let types = across.types.len();
        let (counts, steps, hops) = (Vec::new(), Vec::new(), Vec::new());
        let mut rings = Self { types, counts, steps, hops, worth_having: Vec::new() };
        // The lowest cost of any ring within these counts, for all counts so far.
        let mut least: Vec<f64> = Vec::new();
        let mut costs = Vec::new();
        let mut counts = vec![0; types];
        for &time in times {
            let within = least_within(&counts, &across.caps, &least);
            let hop = 1.0 - f64::from(counts.iter().sum::<u32>()).recip();
            let cost = time.is_finite().then_some(by_step * time + comm * hop);
            least.push(cost.map_or(within, |cost| cost.min(within)));
            if let Some(cost) = cost {
                if cost < within {
                    rings.worth_having.push(costs.len());
                }
                rings.counts.extend(&counts);
                rings.steps.push(time);
                rings.hops.push(hop);
                costs.push(cost);
            }
            next(&mut counts, &across.caps);
        }
        rings.worth_having.sort_by(|&a, &b| costs[a].total_cmp(&costs[b]));
        rings
    }
}

/// Returns the lowest cost of all smaller rings.
fn least_within(counts: &[u32], caps: &[u32], least: &[f64]) -> f64 {
    let mut stride = 1;
    let mut within = f64::INFINITY;
    for (&count, &cap) in counts.iter().zip(caps) {
        if count > 0 {
            within = within.min(least[least.len() - stride]);
        }
        stride *= cap as usize + 1;
    }
    within
}
