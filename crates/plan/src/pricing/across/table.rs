//! All rings of one job, costed once, where they are few and each takes long to cost.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::pricing::across::Across;

/// The rings of a job with their costs, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Number of the job's types.
    types: usize,
    /// Counts by the job's types, ring by ring.
    counts: Vec<u32>,
    costs: Vec<f64>,
    /// Rings that cost less than all that are within them, by rising cost.
    worth_having: Vec<usize>,
}

/// The times of a step of all rings of jobs, kept for jobs with the same ones: they take most of the time of a table, and do not
/// depend on how many epochs are left.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepTimes {
    /// By all that they depend on, in the order of the counts; infinite for rings that are not legal.
    known: RefCell<HashMap<Vec<u64>, Rc<[f64]>>>,
}

/// So many tables of times are kept, of 32 KiB at most.
const MOST_KEPT: usize = 256;

impl StepTimes {
    /// Returns the times of a job's rings.
    fn of(&self, across: &Across<'_>) -> Rc<[f64]> {
        let key = across.key();
        if let Some(known) = self.known.borrow().get(&key) {
            return Rc::clone(known);
        }
        let times = step_times(across);
        let mut known = self.known.borrow_mut();
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.insert(key, Rc::clone(&times));
        times
    }
}

/// Returns the time of a step of each ring, in the order of the counts.
fn step_times(across: &Across<'_>) -> Rc<[f64]> {
    let mut times = Vec::new();
    let mut counts = vec![0; across.types.len()];
    loop {
        times.push(across.step(&counts).unwrap_or(f64::INFINITY));
        if !next(&mut counts, &across.caps) {
            return times.into();
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

/// The most rings that are tabulated: 4096 take about a tenth of a MiB.
const MOST: u64 = 4096;

impl Table {
    /// Costs all rings of a job; `None` where they are many.
    pub(super) fn new(across: &Across<'_>, kept: Option<&StepTimes>) -> Option<Self> {
        let volume = across.caps.iter().fold(1_u64, |all, &cap| all.saturating_mul(u64::from(cap) + 1));
        if volume > MOST {
            return None;
        }
        let times = kept.map_or_else(|| step_times(across), |kept| kept.of(across));
        let types = across.types.len();
        let mut table = Self { types, counts: Vec::new(), costs: Vec::new(), worth_having: Vec::new() };
        // The least cost of any ring within these counts, for all counts so far.
        let mut least: Vec<f64> = Vec::new();
        let mut counts = vec![0; types];
        for &time in times.iter() {
            let within = table.least_within(&counts, &across.caps, &least);
            let cost = time.is_finite().then(|| across.cost_of_step(&counts, time));
            least.push(cost.map_or(within, |cost| cost.min(within)));
            if let Some(cost) = cost {
                if cost < within {
                    table.worth_having.push(table.costs.len());
                }
                table.counts.extend(&counts);
                table.costs.push(cost);
            }
            next(&mut counts, &across.caps);
        }
        table.worth_having.sort_by(|&a, &b| table.costs[a].total_cmp(&table.costs[b]));
        Some(table)
    }

    /// Returns the least cost of all rings with a GPU less, or more GPUs less.
    fn least_within(&self, counts: &[u32], caps: &[u32], least: &[f64]) -> f64 {
        let mut stride = 1;
        let mut within = f64::INFINITY;
        for ty in 0..self.types {
            if counts[ty] > 0 {
                within = within.min(least[least.len() - stride]);
            }
            stride *= caps[ty] as usize + 1;
        }
        within
    }

    /// Returns the cost and the counts of every ring.
    pub(super) fn all(&self) -> impl Iterator<Item = (f64, &[u32])> {
        self.costs.iter().copied().zip(self.counts.chunks_exact(self.types))
    }

    /// Returns the cost and the counts of those that are the cheapest at some prices, by rising cost: not the
    /// ones that have all the GPUs of another and cost no less.
    pub(super) fn worth_having(&self) -> impl Iterator<Item = (f64, &[u32])> {
        let order_key = |&ring: &usize| (self.costs[ring], &self.counts[ring * self.types..][..self.types]);
        self.worth_having.iter().map(order_key)
    }
}
