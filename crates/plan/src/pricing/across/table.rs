//! All rings of one job, costed once, where they are few and each takes long to cost.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::pricing::across::Across;

/// The rings of a job with their costs, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Table {
    rings: Rc<Rings>,
    /// What a second of a step costs, and exchanging gradients among infinitely many.
    by_step: f64,
    comm: f64,
}

/// All legal rings of jobs that differ by their epochs alone.
#[derive(Debug)]
struct Rings {
    /// Number of the job's types.
    types: usize,
    /// Counts by the job's types, ring by ring.
    counts: Vec<u32>,
    /// The time of a step, and the part of what infinitely many exchange, ring by ring.
    steps: Vec<f64>,
    hops: Vec<f64>,
    /// Rings that cost less than all that are within them, by rising cost.
    worth_having: Vec<usize>,
}

/// What takes most of the time of a table and does not depend on how many epochs are left, kept for jobs with the same rings.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepTimes {
    /// The times of a step by all that they depend on, in the order of the counts; infinite for rings that are not legal.
    times: RefCell<HashMap<Vec<u64>, Rc<[f64]>>>,
    /// The rings by that and by what a step and an exchange cost in one epoch.
    rings: RefCell<HashMap<Vec<u64>, Rc<Rings>>>,
}

/// So many of each are kept, of 128 KiB at most.
const MOST_KEPT: usize = 256;

/// The most rings that are tabulated: 4096 take about a tenth of a MiB.
const MOST: u64 = 4096;

impl StepTimes {
    /// Returns the rings of a job.
    fn rings(&self, across: &Across<'_>) -> Rc<Rings> {
        let (key, unit) = (across.key(), across.unit_costs());
        let with_costs = [key.as_slice(), &unit.map(f64::to_bits)].concat();
        known(&self.rings, with_costs, || {
            let times = known(&self.times, key, || step_times(across).into());
            Rc::new(Rings::new(across, &times, unit))
        })
    }
}

/// Returns what is kept under a key, which is made where it is not there.
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

/// Returns the time of a step of each ring, in the order of the counts.
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

/// Counts up; returns whether there are any more.
fn next(counts: &mut [u32], caps: &[u32]) -> bool {
    let Some(ty) = (0..counts.len()).find(|&ty| counts[ty] < caps[ty]) else { return false };
    counts[ty] += 1;
    counts[..ty].fill(0);
    true
}

impl Table {
    /// Costs all rings of a job; `None` where they are many.
    pub(super) fn new(across: &Across<'_>, kept: Option<&StepTimes>) -> Option<Self> {
        let volume = across.caps.iter().fold(1_u64, |all, &cap| all.saturating_mul(u64::from(cap) + 1));
        if volume > MOST {
            return None;
        }
        let anew = || Rc::new(Rings::new(across, &step_times(across), across.unit_costs()));
        let rings = kept.map_or_else(anew, |kept| kept.rings(across));
        Some(Self { rings, by_step: across.compute / across.batch, comm: across.comm })
    }

    /// Returns a ring's cost and its counts.
    fn ring(&self, ring: usize) -> (f64, &[u32]) {
        let Rings { types, counts, steps, hops, .. } = &*self.rings;
        let cost = self.by_step * steps[ring] + self.comm * hops[ring];
        (cost, &counts[ring * types..][..*types])
    }

    /// Returns the cost and the counts of every ring.
    pub(super) fn all(&self) -> impl Iterator<Item = (f64, &[u32])> {
        (0..self.rings.steps.len()).map(|ring| self.ring(ring))
    }

    /// Returns the cost and the counts of those that are the cheapest at some prices, by rising cost: not the
    /// ones that have all the GPUs of another and cost no less.
    pub(super) fn worth_having(&self) -> impl Iterator<Item = (f64, &[u32])> {
        self.rings.worth_having.iter().map(|&ring| self.ring(ring))
    }
}

impl Rings {
    /// Returns the rings of a job with these times of a step, where a second of a step and an exchange cost so much in one epoch.
    fn new(across: &Across<'_>, times: &[f64], [by_step, comm]: [f64; 2]) -> Self {
        let types = across.types.len();
        let (counts, steps, hops) = (Vec::new(), Vec::new(), Vec::new());
        let mut rings = Self { types, counts, steps, hops, worth_having: Vec::new() };
        // The least cost of any ring within these counts, for all counts so far.
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

/// Returns the least cost of all rings with a GPU less, or more GPUs less.
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
