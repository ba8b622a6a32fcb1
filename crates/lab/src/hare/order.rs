//! The order in which Hare schedules the rounds of all jobs, and a lower bound for every schedule.
//!
//! Every GPU has a price, so the work of a job is a number: the cost of its tasks where they are cheapest. A
//! single machine that does this work in descending order of weight over work, with preemption, gives every
//! round a middle time, and the rounds are ordered by these. The same machine gives a lower bound on Σ weight
//! × completion: if the prices of all GPUs sum to one, the middle times of every schedule satisfy the
//! inequalities of a single machine (Queyranne for each GPU, then Cauchy and Schwarz), and this order is
//! optimal under these inequalities (Goemans, for jobs that arrive over time).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hsched_model::number::to_f64;
use hsched_plan::kit::{TIE, TaskJob, Tasks};

/// The order of all rounds, with the data behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundOrder {
    /// The price of a GPU by type; the prices of all GPUs sum to one.
    pub prices: Vec<f64>,
    /// By job, the middle times of its rounds in seconds; empty for a job that cannot run.
    pub middles: Vec<Vec<f64>>,
    /// Jobs with the indices of their rounds, in order.
    pub rounds: Vec<(usize, u64)>,
    /// Lower bound on Σ weight × completion for all schedules, over the jobs that can run.
    pub lower_bound: f64,
}

/// The progress of a job on the single machine.
struct MachineWork {
    /// V, its total work.
    whole: f64,
    /// Completed work.
    done: f64,
    /// Rank by descending weight over work; ties by job number.
    rank: usize,
    /// ∫ t over the time in which the machine works on the job.
    moment: f64,
    /// When the machine has completed half of each round.
    halves: Vec<f64>,
}

/// Returns the order of all rounds of these jobs.
pub fn order(tasks: &Tasks) -> RoundOrder {
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
    RoundOrder { rounds: sorted(&middles), lower_bound: f64::max(alone, shared), prices, middles }
}

/// Returns the middle time of each job's first round if all jobs arrive at 0; `None` for a job that cannot
/// run.
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

/// Returns the price of a GPU by type, in proportion to its mean speed over the jobs that can run, relative
/// to each job's fastest type; the prices of all GPUs sum to one.
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

    /// Works for `long` seconds from `now` on.
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

/// Ranks the jobs by descending weight over work; among equal ones, the first has the lower rank.
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

/// Lets one machine of speed one do all the work; it always works on the arrived job with the lowest rank.
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

/// Returns the middle times of rounds whose halves are completed at `halves`: the first no sooner than
/// `first`, each at least a step after the previous one.
fn spread(first: f64, step: f64, halves: &[f64]) -> Vec<f64> {
    let mut soonest = first;
    let middle = |half: &f64| {
        let middle = half.max(soonest);
        soonest = middle + step;
        middle
    };
    halves.iter().map(middle).collect()
}

/// Returns all rounds by middle time; among equal ones, the first job comes first.
fn sorted(middles: &[Vec<f64>]) -> Vec<(usize, u64)> {
    let of_job = |(job, job_middles): (usize, &Vec<f64>)| {
        (0..).zip(job_middles.clone()).map(move |(round, middle)| (middle, (job, round))).collect::<Vec<_>>()
    };
    let mut all: Vec<(f64, (usize, u64))> = middles.iter().enumerate().flat_map(of_job).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    by_number_among_equals(&mut all, |a, b| a.1.cmp(&b.1));
    all.into_iter().map(|(_, key)| key).collect()
}

/// Reorders runs of a sorted list whose values differ only by rounding.
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
