//! Waiting jobs in order, by shape: if one does not fit, none of its shape does.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;

use hsched_model::Time;

/// A job's place in the order: lesser comes first. Equal ones go by the job's number.
pub type OrderKey = (u64, u64);

/// How many replicas, and by type how many GPUs that is, 0 where they cannot be: jobs of one shape all find room, or none does.
pub type GpuShape = (u32, Vec<u32>);

/// The jobs that wait and those that run.
#[derive(Default)]
pub struct Line {
    shapes: BTreeMap<GpuShape, usize>,
    waiting: Vec<BTreeSet<(OrderKey, usize)>>,
    /// Where each job waits.
    place: Vec<Option<(usize, OrderKey)>>,
    /// Running jobs in the order of the last decision, and some that run no more.
    order: Vec<usize>,
    runs: Vec<bool>,
    /// Whether a job is in `order`.
    is_listed: Vec<bool>,
}

/// Jobs of all shapes in one order.
pub struct Merge {
    heads: BinaryHeap<Reverse<(OrderKey, usize, usize)>>,
}

/// The next job in order.
pub struct NextJob {
    pub job: usize,
    shape: usize,
}

/// Returns a number that orders as the value, which is not negative.
pub fn order(value: f64) -> u64 {
    value.max(0.0).to_bits()
}

/// Returns the rank of a job that came at some time.
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

    /// Keeps the order of all running jobs for the next time.
    pub fn keep_order(&mut self, ranked: &[(OrderKey, usize)]) {
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

    /// Returns all jobs that wait.
    pub fn waiting(&self) -> impl Iterator<Item = usize> {
        self.waiting.iter().flatten().map(|(_, job)| *job)
    }

    /// Returns the jobs in line in one order.
    pub fn merge(&self) -> Merge {
        let heads = self.waiting.iter().enumerate();
        let heads = heads.filter_map(|(shape, jobs)| jobs.first().map(|&(rank, job)| (rank, job, shape)));
        Merge { heads: heads.map(Reverse).collect() }
    }
}

impl Merge {
    /// Returns the place in the order of the next job.
    pub fn peek(&self) -> Option<(OrderKey, usize)> {
        self.heads.peek().map(|Reverse((rank, job, _))| (*rank, *job))
    }

    /// Returns the next job; the next of its shape follows unless the shape is dropped.
    pub fn next(&mut self, line: &Line) -> Option<NextJob> {
        let Reverse((rank, job, shape)) = self.heads.pop()?;
        let after = (Bound::Excluded((rank, job)), Bound::Unbounded);
        let following = line.waiting[shape].range(after).next();
        self.heads.extend(following.map(|&(rank, job)| Reverse((rank, job, shape))));
        Some(NextJob { job, shape })
    }

    /// Leaves out all further jobs of the shape of one that found no room.
    pub fn drop_shape(&mut self, next: &NextJob) {
        self.heads.retain(|Reverse((_, _, shape))| *shape != next.shape);
    }
}
