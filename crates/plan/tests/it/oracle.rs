//! Brute force that shares no code with the policies: each GPU is given to every job in turn, or to none.

#![expect(clippy::cast_precision_loss, reason = "the numbers are small")]

use hsched_plan::{Dues, JobModel, Objective, Problem};

use hsched_problems::bundle_cost;

/// A GPU: its node and its type.
type Worker = (usize, usize);

/// Returns the objective of the best plan that gives every job a GPU, by the number of idle GPUs.
///
/// `None` if there is no legal plan with this number.
pub fn by_idle(problem: &Problem) -> Vec<Option<f64>> {
    let workers = workers(problem);
    let times: Vec<Vec<Option<f64>>> =
        problem.jobs.iter().map(|job| times_by_subset(problem, job, &workers)).collect();
    let nobody = problem.jobs.len();
    let mut owners = vec![0; workers.len()];
    let mut best = vec![None; workers.len() + 1];
    loop {
        let mut subsets = vec![0_usize; nobody + 1];
        for (place, &owner) in owners.iter().enumerate() {
            subsets[owner] |= 1 << place;
        }
        let completions: Option<Vec<f64>> =
            times.iter().zip(&subsets).map(|(times, &subset)| times[subset]).collect();
        if let Some(completions) = completions {
            let place = &mut best[subsets[nobody].count_ones() as usize];
            let value = objective(problem, &completions);
            *place = Some(place.map_or(value, |old: f64| old.min(value)));
        }
        let Some(place) = owners.iter().position(|&owner| owner < nobody) else { return best };
        owners[place] += 1;
        owners[..place].fill(0);
    }
}

/// Returns the objective of the best plan that gives every job a GPU, with any number of idle GPUs.
pub fn best(problem: &Problem) -> Option<f64> {
    by_idle(problem).into_iter().flatten().min_by(f64::total_cmp)
}

/// Returns the cost of a job's completion time in the objective; higher for a late job if deadlines count.
pub fn cost(problem: &Problem, job: usize, time: f64) -> f64 {
    let deadline = problem.jobs[job].aims.deadline.map(|deadline| deadline.0 - problem.now.0);
    match Dues::of(problem).late() {
        Some(late) if deadline.is_some_and(|deadline| time > deadline) => time + late,
        _ => time,
    }
}

/// Returns the objective over completion times, with all jobs placed.
pub fn objective(problem: &Problem, times: &[f64]) -> f64 {
    match problem.objective {
        Objective::MeanJct => times.iter().sum::<f64>() / times.len() as f64,
        Objective::Weighted => {
            let weights: f64 = problem.jobs.iter().map(|job| job.weight).sum();
            times.iter().zip(&problem.jobs).map(|(t, job)| t * job.weight).sum::<f64>() / weights
        }
        Objective::Deadlines => {
            let costs = times.iter().enumerate().map(|(job, &time)| cost(problem, job, time));
            costs.sum::<f64>() / times.len() as f64
        }
        Objective::Makespan => times.iter().copied().fold(0.0, f64::max),
    }
}

fn workers(problem: &Problem) -> Vec<Worker> {
    let nodes = problem.nodes.iter().enumerate();
    nodes
        .flat_map(|(node, worker_node)| {
            worker_node.gpus.iter().enumerate().map(move |(ty, &count)| (node, ty, count))
        })
        .flat_map(|(node, ty, count)| (0..count).map(move |_| (node, ty)))
        .collect()
}

/// Returns a job's time on every subset of the workers, by the subset's bits.
fn times_by_subset(problem: &Problem, job: &JobModel, workers: &[Worker]) -> Vec<Option<f64>> {
    let subset = |bits: usize| -> Vec<Worker> {
        workers
            .iter()
            .enumerate()
            .filter(|(place, _)| bits >> place & 1 == 1)
            .map(|(_, worker)| *worker)
            .collect()
    };
    (0..1 << workers.len()).map(|bits| time(problem, job, &subset(bits))).collect()
}

/// Returns the completion time of a job on these GPUs: the slowest link between any two of them determines
/// the ring's rate.
pub fn time(problem: &Problem, job: &JobModel, workers: &[Worker]) -> Option<f64> {
    let mut bundle = vec![0; problem.gpu_types.len()];
    for &(_, ty) in workers {
        bundle[ty] += 1;
    }
    let mut link = f64::INFINITY;
    for (place, a) in workers.iter().enumerate() {
        for b in &workers[place + 1..] {
            let rate = if a.0 == b.0 { problem.nodes[a.0].intra_node } else { problem.network };
            link = link.min(rate.gigabits_per_second());
        }
    }
    bundle_cost::time(job, &bundle, link)
}
