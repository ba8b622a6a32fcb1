//! Pending jobs in order, grouped by shape: if one does not fit, no other job of its shape fits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;

use hsched_model::Time;

/// A job's sort key: smaller comes first, and equal ones are sorted by job index.
pub type OrderKey = (u64, u64);

/// Number of replicas, and the number of GPUs for them by type (0 if impossible): either all jobs of one
/// shape fit, or none does.
pub(crate) type GpuShape = (u32, Vec<u32>);

/// The pending and the running jobs.
#[derive(Default)]
pub struct Line {
    shapes: BTreeMap<GpuShape, usize>,
    waiting: Vec<BTreeSet<(OrderKey, usize)>>,
    /// Position of each pending job.
    place: Vec<Option<(usize, OrderKey)>>,
    /// Running jobs in the order of the last decision, then those that started since; some may no longer run.
    order: Vec<usize>,
    runs: Vec<bool>,
    /// Whether a job is in `order`.
    is_listed: Vec<bool>,
}

/// Pending jobs of all shapes, merged into one order.
pub struct Merge {
    heads: BinaryHeap<Reverse<(OrderKey, usize, usize)>>,
}

/// The next job in order.
pub struct NextJob {
    pub job: usize,
    shape: usize,
}

/// Converts a non-negative value to an integer with the same order.
pub fn order(value: f64) -> u64 {
    value.max(0.0).to_bits()
}

/// Returns the sort key of a job with this arrival time.
pub fn by_arrival(arrival: Time) -> OrderKey {
    (0, order(arrival.0))
}

impl Line {
    pub fn wait(&mut self, job: usize, shape: GpuShape, rank: OrderKey) {
        let next = self.waiting.len();
        let shape = *self.shapes.entry(shape).or_insert(next);
        if shape == next {
            self.waiting.push(BTreeSet::new());
        }
        self.waiting[shape].insert((rank, job));
        if self.place.len() <= job {
            self.place.resize(job + 1, None);
        }
        self.place[job] = Some((shape, rank));
    }

    pub fn run(&mut self, job: usize) {
        if self.runs.len() <= job {
            self.runs.resize(job + 1, false);
            self.is_listed.resize(job + 1, false);
        }
        self.runs[job] = true;
        if !self.is_listed[job] {
            self.is_listed[job] = true;
            self.order.push(job);
        }
    }

    /// Returns whether a job runs.
    pub fn is_running(&self, job: usize) -> bool {
        self.runs.get(job).copied().unwrap_or(false)
    }

    /// Returns all running jobs.
    pub fn running(&mut self) -> &[usize] {
        let Self { order, runs, is_listed, .. } = self;
        order.retain(|&job| {
            is_listed[job] = runs[job];
            runs[job]
        });
        order
    }

    /// Stores the order of all running jobs for the next decision.
    pub(crate) fn keep_order(&mut self, ranked: &[(OrderKey, usize)]) {
        self.order.clear();
        self.order.extend(ranked.iter().map(|(_, job)| *job));
    }

    pub fn remove(&mut self, job: usize) {
        if let Some(runs) = self.runs.get_mut(job) {
            *runs = false;
        }
        if let Some((shape, rank)) = self.place.get_mut(job).and_then(Option::take) {
            self.waiting[shape].remove(&(rank, job));
        }
    }

    /// Returns all pending jobs.
    pub fn waiting(&self) -> impl Iterator<Item = usize> {
        self.waiting.iter().flatten().map(|(_, job)| *job)
    }

    /// Returns the pending jobs of all shapes, merged into one order.
    pub fn merge(&self) -> Merge {
        let heads = self.waiting.iter().enumerate();
        let heads = heads.filter_map(|(shape, jobs)| jobs.first().map(|&(rank, job)| (rank, job, shape)));
        Merge { heads: heads.map(Reverse).collect() }
    }
}

impl Merge {
    /// Returns the sort key and the index of the next job.
    pub fn peek(&self) -> Option<(OrderKey, usize)> {
        self.heads.peek().map(|Reverse((rank, job, _))| (*rank, *job))
    }

    /// Returns the next job; further jobs of its shape follow unless the shape is dropped.
    pub fn next(&mut self, line: &Line) -> Option<NextJob> {
        let Reverse((rank, job, shape)) = self.heads.pop()?;
        let after = (Bound::Excluded((rank, job)), Bound::Unbounded);
        let following = line.waiting[shape].range(after).next();
        self.heads.extend(following.map(|&(rank, job)| Reverse((rank, job, shape))));
        Some(NextJob { job, shape })
    }

    /// Drops all further jobs with the shape of one that did not fit.
    pub fn drop_shape(&mut self, next: &NextJob) {
        self.heads.retain(|Reverse((_, _, shape))| *shape != next.shape);
    }
}
