//! The order in which Hare schedules the rounds of all jobs, and a lower bound on every schedule.
//!
//! Every GPU has a price, so that a job's work is a number: what its tasks cost where they are cheapest. One machine that does
//! this work by falling weight over work, and interrupts whom it must, gives every round a middle time; rounds go by these.
//! The same machine bounds Σ weight × completion from below: for prices that sum to one, the middle times of every schedule
//! obey the inequalities of one machine (Queyranne for each GPU, then Cauchy and Schwarz), of which this order is the best
//! solution (Goemans, for jobs that arrive over time).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hsched_model::number::to_f64;
use hsched_plan::kit::{TIE, TaskJob, Tasks};

/// The order of all rounds, with what it was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The price of a GPU by type; the prices of all GPUs sum to one.
    pub prices: Vec<f64>,
    /// By job, when the middle of each of its rounds is due, in seconds; empty for one that can run nowhere.
    pub middles: Vec<Vec<f64>>,
    /// Jobs and their rounds, counted from 0, the first one first.
    pub rounds: Vec<(usize, u64)>,
    /// Σ weight × completion of no schedule is less, of the jobs that can run.
    pub lower_bound: f64,
}

/// What the one machine does with a job.
struct MachineWork {
    /// V, its whole work.
    whole: f64,
    /// How much of it is done.
    done: f64,
    /// Its place by falling weight over work; equal ones by their numbers.
    rank: usize,
    /// ∫ t over the time that the machine works at it.
    moment: f64,
    /// When the machine has done each round by half.
    halves: Vec<f64>,
}

/// Returns the order of all rounds of these jobs.
pub fn order(tasks: &Tasks) -> Order {
    let prices = prices(tasks);
    let mut works: Vec<Option<MachineWork>> =
        tasks.jobs.iter().map(|job| MachineWork::new(job, &prices)).collect();
    rank(&tasks.jobs, &mut works);
    run(&tasks.jobs, &mut works);
    let (mut alone, mut shared) = (0.0, 0.0);
    let mut middles = Vec::with_capacity(works.len());
    for (job, work) in tasks.jobs.iter().zip(&works) {
        let (Some(work), Some(fastest)) = (work, job.fastest()) else {
            middles.push(Vec::new());
            continue;
        };
        let step = fastest + job.sync;
        let rounds = to_f64(job.rounds);
        alone += job.weight * (job.arrival + rounds * step);
        let mean = work.moment / work.whole;
        shared += job.weight * (mean + step * (rounds - 1.0) / 2.0 + fastest / 2.0 + job.sync);
        middles.push(spread(job.arrival + fastest / 2.0, step, &work.halves));
    }
    Order { rounds: sorted(&middles), lower_bound: f64::max(alone, shared), prices, middles }
}

/// Returns when the middle of each job's first round is due, of jobs that have all arrived at 0; `None` for one that can run
/// nowhere.
pub(super) fn first_middles(tasks: &Tasks) -> Vec<Option<f64>> {
    let prices = prices(tasks);
    let mut works: Vec<Option<MachineWork>> =
        tasks.jobs.iter().map(|job| MachineWork::new(job, &prices)).collect();
    rank(&tasks.jobs, &mut works);
    let mut in_order: Vec<usize> = (0..works.len()).filter(|job| works[*job].is_some()).collect();
    in_order.sort_by_key(|job| works[*job].as_ref().map(|work| work.rank));
    let mut middles = vec![None; works.len()];
    let mut before = 0.0;
    for job in in_order {
        let (Some(work), Some(fastest)) = (&works[job], tasks.jobs[job].fastest()) else { continue };
        middles[job] =
            Some(f64::max(before + work.whole / to_f64(tasks.jobs[job].rounds) / 2.0, fastest / 2.0));
        before += work.whole;
    }
    middles
}

/// Returns the price of a GPU by type: how fast jobs are on it, on average over those that can run, each compared with its
/// fastest type.
fn prices(tasks: &Tasks) -> Vec<f64> {
    let mut sums = vec![0.0; tasks.counts.len()];
    for job in &tasks.jobs {
        let Some(fastest) = job.fastest() else { continue };
        for (sum, time) in sums.iter_mut().zip(&job.times) {
            *sum += time.map_or(0.0, |time| fastest / time);
        }
    }
    let whole: f64 = sums.iter().zip(&tasks.counts).map(|(sum, count)| sum * f64::from(*count)).sum();
    sums.iter().map(|sum| if whole > 0.0 { sum / whole } else { 0.0 }).collect()
}

impl MachineWork {
    fn new(job: &TaskJob, prices: &[f64]) -> Option<Self> {
        let costs = job.times.iter().zip(prices).filter_map(|(time, price)| Some((*time)? * price));
        let cheapest = costs.min_by(f64::total_cmp)?;
        let whole = to_f64(job.rounds) * to_f64(job.scale) * cheapest;
        let rounds = usize::try_from(job.rounds).unwrap_or(0);
        Some(Self { whole, done: 0.0, rank: 0, moment: 0.0, halves: Vec::with_capacity(rounds) })
    }

    /// Works from `now` on for `long` seconds.
    fn go_on(&mut self, rounds: u64, now: f64, long: f64) {
        self.moment += long * (now + long / 2.0);
        let until = self.done + long + TIE * self.whole;
        loop {
            let half = self.whole * (to_f64(self.halves.len()) + 0.5) / to_f64(rounds);
            if half > until || self.halves.len() as u64 == rounds {
                break;
            }
            self.halves.push(now + half - self.done);
        }
        self.done += long;
    }
}

/// Puts the jobs in the order of falling weight over work; of equal ones the first comes first.
fn rank(jobs: &[TaskJob], works: &mut [Option<MachineWork>]) {
    let ratio = |(number, work): (usize, &Option<MachineWork>)| {
        Some((jobs[number].weight / work.as_ref()?.whole, number))
    };
    let mut ratios: Vec<(f64, usize)> = works.iter().enumerate().filter_map(ratio).collect();
    ratios.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    by_number_among_equals(&mut ratios, |a, b| a.1.cmp(&b.1));
    for (rank, (_, number)) in ratios.into_iter().enumerate() {
        if let Some(work) = &mut works[number] {
            work.rank = rank;
        }
    }
}

/// Lets one machine of speed one do all the work, at any time that of the first in rank that has arrived.
fn run(jobs: &[TaskJob], works: &mut [Option<MachineWork>]) {
    let mut arrivals: Vec<usize> = (0..jobs.len()).filter(|&job| works[job].is_some()).collect();
    arrivals.sort_by(|a, b| jobs[*a].arrival.total_cmp(&jobs[*b].arrival).then(a.cmp(b)));
    let mut next = arrivals.into_iter().peekable();
    let mut there: BinaryHeap<Reverse<(usize, usize)>> = BinaryHeap::new();
    let mut now = 0.0_f64;
    loop {
        if there.is_empty() {
            let Some(job) = next.peek() else { break };
            now = now.max(jobs[*job].arrival);
        }
        while let Some(job) = next.next_if(|job| jobs[*job].arrival <= now) {
            there.push(Reverse((works[job].as_ref().map_or(0, |work| work.rank), job)));
        }
        let Some(&Reverse((_, job))) = there.peek() else { break };
        let Some(work) = &mut works[job] else { break };
        let left = (work.whole - work.done).max(0.0);
        let until_next = next.peek().map_or(f64::INFINITY, |job| jobs[*job].arrival - now);
        work.go_on(jobs[job].rounds, now, left.min(until_next));
        if left <= until_next {
            there.pop();
            now += left;
        } else {
            now = next.peek().map_or(now, |job| jobs[*job].arrival);
        }
    }
}

/// Returns the middles of rounds that the machine has done by half at `halves`: the first no sooner than `first`, each at
/// least a step after the one before.
fn spread(first: f64, step: f64, halves: &[f64]) -> Vec<f64> {
    let mut soonest = first;
    let middle = |half: &f64| {
        let middle = half.max(soonest);
        soonest = middle + step;
        middle
    };
    halves.iter().map(middle).collect()
}

/// Returns all rounds by their middles, of equal ones those of the first job.
fn sorted(middles: &[Vec<f64>]) -> Vec<(usize, u64)> {
    let of_job = |(job, job_middles): (usize, &Vec<f64>)| {
        (0..).zip(job_middles.clone()).map(move |(round, middle)| (middle, (job, round))).collect::<Vec<_>>()
    };
    let mut all: Vec<(f64, (usize, u64))> = middles.iter().enumerate().flat_map(of_job).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    by_number_among_equals(&mut all, |a, b| a.1.cmp(&b.1));
    all.into_iter().map(|(_, key)| key).collect()
}

/// Sorts runs of a sorted list that do not differ from their first but by rounding.
fn by_number_among_equals<T>(
    list: &mut [(f64, T)],
    compare: impl Fn(&(f64, T), &(f64, T)) -> std::cmp::Ordering,
) {
    let mut begin = 0;
    while begin < list.len() {
        let first = list[begin].0;
        let equal =
            list[begin..].iter().take_while(|entry| (entry.0 - first).abs() <= TIE * first.abs()).count();
        let end = begin + equal.max(1);
        list[begin..end].sort_by(&compare);
        begin = end;
    }
}
