//! `hadare`: a job runs on several nodes at once, as copies that train separately for a round and are then
//! merged.
//!
//! Decides which job takes which node and how many steps each copy does. The decision looks at one round and
//! reads no clock.

use std::cmp::Ordering;

use crate::hadar::{by_digits, rate};
use hsched_model::Seconds;
use hsched_model::number::{to_f64, to_u64};
use hsched_plan::{JobModel, Objective, Problem};

/// User-defined parameters of `hadare`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HadareParameters {
    /// L, the length of a round.
    pub round: Seconds,
    /// The part of a round in which no copy trains, because the copies are read and merged.
    pub overhead: Seconds,
    pub objective: ForkObjective,
}

/// Which jobs come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForkObjective {
    /// The jobs closest to their ends take as many nodes as they need to end in this round.
    #[default]
    MeanJct,
    /// Every job gets one node; then the job that would end last gets another, repeatedly.
    Makespan,
}

impl ForkObjective {
    /// Returns the variant for an objective; `None` if there is none.
    pub fn of(objective: Objective) -> Option<Self> {
        match objective {
            Objective::MeanJct => Some(Self::MeanJct),
            Objective::Makespan => Some(Self::Makespan),
            Objective::Weighted | Objective::Deadlines => None,
        }
    }
}

impl Default for HadareParameters {
    fn default() -> Self {
        Self { round: Seconds(360.0), overhead: Seconds(0.0), objective: ForkObjective::default() }
    }
}

impl HadareParameters {
    /// Returns T, the part of a round in which copies train.
    pub fn training(&self) -> f64 {
        (self.round.0 - self.overhead.0).max(0.0)
    }
}

/// A job that may be forked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fork {
    /// S, the remaining steps.
    pub steps: u64,
    /// X, steps per second by node; 0 if the job cannot run there.
    pub speeds: Vec<f64>,
    /// Maximum number of copies.
    pub most: usize,
}

/// The work of a copy in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CopyShare {
    pub node: usize,
    pub steps: u64,
    /// Duration of the work, in seconds.
    pub busy: f64,
}

/// Tolerance when a number of steps is rounded down.
const SLACK: f64 = 1e-9;

/// Returns the steps per second of a job on all usable GPUs of each node.
pub(super) fn node_speeds(problem: &Problem, job: &JobModel) -> Vec<f64> {
    problem.nodes.iter().map(|node| node_speed(job, &node.gpus)).collect()
}

/// Returns the steps per second of one copy on some GPUs by type; 0 if it can use none of them.
pub(super) fn node_speed(job: &JobModel, gpus: &[u32]) -> f64 {
    // Slices cannot form a ring, so a copy uses a single slice, and only on a node without whole GPUs for the
    // job.
    let usable = |alone: bool| {
        let present = gpus.iter().zip(&job.types).filter(|(count, _)| **count > 0);
        present.filter_map(move |(count, model)| {
            model.filter(|model| model.single_rank == alone).map(|model| (*count, model))
        })
    };
    let count: u32 = usable(false).map(|(count, _)| count).sum();
    if count > 0 {
        return usable(false)
            .filter_map(|(of_type, ty)| Some(f64::from(of_type) * rate(job, ty, count)?))
            .sum();
    }
    usable(true).filter_map(|(_, ty)| rate(job, ty, 1)).fold(0.0, f64::max)
}

/// Returns the copies of every job for a round with `time` seconds of training, in the order in which each
/// job took its nodes; `free` flags the free nodes.
pub(super) fn fork(jobs: &[Fork], free: &[bool], time: f64, objective: ForkObjective) -> Vec<Vec<CopyShare>> {
    let mut seats = Seats::new(jobs, free);
    if objective == ForkObjective::MeanJct {
        let mut queue: Vec<usize> = (0..jobs.len()).collect();
        queue.sort_by(|a, b| by_digits(seats.alone(*a), seats.alone(*b)).then(a.cmp(b)));
        for job in queue {
            while by_digits(seats.end(job), time) == Ordering::Greater && seats.take(job) {}
        }
    }
    while let Some(job) = seats.neediest() {
        seats.take(job);
    }
    let split = |(job, nodes): (&Fork, &Vec<usize>)| split(job, nodes, time);
    jobs.iter().zip(&seats.taken).map(split).collect()
}

/// The assignment of nodes in progress.
struct Seats<'a> {
    jobs: &'a [Fork],
    free: Vec<bool>,
    /// The nodes of each job in the order in which it took them.
    taken: Vec<Vec<usize>>,
    /// By job, Σ X over all nodes.
    totals: Vec<f64>,
    /// By node, Σ over the jobs of the fraction of the job's total speed that this node has.
    wanted: Vec<f64>,
}

impl<'a> Seats<'a> {
    fn new(jobs: &'a [Fork], free: &[bool]) -> Self {
        let totals: Vec<f64> = jobs.iter().map(|job| job.speeds.iter().sum()).collect();
        let part = |job: usize, node: usize| {
            if totals[job] > 0.0 { jobs[job].speeds[node] / totals[job] } else { 0.0 }
        };
        let wanted = |node| (0..jobs.len()).map(|job| part(job, node)).sum();
        let wanted = (0..free.len()).map(wanted).collect();
        Self { jobs, free: free.to_vec(), taken: vec![Vec::new(); jobs.len()], wanted, totals }
    }

    /// Returns the seconds that a job takes on all nodes together.
    fn alone(&self, job: usize) -> f64 {
        steps(&self.jobs[job]) / self.totals[job]
    }

    /// Returns the seconds that a job takes on its nodes.
    fn end(&self, job: usize) -> f64 {
        let speeds = self.taken[job].iter().map(|node| self.jobs[job].speeds[*node]);
        // `sum` of an empty sequence would be -0.
        steps(&self.jobs[job]) / speeds.fold(0.0, |sum, speed| sum + speed)
    }

    /// Returns the free node on which a job is best relative to all jobs.
    fn best(&self, job: usize) -> Option<usize> {
        let fork = &self.jobs[job];
        if self.taken[job].len() >= fork.most {
            return None;
        }
        let usable = (0..self.free.len()).filter(|&node| self.free[node] && fork.speeds[node] > 0.0);
        let value = |node: usize| fork.speeds[node] / self.totals[job] / self.wanted[node];
        usable.reduce(
            |best, node| {
                if by_digits(value(node), value(best)) == Ordering::Greater { node } else { best }
            },
        )
    }

    /// Assigns to a job its best free node; returns whether it has one.
    fn take(&mut self, job: usize) -> bool {
        let Some(node) = self.best(job) else { return false };
        self.free[node] = false;
        self.taken[job].push(node);
        true
    }

    /// Returns the next job to get a node: the longest one without a node, else the one that ends last.
    fn neediest(&self) -> Option<usize> {
        let able = || (0..self.jobs.len()).filter(|&job| self.best(job).is_some());
        let longest =
            |jobs: &mut dyn Iterator<Item = usize>, length: &dyn Fn(usize) -> f64| {
                jobs.reduce(|most, job| {
                    if by_digits(length(job), length(most)) == Ordering::Greater { job } else { most }
                })
            };
        let without = longest(&mut able().filter(|&job| self.taken[job].is_empty()), &|job| self.alone(job));
        without.or_else(|| longest(&mut able(), &|job| self.end(job)))
    }
}

/// Returns the steps of each copy of a job in a round.
fn split(job: &Fork, nodes: &[usize], time: f64) -> Vec<CopyShare> {
    let speeds: Vec<f64> = nodes.iter().map(|node| job.speeds[*node]).collect();
    let most: Vec<u64> = speeds.iter().map(|speed| floor(speed * time)).collect();
    let steps = if most.iter().sum::<u64>() <= job.steps { most } else { shares(job.steps, &speeds) };
    let share = |((node, speed), steps): ((&usize, &f64), u64)| CopyShare {
        node: *node,
        steps,
        busy: to_f64(steps) / speed,
    };
    nodes.iter().zip(&speeds).zip(steps).map(share).collect()
}

/// Divides steps in proportion to speeds; the steps that rounding down leaves go to the largest remainders,
/// the first of equal ones first.
pub(super) fn shares(steps: u64, speeds: &[f64]) -> Vec<u64> {
    let total: f64 = speeds.iter().sum();
    let exact: Vec<f64> = speeds.iter().map(|speed| to_f64(steps) * speed / total).collect();
    let mut parts: Vec<u64> = exact.iter().map(|part| floor(*part)).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    let remainder = |place: usize| exact[place] - to_f64(parts[place]);
    let remainders: Vec<f64> = (0..parts.len()).map(remainder).collect();
    order.sort_by(|a, b| {
        let near = (remainders[*a] - remainders[*b]).abs() <= SLACK;
        let larger = if near { Ordering::Equal } else { remainders[*b].total_cmp(&remainders[*a]) };
        larger.then(a.cmp(b))
    });
    let left = steps.saturating_sub(parts.iter().sum());
    order.into_iter().cycle().zip(0..left).for_each(|(place, _)| parts[place] += 1);
    parts
}

fn steps(job: &Fork) -> f64 {
    to_f64(job.steps)
}

fn floor(steps: f64) -> u64 {
    to_u64((steps + SLACK).floor().max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the steps of each job's copies by node, and the job's remaining steps.
    fn round(jobs: &[(u64, &[f64])], time: f64, objective: ForkObjective) -> Vec<(Vec<(usize, u64)>, u64)> {
        let forks: Vec<Fork> = jobs
            .iter()
            .map(|(steps, speeds)| Fork { steps: *steps, speeds: speeds.to_vec(), most: usize::MAX })
            .collect();
        let copies = fork(&forks, &vec![true; jobs[0].1.len()], time, objective);
        let told = |(job_copies, (steps, _)): (&Vec<CopyShare>, &(u64, &[f64]))| {
            let shares: Vec<(usize, u64)> = job_copies.iter().map(|copy| (copy.node, copy.steps)).collect();
            let left = steps - shares.iter().map(|(_, steps)| steps).sum::<u64>();
            (shares, left)
        };
        copies.iter().zip(jobs).map(told).collect()
    }

    #[test]
    fn one_job_takes_all_nodes() {
        let copies = round(&[(9000, &[10.0, 1.0, 4.0])], 360.0, ForkObjective::MeanJct);
        assert_eq!(copies, [(vec![(0, 3600), (1, 360), (2, 1440)], 3600)]);
    }

    #[test]
    fn jobs_share_nodes_by_what_they_are_best_at() {
        let jobs: [(u64, &[f64]); 2] = [(9000, &[10.0, 1.0, 4.0, 4.0]), (600, &[3.0, 1.5, 2.0, 2.0])];
        let copies = round(&jobs, 350.0, ForkObjective::Makespan);
        assert_eq!(copies, [(vec![(0, 3500), (2, 1400), (3, 1400)], 2700), (vec![(1, 525)], 75)]);
        let jobs: [(u64, &[f64]); 3] = [(400, &[8.0, 2.0]), (100, &[4.0, 2.5]), (1000, &[9.0, 3.0])];
        let copies = round(&jobs, 90.0, ForkObjective::MeanJct);
        assert_eq!(copies, [(vec![(0, 400)], 0), (vec![(1, 100)], 0), (vec![], 1000)]);
    }

    #[test]
    fn what_is_left_is_split_without_loss() {
        assert_eq!(shares(10, &[1.0, 1.0, 1.0]), [4, 3, 3]);
        assert_eq!(shares(2, &[5.0, 3.0, 2.0]), [1, 1, 0]);
        assert_eq!(shares(0, &[1.0]), [0]);
        assert_eq!(shares(7, &[]), Vec::<u64>::new());
    }

    #[test]
    fn a_job_has_no_more_copies_than_it_may() {
        let job = Fork { steps: 1000, speeds: vec![1.0, 0.0, 2.0, 3.0], most: 2 };
        let copies = fork(&[job], &[true; 4], 10.0, ForkObjective::Makespan);
        let nodes: Vec<usize> = copies[0].iter().map(|copy| copy.node).collect();
        assert_eq!(nodes, [0, 2], "all nodes are equally good for the only job: node order");
    }
}
